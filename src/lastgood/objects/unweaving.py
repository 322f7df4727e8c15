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

    def fill(self) -> None:
        """Put what is shared into its places. Only tuples have to wait for what is in them."""
        for value in list(self.ready.values()):
            self.value(value)

    def value(self, value: Any, _step: object = None) -> Any:
        if type(value) is Shared:
            return self.shared(value.number)
        return refilled(value, self.value) if reaches(value, _has_shared) else value

    def shared(self, number: int) -> Any:
        if number not in self.ready:
            # A tuple that leads back to itself does so through something that is ready.
            made = self.value(self.values[number])
            self.ready.setdefault(number, made)
        return self.ready[number]


def _has_shared(level: Level) -> bool:
    return Shared in level.kinds
