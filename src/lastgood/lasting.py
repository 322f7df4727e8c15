"""Operations that come to their end, whoever is cancelled meanwhile: entering a run, leaving it.

Each is a task of its own. A caller who is cancelled goes on waiting for a moment, however often it
is cancelled (a scope of anyio does so at every await), and then leaves it behind. The invariant:
what was left behind is held until it ends, and the store is not closed below it.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import Coroutine
from typing import Any, TypeVar

T = TypeVar("T")

MOMENT = 1.0
"""So many seconds a caller goes on waiting that is cancelled."""
PATIENCE = 5.0
"""So many seconds who closes the store waits for what was left behind, and then, after a cancel,
once more: that is as long as it takes through a pooler."""


class Lasting:
    """The operations of one client."""

    def __init__(self, *, apart: bool) -> None:
        self._apart = apart
        """Whether they may go on without their caller; on what is the caller's own they may not."""
        self._behind: set[asyncio.Task[Any]] = set()

    async def run(self, operation: Coroutine[Any, Any, T]) -> T:
        """Await it; where the caller is cancelled, raise that at its end or after a moment."""
        task = asyncio.get_running_loop().create_task(operation, name="lastgood-lasting")
        task.add_done_callback(self._over)
        stop: asyncio.CancelledError | None = None
        left: float | None = None
        try:
            while not task.done() and (left is None or left > 0):
                began = time.monotonic()
                try:
                    await asyncio.wait([task], timeout=left)
                except asyncio.CancelledError as error:  # the last one is raised: it may be a
                    stop = error  # scope's, which looks whether it is its own
                left = _left(left, began) if stop else None
            if stop is not None:
                raise stop
            return task.result()
        finally:
            if not task.done():
                self._leave(task)
            del task, stop

    def _leave(self, task: asyncio.Task[Any]) -> None:
        self._behind.add(task)
        if not self._apart:
            task.cancel()

    def _over(self, task: asyncio.Task[Any]) -> None:
        self._behind.discard(task)
        if not task.cancelled():
            task.exception()  # nobody may be left to be told

    async def left(self) -> None:
        """Wait for what was left behind on this loop; what takes too long is cancelled."""
        loop = asyncio.get_running_loop()
        mine = {task for task in self._behind if task.get_loop() is loop}
        if mine:
            _, late = await asyncio.wait(mine, timeout=PATIENCE)
            for task in late:
                task.cancel()
            if late:
                await asyncio.wait(late, timeout=PATIENCE)


def _left(left: float | None, began: float) -> float:
    """Of the moment."""
    return MOMENT if left is None else left - (time.monotonic() - began)
