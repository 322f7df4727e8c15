"""Taking turns: of the writers of one process to one thing, one at a time.

A courtesy, not a lock: nothing may depend on being alone. So nobody waits for long, and one whose
connection hangs does not stop all others.
"""

from __future__ import annotations

import asyncio
import threading
from abc import ABC, abstractmethod
from collections.abc import Callable
from typing import TypeVar

from lastgood.driver import Operation, is_blocking
from lastgood.serial import again_in_one_thread

T = TypeVar("T")

PATIENCE = 10.0
"""Whoever has waited so many seconds for a turn goes on without."""


class _Queue(ABC):
    """Those who wait for a turn, and the one who has it."""

    def __init__(self) -> None:
        self.inside: list[object] = []
        """In the order in which they came."""

    @abstractmethod
    async def begin(self) -> bool:
        """Wait for a turn; False if that took too long."""

    @abstractmethod
    def end(self) -> None: ...


class _Threads(_Queue):
    """Of blocking callers."""

    def __init__(self) -> None:
        super().__init__()
        self._lock = threading.Lock()
        self._owner: int | None = None

    async def begin(self) -> bool:
        if self._owner == threading.get_ident():
            raise again_in_one_thread()
        if not self._lock.acquire(timeout=PATIENCE):
            return False
        self._owner = threading.get_ident()
        return True

    def end(self) -> None:
        self._owner = None
        self._lock.release()


class _Tasks(_Queue):
    """Of one event loop."""

    def __init__(self) -> None:
        super().__init__()
        self._lock = asyncio.Lock()

    async def begin(self) -> bool:
        try:
            async with asyncio.timeout(PATIENCE):
                return await self._lock.acquire()
        except TimeoutError:
            return False

    def end(self) -> None:
        self._lock.release()


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
