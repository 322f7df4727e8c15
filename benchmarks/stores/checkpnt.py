"""checkpnt: `Client.sqlite`, which has only coroutines and saves the whole state."""

from pathlib import Path
from typing import Any

from benchmarks.data import State
from benchmarks.scenarios import Delta
from benchmarks.stores.interface import AGENT, THREAD, Loop, Pragmas, Steps, Store, Threads, Writers
from benchmarks.stores.spy import pragmas_through


class Checkpnt(Store):
    """A client and the loop that it needs."""

    def __init__(self, path: Path) -> None:
        super().__init__(path)
        from checkpnt import Framework

        self._loop = Loop()
        self._client = self.client()
        self._framework = Framework.CUSTOM

    def client(self) -> Any:
        """The client."""
        from checkpnt import Client

        return Client.sqlite(str(self.path))

    def connect(self) -> None:
        self._loop.run(self._client.timeline(AGENT, "nothing", limit=1))

    def put(self, thread: str, step: int, state: State) -> str:
        """One save; its id."""
        save = self._client.save(
            AGENT, self._framework, state, session_id=thread, step_index=step, step_name="step"
        )
        return str(self._loop.run(save))

    def states(self, thread: str, limit: int) -> list[State]:
        """The newest states of a thread."""
        found = self._loop.run(self._client.timeline(AGENT, thread, limit=limit))
        return [each.execution_state for each in found]

    def pragmas(self) -> Pragmas:
        return self._loop.run(_pragmas(self._client))

    def close(self) -> None:
        self._loop.run(self._client.close())
        self._loop.close()


async def _pragmas(client: Any) -> Pragmas:
    return await pragmas_through(client._backend._db)


class CheckpntSteps(Checkpnt, Steps):
    """checkpnt: `save` with the whole state."""

    def begin(self, state: State) -> None:
        self._step = 0
        self.put(THREAD, 0, state)

    def step(self, state: State, delta: Delta) -> str:  # noqa: ARG002
        self._step += 1
        return self.put(THREAD, self._step, state)

    def restore(self, mark: str | None = None) -> State:
        if mark is None:
            return self.states(THREAD, 1)[0]
        state: State = self._loop.run(self._client.restore(mark)).execution_state
        return state

    def newest(self, limit: int) -> list[State]:
        return self.states(THREAD, limit)


class CheckpntThreads(Checkpnt, Threads):
    """checkpnt with many sessions."""

    def save(self, thread: str, step: int, state: State) -> None:
        self.put(thread, step, state)

    def restore(self, thread: str) -> State:
        return self.states(thread, 1)[0]


class CheckpntWriters(Writers):
    """checkpnt from many tasks: they share one connection, and with it their transactions."""

    async def open(self) -> None:
        from checkpnt import Client, Framework

        self._client = Client.sqlite(str(self.path))
        self._framework = Framework.CUSTOM

    async def save(self, thread: str, step: int, state: State) -> None:
        await self._client.save(AGENT, self._framework, state, session_id=thread, step_index=step)

    async def restore(self, thread: str) -> State:
        [found] = await self._client.timeline(AGENT, thread, limit=1)
        state: State = found.execution_state
        return state

    async def pragmas(self) -> Pragmas:
        return await _pragmas(self._client)

    async def close(self) -> None:
        await self._client.close()
