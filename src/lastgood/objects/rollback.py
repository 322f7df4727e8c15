"""`rollback_context`: objects that get their state back if a block raises.

Owns when to save and when to bring back; a keeper does both. Invariant: the exception goes on,
whatever it is, and each entry into a block brings back what it saved itself, without the store.
"""

from __future__ import annotations

from collections.abc import Sequence
from contextvars import ContextVar
from typing import NamedTuple, Protocol

from lastgood.objects.fields import Stateful


class Kept(NamedTuple):
    """What a block has saved: the checkpoint, and the objects that it is about."""

    checkpoint_id: str
    objects: Sequence[Stateful]
    state: bytes
    """The same state, at hand whatever becomes of the store."""
    left: frozenset[str]
    """The names of what could not be kept."""
    names_set: Sequence[frozenset[str] | None]
    """Which fields of each of the objects count as set: no state says so."""


class Keeps(Protocol):
    """What a block asks of the store."""

    def keep(self, key: str, agents: Sequence[Stateful]) -> Kept: ...
    async def keep_async(self, key: str, agents: Sequence[Stateful]) -> Kept: ...
    def bring_back(self, agents: Sequence[Stateful], kept: Kept) -> None: ...


class _Entry:
    """One time that a block was entered: a word for it, without what was saved."""

    is_open = True


_ENTERED: ContextVar[tuple[_Entry, ...]] = ContextVar("entered", default=())
"""The entries of this task or thread into blocks, and of those that it was begun in."""


class Rollback:
    """A block that can be entered with `with` and `async with`, more than once.

    Several tasks and threads may be in it at once: who leaves it leaves the entry of its own.
    """

    def __init__(self, keeper: Keeps, key: str, agents: tuple[Stateful, ...]) -> None:
        self._keeper = keeper
        self._key = key
        self._agents = agents
        self._open: dict[_Entry, Kept] = {}

    def __enter__(self) -> str:
        return self._entered(self._keeper.keep(self._key, self._agents))

    def __exit__(self, kind: type[BaseException] | None, *_: object) -> None:
        kept = self._left()
        if kind is not None:
            self._keeper.bring_back(self._agents, kept)

    async def __aenter__(self) -> str:
        return self._entered(await self._keeper.keep_async(self._key, self._agents))

    async def __aexit__(self, kind: type[BaseException] | None, *rest: object) -> None:
        self.__exit__(kind, *rest)

    def _entered(self, kept: Kept) -> str:
        entry = _Entry()
        self._open[entry] = kept
        _ENTERED.set((*_still_open(), entry))
        return kept.checkpoint_id

    def _left(self) -> Kept:
        """What the entry that is left now has saved: the last of who leaves, or the only one."""
        mine = [entry for entry in _still_open() if entry in self._open]
        if not mine and len(self._open) > 1:
            raise RuntimeError(
                "this block was entered several times, and is left by a task or thread that did "
                "not enter it: whose state to bring back is not known. Call rollback_context for "
                "each of them."
            )
        entry = (mine or list(self._open))[-1]
        entry.is_open = False
        _ENTERED.set(_still_open())
        return self._open.pop(entry)


def _still_open() -> tuple[_Entry, ...]:
    """Without those that somebody else has left."""
    return tuple(entry for entry in _ENTERED.get() if entry.is_open)
