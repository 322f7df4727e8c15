"""The rules of removal: of one checkpoint, of many, of parts that nobody needs, of a whole thread.

Pure decisions. What is thought out beforehand, over much that was read, says how the thread was
then; where it is not so any more, nothing is written, and the answer is False.
"""

from __future__ import annotations

from collections.abc import Container, Iterable, Mapping
from dataclasses import dataclass
from typing import NamedTuple

from lastgood.commits import NOTHING, Found, Loose, Place, Removing, Scope, Taken, Writes
from lastgood.item_rules import ItemDraft, changed
from lastgood.rows import DELETED, BranchRow, CheckpointRow, ThreadRow


@dataclass(frozen=True, slots=True)
class Expire(Removing):
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
        return Writes(
            thread=_without(thread, [row]),
            branches=tuple(
                branch._replace(head=tip.id if tip else b"") for branch, tip in found.fallbacks
            ),
            removed=(row,),
            answer=not row.expired(max(found.now, thread.updated_at)),
        )


class Seen(NamedTuple):
    """A thread as somebody saw it: the numbers that every save and every removal changes."""

    thread: int
    seq: int
    checkpoints: int

    @classmethod
    def of(cls, row: ThreadRow) -> Seen:
        return cls(row.thread, row.seq, row.checkpoints)


@dataclass(frozen=True, slots=True)
class Remove(Removing):
    """Remove checkpoints and change items, if the thread is as it was when this was thought out.

    Heads do not move without a save or a removal, so `branches` are right as they are given.
    """

    tenant: str
    name: str
    seen: Seen
    ids: tuple[bytes, ...]
    branches: tuple[BranchRow, ...] = ()
    puts: tuple[ItemDraft, ...] = ()
    drops: tuple[Place, ...] = ()

    @property
    def scope(self) -> Scope:
        items = (*(draft.place for draft in self.puts), *self.drops)
        return Scope(self.tenant, self.name, ids=self.ids, items=tuple(dict.fromkeys(items)))

    def decide(self, found: Found, taken: Taken = NOTHING) -> Writes:  # noqa: ARG002
        thread = found.live
        if thread is None or Seen.of(thread) != self.seen:
            return Writes(answer=False)
        # The newest first: what is left then falls back to what is there.
        removed = sorted(found.rows.values(), key=lambda row: -row.seq)
        change = changed(_without(thread, removed), found, self.puts, self.drops)
        return Writes(
            thread=change.thread,
            branches=self.branches,
            removed=tuple(removed),
            items=change.items,
            dropped=change.dropped,
            answer=True,
        )


def _without(thread: ThreadRow, removed: list[CheckpointRow]) -> ThreadRow:
    left = thread._replace(
        checkpoints=thread.checkpoints - len(removed),
        expiring=thread.expiring - sum(row.expires_at is not None for row in removed),
        size=max(0, thread.size - sum(len(row.manifest) for row in removed)),
    )
    gone = any(row.id == thread.newest for row in removed)
    return left._replace(newest=b"", last_step=None) if gone else left


class Link(NamedTuple):
    """A checkpoint as far as the way back from it leads over it."""

    lane: int
    before: bytes


def fallen(
    branches: Iterable[BranchRow], links: Mapping[bytes, Link], doomed: Container[bytes]
) -> tuple[BranchRow, ...]:
    """The branches whose heads are doomed, at their nearest ancestors in the lane that are not."""
    moved = []
    for branch in branches:
        if branch.head not in links or branch.head not in doomed:
            continue
        at = branch.head
        while at in doomed and links[at].before in links:
            at = links[at].before
        left = at not in doomed and links[at].lane == branch.lane
        moved.append(branch._replace(head=at if left else b""))
    return tuple(moved)


@dataclass(frozen=True, slots=True)
class Sweep(Removing):
    """Drop parts that no checkpoint needs, if nothing was saved since that was found out.

    A save is the only way to need a part that is there already.
    """

    tenant: str
    name: str
    seen: ThreadRow
    loose: tuple[Loose, ...]

    @property
    def scope(self) -> Scope:
        return Scope(self.tenant, self.name)

    def decide(self, found: Found, taken: Taken = NOTHING) -> Writes:  # noqa: ARG002
        thread, seen = found.live, self.seen
        if thread is None or (thread.thread, thread.seq) != (seen.thread, seen.seq):
            return Writes(answer=False)
        if thread.size != seen.size:
            return Writes(answer=False)  # carried out already, or by another: it counts once
        size = max(0, thread.size - sum(part.size for part in self.loose))
        return Writes(thread=thread._replace(size=size), swept=self.loose, answer=True)


@dataclass(frozen=True, slots=True)
class Delete(Removing):
    """End a thread's incarnation: everything goes but a tombstone."""

    tenant: str
    thread: str
    seen: ThreadRow | None = None
    """Only if it is so still: nobody has saved, tagged, kept an item or begun a run."""

    @property
    def scope(self) -> Scope:
        return Scope(self.tenant, self.thread)

    def decide(self, found: Found, taken: Taken = NOTHING) -> Writes:  # noqa: ARG002
        thread = found.thread
        if thread is None or thread.state == DELETED:
            return Writes(answer=False)
        if self.seen is not None and thread != self.seen:
            return Writes(answer=False)
        tombstone = thread.emptied()._replace(state=DELETED)
        return Writes(wiped=tombstone, answer=True)
