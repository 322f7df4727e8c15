"""Group commit without waiting: one queue, one mutex.

Whoever holds the mutex, a blocking caller in its own thread or the worker of the async ones,
drains what has queued meanwhile and commits it together; nobody waits for a batch to fill. Knows
nothing of what a commit is.
"""

from __future__ import annotations

import threading
from collections import deque
from collections.abc import Callable

from lastgood.commits import Intent, Writes
from lastgood.driver import Wait
from lastgood.errors import StorageError

BATCH = 256
"""At most so many operations share a transaction: one bad disk block must not hurt thousands."""


class Ticket(Wait):
    """One queued commit and its outcome."""

    def __init__(self, group: Group, intent: Intent) -> None:
        self._group = group
        self.intent = intent
        self.done = False
        self._writes: Writes | None = None
        self._error: BaseException | None = None

    def settle(self) -> None:
        with self._group.mutex:
            while not self.done:
                self._group.drain()

    def succeed(self, writes: Writes) -> None:
        self._writes, self.done = writes, True

    def fail(self, error: BaseException) -> None:
        self._error, self.done = error, True

    def outcome(self) -> Writes:
        """The writes with their keys, or the error that the commit raised."""
        if self._error is not None:
            raise self._error
        assert self._writes is not None, "settled first"
        return self._writes


class Group:
    """The queue in front of one writer. `execute` settles every ticket of a batch."""

    def __init__(self, execute: Callable[[list[Ticket]], None]) -> None:
        self.mutex = threading.Lock()
        self._queue: deque[Ticket] = deque()
        self._execute = execute

    def submit(self, intent: Intent) -> Ticket:
        ticket = Ticket(self, intent)
        self._queue.append(ticket)
        return ticket

    def drain(self) -> None:
        """Commit what is queued. The caller holds the mutex."""
        batch: list[Ticket] = []
        while self._queue and len(batch) < BATCH:
            batch.append(self._queue.popleft())
        try:
            self._execute(batch)
        finally:
            for ticket in batch:
                if not ticket.done:
                    ticket.fail(StorageError("the commit was interrupted; its outcome is unknown"))
