"""How many calls of a client may be at its server: so many of threads, and of each event loop.

Whoever comes to the server takes a place first, tasks in the order in which they came. Who finds
none waits for as long as others are served: to give up in a crowd helps nobody, for who begins anew
stands at the end and asks once more what it had asked already, and of thousands none comes to its
end. The one invariant: nobody waits when for some seconds no call was answered.
"""

from __future__ import annotations

import asyncio
import time
import weakref
from collections import deque
from collections.abc import AsyncIterator, Callable, Iterator
from contextlib import asynccontextmanager, contextmanager

from lastgood.backends.remote.crowd import Crowd, Guest
from lastgood.driver import is_blocking

_LEAST = 0.01


class Served:
    """When a call was answered last."""

    def __init__(self, seconds: float) -> None:
        self.seconds = seconds
        self._until = float("-inf")

    def now(self) -> None:
        """One is."""
        self._until = time.monotonic() + self.seconds

    def left(self, since: float = 0.0) -> float:
        """For how many seconds more it is worth waiting, for who began to wait at that time."""
        return max(self._until, since + self.seconds) - time.monotonic()


class Places:
    """Those of one event loop. One timer is for all who wait: they may be thousands."""

    def __init__(self, size: int, served: Served) -> None:
        self._free = size
        self._served = served
        self._queue: deque[asyncio.Future[None]] = deque()
        self._since = 0.0
        """When the queue began to be one."""
        self._timer: asyncio.TimerHandle | None = None

    async def take(self) -> None:
        """Raises TimeoutError."""
        if self._free:
            self._free -= 1
            return
        turn = asyncio.get_running_loop().create_future()
        if not self._queue:
            self._since = time.monotonic()
        self._queue.append(turn)
        if self._timer is None:
            self._watch(self._served.seconds)
        try:
            await turn
        except asyncio.CancelledError:
            if not turn.cancelled() and turn.exception() is None:
                self.release()  # it was given just now
            raise

    def release(self) -> None:
        """Give the place to the next one; where there is none, nobody need be looked after."""
        while self._queue:
            turn = self._queue.popleft()
            if not turn.done():
                turn.set_result(None)
                return
        self._free += 1
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None

    def _watch(self, seconds: float) -> None:
        self._timer = asyncio.get_running_loop().call_later(seconds, self._look)

    def _look(self) -> None:
        """End all waits if nobody is served."""
        left, self._timer = self._served.left(self._since), None
        while left <= 0 and self._queue:
            turn = self._queue.popleft()
            if not turn.done():
                turn.set_exception(TimeoutError())
        if self._queue:
            self._watch(left)


class Room:
    """So many places, and what is raised when nobody was served for so many seconds."""

    def __init__(self, size: int, seconds: float, full: Callable[[], Exception]) -> None:
        self._size = size
        self._seconds = seconds
        self._full = full
        self.begin()

    def begin(self) -> None:
        """In a forked child too: nobody is there."""
        self._served = Served(self._seconds)
        self._threads = Crowd(self._size)
        self._tasks: weakref.WeakKeyDictionary[asyncio.AbstractEventLoop, Places] = (
            weakref.WeakKeyDictionary()
        )

    @asynccontextmanager
    async def place(self) -> AsyncIterator[None]:
        """One for a caller of either colour, for as long as the block lasts."""
        if is_blocking():
            with self.blocking():
                yield
        else:
            async with self.native():
                yield

    @contextmanager
    def blocking(self) -> Iterator[float]:
        """One for a thread, with the seconds that are left to it to get at the server."""
        began, me = time.monotonic(), Guest()
        try:
            while not self._threads.enter(me, self._seconds):
                if self._served.left() <= 0:
                    raise self._full()
            yield max(_LEAST, self._served.left(began))
            self._served.now()
        finally:
            self._threads.leave(me)

    @asynccontextmanager
    async def native(self) -> AsyncIterator[float]:
        """The same for a task."""
        began, loop = time.monotonic(), asyncio.get_running_loop()
        tasks = self._tasks.get(loop)
        if tasks is None:
            tasks = self._tasks[loop] = Places(self._size, self._served)
        try:
            await tasks.take()
        except TimeoutError:
            raise self._full() from None
        try:
            yield max(_LEAST, self._served.left(began))
            self._served.now()
        finally:
            tasks.release()
