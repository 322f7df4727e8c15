"""A store in this process: dicts under one lock. Encodes and seals like the rest.

The reference for what the rules mean: no SQL, no file, the same rows and the same answers. Ends
with the process; a forked child goes on with a copy of its own.
"""

from __future__ import annotations

import operator
import time
from collections.abc import Callable, Sequence
from contextlib import AbstractContextManager
from typing import Any

from lastgood.backend import (
    Backend,
    Census,
    Durability,
    Extents,
    Footprint,
    Listing,
    Located,
    Outline,
    Section,
    Sheet,
    Sort,
    ThreadEntry,
    ThreadListing,
)
from lastgood.backends import forking, memory_surveys
from lastgood.backends.memory_shelves import Columns, Shelves, StoredPart
from lastgood.backends.tables import taken
from lastgood.backends.views import Lifetimes, Listed, Views, listed_thread, wanted
from lastgood.commits import Found, Intent, Scope, Taken, Writes, decided
from lastgood.driver import Turnstile
from lastgood.errors import CheckpointIntegrityError
from lastgood.manifest import Slot, Spot, check_parts
from lastgood.pages import SLICE
from lastgood.reports import Problem
from lastgood.rows import (
    BranchRow,
    CheckpointRow,
    LaneRow,
    MoveRow,
    Row,
    RunRow,
    TagRow,
    ThreadRow,
    intact,
    pack_slots,
    sealed,
    unsealed,
)

_ABSENT = object()

_PLACES: dict[Sort, Callable[[ThreadRow], tuple[Any, ...]]] = {
    "updated": lambda row: (row.active, row.thread),
    "created": lambda row: (row.thread,),
    "name": lambda row: (row.name,),
}


class MemoryTables(Views):
    """Lookups in the shelves."""

    def __init__(self, shelves: Shelves, clock: int) -> None:
        self.shelves = shelves
        self.clock = max(clock, shelves.newest)

    def thread(self, tenant: str, name: str) -> ThreadRow | None:
        key = self.shelves.names.get((tenant, name))
        return None if key is None else self.thread_by_key(key)

    def thread_by_key(self, key: int) -> ThreadRow | None:
        found = self.shelves.threads.get(key)
        return None if found is None else unsealed(ThreadRow, found)

    def lane(self, thread: int, agent: str) -> LaneRow | None:
        found = self.shelves.lanes.get(thread, {}).get(agent)
        return None if found is None else unsealed(LaneRow, found)

    def lane_columns(self, thread: int) -> list[Columns]:
        return list(self.shelves.lanes.get(thread, {}).values())

    def branch(self, thread: int, lane: int, name: str) -> BranchRow | None:
        found = self.shelves.branches.get(thread, {}).get((lane, name))
        return None if found is None else unsealed(BranchRow, found)

    def branches(self, thread: int) -> list[BranchRow]:
        return [unsealed(BranchRow, row) for row in self.shelves.branches.get(thread, {}).values()]

    def checkpoint(self, thread: int, id: bytes) -> CheckpointRow | None:
        return next((row for row in self.checkpoints(id) if row.thread == thread), None)

    def checkpoints(self, id: bytes) -> list[CheckpointRow]:
        places = self.shelves.ids.get(id, {}).items()
        return [row for thread, seq in places if (row := self.checkpoint_at(thread, seq))]

    def newest_move(self, thread: int, lane: int) -> MoveRow | None:
        moves = self.shelves.moves.get(thread, {})
        newest = max((number for of, number in moves if of == lane), default=None)
        return None if newest is None else unsealed(MoveRow, moves[lane, newest])

    def tag(self, thread: int, name: str) -> TagRow | None:
        found = self.shelves.tags.get(thread, {}).get(name)
        return None if found is None else unsealed(TagRow, found)

    def tags(self, thread: int) -> list[TagRow]:
        found = self.shelves.tags.get(thread, {})
        return [unsealed(TagRow, found[name]) for name in sorted(found)]

    def run(self, thread: int, lane: int) -> RunRow | None:
        runs = self.shelves.runs.get(thread, {})
        newest = max((number for number, of in runs if of == lane), default=None)
        return None if newest is None else unsealed(RunRow, runs[newest, lane])

    def newest_run(self, thread: int) -> RunRow | None:
        runs = self.shelves.runs.get(thread)
        return unsealed(RunRow, runs[max(runs)]) if runs else None

    def large(self, thread: int, digests: Sequence[bytes]) -> dict[bytes, Spot]:
        found = self.shelves.large
        return {d: found[thread, d] for d in digests if (thread, d) in found}

    def scan(
        self, thread: int, lane: int | None, listing: Listing, now: int
    ) -> list[CheckpointRow]:
        kept: list[CheckpointRow] = []
        for columns in reversed(self.shelves.checkpoints.get(thread, {}).values()):
            row = unsealed(CheckpointRow, columns)
            if wanted(row, lane, listing, now):
                kept.append(row)
                if len(kept) == listing.limit:
                    break
        return kept

    def _live(self, tenant: str) -> list[Listed]:
        """Every live thread of a tenant."""
        keys = [key for (of, _), key in self.shelves.names.items() if of == tenant]
        found = [listed_thread(self.shelves.threads[key]) for key in keys]
        return [each for each in found if each.thread.live]

    def thread_page(self, tenant: str, listing: ThreadListing) -> list[Listed]:
        place = _PLACES[listing.sort]
        down = listing.sort != "name"
        found = sorted(self._live(tenant), key=lambda each: place(each.thread), reverse=down)
        if listing.after:
            later = operator.lt if down else operator.gt
            found = [each for each in found if later(place(each.thread), listing.after)]
        return [self._listed(each, newest=listing.newest) for each in found[: listing.limit]]

    def _listed(self, found: Listed, *, newest: bool) -> Listed:
        row = found.thread
        if found.damage:
            return found
        try:
            last = self.checkpoint_at(row.thread, row.seq) if newest else None
            return Listed(row, self.newest_run(row.thread), last)
        except CheckpointIntegrityError as error:
            return found._replace(damage=error.message)

    def lanes_of(self, threads: Sequence[int]) -> list[LaneRow]:
        stored = (columns for thread in threads for columns in self.lane_columns(thread))
        return [lane for columns in stored if (lane := intact(LaneRow, columns))]

    def checkpoint_at(self, thread: int, seq: int) -> CheckpointRow | None:
        found = self.shelves.checkpoints.get(thread, {}).get(seq)
        return None if found is None else unsealed(CheckpointRow, found)

    def seqs(self, thread: int) -> list[int]:
        return list(self.shelves.checkpoints.get(thread, {}))

    def lifetimes(self, threads: Sequence[ThreadRow]) -> dict[int, Lifetimes]:
        return {row.thread: self._lives(row) for row in threads}

    def _lives(self, thread: ThreadRow) -> Lifetimes:
        shelf = self.shelves.checkpoints.get(thread.thread, {})
        rows = [unsealed(CheckpointRow, shelf[seq]) for seq in shelf]
        expiring = [row for row in rows if row.expires_at is not None]
        over = [row for row in expiring if row.expired(self.now_in(thread))]
        return Lifetimes(len(rows), len(expiring), len(over))


class MemoryWriter(MemoryTables):
    """Changes to the shelves; an interrupted change is undone."""

    def __init__(self, shelves: Shelves, clock: int) -> None:
        super().__init__(shelves, clock)
        self._undo: list[tuple[dict[Any, Any], Any, Any]] = []

    def taken(self, writes: Writes) -> Taken:
        return taken(self, writes, self.shelves.parts.__contains__)

    def write(self, writes: Writes) -> Writes:
        """Carry out what was decided; gives back the writes with their keys."""
        try:
            return self._write(writes)
        except BaseException:
            for table, key, old in reversed(self._undo):
                _restore(table, key, old)
            raise

    def _set(self, table: dict[Any, Any], key: Any, value: Any = _ABSENT) -> None:
        self._undo.append((table, key, table.get(key, _ABSENT)))
        _restore(table, key, value)

    def _write(self, writes: Writes) -> Writes:
        self.shelves.newest = self.clock
        if writes.wiped is not None:
            self._wipe(writes.wiped)
            return writes
        if writes.thread is not None:
            writes = self._thread(writes, writes.thread)
        for row in (writes.lane, writes.run, writes.move, writes.tag, *writes.branches):
            if row is not None:
                self._put(row)
        if writes.untagged is not None:
            self._set(self.shelves.tags[writes.untagged.thread], writes.untagged.name)
        if writes.checkpoint is not None:
            writes = self._add(writes, writes.checkpoint)
        for removed in writes.removed:
            self._remove(removed)
        return writes

    def _thread(self, writes: Writes, thread: ThreadRow) -> Writes:
        shelves = self.shelves
        if thread.thread == 0:
            name = (thread.tenant, thread.name)
            shelves.last_thread += 1
            thread = thread._replace(thread=shelves.last_thread)
            self._set(shelves.threads, shelves.names.get(name, 0))
            self._set(shelves.names, name, thread.thread)
            writes = writes.bound(thread.thread)._replace(thread=thread)
        self._set(shelves.threads, thread.thread, sealed(thread))
        return writes

    def _put(self, row: Row) -> None:
        shelves, columns = self.shelves, sealed(row)
        if isinstance(row, LaneRow):
            self._set(shelves.lanes.setdefault(row.thread, {}), row.agent, columns)
        elif isinstance(row, BranchRow):
            self._set(shelves.branches.setdefault(row.thread, {}), (row.lane, row.name), columns)
        elif isinstance(row, MoveRow):
            self._set(shelves.moves.setdefault(row.thread, {}), (row.lane, row.number), columns)
        elif isinstance(row, TagRow):
            self._set(shelves.tags.setdefault(row.thread, {}), row.name, columns)
        elif isinstance(row, RunRow):
            self._set(shelves.runs.setdefault(row.thread, {}), (row.number, row.lane), columns)
        elif isinstance(row, CheckpointRow):
            self._set(shelves.checkpoints.setdefault(row.thread, {}), row.seq, columns)
            self._set(shelves.ids.setdefault(row.id, {}), row.thread, row.seq)

    def _add(self, writes: Writes, row: CheckpointRow) -> Writes:
        slots = tuple(self._stream(row.thread, slot) for slot in writes.slots)
        row = row._replace(slots=pack_slots(slots))
        for part in writes.parts:
            spot = Spot(slots[part.slot].stream, part.number)
            self._set(self.shelves.parts, spot, StoredPart(row.seq, part.digest, part.data))
            if len(part.data) >= SLICE:
                self._set(self.shelves.large, (row.thread, part.digest), spot)
        self._put(row)
        return writes._replace(checkpoint=row, slots=slots)

    def _stream(self, thread: int, slot: Slot) -> Slot:
        if slot.stream:
            return slot
        self.shelves.last_stream += 1
        self._set(self.shelves.streams, self.shelves.last_stream, thread)
        return slot._replace(stream=self.shelves.last_stream)

    def _remove(self, row: CheckpointRow) -> None:
        for columns in list(self.shelves.checkpoints[row.thread].values()):
            child = unsealed(CheckpointRow, columns)
            if row.id in (child.parent, child.fallback):
                self._put(child.orphaned(row))
        self._set(self.shelves.checkpoints[row.thread], row.seq)
        self._forget_id(row.id, row.thread)

    def _forget_id(self, id: bytes, thread: int) -> None:
        places = {key: seq for key, seq in self.shelves.ids[id].items() if key != thread}
        self._set(self.shelves.ids, id, places or _ABSENT)

    def _wipe(self, tombstone: ThreadRow) -> None:
        shelves, key = self.shelves, tombstone.thread
        for columns in list(shelves.checkpoints.get(key, {}).values()):
            self._forget_id(unsealed(CheckpointRow, columns).id, key)
        gone = {stream for stream, thread in shelves.streams.items() if thread == key}
        doomed: list[tuple[dict[Any, Any], list[Any]]] = [
            (shelves.parts, [spot for spot in shelves.parts if spot.stream in gone]),
            (shelves.large, [place for place in shelves.large if place[0] == key]),
            (shelves.streams, list(gone)),
            *((table, [key]) for table in (shelves.checkpoints, shelves.lanes)),
            *((table, [key]) for table in (shelves.branches, shelves.runs)),
            *((table, [key]) for table in (shelves.moves, shelves.tags)),
        ]
        for table, keys in doomed:
            for place in keys:
                self._set(table, place)
        self._set(shelves.threads, key, sealed(tombstone))


def _restore(table: dict[Any, Any], key: Any, value: Any) -> None:
    """Put a value under a key, or take the key away."""
    if value is _ABSENT:
        table.pop(key, None)
    else:
        table[key] = value


class MemoryBackend(Backend, forking.Forkable):
    """A store that lives as long as this object."""

    blocking = True
    url = "memory:"
    durability: Durability = "none"

    def __init__(self, *, clock: Callable[[], int] = time.time_ns) -> None:
        self.shelves = Shelves()
        self._clock = clock
        self._lock = Turnstile()
        self._created_at = self.now()
        forking.watch(self)

    def at_rest(self) -> AbstractContextManager[None]:
        return self._lock.held()

    def after_fork_in_child(self) -> None:
        self._lock = Turnstile()

    def now(self) -> int:
        """The host's clock in microseconds."""
        return self._clock() // 1000

    def _tables(self) -> MemoryTables:
        return MemoryTables(self.shelves, self.now())

    async def commit(self, intent: Intent) -> Writes:
        return self._lock.run(lambda: self._commit(intent))

    def _commit(self, intent: Intent) -> Writes:
        rows = MemoryWriter(self.shelves, self.now())
        return rows.write(decided(rows, intent))

    async def look(self, scope: Scope) -> Found:
        return self._lock.run(lambda: self._tables().look(scope))

    async def find(self, tenant: str, ids: Sequence[bytes]) -> dict[bytes, Located]:
        return self._lock.run(lambda: self._tables().find(tenant, ids))

    async def history(self, tenant: str, listing: Listing) -> list[Located]:
        return self._lock.run(lambda: self._tables().history(tenant, listing))

    async def parts(self, ranges: Sequence[Extents], *, checked: bool = False) -> list[list[bytes]]:
        return self._lock.run(lambda: [self._range(extent, checked) for extent in ranges])

    def _range(self, extent: Extents, checked: bool) -> list[bytes]:
        stream, first = extent.first
        spots = (Spot(stream, number) for number in range(first, first + extent.length))
        found = [(s, self.shelves.parts[s]) for s in spots if s in self.shelves.parts]
        if checked:
            check_parts((spot, part.digest, part.data) for spot, part in found)
        return [part.data for _, part in found]

    async def at(self, tenant: str, thread: str, seq: int) -> Located | None:
        return self._lock.run(lambda: self._tables().at(tenant, thread, seq))

    async def lineage(self, tenant: str, id: bytes, limit: int) -> list[Located]:
        return self._lock.run(lambda: self._tables().lineage(tenant, id, limit))

    async def outline(self, tenant: str, thread: str) -> Outline | None:
        return self._lock.run(lambda: self._tables().outline(tenant, thread))

    async def threads(self, tenant: str, listing: ThreadListing) -> list[ThreadEntry]:
        return self._lock.run(lambda: self._tables().threads(tenant, listing))

    async def census(self, tenant: str) -> Census:
        live = self._lock.run(lambda: memory_surveys.live_threads(self.shelves, tenant))
        return Census(live, self._created_at)

    async def survey(self, tenant: str, sections: Sequence[Section]) -> list[Sheet]:
        return self._lock.run(
            lambda: [memory_surveys.sheet(self.shelves, tenant, section) for section in sections]
        )

    async def checkup(self) -> list[Problem]:
        return self._lock.run(lambda: list(memory_surveys.checkup(self.shelves)))

    async def footprints(self, tenant: str, threads: Sequence[int]) -> dict[int, Footprint]:  # noqa: ARG002
        return self._lock.run(
            lambda: {key: memory_surveys.footprint(self.shelves, key) for key in threads}
        )

    async def close(self) -> None:
        """Nothing to let go of: the data is this object."""
