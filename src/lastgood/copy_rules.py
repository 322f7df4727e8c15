"""The rules of copying: how a thread of another store arrives here, piece by piece.

Pure decisions, like all rules. The one invariant: a thread that is arriving is seen by nobody until
its last piece is there. Each piece says where the one before it ended; where the thread is not at
that place, nothing is written, and the answer is False: the copier looks again.
"""

from __future__ import annotations

from dataclasses import dataclass

from lastgood.commits import NOTHING, Brought, Found, Removing, Repeatable, Scope, Taken, Writes
from lastgood.errors import CheckpointConflictError
from lastgood.rows import ARRIVING, DELETED, Row, ThreadRow


@dataclass(frozen=True, slots=True)
class Bring(Repeatable):
    """Write the next piece of a thread."""

    thread: ThreadRow
    """The row after this piece, with the key 0 if it is the first one."""
    after: int = 0
    """The seq of the last checkpoint of the pieces before."""
    rows: tuple[Row, ...] = ()
    brought: tuple[Brought, ...] = ()

    @property
    def scope(self) -> Scope:
        return Scope(self.thread.tenant, self.thread.name)

    def decide(self, found: Found, taken: Taken = NOTHING) -> Writes:
        if taken:
            raise CheckpointConflictError(
                f"thread {self.thread.name!r} cannot be copied: a checkpoint with the id of one of "
                "its own is in another thread there.",
                hint="Copy it for another tenant, or remove the other thread.",
            )
        if not self._fits(found.thread):
            return Writes(answer=False)
        return Writes(thread=self.thread, rows=self.rows, brought=self.brought, answer=True)

    def _fits(self, there: ThreadRow | None) -> bool:
        if there is None or there.state == DELETED:
            return not self.thread.thread and (
                there is None or there.incarnation < self.thread.incarnation
            )
        place = (there.thread, there.state, there.seq)
        return place == (self.thread.thread, ARRIVING, self.after)


@dataclass(frozen=True, slots=True)
class Discard(Removing):
    """Remove what has arrived of a thread: it is another one than the one that is copied now.

    What stays is the tombstone of an incarnation before: this one was never seen here.
    """

    thread: ThreadRow

    @property
    def scope(self) -> Scope:
        return Scope(self.thread.tenant, self.thread.name)

    def decide(self, found: Found, taken: Taken = NOTHING) -> Writes:  # noqa: ARG002
        there = found.thread
        if there is None or there.state != ARRIVING or there.thread != self.thread.thread:
            return Writes(answer=False)
        before = there.emptied()._replace(state=DELETED, incarnation=there.incarnation - 1)
        return Writes(wiped=before, answer=True)


@dataclass(frozen=True, slots=True)
class Entomb(Removing):
    """Take over that a thread was deleted: late writers learn it, and pieces of it go.

    A copy removes nothing that was ever seen. Where the thread is there still, the answer is False.
    """

    thread: ThreadRow
    """The row of the incarnation that ended."""

    @property
    def scope(self) -> Scope:
        return Scope(self.thread.tenant, self.thread.name)

    def decide(self, found: Found, taken: Taken = NOTHING) -> Writes:  # noqa: ARG002
        ended, there = self.thread, found.thread
        if there is None:
            tombstone = ended.emptied()._replace(thread=0, state=DELETED)
            return Writes(thread=tombstone, answer=True)
        if there.state == ARRIVING:
            incarnation = max(there.incarnation, ended.incarnation)
            tombstone = there.emptied()._replace(state=DELETED, incarnation=incarnation)
            return Writes(wiped=tombstone, answer=True)
        return Writes(answer=not (there.live and self._is_of(there)))

    def _is_of(self, there: ThreadRow) -> bool:
        """Whether a thread has not begun after that end; one that was revived has its old time."""
        ended = self.thread
        return there.incarnation <= ended.incarnation or there.created_at == ended.created_at
