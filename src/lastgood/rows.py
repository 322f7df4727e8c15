"""The rows that every backend keeps, and the seal that each carries.

A row is a named tuple whose fields, in order, are its stored columns; `sealed` gives them with the
seal at the end, `unsealed` takes them back and raises CheckpointIntegrityError when they were
changed by anything but us. Rows know no SQL and no store. A thread key of 0 means "the thread that
this commit opens".
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from itertools import chain
from typing import Any, NamedTuple, TypeVar

import ormsgpack

from lastgood.errors import CheckpointIntegrityError
from lastgood.ids import show_id
from lastgood.integrity import chained_digest, content_checksum, seal
from lastgood.manifest import Slot

LIVE, DELETED, ARRIVING = 0, 1, 2
"""A thread that is arriving is being copied here from another store: nobody sees it yet."""
MINUTE = 26
"""Microseconds shifted by this count units of 67 seconds."""


class ThreadRow(NamedTuple):
    """One incarnation of a thread. `lanes`, `items` and the like say what else must be there."""

    thread: int
    tenant: str
    name: str
    incarnation: int
    state: int
    active: int
    """When it was last touched, to about a minute: lists are sorted by this, and few saves
    change it, so that few touch its index."""
    title: str
    owner: str | None
    seq: int
    checkpoints: int
    newest: bytes
    expiring: int
    """How many of its checkpoints have a time to live."""
    lanes: int
    branches: int
    tags: int
    runs: int
    items: int
    size: int
    last_step: str | None
    created_at: int
    updated_at: int

    @property
    def live(self) -> bool:
        return self.state == LIVE

    def emptied(self) -> ThreadRow:
        """The row of a thread of which nothing is there, or nothing can be told."""
        return self._replace(
            title="",
            owner=None,
            checkpoints=0,
            newest=b"",
            expiring=0,
            lanes=0,
            branches=0,
            tags=0,
            runs=0,
            items=0,
            size=0,
            last_step=None,
        )

    def touched(self, now: int, **changes: Any) -> ThreadRow:
        """The row after changes at that time; its own time never goes back, nor stands still.

        So a row that is as it was says that only runs can have changed in the thread.
        """
        updated_at = max(now, self.updated_at + 1)
        return self._replace(updated_at=updated_at, active=updated_at >> MINUTE, **changes)


class LaneRow(NamedTuple):
    """An agent's lane in a thread, and the branch that it follows."""

    thread: int
    number: int
    agent: str
    current: str
    moves: int
    """How many entries its log has."""


class BranchRow(NamedTuple):
    """A named line and its newest checkpoint; an empty head means that all of it is gone."""

    thread: int
    lane: int
    name: str
    head: bytes


class MoveRow(NamedTuple):
    """An entry in a lane's log: it left one branch for another, other than by a plain save."""

    thread: int
    lane: int
    number: int
    id: bytes
    """Of the operation that made it: one that is repeated is recognised."""
    kind: str
    old_branch: str
    new_branch: str
    made_at: int


class TagRow(NamedTuple):
    """A name for one checkpoint of a thread."""

    thread: int
    name: str
    checkpoint: bytes
    made_at: int


class RunRow(NamedTuple):
    """One unit of work on a lane; `closed` when somebody in it has left it without an error."""

    thread: int
    lane: int
    id: bytes
    number: int
    closed: int
    status: str
    attempt: int
    inside: int
    """The attempt that last said it was alive (two processes may be in one run); negative: left."""
    started_at: int
    beat_at: int
    step: str | None
    error: str | None
    result: bytes


class ItemRow(NamedTuple):
    """A value under a key, on a shelf of a thread: what is kept beside the checkpoints."""

    thread: int
    shelf: str
    key: bytes
    """Unique on its shelf; lists are in the order of these bytes."""
    value: bytes
    text: str | None
    """What a listing that asks for some text looks into."""
    created_at: int
    updated_at: int
    expires_at: int | None

    def expired(self, now: int) -> bool:
        return self.expires_at is not None and self.expires_at <= now

    @property
    def place(self) -> tuple[str, bytes]:
        """Shelf and key."""
        return self.shelf, self.key


class CheckpointRow(NamedTuple):
    """One immutable snapshot without its pages.

    Only `parent_gone` and `fallback` ever change: when the parent is removed, `fallback` takes over
    what the parent itself followed, so the way back is never a guess.
    """

    thread: int
    seq: int
    id: bytes
    lane: int
    branch: str
    parent: bytes
    parent_digest: bytes
    parent_gone: int
    fallback: bytes
    step: int
    step_name: str | None
    framework: str
    created_at: int
    ttl: float | None
    expires_at: int | None
    context: bytes
    metadata: bytes
    target: str | None
    schema: str | None
    source_lane: int | None
    losses: bytes
    root: bytes
    digest: bytes
    size: int
    manifest: bytes
    slots: bytes

    def checksum(self, agent: str) -> bytes:
        """The public checksum; the agent's name is in the lane's row."""
        return content_checksum(content_of(self, agent), self.root)

    def chained(self, agent: str) -> bytes:
        """The digest that this row must carry."""
        return chained_digest(self.checksum(agent), self.expires_at, self.parent_digest)

    @property
    def before(self) -> bytes:
        """The nearest ancestor that was not removed."""
        return self.fallback if self.parent_gone else self.parent

    @property
    def place(self) -> tuple[int, int]:
        """The key of its thread and its seq: no other checkpoint ever has the same."""
        return self.thread, self.seq

    def orphaned(self, parent: CheckpointRow) -> CheckpointRow:
        """This row when what it follows is removed. The way back ends where it leaves the lane."""
        before = parent.before if parent.lane == self.lane else b""
        return self._replace(parent_gone=1, fallback=before)

    def expired(self, now: int) -> bool:
        return self.expires_at is not None and self.expires_at <= now

    @property
    def label(self) -> str:
        return show_id(self.id)


def bereaved(row: CheckpointRow, gone: Mapping[bytes, CheckpointRow]) -> CheckpointRow:
    """A row when checkpoints are removed: it falls back to the nearest one that is left."""
    parent = row
    while row.before in gone:
        parent = earlier(parent, gone[row.before])
        row = row.orphaned(parent)
    return row


def earlier(row: CheckpointRow, found: CheckpointRow) -> CheckpointRow:
    """What a row follows; saved before it, or the way back would not come to an end."""
    if found.seq >= row.seq:
        raise CheckpointIntegrityError(
            f"checkpoint {row.label} (@{row.seq}) follows {found.label}, which is not older"
            f" (@{found.seq}): the store is damaged.",
            hint="Restore by its id what you need; `verify` tells what else is damaged.",
        )
    return found


Row = ThreadRow | LaneRow | BranchRow | MoveRow | TagRow | RunRow | ItemRow | CheckpointRow
R = TypeVar("R", ThreadRow, LaneRow, BranchRow, MoveRow, TagRow, RunRow, ItemRow, CheckpointRow)

TABLES: dict[type, str] = {
    ThreadRow: "thread",
    LaneRow: "lane",
    BranchRow: "branch",
    MoveRow: "move",
    TagRow: "tag",
    RunRow: "run",
    ItemRow: "item",
    CheckpointRow: "checkpoint",
}


def fields_of(cls: type) -> tuple[str, ...]:
    """The names of a row's columns, in stored order, without the seal."""
    names: tuple[str, ...] = cls._fields  # type: ignore[attr-defined]
    return names


def seal_of(row: Row) -> bytes:
    """The check value over the columns of a row."""
    return seal(TABLES[type(row)], tuple(row))


def sealed(row: Row) -> tuple[object, ...]:
    """The values to store, seal last."""
    return (*row, seal_of(row))


def unsealed(cls: type[R], columns: Sequence[object]) -> R:
    """The row behind stored values."""
    row = cls._make(columns[:-1])
    try:
        intact = seal(TABLES[cls], tuple(row)) == columns[-1]
    except TypeError:
        intact = False
    if not intact:
        raise CheckpointIntegrityError(
            f"a stored {TABLES[cls]} row was changed outside of Lastgood: {_shown(columns)}."
        )
    return row


def _shown(columns: Sequence[object]) -> str:
    """The first columns of a row, which say which one it is."""
    return ", ".join(
        show_id(value) if isinstance(value, bytes) and len(value) == 16 else f"{value!r:.60}"
        for value in columns[:3]
    )


def intact(cls: type[R], columns: Sequence[object]) -> R | None:
    """The row behind stored values, or None if they were changed."""
    try:
        return unsealed(cls, columns)
    except CheckpointIntegrityError:
        return None


def suspect(columns: Sequence[object]) -> ThreadRow:
    """A damaged thread, as far as its row tells which it is: its key, names, place and owner."""
    stored = ThreadRow._make(columns[:-1])
    owner = stored.owner if isinstance(stored.owner, str) else None
    damaged = stored.emptied()._replace(name=str(stored.name), owner=owner)
    begun: object = stored.created_at
    known = begun if isinstance(begun, int) else 0
    return damaged._replace(incarnation=0, seq=0, created_at=known, updated_at=0)


def doomed_item(place: tuple[str, bytes], columns: Sequence[object]) -> ItemRow:
    """An item that is to go, damaged or not: then its place is all that is told of it."""
    row = intact(ItemRow, columns)
    if row is not None:
        return row
    key, value = columns[0], columns[3]
    size = len(value) if isinstance(value, bytes) else 0
    return ItemRow(key, *place, bytes(size), None, 0, 0, None)  # type: ignore[arg-type]


def content_of(row: CheckpointRow, agent: str) -> tuple[object, ...]:
    """The fields that the checksum covers, besides the content root."""
    return (
        row.id,
        agent,
        row.parent,
        row.step,
        row.step_name,
        row.framework,
        row.created_at,
        row.ttl,
        row.context,
        row.metadata,
        row.target,
        row.schema,
        row.losses,
    )


def pack_slots(slots: Sequence[Slot]) -> bytes:
    """The streams of a row as one column."""
    return ormsgpack.packb(list(chain.from_iterable(slots))) if slots else b""


def read_slots(column: bytes) -> tuple[Slot, ...]:
    """The inverse of `pack_slots`."""
    flat = ormsgpack.unpackb(column) if column else []
    return tuple(Slot(*pair) for pair in zip(flat[::2], flat[1::2], strict=True))
