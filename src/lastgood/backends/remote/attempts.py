"""A commit on its way to a server: what it wants, how often it was tried, what is known of it."""

from __future__ import annotations

import random
import time
from collections.abc import Awaitable, Callable
from typing import TypeVar

from lastgood.backends.remote.changes import Aim, Decision
from lastgood.backends.remote.queries import ThreadName
from lastgood.commits import NOTHING, Accompanied, Intent, Taken, Writes
from lastgood.driver import pause
from lastgood.errors import StorageError, TransientStorageError
from lastgood.item_rules import Outcome as ItemOutcome
from lastgood.run_rules import Settle

T = TypeVar("T")

_CHANCE = random.SystemRandom()  # a program that seeds `random` has its numbers for itself
PATIENCE = 30.0
"""Seconds after which an operation that meets lost connections or faster writers gives up: at the
end of the attempt that it is at."""
_NOTHING = "Nothing was changed."
_IN_DOUBT = (
    "Whether it was kept is unknown: going on with the run, or saving again under the same "
    "checkpoint_id, settles it."
)


class Attempt:
    """A commit on its way."""

    def __init__(self, intent: Intent) -> None:
        self.aim = Aim.of(intent)
        self.place = self.aim.place
        self.refused: Taken = NOTHING
        self.tries = Tries()
        self.doubtful: Decision | None = None
        """What was sent first, if nobody knows whether it was carried out."""
        self.writes: Writes | None = None
        """What became of it, once that is known."""
        self.sent: Decision | None = None
        """What is on its way for it in a change of somebody else."""
        self.begun = False
        """Whether it has had its turn."""
        self.alone = not isinstance(intent, Accompanied)
        """Whether it takes nobody along."""

    def begin(self) -> None:
        """It has its turn, or goes on without: then what is on its way for it may be there."""
        self.begun = True
        self.tries = Tries()  # how long it waited is not its own time
        if self.sent is not None:
            self.doubt(self.sent)

    def doubt(self, decision: Decision) -> None:
        """Nobody knows whether this was carried out: next time it may be there."""
        self.doubtful = self.doubtful or decision
        self.again()

    def again(self) -> None:
        """Want the same once more, as something that was sent before."""
        self.aim = Aim.of(self.aim.intent.again())

    def failed(self, error: StorageError) -> StorageError:
        """What the caller is told that gets no answer."""
        if self.doubtful is not None:
            error.in_doubt = True
            error.hint = f"{error.hint} {_IN_DOUBT}".lstrip()
        elif isinstance(error, TransientStorageError):
            error.hint = f"{error.hint} {_NOTHING}".lstrip()
        return error

    def left(self, decision: Decision) -> Decision:
        """What is left to do of a decision that the store was asked about.

        Where others have changed all that was to be changed, they did so at the same time as the
        first attempt or behind it. It counts as done before them, or it would undo theirs.
        """
        first = self.doubtful
        if first is None or decision.change is None or not _overtaken(first, decision):
            return decision
        return Decision(first.writes, decision.found, None)

    def told(self, decision: Decision) -> Writes:
        """What the caller is told: where nothing was left to do, that it was done by this commit.

        A save and a run are recognised by their ids, and told as they are stored; and what became
        of them is told as it is by now. Items that are neither as they were expected nor as they
        were to become were changed by somebody else.
        """
        writes, first = decision.writes, self.doubtful and self.doubtful.writes
        if first is None or first.checkpoint is not None or first.run is not None:
            return writes
        if isinstance(self.aim.intent, Settle):
            return writes
        if isinstance(writes.answer, ItemOutcome) and not writes.answer.done:
            return writes
        return first if decision.change is None else writes._replace(answer=first.answer)


def _overtaken(first: Decision, now: Decision) -> bool:
    """Whether a thread that was to go has begun anew, or what items were found has changed."""
    writes, ended, ending = first.writes, first.writes.wiped, now.writes.wiped
    if ended is not None and ending is not None:
        return ended.thread != ending.thread
    if writes._replace(thread=None, items=(), dropped=(), answer=None) != Writes():
        return False
    was, live = first.found.live, now.found.live
    if was is not None and (live is None or live.thread != was.thread):
        return True
    before, found = first.found.items, now.found.items
    places = [row.place for row in (*writes.items, *writes.dropped)]
    return bool(places) and all(found.get(place) != before.get(place) for place in places)


class Tries:
    """How often and how long an operation has been at it."""

    def __init__(self) -> None:
        self._count = 0
        self._until = time.monotonic() + PATIENCE

    async def of(self, work: Callable[[], Awaitable[T]]) -> T:
        """Do what may be done twice, once more where a connection was lost."""
        while True:
            try:
                return await work()
            except TransientStorageError as error:
                await self.again(error)

    async def again(self, error: TransientStorageError) -> None:
        """Wait a little, longer each time; raises the error when it has been long enough."""
        self._count += 1
        if time.monotonic() > self._until:
            raise error
        await pause(_CHANCE.uniform(0, min(0.5, 0.001 * 2**self._count)))


def too_busy(place: ThreadName) -> TransientStorageError:
    """What a writer is told that was never the fastest."""
    return TransientStorageError(
        f"thread {place.name!r} has so many writers that this one never got its turn.",
        hint="Let fewer writers share a thread, or try again. If there are no others, a policy or "
        "a trigger of the database keeps this one from changing the thread's row.",
    )
