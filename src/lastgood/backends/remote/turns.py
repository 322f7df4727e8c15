"""Taking turns: of the writers of one process to one thing, one at a time.

A courtesy, not a lock: nothing may depend on being alone. So one whose connection hangs does not
stop all others. Who waits while turns come to their ends goes on waiting, in a crowd of thousands
too: at the server all of them would be in each other's way.
"""

from __future__ import annotations

import asyncio
import time
from abc import ABC, abstractmethod
from collections.abc import Callable
from typing import TypeVar

from lastgood.backends.remote.crowd import Crowd, Guest
from lastgood.backends.remote.room import Places, Served
from lastgood.driver import Operation, is_blocking
from lastgood.serial import again_in_one_thread

T = TypeVar("T")

PATIENCE = 10.0
"""Whoever waits goes on without a turn when for so many seconds none has ended."""


class _Queue(ABC):
    """Those who wait for a turn, and the one who has it."""

    def __init__(self) -> None:
        self._served = Served(PATIENCE)

    @abstractmethod
    def inside(self) -> list[object]:
        """In the order in which they came."""

    @abstractmethod
    async def turn(self, who: object, work: Callable[[bool], Operation[T]]) -> T:
        """Do it when it is its turn, or when none ends, told which."""


class _Threads(_Queue):
    """Of blocking callers, who may be interrupted anywhere."""

    def __init__(self) -> None:
        super().__init__()
        self._crowd = Crowd(1)

    def inside(self) -> list[object]:
        return [guest.who for guest in self._crowd]

    async def turn(self, who: object, work: Callable[[bool], Operation[T]]) -> T:
        me = Guest(who)
        if any(guest.inside and guest.thread == me.thread for guest in self._crowd):
            raise again_in_one_thread()
        try:
            return await work(self._is_let_in(me))
        finally:
            if me.inside:
                self._served.now()
            self._crowd.leave(me)

    def _is_let_in(self, me: Guest) -> bool:
        began = time.monotonic()
        while (left := self._served.left(began)) > 0:
            if self._crowd.enter(me, left):
                return True
        return False


class _Tasks(_Queue):
    """Of one event loop."""

    def __init__(self) -> None:
        super().__init__()
        self._places = Places(1, self._served)
        self._inside: list[object] = []

    def inside(self) -> list[object]:
        return list(self._inside)

    async def turn(self, who: object, work: Callable[[bool], Operation[T]]) -> T:
        mine = False
        self._inside.append(who)
        try:
            mine = await self._is_let_in()
            return await work(mine)
        finally:
            if mine:
                self._served.now()
                self._places.release()
            self._inside.remove(who)

    async def _is_let_in(self) -> bool:
        try:
            await self._places.take()
        except TimeoutError:
            return False
        return True


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

        async def done(mine: bool) -> T:
            if not mine:
                self._drop(key, queue)  # who comes now need not wait for what hangs
            return await work()

        try:
            return await queue.turn(who or object(), done)
        finally:
            if not queue.inside():
                self._drop(key, queue)

    def inside(self, name: object) -> list[object]:
        """Who has a turn, and who waits for one, in the order in which they came."""
        queue = self._queues.get(_key(name))
        return queue.inside() if queue else []

    def _drop(self, key: tuple[object, object], queue: _Queue) -> None:
        if self._queues.get(key) is queue:
            self._queues.pop(key, None)


def _key(name: object) -> tuple[object, object]:
    return name, None if is_blocking() else asyncio.get_running_loop()
