"""What fields get that a class has and a stored object lacks: their defaults.

By field, what makes its default, for those that have one which no factory of users makes. Must not
know how objects are filled. Invariant: no two objects get the same default if that can change.
"""

from __future__ import annotations

import copy
import dataclasses
from collections import deque
from collections.abc import Callable, Iterable, Mapping
from functools import partial
from types import MemberDescriptorType
from typing import Any

from lastgood.codec.containers import FACTORIES
from lastgood.codec.labels import attribute

Make = Callable[[], object]

_CONTAINERS = frozenset({list, dict, set, bytearray, deque})
_BUILTIN_FACTORIES = frozenset(factory for factory in FACTORIES.values() if factory)


def completed(
    fields: dict[str, object], defaults: Mapping[str, Make], order: Iterable[str] = ()
) -> dict[str, object]:
    """Stored fields, and the defaults of those that are missing; those of an order come first."""
    whole = {**{name: make() for name, make in defaults.items() if name not in fields}, **fields}
    return {name: whole[name] for name in order if name in whole} | whole


def of_attributes(cls: type) -> dict[str, Make]:
    """Those of a dataclass or an attrs class."""
    if attribute(cls, "__attrs_attrs__") is not None:
        rows = [(a.name, a.default) for a in attribute(cls, "__attrs_attrs__")]
        found = {
            name: _default(default, getattr(default, "factory", None)) for name, default in rows
        }
    else:
        own = [f for f in dataclasses.fields(cls) if not _left_to_class(cls, f)]
        found = {f.name: _default(f.default, f.default_factory) for f in own}
    return {name: make for name, make in found.items() if make and not _kept_elsewhere(cls, name)}


def _left_to_class(cls: type, field: dataclasses.Field[Any]) -> bool:
    """Whether an object is made without a field, as it finds the default in its class, or what a
    subclass has in the place of that.
    """
    is_set = field.init and getattr(attribute(cls, "__dataclass_params__"), "init", True)
    if is_set or field.default is dataclasses.MISSING:
        return False
    return type(attribute(cls, field.name)) is not MemberDescriptorType


def _kept_elsewhere(cls: type, name: str) -> bool:
    """Whether a property, or the like, keeps a field under another name: its default is no value
    that objects have.
    """
    found = type(attribute(cls, name))
    return found is not MemberDescriptorType and attribute(found, "__set__") is not None


def of_model(declared: Mapping[str, Any]) -> dict[str, Make]:
    """Those of a pydantic model, by its declared fields."""
    found = {name: _model_default(f.default, f.default_factory) for name, f in declared.items()}
    return {name: make for name, make in found.items() if make}


def of_struct(cls: type, names: tuple[str, ...]) -> dict[str, Make]:
    """Those of a msgspec.Struct."""
    defaults = type.__getattribute__(cls, "__struct_defaults__")
    tail = names[len(names) - len(defaults) :]
    pairs = zip(tail, defaults, strict=True)
    found = {name: _default(value, getattr(value, "factory", None)) for name, value in pairs}
    return {name: make for name, make in found.items() if make}


# The words of the four libraries for "there is no default", by the names of their classes.
_NO_DEFAULT = frozenset(
    {"_MISSING_TYPE", "_Nothing", "PydanticUndefinedType", "NoDefaultType", "Factory"}
)


def _default(value: object, factory: object) -> Make | None:
    if factory in _BUILTIN_FACTORIES:
        return factory
    if type(value).__name__ in _NO_DEFAULT:
        return None
    return partial(copy.deepcopy, value) if type(value) in _CONTAINERS else lambda: value


def _model_default(value: object, factory: object) -> Make | None:
    """Models copy whatever cannot be hashed for each object; the others share it."""
    if type(value).__hash__ is None and factory is None:
        return partial(copy.deepcopy, value)
    return _default(value, factory)
