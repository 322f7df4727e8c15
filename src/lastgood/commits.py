"""The protocol between an operation and the atomic commit that carries it out.

An operation hands the backend an `Intent`: what to look at, and a pure `decide` that turns what
was found into what is written. The backend reads, decides and writes as one atomic unit; where
that takes a lock, `decide` runs under it, so it must be quick, must not suspend and must call
nothing that a user gave us. It may be called again (a retry, a stream that somebody else grew).

    Scope   what to look at          Found   what was there          Writes  what to change

The rules of conflicts and heads live in `decide`s, once, for every backend.
"""

from __future__ import annotations

from collections.abc import Mapping
from types import MappingProxyType
from typing import Any, Literal, NamedTuple, Protocol, Self

from lastgood.manifest import Part, Slot, Spot
from lastgood.rows import (
    BranchRow,
    CheckpointRow,
    ItemRow,
    LaneRow,
    MoveRow,
    Row,
    RunRow,
    TagRow,
    ThreadRow,
)

Place = tuple[str, bytes]
"""Shelf and key of an item."""
NONE: Mapping[Any, Any] = MappingProxyType({})


class Scope(NamedTuple):
    """Which rows an operation needs to see. `branch=None` means the lane's current one."""

    tenant: str
    thread: str
    agent: str | None = None
    branch: str | None = None
    ids: tuple[bytes, ...] = ()
    large: tuple[bytes, ...] = ()
    """Digests of large new pages, to be found again in the thread."""
    run: bool = False
    """Whether the lane's newest run is wanted."""
    move: bool = False
    """Whether the newest entry of the lane's log is wanted."""
    tag: str | None = None
    """The name of a tag that is wanted."""
    heads_at: bytes = b""
    """A checkpoint whose branches are wanted, with what each would fall back to without it."""
    items: tuple[Place, ...] = ()
    """Where items are wanted from: the pairs of shelf and key."""
    doomed: tuple[Place, ...] = ()
    """Those of them that go whatever they hold: that one is damaged is no error."""
    novel: bool = False
    """Whether those that are about to be written are hardly ever there: a store that is a round
    trip away need not look, if it finds out when it writes."""

    @property
    def is_line(self) -> bool:
        """Whether nothing is wanted but thread, lane, branch and head."""
        return not any(self[_BEHIND_LINE:])


_BEHIND_LINE = Scope._fields.index("branch") + 1


class Found(NamedTuple):
    """What stands in the store at the moment of the commit.

    `head` is the row that the branch names; `tip` is the one it reads as: the same, or its nearest
    live ancestor on the branch when the head is over its time. Where the branch asked for is not
    there, `branch` is None, and `head` and `tip` are those of the current one.
    """

    now: int
    thread: ThreadRow | None = None
    lane: LaneRow | None = None
    branch: BranchRow | None = None
    head: CheckpointRow | None = None
    tip: CheckpointRow | None = None
    run: RunRow | None = None
    """The newest run of the lane."""
    move: MoveRow | None = None
    """The newest entry of the lane's log."""
    tag: TagRow | None = None
    rows: Mapping[bytes, CheckpointRow] = NONE
    agents: Mapping[int, str] = NONE
    """Lane numbers to agent ids, for the lane and for every row found."""
    large: Mapping[bytes, Spot] = NONE
    fallbacks: tuple[tuple[BranchRow, CheckpointRow | None], ...] = ()
    items: Mapping[Place, ItemRow] = NONE
    """Those that are stored, over their time or not."""

    @property
    def live(self) -> ThreadRow | None:
        """The thread, unless it was deleted."""
        return self.thread if self.thread is not None and self.thread.live else None


class Brought(NamedTuple):
    """A checkpoint of another store that is taken over as it is, with the parts that are new here.

    In its slots a negative number stands for a stream that is new here, the same one throughout a
    commit.
    """

    row: CheckpointRow
    slots: tuple[Slot, ...]
    parts: tuple[Part, ...] = ()


class Loose(NamedTuple):
    """A part that no checkpoint needs any more."""

    spot: Spot
    size: int
    digest: bytes = b""
    """Under which it is found again as a large one, if it is."""


class Writes(NamedTuple):
    """What a commit changes; None and empty mean "leave as it is"."""

    thread: ThreadRow | None = None
    """Inserted when its key is 0 (in the place of a deleted one of that name), else updated."""
    lane: LaneRow | None = None
    branches: tuple[BranchRow, ...] = ()
    opens: bool = False
    """Whether the first of `branches` is new: its name must not be taken."""
    run: RunRow | None = None
    move: MoveRow | None = None
    tag: TagRow | None = None
    untagged: TagRow | None = None
    checkpoint: CheckpointRow | None = None
    slots: tuple[Slot, ...] = ()
    parts: tuple[Part, ...] = ()
    removed: tuple[CheckpointRow, ...] = ()
    """Checkpoints to remove; their children are marked `parent_gone` in the same commit."""
    swept: tuple[Loose, ...] = ()
    """Parts to remove. A store in which each checkpoint has copies of its own never gets any."""
    items: tuple[ItemRow, ...] = ()
    """Items to insert, each in the place of the one that is there."""
    dropped: tuple[ItemRow, ...] = ()
    """Items to remove."""
    rows: tuple[Row, ...] = ()
    """Lanes, branches, moves, tags, runs and items of another store, taken over as they are."""
    brought: tuple[Brought, ...] = ()
    """Checkpoints of another store, in the order of their seq."""
    wiped: ThreadRow | None = None
    """A thread of which nothing but this tombstone stays."""
    answer: object = None
    """What the operation wants back when nothing has to be written."""

    def bound(self, thread: int) -> Writes:
        """The same with the key of a new thread filled in everywhere."""
        return self._replace(
            lane=self.lane and self.lane._replace(thread=thread),
            branches=tuple(branch._replace(thread=thread) for branch in self.branches),
            run=self.run and self.run._replace(thread=thread),
            move=self.move and self.move._replace(thread=thread),
            checkpoint=self.checkpoint and self.checkpoint._replace(thread=thread),
            items=tuple([item._replace(thread=thread) for item in self.items]),
            rows=tuple([row._replace(thread=thread) for row in self.rows]),
            brought=tuple([b._replace(row=b.row._replace(thread=thread)) for b in self.brought]),
        )


Taken = frozenset[Literal["stream", "branch", "id"]]
NOTHING: Taken = frozenset()


class Writable(Protocol):
    """Rows that a commit can look at and ask whether a decision can be carried out."""

    def look(self, scope: Scope) -> Found: ...
    def taken(self, writes: Writes) -> Taken: ...


def decided(rows: Writable, intent: Intent) -> Writes:
    """Look and decide; whatever is refused is refused here, before the first write."""
    found = rows.look(intent.scope)
    taken = NOTHING
    while True:
        writes = intent.decide(found, taken)
        also = rows.taken(writes) - taken
        if not also:
            return writes
        taken |= also


class Intent(Protocol):
    """One operation on its way into the store."""

    @property
    def scope(self) -> Scope: ...

    def decide(self, found: Found, taken: Taken = NOTHING) -> Writes:
        """What to write, given what was found; raises a LastgoodError to write nothing.

        `taken` holds "stream" when a number of a stream that an earlier answer wanted to grow
        is there already, "branch" when the name of its new branch is, "id" when a checkpoint
        that it brings from another store is.
        """
        ...

    def again(self) -> Intent:
        """The same intent once more, after an outcome that nobody learnt."""
        ...


class Repeatable:
    """An intent that does no harm when it is carried out twice."""

    __slots__ = ()

    def again(self) -> Self:
        return self


class Removing(Repeatable):
    """One that takes away what somebody may have a copy of."""

    __slots__ = ()


class Accompanied:
    """Mixed into an intent that mostly comes with another one, and that nobody waits for alone."""

    __slots__ = ()


MOMENT = 0.00002
"""Seconds that it sleeps to let another thread run first; less than a tenth of a sync."""
