"""The rules of removal: expiring one checkpoint, deleting a whole thread. Pure decisions."""

from __future__ import annotations

from dataclasses import dataclass

from lastgood.commits import NOTHING, Found, Repeatable, Scope, Taken, Writes
from lastgood.rows import DELETED


@dataclass(frozen=True, slots=True)
class Expire(Repeatable):
    """Remove one checkpoint; branches that ended at it fall back to the nearest live ancestor."""

    tenant: str
    thread: str
    id: bytes

    @property
    def scope(self) -> Scope:
        return Scope(self.tenant, self.thread, ids=(self.id,), heads_at=self.id)

    def decide(self, found: Found, taken: Taken = NOTHING) -> Writes:  # noqa: ARG002
        row = found.rows.get(self.id)
        thread = found.live
        if row is None or thread is None or row.thread != thread.thread:
            return Writes(answer=False)
        thread = thread._replace(
            checkpoints=thread.checkpoints - 1,
            expiring=thread.expiring - (row.expires_at is not None),
        )
        if thread.newest == row.id:
            thread = thread._replace(newest=b"", last_step=None)
        return Writes(
            thread=thread,
            branches=tuple(
                branch._replace(head=tip.id if tip else b"") for branch, tip in found.fallbacks
            ),
            removed=(row,),
            answer=not row.expired(max(found.now, thread.updated_at)),
        )


@dataclass(frozen=True, slots=True)
class Delete(Repeatable):
    """End a thread's incarnation: everything goes but a tombstone."""

    tenant: str
    thread: str

    @property
    def scope(self) -> Scope:
        return Scope(self.tenant, self.thread)

    def decide(self, found: Found, taken: Taken = NOTHING) -> Writes:  # noqa: ARG002
        thread = found.thread
        if thread is None or thread.state == DELETED:
            return Writes(answer=False)
        tombstone = thread.emptied()._replace(state=DELETED)
        return Writes(wiped=tombstone, answer=True)
