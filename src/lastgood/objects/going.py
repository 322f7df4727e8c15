"""What becomes of the parts of states, for as long as a load lasts.

A class that loads itself calls our method for what it leaves to us, with its part of the states of
the load around it. What is in there and elsewhere too, such as the object that holds it or a list
that both have, must not be made once more; nor what another one of them has made of a part that
both hold. It is no argument for the same reason as marks. Must not know stores. Invariant: an id
means a part as long as it is noted, for the part is held here.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from typing import Any, NamedTuple

_NOTHING = object()


class Done(NamedTuple):
    """A load that has ended well: the objects that it filled, and what stands for a part."""

    objects: Iterable[object]
    became: Callable[[object], object]


class _Load:
    """What stands for parts in one load, and in those around it."""

    def __init__(
        self, around: _Load | None, parts: Iterable[tuple[object, object]], *, several: bool
    ) -> None:
        self.around = around
        self.noted = {id(part): (part, made) for part, made in parts}
        self.made = {id(made) for _, made in self.noted.values()}
        self.noted |= {id(made): (made, made) for _, made in self.noted.values()}
        self.later: dict[int, tuple[Making, Done]] = {}
        """Parts of which the objects that load themselves have made something so far."""
        self.is_shared: bool = several or (around is not None and around.is_shared)
        """Whether there may be another one that has a part of what one has made."""

    def became(self, part: object) -> object:
        """What was made of a part of the states of those that load themselves."""
        return self.found(id(part)) if id(part) in self.later else part

    def found(self, key: int) -> object:
        """The same by its id, to be put where it is shared."""
        copies, done = self.later[key]
        made = done.became(copies[key])
        self.noted[id(made)] = made, made
        self.made.add(id(made))
        return made


_LOAD: ContextVar[_Load | None] = ContextVar("load", default=None)


@contextmanager
def going(
    parts: Iterable[tuple[object, object]], *, several: bool
) -> Iterator[Callable[[object], object]]:
    """Parts, and what stands for them: a state's object, or else the part itself.

    Gives what finds out what has become of others. `several` objects load themselves, or one alone.
    """
    load = _Load(_LOAD.get(), parts, several=several)
    token = _LOAD.set(load)
    try:
        yield load.became
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
        load = _LOAD.get()
        # Of an object that the load around does not know, nobody knows what else it is to hold.
        known = load is not None and load.is_shared and id(value) in load.made
        self._load = load if known else None
        self._state = id(state)
        self._copies = self._made(self._state, value) is not value

    def get(self, key: int, default: Any = None) -> Any:
        found = super().get(key, _NOTHING)
        if found is not _NOTHING:
            return found
        if self._copies or key == self._state:
            return default
        if self._load is not None and key in self._load.later:
            return self._load.found(key)
        return self._made(key, default)

    def note(self, done: Done) -> None:
        """Tell the load around it that the copies are loaded, for others that have the parts."""
        if self._load is not None and not self._copies:
            copied: list[object] = super().get(id(self), [])  # `deepcopy` holds them there
            self._load.later.update(dict.fromkeys(map(id, copied), (self, done)))
            self._load.made.update(map(id, done.objects))

    def _made(self, key: int, default: Any) -> Any:
        load = _LOAD.get()
        while load is not None:
            if key in load.noted:
                return load.noted[key][1]
            load = load.around
        return default
