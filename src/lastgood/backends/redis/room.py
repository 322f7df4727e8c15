"""How many commands may be under way: so many of threads, and of each event loop.

The driver's clients of one server wait for a free connection, but a task that asks for one again is
served before those that wait, who may wait for ever. Those of a Cluster make another one, or fail.
So whoever sends takes a place first, tasks in the order in which they came. Each has one connection
to a node, and in a Cluster now and then another, on which the driver asks about commands.
"""

from __future__ import annotations

import asyncio
import threading
import weakref
from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager, contextmanager

from redis.exceptions import ConnectionError as DriverConnectionError

from lastgood.driver import is_blocking


class Room:
    """So many places; who finds none waits for so many seconds."""

    def __init__(self, size: int, seconds: float) -> None:
        self._size = size
        self._seconds = seconds
        self.begin()

    def begin(self) -> None:
        """In a forked child too: nobody is there."""
        self._threads = threading.Semaphore(self._size)
        self._tasks: weakref.WeakKeyDictionary[asyncio.AbstractEventLoop, asyncio.Semaphore] = (
            weakref.WeakKeyDictionary()
        )

    @asynccontextmanager
    async def place(self) -> AsyncIterator[None]:
        """One, for as long as the block lasts; raises the driver's ConnectionError."""
        if is_blocking():
            with self._blocking():
                yield
            return
        tasks = self._tasks.setdefault(asyncio.get_running_loop(), asyncio.Semaphore(self._size))
        try:
            async with asyncio.timeout(self._seconds if tasks.locked() else None):
                await tasks.acquire()
        except TimeoutError:
            raise _full() from None
        try:
            yield
        finally:
            tasks.release()

    @contextmanager
    def _blocking(self) -> Iterator[None]:
        if not self._threads.acquire(timeout=self._seconds):
            raise _full()
        try:
            yield
        finally:
            self._threads.release()


def _full() -> DriverConnectionError:
    return DriverConnectionError("No connection available.")
