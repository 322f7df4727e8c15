"""What becomes of the parts of states, for as long as a load lasts.

A class that loads itself calls our method for what it leaves to us, with its part of the states of
the load around it. What is in there and elsewhere too, such as the object that holds it or a list
that both have, must not be made once more. It is no argument for the same reason as marks. Must
not know stores. Invariant: an id means a part as long as it is noted, for the part is held here.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from typing import Any

_NOTHING = object()


class _Load:
    """What stands for parts in one load, and in those around it."""

    def __init__(self, around: _Load | None, parts: Iterable[tuple[object, object]]) -> None:
        self.around = around
        self.noted = {id(part): (part, made) for part, made in parts}
        self.made = frozenset(id(made) for _, made in self.noted.values())


_LOAD: ContextVar[_Load | None] = ContextVar("load", default=None)


@contextmanager
def going(parts: Iterable[tuple[object, object]]) -> Iterator[None]:
    """Parts, and what stands for them: a state's object, or else the part itself."""
    token = _LOAD.set(_Load(_LOAD.get(), parts))
    try:
        yield
    finally:
        _LOAD.reset(token)


def is_made(value: object) -> bool:
    """Whether a value stands for a part already, or is one that needs nothing more."""
    load = _LOAD.get()
    while load is not None:
        if id(value) in load.made:
            return True
        load = load.around
    return False


class Making(dict[int, Any]):
    """What `copy.deepcopy` is to note of a state, behind what stands for parts of it already.

    Nothing does if the state goes into another object, too: who loads it once more wants a copy.
    """

    def __init__(self, state: object, value: object) -> None:
        super().__init__()
        self._state = id(state)
        self._copies = self._made(self._state, value) is not value

    def get(self, key: int, default: Any = None) -> Any:
        found = super().get(key, _NOTHING)
        if found is not _NOTHING:
            return found
        return default if self._copies or key == self._state else self._made(key, default)

    def _made(self, key: int, default: Any) -> Any:
        load = _LOAD.get()
        while load is not None:
            if key in load.noted:
                return load.noted[key][1]
            load = load.around
        return default
