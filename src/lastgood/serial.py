"""One at a time: the mutex of a store, and the queues of a run.

Knows nothing of what is done in a turn.
"""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Callable, Coroutine, Iterator
from contextlib import contextmanager
from typing import Any, Protocol, TypeVar

from lastgood.children import begin_anew_in_children
from lastgood.errors import RunStateError, TransientStorageError

T = TypeVar("T")
Work = Callable[[], Coroutine[Any, Any, T]]


class Turnstile:
    """A mutex that says so when its own holder comes again, instead of waiting for ever.

    That is what a signal handler does which saves while a save is under way in its thread. The
    work is passed in, not bracketed by a generator: one that a signal leaves suspended would run
    its end at some later moment, in the middle of somebody else's turn.
    """

    def __init__(self) -> None:
        self._lock = threading.RLock()
        self._busy = False

    def run(self, work: Callable[[], T]) -> T:
        """Do it when it is our turn; raises TransientStorageError if this thread has one."""
        with self._lock:
            if self._busy:
                raise again_in_one_thread()
            self._busy = True
            try:
                return work()
            finally:
                self._busy = False

    @contextmanager
    def held(self) -> Iterator[None]:
        """Keep everybody out for as long as the block lasts: for a fork."""
        with self._lock:
            yield

    async def drive(self, work: Work[T]) -> T:
        """The same for an operation of a blocking caller."""
        with self._lock:
            if self._busy:
                raise again_in_one_thread()
            self._busy = True
            try:
                return await work()
            finally:
                self._busy = False


def again_in_one_thread() -> TransientStorageError:
    """The error for a save inside a save."""
    return TransientStorageError(
        "a save is under way in this very thread; a signal handler or a greenlet came in between.",
        hint="Let the handler set a flag, and save where the work goes on. With gevent or "
        "eventlet, let them patch the process before lastgood is imported.",
    )


class Serial(Protocol):
    """A queue of its own: of the operations that are passed in, one runs at a time."""

    async def __call__(self, work: Work[T], /) -> T: ...


class OfThreads:
    """The queue of blocking callers."""

    def __init__(self) -> None:
        self._turnstile = Turnstile()
        begin_anew_in_children(self)

    async def __call__(self, work: Work[T], /) -> T:
        return await self._turnstile.drive(work)

    def after_fork(self) -> None:
        """In a child: who had the turn is in the parent."""
        self._turnstile = Turnstile()


class OfTasks:
    """The queue of the tasks of one event loop; of another one when that has ended."""

    def __init__(self) -> None:
        self._loop: asyncio.AbstractEventLoop | None = None
        self._lock = asyncio.Lock()
        begin_anew_in_children(self)

    async def __call__(self, work: Work[T], /) -> T:
        async with self._of_this_loop():
            return await work()

    def _of_this_loop(self) -> asyncio.Lock:
        loop = asyncio.get_running_loop()
        if self._loop is not loop:
            if self._loop is not None and self._loop.is_running():
                raise RunStateError(
                    "an async run belongs to the event loop that uses it, and that is running.",
                    hint="Use it there, or open another run; a blocking one is for threads.",
                )
            self._loop, self._lock = loop, asyncio.Lock()
        return self._lock

    def after_fork(self) -> None:
        """In a child: who had the turn is in the parent."""
        self._loop = None
