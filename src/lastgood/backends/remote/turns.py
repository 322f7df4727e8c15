"""Taking turns: of the writers of one process to one thing, one at a time.

A courtesy, not a lock: nothing may depend on being alone. So one whose connection hangs does not
stop all others. Who waits while turns come to their ends goes on waiting, in a crowd of thousands
too: at the server all of them would be in each other's way.
"""

from __future__ import annotations

import asyncio
import threading
import time
from abc import ABC, abstractmethod
from collections.abc import Callable
from threading import Lock
from typing import TypeVar

from lastgood.backends.remote.room import Places, Served
from lastgood.driver import Operation, is_blocking
from lastgood.serial import again_in_one_thread

T = TypeVar("T")

PATIENCE = 10.0
"""Whoever waits goes on without a turn when for so many seconds none has ended."""


class _Queue(ABC):
    """Those who wait for a turn, and the one who has it."""

    def __init__(self) -> None:
        self.inside: list[object] = []
        """In the order in which they came."""
        self._served = Served(PATIENCE)

    @abstractmethod
    async def begin(self) -> bool:
        """Wait for a turn; False if none ends."""

    @abstractmethod
    def end(self) -> None: ...


class _Threads(_Queue):
    """Of blocking callers."""

    def __init__(self) -> None:
        super().__init__()
        self._lock = Lock()
        self._owner: int | None = None

    async def begin(self) -> bool:
        if self._owner == threading.get_ident():
            raise again_in_one_thread()
        began = time.monotonic()
        while (left := self._served.left(began)) > 0:
            if self._lock.acquire(timeout=left):
                self._owner = threading.get_ident()
                return True
        return False

    def end(self) -> None:
        self._served.now()
        self._owner = None
        self._lock.release()


class _Tasks(_Queue):
    """Of one event loop."""

    def __init__(self) -> None:
        super().__init__()
        self._places = Places(1, self._served)

    async def begin(self) -> bool:
        try:
            await self._places.take()
        except TimeoutError:
            return False
        return True

    def end(self) -> None:
        self._served.now()
        self._places.release()


class Turns:
    """Queues by name, each there as long as somebody is in it."""

    def __init__(self) -> None:
        self._queues: dict[tuple[object, object], _Queue] = {}

    async def take(
        self, name: object, work: Callable[[], Operation[T]], who: object | None = None
    ) -> T:
        """Do it when it is our turn; raises TransientStorageError if this thread has one."""
        key = _key(name)
        queue = self._queues.get(key)
        if queue is None:
            queue = self._queues.setdefault(key, _Threads() if is_blocking() else _Tasks())
        token, mine = who or object(), False
        queue.inside.append(token)
        try:
            mine = await queue.begin()
            if not mine:
                self._drop(key, queue)  # who comes now need not wait for what hangs
            return await work()
        finally:
            if mine:
                queue.end()
            queue.inside.remove(token)
            if not queue.inside:
                self._drop(key, queue)

    def inside(self, name: object) -> list[object]:
        """Who has a turn, and who waits for one, in the order in which they came."""
        queue = self._queues.get(_key(name))
        return list(queue.inside) if queue else []

    def _drop(self, key: tuple[object, object], queue: _Queue) -> None:
        if self._queues.get(key) is queue:
            self._queues.pop(key, None)


def _key(name: object) -> tuple[object, object]:
    return name, None if is_blocking() else asyncio.get_running_loop()
