"""What differs between two states, field by field.

Owns when two values are the same: type for type, NaN equals NaN, the order of a dict's keys does
not matter, and neither does whether parts are shared. Must not know where states come from.
"""

from __future__ import annotations

from typing import Any

from lastgood.codec import Codec
from lastgood.errors import SerializationError
from lastgood.objects.fields import held_by
from lastgood.objects.states import State
from lastgood.objects.walking import MAPPINGS, Sort, sort_of

Differences = dict[str, dict[str, Any]]
_CODEC = Codec()


def differences(old: State, new: State) -> Differences:
    """The fields that were added, removed and changed; a changed one as `(old, new)`."""
    return {
        "added": {name: value for name, value in new.items() if name not in old},
        "removed": {name: value for name, value in old.items() if name not in new},
        "changed": {
            name: (value, new[name])
            for name, value in old.items()
            if name in new and not same(value, new[name])
        },
    }


def same(old: Any, new: Any) -> bool:
    """Whether two values are the same, whatever they hold."""
    return _Comparison().same(old, new)


class _Comparison:
    """Two values being compared; pairs that are being compared already count as the same."""

    def __init__(self) -> None:
        self.begun: set[tuple[int, int]] = set()

    def same(self, old: Any, new: Any) -> bool:
        if old is new:
            return True
        if type(old) is not type(new):
            return False
        sort = sort_of(type(old))
        if sort in (Sort.ATOM, Sort.LEAF):
            return _same_leaves(old, new)
        if (id(old), id(new)) in self.begun:
            return True
        self.begun.add((id(old), id(new)))
        left, right = _opened(old), _opened(new)
        return left.keys() == right.keys() and all(
            self.same(part, right[step]) for step, part in left.items()
        )


def _opened(value: Any) -> dict[Any, Any]:
    """Step -> part, with what else makes a container what it is."""
    if type(value) in MAPPINGS:
        return {**value, _Comparison: getattr(value, "default_factory", None)}
    if isinstance(value, tuple | list):
        return dict(enumerate(value))
    if sort_of(type(value)) is Sort.CONTAINER:
        return {**dict(enumerate(value)), _Comparison: value.maxlen}
    return held_by(value)


def _same_leaves(old: Any, new: Any) -> bool:
    """By their encodings where they have one: 1 and 1.0 differ there, NaN and NaN do not."""
    try:
        return _CODEC.pack(old) == _CODEC.pack(new)
    except SerializationError:
        return _equal(old, new)


def _equal(old: Any, new: Any) -> bool:
    """As the class says; an answer without a truth, such as an array of answers, is none."""
    try:
        return bool(old == new)
    except (TypeError, ValueError):
        return False
