"""What a workload asks of a store: four small interfaces, one per shape of work.

A peer is driven through its own public interface, in the way that costs it least: plain dicts, no
graph around it. A store imports its library when opened, so that a process loads only one.
`synchronous` is what a store promises, `pragmas` what its connections really do.
"""

import asyncio
import sqlite3
from abc import ABC, abstractmethod
from collections.abc import Coroutine
from pathlib import Path
from typing import Any, TypeVar

from benchmarks.data import State
from benchmarks.scenarios import Delta

Pragmas = set[tuple[str, int]]
T = TypeVar("T")

AGENT, THREAD = "agent", "conversation"
NORMAL, FULL, EXTRA = 1, 2, 3


class Store(ABC):
    """A store in one directory, opened by its constructor."""

    synchronous = FULL

    def __init__(self, path: Path) -> None:
        self.path = path

    def connect(self) -> None:
        """Open the file now, where the library would wait for the first call."""
        return

    def size(self) -> int:
        """Bytes of the database as of the last commit, without the log that is merged into it."""
        return database_size(self.path)

    def kept(self) -> int:
        """Bytes at rest, after closing: all files of the directory."""
        return bytes_in(self.path.parent)

    @abstractmethod
    def pragmas(self) -> Pragmas:
        """Journal mode and synchronous level of the connections in use."""

    @abstractmethod
    def close(self) -> None:
        """Leave the files as they stay at rest."""


class Steps(Store):
    """One thread, saved step by step; every save is durable before the next step begins."""

    @abstractmethod
    def begin(self, state: State) -> None:
        """Prepare for the first step; not part of the measured time."""

    @abstractmethod
    def step(self, state: State, delta: Delta) -> str:
        """Save the state, which differs from the last one by the delta; the name of the save."""

    @abstractmethod
    def restore(self, mark: str | None = None) -> State:
        """The newest state, or that of one save."""

    def newest(self, limit: int) -> list[State]:
        """The newest states, the newest first."""
        raise NotImplementedError(f"{type(self).__name__} has no list of states")


class Lines(Store):
    """One thread that was forked: two lines that grow in turns."""

    def __init__(self, path: Path) -> None:
        super().__init__(path)
        self.marks: list[str] = []
        """The newest checkpoint of each line."""

    @abstractmethod
    def save(self, line: int, state: State) -> None:
        """Go on with a line; line 0 is there from the beginning."""

    @abstractmethod
    def fork(self) -> None:
        """Line 1 begins at the newest checkpoint of line 0."""

    @abstractmethod
    def restore(self, line: int) -> State:
        """The newest state of a line."""


class Threads(Store):
    """Many threads of one store, saved and restored by a blocking caller."""

    @abstractmethod
    def save(self, thread: str, step: int, state: State) -> None:
        """Save the state of one thread; returns when it is durable."""

    @abstractmethod
    def restore(self, thread: str) -> State:
        """The newest state of one thread."""


class Writers(ABC):
    """Many threads of one store, saved by concurrent tasks of one event loop."""

    synchronous = FULL

    def __init__(self, path: Path) -> None:
        self.path = path

    def kept(self) -> int:
        """Bytes at rest, after closing: all files of the directory."""
        return bytes_in(self.path.parent)

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


class Loop:
    """An event loop for a library that has only coroutines, driven by a blocking workload."""

    def __init__(self) -> None:
        self._runner = asyncio.Runner()

    def run(self, work: Coroutine[Any, Any, T]) -> T:
        """The result of a coroutine."""
        return self._runner.run(work)

    def close(self) -> None:
        """End the loop."""
        self._runner.close()


def bytes_in(directory: Path) -> int:
    """All files in a directory."""
    return sum(path.stat().st_size for path in directory.rglob("*") if path.is_file())


def database_size(path: Path) -> int:
    """Pages of a SQLite database, those that still wait in its log included."""
    connection = sqlite3.connect(path)
    try:
        [pages] = connection.execute("PRAGMA page_count").fetchone()
        [size] = connection.execute("PRAGMA page_size").fetchone()
    finally:
        connection.close()
    return int(pages) * int(size)
