"""Stored trees back to graphs: every `Shared` becomes the value that it stands for.

The inverse of `weaving.woven`, up to the objects themselves, which are still dicts. Works in
place, on a tree that was just read and belongs to nobody else. Invariant: a value that stood in
several places is one object in all of them, and is in none of them if it could not be kept.
"""

from __future__ import annotations

from typing import Any, NamedTuple

from lastgood.objects.reshaping import GONE, refilled
from lastgood.objects.states import SHARED, State, escaped, is_reserved
from lastgood.objects.walking import Level, reaches, reserved_in
from lastgood.objects.weaving import Shared


class Graph(NamedTuple):
    """A state as it was, but for what could not be kept."""

    state: State
    left: frozenset[str]
    """The names of that, and of what held it."""


def graph_of(state: State, left: frozenset[str] = frozenset()) -> Graph:
    """The graph behind a stored tree, given the names in its loss report."""
    table = state.pop(SHARED, None)
    if table is None:
        return Graph({name: _as_data(part) for name, part in state.items()}, left)
    unweaver = _Unweaver(state, table, lossy=SHARED in left)
    unweaver.fill()
    return Graph(state, left | unweaver.gone)


def _as_data(value: Any, _step: object = None) -> Any:
    """A part of a plain state, in which no dict means an object."""
    if not reaches(value, reserved_in):
        return value
    made = refilled(value, _as_data)
    return escaped(made) if is_reserved(value) else made


class _Unweaver:
    """One tree on its way to becoming a graph."""

    def __init__(self, state: State, table: dict[str, Any], *, lossy: bool) -> None:
        self.gone: set[str] = set()
        self.values = {0: state, **{int(number): value for number, value in table.items()}}
        self.ready: dict[int, Any] = {
            number: value for number, value in self.values.items() if not isinstance(value, tuple)
        }
        self.lossy = lossy
        self.waiting = [each for each in self.ready.values() if reaches(each, _has_shared)]

    def fill(self) -> None:
        """Put what is shared into its places."""
        for value in self.waiting:  # grows while it is walked through
            refilled(value, self.value)

    def value(self, value: Any, step: object = None) -> Any:
        """What comes into a place; what could not be kept leaves its own name there."""
        made = self.made(value)
        if made is GONE and isinstance(step, str):
            self.gone.add(step)
        return made

    def made(self, value: Any) -> Any:
        """What becomes of a value.

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
        if self.lossy and number not in self.values:
            return GONE
        if number not in self.ready:
            self.ready[number] = self.made(self.values[number])
        return self.ready[number]


def _has_shared(level: Level) -> bool:
    return Shared in level.kinds
