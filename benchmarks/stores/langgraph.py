"""LangGraph's SQLite savers, driven as its loop drives them: the whole state at every `put`."""

import sqlite3
from pathlib import Path
from typing import Any

from benchmarks.data import State
from benchmarks.scenarios import Delta
from benchmarks.stores.interface import (
    NORMAL,
    THREAD,
    Lines,
    Pragmas,
    Steps,
    Store,
    Threads,
    Writers,
)
from benchmarks.stores.spy import pragmas_of, pragmas_through

Config = dict[str, Any]


def checkpoint(values: State, step: int, versions: State | None = None) -> dict[str, Any]:
    """A checkpoint as LangGraph's loop hands it to a saver."""
    from langgraph.checkpoint.base import empty_checkpoint
    from langgraph.checkpoint.base.id import uuid6

    return {
        **empty_checkpoint(),
        "id": str(uuid6(clock_seq=step)),
        "channel_values": values,
        "channel_versions": versions or dict.fromkeys(values, step),
    }


def config_of(thread: str, mark: str | None = None) -> Config:
    """Where a checkpoint is, or, without a mark, where the newest is."""
    place = {"thread_id": thread, "checkpoint_ns": ""}
    return {"configurable": place if mark is None else {**place, "checkpoint_id": mark}}


def metadata(step: int) -> dict[str, Any]:
    """What the loop says about a checkpoint."""
    return {"source": "loop", "step": step, "parents": {}}


class Saver(Store):
    """SqliteSaver on one connection."""

    def __init__(self, path: Path) -> None:
        super().__init__(path)
        from langgraph.checkpoint.sqlite import SqliteSaver

        self.connection = sqlite3.connect(path, check_same_thread=False)
        self.saver = SqliteSaver(self.connection, serde=serializer())
        self.saver.setup()
        self.connection.execute(f"PRAGMA synchronous={self.synchronous}")

    def put(self, config: Config, state: State, step: int) -> Config:
        """One save; where it is."""
        moved = dict.fromkeys(state, self.version(step))
        made = checkpoint(state, step, moved)
        saved: Config = self.saver.put(config, made, metadata(step), moved)
        return saved

    def version(self, step: int) -> Any:
        """The version of a channel at a step."""
        return step

    def get(self, config: Config) -> State:
        """The state of a checkpoint."""
        state: State = self.saver.get_tuple(config).checkpoint["channel_values"]
        return state

    def pragmas(self) -> Pragmas:
        return {pragmas_of(self.connection)}

    def close(self) -> None:
        self.connection.close()


def serializer() -> Any:
    """The stock serializer, which is told the one class of ours that it may bring back."""
    from langgraph.checkpoint.serde.jsonplus import JsonPlusSerializer

    return JsonPlusSerializer(allowed_msgpack_modules=[("benchmarks.messages", "Task")])


class LanggraphSteps(Saver, Steps):
    """LangGraph's SqliteSaver: `put` with the whole state."""

    def begin(self, state: State) -> None:
        self._step = 0
        self._config = self.put(config_of(THREAD), state, 0)

    def step(self, state: State, delta: Delta) -> str:  # noqa: ARG002
        self._step += 1
        self._config = self.put(self._config, state, self._step)
        return str(self._config["configurable"]["checkpoint_id"])

    def restore(self, mark: str | None = None) -> State:
        return self.get(config_of(THREAD, mark))

    def newest(self, limit: int) -> list[State]:
        found = self.saver.list(config_of(THREAD), limit=limit)
        return [each.checkpoint["channel_values"] for each in found]


class NormalSteps(LanggraphSteps):
    """SqliteSaver set to synchronous=NORMAL by hand."""

    synchronous = NORMAL


class LanggraphLines(Saver, Lines):
    """SqliteSaver: a fork is a `put` on an older checkpoint."""

    def __init__(self, path: Path) -> None:
        super().__init__(path)
        self._step = 0

    def save(self, line: int, state: State) -> None:
        self._step += 1
        parent = config_of(THREAD, self.marks[line] if self.marks else None)
        saved = self.put(parent, state, self._step)
        self.marks[line : line + 1] = [saved["configurable"]["checkpoint_id"]]

    def fork(self) -> None:
        self.marks.append(self.marks[0])

    def restore(self, line: int) -> State:
        return self.get(config_of(THREAD, self.marks[line]))


class LanggraphThreads(Saver, Threads):
    """SqliteSaver with many threads."""

    def __init__(self, path: Path) -> None:
        super().__init__(path)
        self._configs: dict[str, Config] = {}

    def save(self, thread: str, step: int, state: State) -> None:
        config = self._configs.get(thread) or config_of(thread)
        self._configs[thread] = self.put(config, state, step)

    def restore(self, thread: str) -> State:
        return self.get(config_of(thread))


class LanggraphWriters(Writers):
    """LangGraph's AsyncSqliteSaver: one connection, one thread, one transaction per `aput`."""

    async def open(self) -> None:
        import aiosqlite
        from langgraph.checkpoint.sqlite.aio import AsyncSqliteSaver

        self._connection = await aiosqlite.connect(self.path)
        self._saver = AsyncSqliteSaver(self._connection)
        await self._saver.setup()
        await self._connection.execute("PRAGMA synchronous=FULL")
        self._configs: dict[str, Config] = {}

    async def save(self, thread: str, step: int, state: State) -> None:
        self._configs[thread] = await self._saver.aput(
            self._configs.get(thread) or config_of(thread),
            checkpoint(state, step),
            metadata(step),
            dict.fromkeys(state, step),
        )

    async def restore(self, thread: str) -> State:
        found = await self._saver.aget_tuple(config_of(thread))
        state: State = found.checkpoint["channel_values"]
        return state

    async def pragmas(self) -> Pragmas:
        return await pragmas_through(self._connection)

    async def close(self) -> None:
        await self._connection.close()
