"""Stored trees back to graphs: every `Shared` becomes the value that it stands for.

The inverse of `weaving.woven`, up to the objects themselves, which are still dicts. Works in
place, on a tree that was just read and belongs to nobody else. Invariant: a value that stood in
several places is one object in all of them, and is in none of them if it could not be kept.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import Any, NamedTuple

from lastgood.codec import Codec, Opaque
from lastgood.errors import SerializationError
from lastgood.objects.reshaping import GONE, refilled
from lastgood.objects.states import (
    CLASS,
    SHARED,
    State,
    escaped,
    is_escaped,
    is_reserved,
    is_state,
)
from lastgood.objects.walking import Level, inside, levels, reaches, reserved_in
from lastgood.objects.weaving import SHARED_LABEL, Shared

_CODEC = Codec()
_WORDS = (SHARED_LABEL.encode(), CLASS.encode())


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
    for level in levels([state, table], inside):
        _check_opaques(level, is_reserved)
    unweaver = _Unweaver(state, table, lossy=SHARED in left)
    unweaver.fill()
    return Graph(state, left | unweaver.gone)


def _as_data(value: Any, _step: object = None) -> Any:
    """A part of a plain state, in which no dict means an object."""
    if not reaches(value, _reserved):
        return value
    made = refilled(value, _as_data)
    return escaped(made) if is_reserved(value) else made


def _reserved(level: Level) -> list[dict[Any, Any]]:
    _check_opaques(level, _is_taken_for_more)
    return reserved_in(level)


def _is_taken_for_more(value: object) -> bool:
    """Whether a dict of a plain state would be more than data in another tree."""
    return is_state(value) or is_escaped(value)


def _check_opaques(level: Level, means: Callable[[object], bool]) -> None:
    """Raise for an object of a class that is not here, if words of ours are in it.

    They hold for this tree: saved again as it is, it would have parts of other values, or objects
    that are data.
    """
    for value in level.fresh if Opaque in level.kinds else ():
        if type(value) is Opaque and _has_words(means, value):
            raise SerializationError(
                f"the state holds a {value.lastgood_label.replace(':', '.')} with objects or "
                f"shared parts in it, and {value.lastgood_reason}.",
                hint="Import it before loading, or use lastgood.register.",
            )


def _has_words(means: Callable[[object], bool], opaque: Opaque) -> bool:
    if not any(word in opaque.lastgood_payload for word in _WORDS):
        return False  # as nearly always: what is in it need not be read
    return reaches(_CODEC.unpack(opaque.lastgood_payload), partial(_has_word, means))


def _has_word(means: Callable[[object], bool], level: Level) -> bool:
    inner = [value for value in level.fresh if type(value) is Opaque]
    words = _has_shared(level) or any(map(means, reserved_in(level)))
    return words or any(_has_words(means, value) for value in inner)


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
