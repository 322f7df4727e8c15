"""Taking turns: of the writers of one process to one thing, one at a time."""

from __future__ import annotations

import asyncio

from lastgood.driver import Serial, Turnstile, is_blocking, one_at_a_time


class Turns:
    """Queues by name, made when they are needed: one for blocking callers, one per event loop."""

    LIMIT = 256

    def __init__(self) -> None:
        self._queues: dict[tuple[object, object], Serial] = {}

    def of(self, name: object) -> Serial:
        """The queue of a name; an old one may be dropped, then its waiters are just not alone."""
        key = (name, None if is_blocking() else asyncio.get_running_loop())
        queue = self._queues.pop(key, None)
        if queue is None:
            queue = Turnstile().drive if is_blocking() else one_at_a_time()
        while len(self._queues) >= self.LIMIT:
            self._queues.pop(next(iter(self._queues)), None)
        return self._queues.setdefault(key, queue)
