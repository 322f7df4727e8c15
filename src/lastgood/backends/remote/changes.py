"""What a commit changes in a store on a server, made ready to be sent at once.

A decision is turned into rows with all their keys and seals; the store then carries it out as one
atomic unit, if the thread is still at the version that the decision was made on. Pure, but for
numbers, which come from a supply that was reserved before.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from itertools import chain
from typing import Literal, NamedTuple

from lastgood.backends.remote.queries import AskPlaces, Need, ThreadName
from lastgood.backends.remote.tables import RemoteTables
from lastgood.backends.tables import taken
from lastgood.commits import Brought, Found, Intent, Loose, Place, Scope, Taken, Writes
from lastgood.manifest import Spot
from lastgood.pages import SLICE
from lastgood.rows import (
    CheckpointRow,
    ItemRow,
    Row,
    ThreadRow,
    bereaved,
    pack_slots,
    seal_of,
)

Kind = Literal["thread", "stream"]
Supply = Callable[[Kind, int], list[int]]
"""So many numbers that were never used; raises `Exhausted` when more have to be reserved."""


class Exhausted(Exception):
    """Fewer numbers are reserved than are needed."""

    def __init__(self, kind: Kind, count: int) -> None:
        super().__init__(kind, count)
        self.kind: Kind = kind
        self.count = count


class PlacedPart(NamedTuple):
    """A part with its number."""

    stream: int
    number: int
    born: int
    digest: bytes
    data: bytes


class Change(NamedTuple):
    """Rows to write, if the thread is still at `version`; then that counts one more."""

    place: ThreadName
    key: int
    """The thread's key: of the row that is written, or that stays as it is."""
    version: int | None
    """None: no thread of that name must be there."""
    seal: bytes = b""
    """Of the thread's row that was seen. After a failover that lost commits, versions come again;
    with them another row."""
    moment: int | None = None
    """The server's time that it was decided for, where nobody asked what time it is there."""
    former: ThreadRow | None = None
    """That row."""
    opens: bool = False
    """Whether the thread begins here, with a key that must be nobody's."""
    thread: ThreadRow | None = None
    """Written in the place of whatever row has that name."""
    rows: tuple[Row, ...] = ()
    """Lanes, branches, runs, moves, tags, items: each takes the place of one with the same key."""
    untagged: str | None = None
    dropped: tuple[ItemRow, ...] = ()
    checkpoint: CheckpointRow | None = None
    brought: tuple[CheckpointRow, ...] = ()
    """Checkpoints that come from another store."""
    streams: tuple[int, ...] = ()
    """Those that are new."""
    parts: tuple[PlacedPart, ...] = ()
    removed: tuple[CheckpointRow, ...] = ()
    orphans: tuple[CheckpointRow, ...] = ()
    """Rows that are there already, changed because what they followed is removed."""
    swept: tuple[Loose, ...] = ()
    """Parts to remove."""
    free: tuple[Place, ...] = ()
    """Where items are supposed not to be: if one is, the change is not carried out."""
    wiped: bool = False
    """Whether everything of the thread goes, but for its row."""

    @property
    def former_owner(self) -> str | None:
        """Whose the thread was."""
        return None if self.former is None else self.former.owner

    @property
    def checkpoints(self) -> tuple[CheckpointRow, ...]:
        """Those that are new."""
        return self.brought if self.checkpoint is None else (self.checkpoint, *self.brought)

    @property
    def large(self) -> list[PlacedPart]:
        """The parts that are to be found by their digest."""
        return [part for part in self.parts if len(part.data) >= SLICE]


class Aim(NamedTuple):
    """An intent, and what it is decided on: found out once for all the times that it is tried."""

    intent: Intent
    scope: Scope
    place: ThreadName

    @classmethod
    def of(cls, intent: Intent) -> Aim:
        """What an intent needs."""
        scope = intent.scope
        return cls(intent, scope, ThreadName(scope.tenant, scope.thread))


class Decision(NamedTuple):
    """What an intent comes to: the writes with their keys, and the change that makes them true."""

    writes: Writes
    found: Found
    change: Change | None
    """None if there is nothing to write."""

    def at(self, moment: int) -> Decision:
        """The same, for a moment that the store has to agree with."""
        return self._replace(change=self.change and self.change._replace(moment=moment))


def decide(
    tables: RemoteTables, version: int | None, aim: Aim, refused: Taken, supply: Supply
) -> Decision:
    """Look, decide, and make the change ready."""
    found, place = tables.look(aim.scope), aim.place
    while True:
        writes = aim.intent.decide(found, refused)
        also = taken(tables, writes, _not_known) - refused
        if not also:
            break
        refused |= also
    if writes._replace(answer=None) == Writes():
        return Decision(writes, found, None)
    if not {row.place for row in writes.items}.issuperset(tables.supposed):
        raise Need(AskPlaces(place, tuple(tables.supposed)))
    change = Change(place, 0, version, free=tuple(tables.supposed))
    if found.thread is not None:
        change = change._replace(seal=seal_of(found.thread), former=found.thread)
    return _made(tables, change, writes, found, supply)


def _not_known(spot: Spot, count: int) -> bool:  # noqa: ARG001
    """Whether a stream has grown is for the store to say when it writes."""
    return False


def _made(
    tables: RemoteTables, change: Change, writes: Writes, found: Found, supply: Supply
) -> Decision:
    if writes.wiped is not None:
        tombstone = writes.wiped
        change = change._replace(key=tombstone.thread, thread=tombstone, wiped=True)
        return Decision(writes, found, change)
    if writes.thread is not None and writes.thread.thread == 0:
        (key,) = supply("thread", 1)
        writes = writes.bound(key)._replace(thread=writes.thread._replace(thread=key))
        change = change._replace(opens=True)
    row = writes.thread or found.thread
    assert row is not None, "a commit is about a thread"
    writes, streams = _numbered(writes, supply)
    checkpoint = writes.checkpoint
    given = [Brought(checkpoint, writes.slots, writes.parts)] if checkpoint else []
    single = (writes.lane, writes.run, writes.move, writes.tag)
    rows = (*single, *writes.branches, *writes.items, *writes.rows)
    change = change._replace(
        key=row.thread,
        thread=writes.thread,
        rows=tuple(row for row in rows if row is not None),
        untagged=writes.untagged.name if writes.untagged else None,
        dropped=writes.dropped,
        checkpoint=checkpoint,
        brought=tuple(each.row for each in writes.brought),
        streams=streams,
        parts=tuple(part for each in (*given, *writes.brought) for part in _placed(each)),
        removed=writes.removed,
        swept=writes.swept,
        orphans=_orphans(tables, writes.removed),
    )
    return Decision(writes, found, change)


def _numbered(writes: Writes, supply: Supply) -> tuple[Writes, tuple[int, ...]]:
    """New streams with a number, wherever they are named; and these numbers."""
    named = {slot.stream for each in writes.brought for slot in each.slots if slot.stream < 0}
    count = sum(slot.stream == 0 for slot in writes.slots) + len(named)
    if not count:
        return writes, ()
    numbers = supply("stream", count)
    left = iter(numbers)
    known = {name: next(left) for name in named}
    slots = tuple(s if s.stream else s._replace(stream=next(left)) for s in writes.slots)
    checkpoint = writes.checkpoint and writes.checkpoint._replace(slots=pack_slots(slots))
    brought = tuple(_renumbered(each, known) for each in writes.brought)
    return writes._replace(checkpoint=checkpoint, slots=slots, brought=brought), tuple(numbers)


def _renumbered(given: Brought, known: dict[int, int]) -> Brought:
    slots = tuple(s._replace(stream=known.get(s.stream, s.stream)) for s in given.slots)
    return given._replace(row=given.row._replace(slots=pack_slots(slots)), slots=slots)


def _placed(given: Brought) -> Iterator[PlacedPart]:
    for slot, number, data, digest, born in given.parts:
        yield PlacedPart(given.slots[slot].stream, number, born or given.row.seq, digest, data)


def _orphans(tables: RemoteTables, removed: tuple[CheckpointRow, ...]) -> tuple[CheckpointRow, ...]:
    """The children of what is removed, as far as they stay."""
    gone = {row.id: row for row in removed}
    children = chain.from_iterable(tables.children(removed))
    left = {child.id: child for child in children if child.id not in gone}
    return tuple(bereaved(child, gone) for child in left.values())
