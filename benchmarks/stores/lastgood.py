"""Lastgood: runs that save or append, forked lines, many threads, many tasks."""

from __future__ import annotations

import copy
from contextlib import ExitStack
from pathlib import Path
from typing import TYPE_CHECKING, Literal

from benchmarks.data import State
from benchmarks.scenarios import Delta
from benchmarks.stores.interface import (
    AGENT,
    NORMAL,
    THREAD,
    Lines,
    Pragmas,
    Steps,
    Store,
    Threads,
    Writers,
)
from benchmarks.stores.spy import spy

if TYPE_CHECKING:
    from lastgood import BlockingClient

CACHE = 64 << 20
"""The client's default, in bytes."""


class Blocking(Store):
    """A blocking client."""

    durability: Literal["strict", "relaxed"] = "strict"
    cache_bytes = CACHE

    def __init__(self, path: Path) -> None:
        super().__init__(path)
        self._spy = spy()
        self.stack = ExitStack()
        self.client = self.opened()
        self.stack.callback(self.client.close)

    def opened(self) -> BlockingClient:
        """The client."""
        from lastgood import BlockingClient

        return BlockingClient.sqlite(
            self.path, durability=self.durability, cache_bytes=self.cache_bytes
        )

    def connect(self) -> None:
        self.client.threads(limit=1)

    def latest(self, thread: str) -> State:
        """The newest state of a thread."""
        found = self.client.latest(agent_id=AGENT, session_id=thread)
        if found is None:
            raise LookupError(f"{self.path}: nothing was saved in {thread}")
        return dict(found.state)

    def pragmas(self) -> Pragmas:
        return self._spy.pragmas()

    def close(self) -> None:
        self.stack.close()


class LastgoodSave(Blocking, Steps):
    """Lastgood, which finds the change itself: `run.save`."""

    def begin(self, state: State) -> None:
        run = self.client.run(THREAD, agent_id=AGENT, initial=copy.deepcopy(state))
        self._run = self.stack.enter_context(run)

    def step(self, state: State, delta: Delta) -> str:  # noqa: ARG002
        return self._run.save(state, step_name="step")

    def restore(self, mark: str | None = None) -> State:
        return self.latest(THREAD) if mark is None else dict(self.client.restore(mark).state)

    def newest(self, limit: int) -> list[State]:
        found = self.client.timeline(agent_id=AGENT, session_id=THREAD, limit=limit)
        return [dict(each.state) for each in found]


class LastgoodShared(LastgoodSave):
    """The same, whose lists of states share what did not change."""

    def newest(self, limit: int) -> list[State]:
        found = self.client.timeline(AGENT, THREAD, limit, shared=True)
        return [dict(each.state) for each in found]


class LastgoodAppend(LastgoodSave):
    """Lastgood with the change named by the caller: `run.append`."""

    def step(self, state: State, delta: Delta) -> str:  # noqa: ARG002
        [(_, key, items)] = delta
        return self._run.append(key, *items, step_name="step")


class RelaxedSave(LastgoodSave):
    """`run.save` with `durability="relaxed"`."""

    synchronous = NORMAL
    durability = "relaxed"


class RelaxedAppend(LastgoodAppend):
    """`run.append` with `durability="relaxed"`."""

    synchronous = NORMAL
    durability = "relaxed"


class LastgoodLines(Blocking, Lines):
    """Lastgood: `client.fork`, then `save` with an explicit parent on each line."""

    def save(self, line: int, state: State) -> None:
        parent = self.marks[line] if self.marks else None
        saved = self.client.save(AGENT, session_id=THREAD, execution_state=state, parent_id=parent)
        self.marks[line : line + 1] = [saved]

    def fork(self) -> None:
        self.marks.append(self.client.fork(self.marks[0], branch="other"))

    def restore(self, line: int) -> State:
        return dict(self.client.restore(self.marks[line]).state)


class LastgoodThreads(Blocking, Threads):
    """Lastgood: `client.save` and `client.latest`."""

    def save(self, thread: str, step: int, state: State) -> None:
        self.client.save(AGENT, session_id=thread, execution_state=state, step_index=step)

    def restore(self, thread: str) -> State:
        return self.latest(thread)


class LastgoodUncached(LastgoodThreads):
    """Lastgood with `cache_bytes=0`: every restore reads the file."""

    cache_bytes = 0


class LastgoodWriters(Writers):
    """Lastgood's async client: `save` from many tasks."""

    async def open(self) -> None:
        from lastgood import Client

        self._spy = spy()
        self._client = Client.sqlite(self.path)

    async def save(self, thread: str, step: int, state: State) -> None:
        await self._client.save(AGENT, session_id=thread, execution_state=state, step_index=step)

    async def restore(self, thread: str) -> State:
        found = await self._client.latest(agent_id=AGENT, session_id=thread)
        if found is None:
            raise LookupError(f"{self.path}: nothing was saved for {thread}")
        return dict(found.state)

    async def pragmas(self) -> Pragmas:
        return self._spy.pragmas()

    async def close(self) -> None:
        await self._client.close()
