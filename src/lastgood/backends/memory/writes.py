"""Changing the shelves of a store in memory: carries out what a commit decided."""

from __future__ import annotations

from collections.abc import MutableMapping, Sequence
from typing import Any

from lastgood.backends.memory.shelves import Items, Shelves, StoredPart
from lastgood.backends.memory.tables import MemoryTables
from lastgood.backends.tables import met, taken
from lastgood.commits import Brought, Loose, Taken, Writes
from lastgood.manifest import Slot, Spot
from lastgood.pages import SLICE
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
    bereaved,
    pack_slots,
    sealed,
    unsealed,
)

_ABSENT = object()


class MemoryWriter(MemoryTables):
    """Changes to the shelves; an interrupted change is undone."""

    def __init__(self, shelves: Shelves, clock: int) -> None:
        super().__init__(shelves, clock)
        self._undo: list[tuple[MutableMapping[Any, Any], Any, Any]] = []
        self._numbers: dict[int, int] = {}
        """The streams that this commit opens and knows by negative numbers."""

    def taken(self, writes: Writes) -> Taken:
        return taken(self, writes, self._grown) | met(self, writes)

    def _grown(self, spot: Spot, count: int) -> bool:
        numbers = range(spot.number, spot.number + count)
        return any(Spot(spot.stream, number) in self.shelves.parts for number in numbers)

    def write(self, writes: Writes) -> Writes:
        """Carry out what was decided; gives back the writes with their keys."""
        try:
            return self._write(writes)
        except BaseException:
            for table, key, old in reversed(self._undo):
                _restore(table, key, old)
            raise

    def _set(self, table: MutableMapping[Any, Any], key: Any, value: Any = _ABSENT) -> None:
        self._undo.append((table, key, table.get(key, _ABSENT)))
        _restore(table, key, value)

    def _write(self, writes: Writes) -> Writes:
        self.shelves.newest = self.clock
        if writes.wiped is not None:
            self._wipe(writes.wiped)
            return writes
        if writes.thread is not None:
            writes = self._thread(writes, writes.thread)
        single = (writes.lane, writes.run, writes.move, writes.tag)
        for row in (*single, *writes.branches, *writes.items, *writes.rows):
            if row is not None:
                self._put(row)
        for item in writes.dropped:
            self._set(self.shelves.items[item.thread], item.place)
        if writes.untagged is not None:
            self._set(self.shelves.tags[writes.untagged.thread], writes.untagged.name)
        if writes.checkpoint is not None:
            added = self._add(Brought(writes.checkpoint, writes.slots, writes.parts))
            writes = writes._replace(checkpoint=added.row, slots=added.slots)
        if writes.brought:
            writes = writes._replace(brought=tuple(map(self._add, writes.brought)))
        if writes.removed:
            self._remove({row.id: row for row in writes.removed})
        if writes.thread is not None:
            self._drop_parts(writes.thread.thread, writes.swept)
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
        elif isinstance(row, ItemRow):
            self._set(shelves.items.setdefault(row.thread, Items()), row.place, columns)
        elif isinstance(row, CheckpointRow):
            self._set(shelves.checkpoints.setdefault(row.thread, {}), row.seq, columns)
            self._set(shelves.ids.setdefault(row.id, {}), row.thread, row.seq)

    def _add(self, given: Brought) -> Brought:
        slots = tuple(self._stream(given.row.thread, slot) for slot in given.slots)
        row = given.row._replace(slots=pack_slots(slots))
        for part in given.parts:
            spot = Spot(slots[part.slot].stream, part.number)
            stored = StoredPart(part.born or row.seq, part.digest, part.data)
            self._set(self.shelves.parts, spot, stored)
            if len(part.data) >= SLICE:
                self._set(self.shelves.large, (row.thread, part.digest), spot)
        self._put(row)
        return given._replace(row=row, slots=slots)

    def _stream(self, thread: int, slot: Slot) -> Slot:
        if slot.stream > 0:
            return slot
        number = self._numbers.get(slot.stream)
        if number is None:
            self.shelves.last_stream += 1
            number = self.shelves.last_stream
            self._set(self.shelves.streams, number, thread)
            if slot.stream:
                self._numbers[slot.stream] = number
        return slot._replace(stream=number)

    def _remove(self, gone: dict[bytes, CheckpointRow]) -> None:
        thread = next(iter(gone.values())).thread
        for columns in list(self.shelves.checkpoints[thread].values()):
            row = unsealed(CheckpointRow, columns)
            if row.before in gone and row.id not in gone:
                self._put(bereaved(row, gone))
        for row in gone.values():
            self._set(self.shelves.checkpoints[thread], row.seq)
            self._forget_id(row.id, thread)

    def _drop_parts(self, thread: int, swept: Sequence[Loose]) -> None:
        for part in swept:
            self._set(self.shelves.parts, part.spot)
            if part.digest:
                self._set(self.shelves.large, (thread, part.digest))

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
            *((table, [key]) for table in (shelves.moves, shelves.tags, shelves.items)),
        ]
        for table, keys in doomed:
            for place in keys:
                self._set(table, place)
        self._set(shelves.threads, key, sealed(tombstone))


def _restore(table: MutableMapping[Any, Any], key: Any, value: Any) -> None:
    """Put a value under a key, or take the key away."""
    if value is _ABSENT:
        table.pop(key, None)
    else:
        table[key] = value
