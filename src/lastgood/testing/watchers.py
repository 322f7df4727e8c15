"""A watcher in the background, for cases about how it is woken."""

from __future__ import annotations

import asyncio
import threading
import time
from collections.abc import Callable
from typing import Any

from lastgood.testing.store import Store


async def soon(holds: Callable[[], object]) -> None:
    """Wait until something holds."""
    async with asyncio.timeout(20):
        while not holds():  # noqa: ASYNC110
            await asyncio.sleep(0.002)


class Watcher:
    """Watches a thread, in either colour."""

    def __init__(self, store: Store, thread: str = "s", client: Any = None, **options: Any) -> None:
        self.seen: dict[int, float] = {}
        """When each seq came."""
        self.client: Any = client or store.client()
        self.thread, self.options = thread, options
        self._stop: threading.Event | None = None
        self.task: asyncio.Future[None]
        if store.colour == "async":
            self.task = asyncio.ensure_future(self._watch())
        else:
            self._stop = threading.Event()
            self.task = asyncio.ensure_future(asyncio.to_thread(self._block, self._stop))

    async def _watch(self) -> None:
        async for header in self.client.watch(self.thread, **self.options):
            self.seen[header.seq] = time.monotonic()

    def _block(self, stop: threading.Event) -> None:
        for header in self.client.twin.watch(self.thread, **self.options):
            self.seen[header.seq] = time.monotonic()
            if stop.is_set():
                return

    async def until(self, seq: int) -> None:
        """Until a checkpoint has come."""
        await soon(lambda: seq in self.seen or self.task.done())
        if self.task.done():
            await self.task

    async def close(self, writer: Any) -> None:
        """Stop: async at once, blocking with a last checkpoint."""
        if self._stop is not None:
            self._stop.set()
            await writer.save("a", session_id=self.thread, execution_state={"n": "end"})
        else:
            self.task.cancel()
        await asyncio.wait([self.task])
