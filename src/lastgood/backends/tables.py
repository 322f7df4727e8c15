"""Looking at rows: what a commit needs to see, composed from a few lookups by key.

Owns the order of lookups and what has to agree with what; a backend that can look up rows by key
(SQLite, memory) gives the lookups. The one invariant: a row that should be there and is not is an
integrity error, never an absence.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Collection, Sequence
from typing import Literal, NamedTuple

from lastgood.backend import Listing
from lastgood.backends.audits import absent, audit, audit_head, damaged_in
from lastgood.commits import NOTHING, Found, Place, Scope, Taken, Writes
from lastgood.errors import CheckpointIntegrityError
from lastgood.manifest import Spot
from lastgood.rows import (
    BranchRow,
    CheckpointRow,
    ItemRow,
    LaneRow,
    MoveRow,
    R,
    RunRow,
    TagRow,
    ThreadRow,
    doomed_item,
    earlier,
    intact,
    unsealed,
)

COUNTED = 256
"""Of a thread with at most so many checkpoints, all are accounted for; so many items, lanes,
branches and tags likewise. To account for more would make each step cost what came before it."""

Fallbacks = tuple[tuple[BranchRow, CheckpointRow | None], ...]


class Line(NamedTuple):
    """A branch of a lane; `head` is the current branch's if `branch` is not there."""

    thread: ThreadRow | None = None
    lane: LaneRow | None = None
    branch: BranchRow | None = None
    head: CheckpointRow | None = None


class Tables(ABC):
    """The rows of a store at one moment of its clock."""

    clock: int

    # lookups by key: what a backend provides

    @abstractmethod
    def thread(self, tenant: str, name: str) -> ThreadRow | None: ...
    @abstractmethod
    def thread_by_key(self, key: int) -> ThreadRow | None: ...
    @abstractmethod
    def lane(self, thread: int, agent: str) -> LaneRow | None: ...
    @abstractmethod
    def lane_columns(
        self, thread: int, numbers: Collection[int] | None = None
    ) -> Sequence[Sequence[object]]:
        """The lanes of a thread as they are stored; with `numbers`, at least those."""

    @abstractmethod
    def branch(self, thread: int, lane: int, name: str) -> BranchRow | None: ...
    @abstractmethod
    def branches(self, thread: int) -> list[BranchRow]: ...
    @abstractmethod
    def checkpoint(self, thread: int, id: bytes) -> CheckpointRow | None: ...
    @abstractmethod
    def checkpoints(self, id: bytes) -> list[CheckpointRow]:
        """Every checkpoint with that id: one per tenant at most."""

    @abstractmethod
    def newest_move(self, thread: int, lane: int) -> MoveRow | None:
        """The newest entry in a lane's log."""

    @abstractmethod
    def tag(self, thread: int, name: str) -> TagRow | None: ...
    @abstractmethod
    def tags(self, thread: int) -> list[TagRow]: ...
    @abstractmethod
    def run(self, thread: int, lane: int) -> RunRow | None:
        """The newest run of a lane."""

    @abstractmethod
    def newest_run(self, thread: int) -> RunRow | None: ...
    @abstractmethod
    def item(self, thread: int, shelf: str, key: bytes) -> ItemRow | None: ...
    @abstractmethod
    def item_columns(self, thread: int, places: Sequence[Place]) -> dict[Place, Sequence[object]]:
        """Those items of a thread that are there, as they are stored."""

    @abstractmethod
    def item_count(self, thread: int) -> int: ...
    @abstractmethod
    def large(self, thread: int, digests: Sequence[bytes]) -> dict[bytes, Spot]: ...
    @abstractmethod
    def scan(
        self, thread: int, lane: int | None, listing: Listing, now: int
    ) -> list[CheckpointRow]:
        """Live checkpoints, newest first."""

    @abstractmethod
    def checkpoint_at(self, thread: int, seq: int) -> CheckpointRow | None: ...
    @abstractmethod
    def seqs(self, thread: int) -> list[int]:
        """Every seq of a thread, in stored order."""

    def verified(self, cls: type[R], columns: Sequence[object]) -> R:
        """The row behind stored values. A store may know values that it has verified before."""
        return unsealed(cls, columns)

    # the same for several at once: a store that is a round trip away does better

    def checkpoints_at(self, thread: int, seqs: Sequence[int]) -> list[CheckpointRow | None]:
        """Checkpoints of a thread by their numbers."""
        return [self.checkpoint_at(thread, seq) for seq in seqs]

    def checkpoints_of(self, thread: int, ids: Sequence[bytes]) -> list[CheckpointRow | None]:
        """Checkpoints of a thread by their ids."""
        return [self.checkpoint(thread, id) for id in ids]

    def items_at(self, thread: int, places: Sequence[Place]) -> list[ItemRow | None]:
        """Items of a thread by shelf and key."""
        return [self.item(thread, *place) for place in places]

    # what commits and reads see

    def lanes(self, thread: int, numbers: Collection[int] | None = None) -> list[LaneRow]:
        """The lanes of a thread, or at least some of them, none of them damaged."""
        return [self.verified(LaneRow, columns) for columns in self.lane_columns(thread, numbers)]

    def now_in(self, thread: ThreadRow) -> int:
        """The clock never runs behind the newest time in the thread."""
        return max(self.clock, thread.updated_at)

    def look(self, scope: Scope) -> Found:
        """Everything that a scope asks for."""
        return self.found_on(self.line(scope), scope)

    def found_on(self, line: Line, scope: Scope) -> Found:
        """The same, where the line is known."""
        thread, lane, branch, head = line
        rows = {}
        for id in scope.ids:
            row = head if head and head.id == id else self.of_tenant(id, scope.tenant)
            if row is not None:
                rows[id] = row
        if thread is None:
            return Found(now=self.clock, rows=rows)
        now = self.now_in(thread)
        if not thread.live:
            return Found(now=now, thread=thread, rows=rows)
        audit_head(thread, head)
        return Found(
            now=now,
            thread=thread,
            lane=lane,
            branch=branch,
            head=head,
            tip=self.nearest_live(head, now),
            run=self._run_of(thread, lane) if lane and scope.run else None,
            move=self._audited_move(thread, lane) if lane and scope.move else None,
            tag=self._audited_tag(thread, scope.tag) if scope.tag is not None else None,
            rows=rows,
            agents=self._agents(thread, lane, rows.values()),
            large=self.large(thread.thread, scope.large) if scope.large else {},
            fallbacks=self._fallbacks(thread, scope.heads_at) if scope.heads_at else (),
            items=self._audited_items(thread, scope) if scope.items else {},
        )

    def line(self, scope: Scope) -> Line:
        """Thread, lane, branch and head, each audited where it is not there."""
        thread = self.thread(scope.tenant, scope.thread)
        if thread is None or not thread.live or scope.agent is None:
            return Line(thread)
        lane = self.audited_lane(thread, scope.agent)
        if lane is None:
            return Line(thread)
        branch = self._branch(thread, lane, scope.branch)
        followed = branch or self._branch(thread, lane, None)
        return Line(thread, lane, branch, self.head(followed) if followed else None)

    def audited_lane(self, thread: ThreadRow, agent: str) -> LaneRow | None:
        """A lane, or None where it is certain that there is none."""
        lane = self.lane(thread.thread, agent)
        if lane is None and thread.lanes:
            self.confirm_no_lane(thread, agent)
        return lane

    def confirm_no_lane(self, thread: ThreadRow, agent: str) -> None:
        """A lane that is not there is believed if all are accounted for, or there are many."""
        if thread.lanes <= COUNTED:
            self.account_for_lanes(thread, agent)

    def account_for_lanes(self, thread: ThreadRow, missing: str) -> None:
        """Every lane that was counted is there, and none of them is the one that was not found."""
        lanes = self.lanes(thread.thread)
        audit(thread, len(set(lanes)), thread.lanes, "lane")
        absent(thread, missing not in [row.agent for row in lanes], "lane")

    def _branch(self, thread: ThreadRow, lane: LaneRow, name: str | None) -> BranchRow | None:
        key = lane.number, name or lane.current
        branch = self.branch(thread.thread, *key)
        if branch is None and thread.branches:
            self.confirm_no_branch(thread, *key)
        return branch

    def confirm_no_branch(self, thread: ThreadRow, lane: int, name: str) -> None:
        """The same for a branch: a name that is free costs no look at all that are taken."""
        if thread.branches <= COUNTED:
            self.account_for_branches(thread, lane, name)

    def account_for_branches(self, thread: ThreadRow, lane: int, name: str) -> None:
        """Every branch that was counted is there, and none of them is the missing one."""
        known = [(row.lane, row.name) for row in self.audited_branches(thread)]
        absent(thread, (lane, name) not in known, "branch")

    def _run_of(self, thread: ThreadRow, lane: LaneRow) -> RunRow | None:
        newest = self.audited_run(thread)
        if newest is None or newest.lane == lane.number:
            return newest
        return self.run(thread.thread, lane.number)

    def audited_run(self, thread: ThreadRow) -> RunRow | None:
        """The newest run of a thread, which must be the last one that was counted."""
        newest = self.newest_run(thread.thread)
        audit(thread, newest.number if newest else 0, thread.runs, "run")
        return newest

    def _audited_move(self, thread: ThreadRow, lane: LaneRow) -> MoveRow | None:
        if not lane.moves:
            return None
        newest = self.newest_move(thread.thread, lane.number)
        audit(thread, newest.number if newest else 0, lane.moves, "move")
        return newest

    def _audited_tag(self, thread: ThreadRow, name: str) -> TagRow | None:
        if not thread.tags:
            return None
        found = self.tag(thread.thread, name)
        if found is None:
            self.confirm_no_tag(thread, name)
        return found

    def confirm_no_tag(self, thread: ThreadRow, name: str) -> None:
        """The same for a tag."""
        if thread.tags <= COUNTED:
            self.account_for_tags(thread, name)

    def account_for_tags(self, thread: ThreadRow, missing: str) -> None:
        """Every tag that was counted is there, and none of them is the missing one."""
        absent(thread, missing not in [row.name for row in self.audited_tags(thread)], "tag")

    def audited_tags(self, thread: ThreadRow) -> list[TagRow]:
        if not thread.tags:
            return []
        tags = self.tags(thread.thread)
        audit(thread, len(set(tags)), thread.tags, "tag")
        return tags

    def _audited_items(self, thread: ThreadRow, scope: Scope) -> dict[Place, ItemRow]:
        if not thread.items:
            return {}
        wanted = scope.items
        rows = zip(wanted, self._items_or_doomed(thread, scope), strict=True)
        found = {place: row for place, row in rows if row is not None}
        if len(found) < len(wanted):
            self.audit_items(thread, [place for place in wanted if place not in found])
        return found

    def _items_or_doomed(self, thread: ThreadRow, scope: Scope) -> list[ItemRow | None]:
        """A damaged item is an error, unless it is about to go."""
        try:
            return self.items_at(thread.thread, scope.items)
        except CheckpointIntegrityError as error:
            stored = self.item_columns(thread.thread, scope.items)
            kept = [columns for place, columns in stored.items() if place not in scope.doomed]
            if not all(intact(ItemRow, columns) for columns in kept):
                raise damaged_in(thread, error) from error
        found = {place: doomed_item(place, columns) for place, columns in stored.items()}
        return [found.get(place) for place in scope.items]

    def audit_items(self, thread: ThreadRow, missing: Sequence[Place] = ()) -> None:  # noqa: ARG002
        """An item that is not there is believed if all are accounted for, or there are many."""
        if 0 < thread.items <= COUNTED:
            audit(thread, self.item_count(thread.thread), thread.items, "item")

    def audited_branches(self, thread: ThreadRow) -> list[BranchRow]:
        branches = self.branches(thread.thread)
        audit(thread, len(set(branches)), thread.branches, "branch")
        return branches

    def head(self, branch: BranchRow) -> CheckpointRow | None:
        """The checkpoint that a branch names."""
        if not branch.head:
            return None
        row = self.checkpoint(branch.thread, branch.head)
        if row is None:
            raise CheckpointIntegrityError(
                f"the head of branch {branch.name!r}, checkpoint {branch.head.hex()}, is missing."
            )
        return row

    def owned(self, id: bytes, tenant: str) -> tuple[CheckpointRow, ThreadRow] | None:
        """A checkpoint of a tenant by its id, and its thread."""
        for row in self.checkpoints(id):
            owner = self.owner(row)
            if owner.tenant == tenant:
                return row, owner
        return None

    def owner(self, row: CheckpointRow) -> ThreadRow:
        """The thread of a checkpoint."""
        thread = self.thread_by_key(row.thread)
        if thread is None:
            raise CheckpointIntegrityError(f"the thread of checkpoint {row.label} is missing.")
        return thread

    def of_tenant(self, id: bytes, tenant: str) -> CheckpointRow | None:
        found = self.owned(id, tenant)
        return found[0] if found else None

    def nearest_live(self, row: CheckpointRow | None, now: int) -> CheckpointRow | None:
        """The row, or its nearest ancestor in the lane that is not over its time."""
        while row is not None and row.expired(now):
            row = self.before(row)
        return row

    def before(self, row: CheckpointRow) -> CheckpointRow | None:
        """The nearest ancestor that is there, if it is in the same lane."""
        found = self.followed(row)
        return found if found is not None and found.lane == row.lane else None

    def followed(self, row: CheckpointRow) -> CheckpointRow | None:
        """The nearest ancestor that is there, in whichever lane."""
        if not row.before:
            return None
        found = self.checkpoint(row.thread, row.before)
        if found is None:
            raise CheckpointIntegrityError(
                f"checkpoint {row.before.hex()}, which {row.label} follows, is missing."
            )
        return earlier(row, found)

    def _fallbacks(self, thread: ThreadRow, id: bytes) -> Fallbacks:
        row = self.checkpoint(thread.thread, id)
        if row is None:
            return ()
        before = self.before(row)
        return tuple((b, before) for b in self.audited_branches(thread) if b.head == id)

    def _agents(
        self, thread: ThreadRow, lane: LaneRow | None, rows: Collection[CheckpointRow]
    ) -> dict[int, str]:
        known = {lane.number: lane.agent} if lane else {}
        others = {row.lane for row in rows if row.thread == thread.thread} - known.keys()
        if not others:
            return known
        return known | {row.number: row.agent for row in self.lanes(thread.thread, others)}


def taken(tables: Tables, writes: Writes, grown: Callable[[Spot, int], bool]) -> Taken:
    """What stands in the way of a decision: grown streams, a branch of the same name.

    `grown` tells whether a stream has any of so many numbers from one on: a sweep leaves holes, so
    that the first of them is free does not say that the others are.
    """
    found: set[Literal["stream", "branch", "id"]] = set()
    if writes.opens and tables.branch(*writes.branches[0][:3]) is not None:
        found.add("branch")
    numbers: dict[int, list[int]] = {}
    for part in writes.parts:
        numbers.setdefault(part.slot, []).append(part.number)
    for slot, wanted in numbers.items():
        stream = writes.slots[slot].stream
        if stream and grown(Spot(stream, wanted[0]), len(wanted)):
            found.add("stream")
    return frozenset(found)


def met(tables: Tables, writes: Writes) -> Taken:
    """Whether a checkpoint that comes from another store has the id of one that is there."""
    if not writes.brought:
        return NOTHING
    assert writes.thread is not None, "what comes, comes with its thread"
    tenant = writes.thread.tenant
    known = any(tables.owned(each.row.id, tenant) for each in writes.brought)
    return frozenset({"id"}) if known else NOTHING
