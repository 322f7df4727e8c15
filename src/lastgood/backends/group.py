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
from lastgood.errors import StorageError, TransientStorageError

BATCH = 256
"""At most so many operations share a transaction: one bad disk block must not hurt thousands."""


class Turnstile:
    """A mutex that says so when its own holder comes again, instead of waiting for ever.

    That is what a signal handler does which saves while a save is under way in its thread.
    """

    def __init__(self) -> None:
        self._lock = threading.RLock()
        self._depth = 0

    def __enter__(self) -> None:
        self.acquire()

    def __exit__(self, *_: object) -> None:
        self.release()

    def acquire(self) -> None:
        """Wait for a turn; raises TransientStorageError if this thread has it already."""
        self._lock.acquire()
        if self._depth:
            self._lock.release()
            raise TransientStorageError(
                "a save is under way in this very thread; a signal handler interrupted it.",
                hint="Let the handler set a flag, and save where the work goes on.",
            )
        self._depth = 1

    def release(self) -> None:
        self._depth = 0
        self._lock.release()


class Ticket(Wait):
    """One queued commit and its outcome."""

    def __init__(self, group: Group, intent: Intent) -> None:
        self._group = group
        self.intent = intent
        self.done = False
        self._writes: Writes | None = None
        self._error: BaseException | None = None

    def settle(self) -> None:
        try:
            with self._group.mutex:
                while not self.done:
                    if not self._group.drain():
                        self.fail(_interrupted())
        except TransientStorageError as error:
            self._group.withdraw(self)
            self.fail(error)

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
        self.mutex = Turnstile()
        self._queue: deque[Ticket] = deque()
        self._execute = execute

    def submit(self, intent: Intent) -> Ticket:
        ticket = Ticket(self, intent)
        self._queue.append(ticket)
        return ticket

    def withdraw(self, ticket: Ticket) -> None:
        """Take back a commit that nobody has begun."""
        self._queue.remove(ticket)

    def drain(self) -> int:
        """Commit what is queued, and tell how much it was. The caller holds the mutex."""
        batch: list[Ticket] = []
        try:
            while self._queue and len(batch) < BATCH:
                batch.append(self._queue.popleft())
            self._execute(batch)
        finally:
            for ticket in batch:
                if not ticket.done:
                    ticket.fail(_interrupted())
        return len(batch)


def _interrupted() -> StorageError:
    return StorageError(
        "the commit was interrupted; its outcome is unknown.",
        hint="Look at the head, or save again with the same checkpoint_id.",
    )
