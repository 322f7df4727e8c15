"""`rollback_context`: objects that get their state back if a block raises.

Owns when to save and when to bring back; a keeper does both. Invariant: the exception goes on,
whatever it is, and of nested blocks each brings back what it saved itself, without the store.
"""

from __future__ import annotations

from collections.abc import Sequence
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


class Rollback:
    """A block that can be entered with `with` and `async with`, more than once."""

    def __init__(self, keeper: Keeps, key: str, agents: tuple[Stateful, ...]) -> None:
        self._keeper = keeper
        self._key = key
        self._agents = agents
        self._kept: list[Kept] = []

    def __enter__(self) -> str:
        self._kept.append(self._keeper.keep(self._key, self._agents))
        return self._kept[-1].checkpoint_id

    def __exit__(self, kind: type[BaseException] | None, *_: object) -> None:
        kept = self._kept.pop()
        if kind is not None:
            self._keeper.bring_back(self._agents, kept)

    async def __aenter__(self) -> str:
        self._kept.append(await self._keeper.keep_async(self._key, self._agents))
        return self._kept[-1].checkpoint_id

    async def __aexit__(self, kind: type[BaseException] | None, *rest: object) -> None:
        self.__exit__(kind, *rest)
