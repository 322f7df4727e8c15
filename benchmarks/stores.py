"""The stores under measurement, each behind the small interface of its workload.

A peer is driven through its own public interface, in the way that costs it least: plain dicts,
no graph around it. Every store must commit with WAL and synchronous=FULL; `pragmas` tells what
its connections really use. Each store imports its library when opened, so a process loads one.
"""

import sqlite3
import sys
from abc import ABC, abstractmethod
from contextlib import ExitStack
from pathlib import Path
from typing import Any

from benchmarks.data import Message, State

Pragmas = set[tuple[str, int]]

AGENT, THREAD = "agent", "conversation"


class Conversation(ABC):
    """One growing conversation: every step is saved before the next begins."""

    def __init__(self, path: Path) -> None:
        self.path = path

    def begin(self) -> None:
        """Prepare for the first step; not part of the measured time."""
        return

    @abstractmethod
    def step(self, added: list[Message]) -> None:
        """Save the conversation with these messages at its end."""

    @abstractmethod
    def restore(self) -> State:
        """The newest state."""

    @abstractmethod
    def pragmas(self) -> Pragmas:
        """Journal mode and synchronous level of the connections in use."""

    @abstractmethod
    def close(self) -> None:
        """Leave the file as it stays at rest."""


class Writers(ABC):
    """Many threads of one store, saved by concurrent tasks of one event loop."""

    def __init__(self, path: Path) -> None:
        self.path = path

    @abstractmethod
    async def open(self) -> None:
        """Connect and create the tables."""

    @abstractmethod
    async def save(self, thread: str, step: int, state: State) -> None:
        """Save the state of one thread; returns when it is durable."""

    @abstractmethod
    async def restore(self, thread: str) -> State:
        """The newest state of one thread."""

    @abstractmethod
    async def pragmas(self) -> Pragmas:
        """Journal mode and synchronous level of the connections in use."""

    @abstractmethod
    async def close(self) -> None:
        """Leave the file as it stays at rest."""


class Spy:
    """Collects the connections that this process opens, to ask them for their pragmas.

    `synchronous` belongs to a connection and not to the file, so only the store's own connections
    can tell, and a store that hides them is asked through the interpreter's audit events.
    """

    def __init__(self) -> None:
        self._connections: list[sqlite3.Connection] = []
        sys.addaudithook(self._see)

    def _see(self, event: str, args: tuple[Any, ...]) -> None:
        if event == "sqlite3.connect/handle":
            self._connections.append(args[0])

    def pragmas(self) -> Pragmas:
        """What the connections that are open now use."""
        return {pragmas_of(connection) for connection in self._connections if _open(connection)}


def _open(connection: sqlite3.Connection) -> bool:
    try:
        return connection.total_changes >= 0
    except sqlite3.ProgrammingError:
        return False


def pragmas_of(connection: sqlite3.Connection) -> tuple[str, int]:
    """Journal mode and synchronous level of one connection."""
    [mode] = connection.execute("PRAGMA journal_mode").fetchone()
    [level] = connection.execute("PRAGMA synchronous").fetchone()
    return mode, level


class Floor(Conversation):
    """The least that SQLite can do: one row with the new messages per step, committed."""

    def __init__(self, path: Path) -> None:
        super().__init__(path)
        import ormsgpack

        self._pack, self._unpack = ormsgpack.packb, ormsgpack.unpackb
        self._connection = sqlite3.connect(path, isolation_level=None)
        self._connection.execute("PRAGMA journal_mode=WAL")
        self._connection.execute("PRAGMA synchronous=FULL")
        self._connection.execute("CREATE TABLE IF NOT EXISTS step (id INTEGER PRIMARY KEY, data)")

    def step(self, added: list[Message]) -> None:
        self._connection.execute("INSERT INTO step (data) VALUES (?)", [self._pack(added)])

    def restore(self) -> State:
        rows = self._connection.execute("SELECT data FROM step ORDER BY id")
        return {"messages": [message for [data] in rows for message in self._unpack(data)]}

    def pragmas(self) -> Pragmas:
        return {pragmas_of(self._connection)}

    def close(self) -> None:
        self._connection.close()


def _checkpoint(state: State, step: int) -> dict[str, Any]:
    """A checkpoint as LangGraph's loop hands it to a saver: the whole state, every time."""
    from langgraph.checkpoint.base import empty_checkpoint
    from langgraph.checkpoint.base.id import uuid6

    return {
        **empty_checkpoint(),
        "id": str(uuid6(clock_seq=step)),
        "channel_values": state,
        "channel_versions": dict.fromkeys(state, step),
    }


def _config(thread: str) -> dict[str, Any]:
    return {"configurable": {"thread_id": thread, "checkpoint_ns": ""}}


def _metadata(step: int) -> dict[str, Any]:
    return {"source": "loop", "step": step, "parents": {}}


class LanggraphConversation(Conversation):
    """LangGraph's SqliteSaver: `put` with the whole list of messages."""

    def __init__(self, path: Path) -> None:
        super().__init__(path)
        from langgraph.checkpoint.sqlite import SqliteSaver

        self._connection = sqlite3.connect(path, check_same_thread=False)
        self._saver = SqliteSaver(self._connection)
        self._saver.setup()
        self._connection.execute("PRAGMA synchronous=FULL")
        self._config = _config(THREAD)
        self._messages: list[Message] = []
        self._step = 0

    def step(self, added: list[Message]) -> None:
        self._step += 1
        self._messages.extend(added)
        state = {"messages": self._messages}
        self._config = self._saver.put(
            self._config,
            _checkpoint(state, self._step),
            _metadata(self._step),
            {"messages": self._step},
        )

    def restore(self) -> State:
        found = self._saver.get_tuple(_config(THREAD))
        state: State = found.checkpoint["channel_values"]
        return state

    def pragmas(self) -> Pragmas:
        return {pragmas_of(self._connection)}

    def close(self) -> None:
        self._connection.close()


class LanggraphWriters(Writers):
    """LangGraph's AsyncSqliteSaver: one connection, one thread, one transaction per `aput`."""

    async def open(self) -> None:
        import aiosqlite
        from langgraph.checkpoint.sqlite.aio import AsyncSqliteSaver

        self._connection = await aiosqlite.connect(self.path)
        self._saver = AsyncSqliteSaver(self._connection)
        await self._saver.setup()
        await self._connection.execute("PRAGMA synchronous=FULL")
        self._configs: dict[str, Any] = {}

    async def save(self, thread: str, step: int, state: State) -> None:
        self._configs[thread] = await self._saver.aput(
            self._configs.get(thread) or _config(thread),
            _checkpoint(state, step),
            _metadata(step),
            dict.fromkeys(state, step),
        )

    async def restore(self, thread: str) -> State:
        found = await self._saver.aget_tuple(_config(thread))
        state: State = found.checkpoint["channel_values"]
        return state

    async def pragmas(self) -> Pragmas:
        values = []
        for pragma in ("journal_mode", "synchronous"):
            async with self._connection.execute(f"PRAGMA {pragma}") as cursor:
                values.append((await cursor.fetchone())[0])
        return {(values[0], values[1])}

    async def close(self) -> None:
        await self._connection.close()


class LastgoodSave(Conversation):
    """Lastgood with the change found by us: the state is mutated, then `run.save()`."""

    def __init__(self, path: Path) -> None:
        super().__init__(path)
        from lastgood import BlockingClient

        self._spy = Spy()
        self._stack = ExitStack()
        self._client = BlockingClient.sqlite(path)
        self._stack.callback(self._client.close)

    def begin(self) -> None:
        empty: State = {"messages": []}
        run = self._client.run(THREAD, agent_id=AGENT, initial=empty)
        self._run = self._stack.enter_context(run)

    def step(self, added: list[Message]) -> None:
        self._run.state["messages"].extend(added)
        self._run.save(step_name="step")

    def restore(self) -> State:
        found = self._client.latest(agent_id=AGENT, session_id=THREAD)
        if found is None:
            raise LookupError(f"{self.path}: nothing was saved")
        return dict(found.state)

    def pragmas(self) -> Pragmas:
        return self._spy.pragmas()

    def close(self) -> None:
        self._stack.close()


class LastgoodAppend(LastgoodSave):
    """Lastgood with the change named by the caller: `run.append`."""

    def step(self, added: list[Message]) -> None:
        self._run.append("messages", *added, step_name="step")


class LastgoodWriters(Writers):
    """Lastgood's async client: `save` from many tasks."""

    async def open(self) -> None:
        from lastgood import Client

        self._spy = Spy()
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


class LastgoodDiff:
    """Two checkpoints of one thread, compared by us."""

    def __init__(self, path: Path) -> None:
        self.path = path
        self._ids: list[str] = []

    def open(self) -> None:
        """Connect; what a client remembers begins with it."""
        from lastgood import BlockingClient

        self._client = BlockingClient.sqlite(self.path)
        self._client.threads(limit=1)

    def save(self, *states: State) -> None:
        """Save the states one after the other."""
        self.open()
        self._ids = [
            self._client.save(AGENT, session_id=THREAD, execution_state=state) for state in states
        ]
        self.close()

    def compare(self) -> None:
        """Find the three messages that differ."""
        found = self._client.diff(*self._ids)
        if found.summary() != "1 message added, 1 message changed, 1 message removed":
            raise AssertionError(f"found something else: {found.summary()}")

    def close(self) -> None:
        """Let go of the file."""
        self._client.close()


class LastgoodRestoreBoth(LastgoodDiff):
    """What a comparison by hand begins with: both states restored."""

    def compare(self) -> None:
        for id in self._ids:
            self._client.restore(id)


COMPARERS: dict[str, type[LastgoodDiff]] = {
    "lastgood-diff": LastgoodDiff,
    "lastgood-restore-both": LastgoodRestoreBoth,
}

CONVERSATIONS: dict[str, type[Conversation]] = {
    "floor": Floor,
    "lastgood-save": LastgoodSave,
    "lastgood-append": LastgoodAppend,
    "langgraph-sqlite": LanggraphConversation,
}

WRITERS: dict[str, type[Writers]] = {
    "lastgood": LastgoodWriters,
    "langgraph-aiosqlite": LanggraphWriters,
}
