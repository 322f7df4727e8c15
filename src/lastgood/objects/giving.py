"""What the `state_dict` that a class brings gives: checked, and told in terms of the objects.

Owns what is refused of it. Must not know walks or stores. Invariant: what a class took over from
ours is no copy any more, unless it changed one.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import cast

from lastgood.errors import SerializationError
from lastgood.objects.asking import asking, given_before
from lastgood.objects.fields import Stateful, ours_alone
from lastgood.objects.states import CLASS, STORED, VERSION, State


def own_state(value: Stateful, *, whole: bool = False) -> State:
    """What the `state_dict` of an object's class gives, with nothing of what we gave it copied.

    `whole` says that it is the state of everything: plain data in it may be copies.
    """
    before = given_before(value)
    if before is not None:
        return cast(State, before)
    with asking(value, whole=whole) as asked:
        state: object = value.state_dict()
    if not isinstance(state, Mapping):
        raise TypeError(
            f"{type(value).__name__}.state_dict() returned {state!r:.40}. Return a dict."
        )
    for word in state.keys() & STORED:
        raise ours_alone(value, word)
    found = asked.meant(state)
    if found is None:
        raise _in_each_other(type(value).__name__)
    return cast(State, found)


def _in_each_other(name: str) -> SerializationError:
    return SerializationError(
        f"{name}.state_dict() changes, or spells out, what leads back to an object whose class has "
        "a state_dict of its own: each of the two states would be in the other one.",
        path=name,
        hint="Change a copy of what super().state_dict() gives, or keep an id of the other object.",
    )


def given_by(value: Stateful) -> State:
    """The same as a dict of its own, known for a state of that class."""
    state = dict(own_state(value))
    words = state.keys() & {VERSION, CLASS}
    if len(words) == 1:
        raise ours_alone(value, words.pop())
    return state if words else {**state, VERSION: None, CLASS: type(value).__name__}
