"""Stored trees back to graphs: every `Shared` becomes the value that it stands for.

The inverse of `weaving.woven`, up to the objects themselves, which are still dicts. Works in
place, on a tree that was just read and belongs to nobody else. Invariant: a value that stood in
several places is one object in all of them.
"""

from __future__ import annotations

from typing import Any

from lastgood.objects.reshaping import refilled
from lastgood.objects.states import SHARED, State, escaped, is_reserved
from lastgood.objects.walking import Level, reaches, reserved_in
from lastgood.objects.weaving import Shared


def graph_of(state: State) -> State:
    """The graph behind a stored tree."""
    table = state.pop(SHARED, None)
    if table is not None:
        _Unweaver(state, table).fill()
        return state
    return {name: _as_data(part) for name, part in state.items()}


def _as_data(value: Any, _step: object = None) -> Any:
    """A part of a plain state, in which no dict means an object."""
    if not reaches(value, reserved_in):
        return value
    made = refilled(value, _as_data)
    return escaped(made) if is_reserved(value) else made


class _Unweaver:
    """One tree on its way to becoming a graph."""

    def __init__(self, state: State, table: dict[str, Any]) -> None:
        self.values = {0: state, **{int(number): value for number, value in table.items()}}
        self.ready: dict[int, Any] = {
            number: value for number, value in self.values.items() if not isinstance(value, tuple)
        }
        self.waiting = [each for each in self.ready.values() if reaches(each, _has_shared)]

    def fill(self) -> None:
        """Put what is shared into its places."""
        for value in self.waiting:  # grows while it is walked through
            refilled(value, self.value)

    def value(self, value: Any, _step: object = None) -> Any:
        """What comes into a place.

        A tuple is made at once, as it has to have all its parts. Everything else is filled later,
        in place: so a tuple never waits for itself, whatever leads back to it.
        """
        if type(value) is Shared:
            return self.shared(value.number)
        if not reaches(value, _has_shared):
            return value
        if isinstance(value, tuple):
            return refilled(value, self.value)
        self.waiting.append(value)
        return value

    def shared(self, number: int) -> Any:
        """The value that a number stands for."""
        if number not in self.ready:
            self.ready[number] = self.value(self.values[number])
        return self.ready[number]


def _has_shared(level: Level) -> bool:
    return Shared in level.kinds
