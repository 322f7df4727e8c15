"""Group commit without waiting: one queue, one mutex.

Whoever holds the mutex, a blocking caller in its own thread or the worker of the async ones,
drains what has queued meanwhile and commits it together; what queues while it is being carried out
may join. Nobody waits for a batch to fill, but one that says so of itself gives way to the other
threads, as long as that brings it company. Knows nothing else of what a commit is.
"""

from __future__ import annotations

import os
import time
from collections import deque
from collections.abc import Callable, Generator
from contextlib import suppress

from lastgood.commits import MOMENT, Accompanied, Intent, Writes
from lastgood.driver import Wait
from lastgood.errors import StorageError
from lastgood.serial import Turnstile

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

    def __await__(self) -> Generator[Wait, None, None]:
        try:
            yield self
        except BaseException:  # whoever drives it was interrupted, here or in `settle`
            self._group.withdraw(self)
            raise

    def settle(self) -> None:
        if self.done:
            return  # with the batch of another
        self._group.give_way(self)
        self._group.mutex.run(self._until_done)

    def _until_done(self) -> None:
        while not self.done:
            if not self._group.drain():
                self.fail(_interrupted())

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
    """The queue in front of one writer.

    `execute` settles every ticket of a batch, and of those that it let `join` the batch.
    """

    def __init__(self, execute: Callable[[list[Ticket]], None]) -> None:
        self.mutex = Turnstile()
        self._pid = os.getpid()
        self._queue: deque[Ticket] = deque()
        self._execute = execute
        self._in_company = False
        """Whether the last one that may have company had some, or had it come too late."""

    def submit(self, intent: Intent) -> Ticket:
        ticket = Ticket(self, intent)
        if self._pid != os.getpid():  # what was queued before a fork is for the parent to commit
            self._pid, self._queue = os.getpid(), deque()
        self._queue.append(ticket)
        return ticket

    def withdraw(self, ticket: Ticket) -> None:
        """Take back a commit that nobody has begun: it must not happen behind its owner's back."""
        with suppress(ValueError):
            self._queue.remove(ticket)

    def give_way(self, ticket: Ticket) -> None:
        """Let the threads run first that are ready, where one of them is likely to join.

        A thread that lets go of the interpreter for less than it takes another one to wake up has
        it back at once. So the other would get it at our sync, and then make one of its own.
        """
        if self._in_company and isinstance(ticket.intent, Accompanied) and len(self._queue) == 1:
            time.sleep(MOMENT)

    def drain(self) -> int:
        """Commit what is queued, and tell how much it was. The caller holds the mutex."""
        batch: list[Ticket] = []
        try:
            self.join(batch)
            self._execute(batch)
        finally:
            for ticket in batch:
                if not ticket.done:
                    ticket.fail(_interrupted())
        if any(isinstance(ticket.intent, Accompanied) for ticket in batch):
            self._in_company = len(batch) > 1 or bool(self._queue)
        return len(batch)

    def join(self, batch: list[Ticket]) -> bool:
        """Take into a batch what has queued by now, and tell whether anything has."""
        known = len(batch)
        while self._queue and len(batch) < BATCH:
            batch.append(self._queue.popleft())
        return len(batch) > known


def _interrupted() -> StorageError:
    return StorageError(
        "the commit was interrupted; its outcome is unknown.",
        hint="Look at the head before you save again.",
    )
