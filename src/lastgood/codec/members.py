"""What the objects of a class hold, by its namespaces: slots, and what is there but is no data.

Must not know how objects are stored. Invariant: the class is looked at from outside, none of its
code runs.
"""

from __future__ import annotations

import functools
from collections.abc import Iterator
from types import FunctionType, MemberDescriptorType

from lastgood.codec.labels import ancestry, attribute, namespace

CACHED_HASH = "_attrs_cached_hash"
NOTE = "__orig_class__"
"""What `typing` notes on an object that is made through a class with parameters."""


def slots_of(cls: type) -> Iterator[tuple[str, MemberDescriptorType]]:
    """Every slot that the objects of a class have, by its name."""
    for ancestor in reversed(ancestry(cls)):
        for name, item in namespace(ancestor).items():
            if type(item) is MemberDescriptorType:
                yield name, item


def cached_names(cls: type) -> frozenset[str]:
    """The names of its `cached_property`s, whose values are made anew when they are missing.

    What a class has under the name of such a property of a base, a field above all, is data.
    """
    names = {name for ancestor in ancestry(cls) for name in namespace(ancestor)}
    cached = {name for name in names if type(attribute(cls, name)) is functools.cached_property}
    return frozenset(cached - _declared(cls))


def _declared(cls: type) -> set[str]:
    """The fields of a data class; one without a default stands in no namespace."""
    by_name = ("__dataclass_fields__", "__pydantic_fields__")
    found = {name for word in by_name for name in attribute(cls, word) or ()}
    return found | {field.name for field in attribute(cls, "__attrs_attrs__") or ()}


def caches_hash(cls: type) -> bool:
    """Whether attrs keeps the hash of an object on it, which is good for this process alone."""
    hashes = [namespace(ancestor).get("__hash__") for ancestor in ancestry(cls)]
    codes = [each.__code__ for each in hashes if type(each) is FunctionType]
    return any(CACHED_HASH in code.co_names for code in codes)


def left_out(cls: type) -> frozenset[str]:
    """What is not stored of an object: cached values, and what `typing` notes on it."""
    generic = attribute(cls, "__class_getitem__") is not None
    return cached_names(cls) | frozenset({NOTE} if generic else ())
