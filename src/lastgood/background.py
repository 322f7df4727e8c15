"""An event loop in a thread of its own, for blocking callers of code that is async only.

There is one for the whole process, made at its first use: what an object keeps between two calls
(a connection, a lock) finds the same loop again. A caller may be inside of a running loop itself;
it waits for the other one.
"""

from __future__ import annotations

import asyncio
import os
import threading
from typing import TypeVar

from lastgood.children import begin_anew_in_children
from lastgood.driver import Operation

T = TypeVar("T")


class Background:
    """A thread that runs coroutines for others."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._loop: asyncio.AbstractEventLoop | None = None
        self._pid = 0
        begin_anew_in_children(self)

    def run(self, operation: Operation[T]) -> T:
        """Run a coroutine to its end there, and wait for it here."""
        loop = self._running()
        if loop is _current_loop():
            operation.close()
            raise RuntimeError(
                "a blocking method was called by async code that a blocking method runs. "
                "Await the async one there."
            )
        future = asyncio.run_coroutine_threadsafe(operation, loop)
        try:
            return future.result()
        except BaseException:
            future.cancel()
            raise

    def after_fork(self) -> None:
        """In a child: the thread is not there, and the lock may be held by nobody."""
        self._lock, self._loop = threading.Lock(), None

    def _running(self) -> asyncio.AbstractEventLoop:
        with self._lock:
            if self._loop is None or self._pid != os.getpid():
                self._loop, self._pid = asyncio.new_event_loop(), os.getpid()
                threading.Thread(
                    target=self._loop.run_forever, name="lastgood-background", daemon=True
                ).start()
            return self._loop


def _current_loop() -> asyncio.AbstractEventLoop | None:
    try:
        return asyncio.get_running_loop()
    except RuntimeError:
        return None


_BACKGROUND = Background()


def run_in_background(operation: Operation[T]) -> T:
    """Run a coroutine on the process's background loop."""
    return _BACKGROUND.run(operation)
