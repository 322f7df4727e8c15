"""Where the objects of a class keep what they hold: in slots, in `__dict__`, or out of our sight.

Owns what is found out about a class, once. Must not know which attributes are state. Invariant: the
class is looked at from outside, none of its code runs.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from functools import lru_cache
from types import MemberDescriptorType
from typing import Any, NamedTuple, cast

from lastgood.codec import cached_names, left_out, slots_of

EXTRA = "__pydantic_extra__"
_POINTER = tuple.__itemsize__
_OFFSETS = ("__dictoffset__", "__weakrefoffset__")
_BEHIND_ITEMS = -_POINTER
"""Where Python 3.11 puts the `__dict__` of objects that differ in size, such as those of an int."""


class Layout(NamedTuple):
    """Where the objects of a class keep their attributes."""

    slots: Mapping[str, MemberDescriptorType]
    cached: frozenset[str]
    left_out: frozenset[str]
    """What no store keeps of a record: those, and notes of `typing`."""
    has_dict: bool
    is_pydantic: bool
    built_in: Any
    """The base that makes its objects: `object`, or one whose contents are no attributes."""


def _layout(cls: type) -> Layout:
    slots = dict(slots_of(cls))
    built_in = next((base for base in cls.__mro__ if _has_contents(base)), object)
    return Layout(
        slots,
        cached_names(cls),
        left_out(cls),
        has_dict=cls.__dictoffset__ != 0,
        is_pydantic=EXTRA in slots,
        built_in=built_in,
    )


layout_of: Callable[[type], Layout] = cast(Any, lru_cache(maxsize=1024)(_layout))
"""The layout of a class, which does not change."""


def _has_contents(cls: type) -> bool:
    """Whether a class adds room to its objects that is not for attributes.

    A class that is written in Python adds slots, a `__dict__` and a list of weak references. What
    takes more is written in C, and only that knows what is in there: the items of a list, the
    generator of `random.Random`, the text of an `io.StringIO`.
    """
    base = cls.__base__
    if base is None or "__slots__" in vars(cls):
        return False
    known = sum(getattr(cls, at) > 0 and not getattr(base, at) for at in _OFFSETS)
    known += cls.__dictoffset__ == _BEHIND_ITEMS != base.__dictoffset__
    more = cls.__basicsize__ - base.__basicsize__ - known * _POINTER
    return more > 0 or cls.__itemsize__ != base.__itemsize__
