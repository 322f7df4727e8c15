"""What differs between two states, field by field.

Owns when two values are the same: type for type, NaN equals NaN, the order of a dict's keys does
not matter, and neither does whether parts are shared, nor which fields of a model were set. Must
not know where states come from.
"""

from __future__ import annotations

from collections import OrderedDict
from typing import Any

from lastgood.codec import Codec
from lastgood.errors import SerializationError
from lastgood.objects.fields import kept_in
from lastgood.objects.states import CLASS, UNSET, VERSION, State, is_state
from lastgood.objects.walking import MAPPINGS, Sort, sort_of

Differences = dict[str, dict[str, Any]]
_CODEC = Codec()
_BESIDE = object()


def differences(old: State, new: State) -> Differences:
    """The fields that were added, removed and changed; a changed one as `(old, new)`.

    A state that somebody has written may be without our words: that is no difference.
    """
    alone = {UNSET, VERSION, CLASS} - (old.keys() & new.keys() - {UNSET})
    old, new = _without(old, alone), _without(new, alone)
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
    """Whether two values are the same, whatever they hold, and however deep that goes.

    Pairs that are being compared already count as the same.
    """
    begun: set[tuple[int, int]] = set()
    pairs = [(old, new)]
    while pairs:
        left, right = pairs.pop()
        if left is right or (id(left), id(right)) in begun:
            continue
        if type(left) is not type(right):
            return False
        if sort_of(type(left)) in (Sort.ATOM, Sort.LEAF):
            if not _same_leaves(left, right):
                return False
            continue
        begun.add((id(left), id(right)))
        parts, others = _opened(left), _opened(right)
        if not _same_steps(parts, others, ordered=isinstance(left, OrderedDict)):
            return False
        pairs.extend((part, others[step]) for step, part in parts.items())
    return True


def _opened(value: Any) -> dict[Any, Any]:
    """Step -> part, with what else makes a container what it is."""
    if type(value) in MAPPINGS:
        value = _without(value, {UNSET}) if is_state(value) else value
        return {**value, _BESIDE: getattr(value, "default_factory", None)}
    if isinstance(value, tuple | list):
        return dict(enumerate(value))
    if sort_of(type(value)) is Sort.CONTAINER:
        return {**dict(enumerate(value)), _BESIDE: value.maxlen}
    return kept_in(value)


def _same_steps(left: dict[Any, Any], right: dict[Any, Any], *, ordered: bool) -> bool:
    """Whether the keys are the same: 1, 1.0 and True are one to a dict, and differ here."""
    if left.keys() != right.keys() or (ordered and list(left) != list(right)):
        return False
    told = {step: step for step in right}
    return all(
        type(step) is type(told[step]) in (str, int) or _same_leaves(step, told[step])
        for step in left
        if step is not _BESIDE
    )


def _without(state: State, words: set[str]) -> State:
    return {name: value for name, value in state.items() if name not in words}


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
