"""Writing rows to SQLite: carries out what a commit decided, inside its transaction.

Owns every INSERT, UPDATE and DELETE on our rows; decides nothing.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, TypeVar

from lastgood.backends.sqlite.recent import Recent
from lastgood.backends.sqlite.rows import LOW, folded
from lastgood.backends.sqlite.schema import (
    COLUMNS,
    LATER,
    is_there,
    read_stamp,
    select,
    stamp,
)
from lastgood.backends.sqlite.tables import NEXT_ITEM, SqliteTables
from lastgood.backends.sqlite.threads import FEW
from lastgood.backends.sqlite.verified import Verified
from lastgood.backends.tables import COUNTED, Line, met, taken
from lastgood.commits import Brought, Loose, Place, Scope, Taken, Writes
from lastgood.errors import StorageError
from lastgood.manifest import Part, Slot, Spot
from lastgood.pages import SLICE
from lastgood.rows import (
    TABLES,
    BranchRow,
    CheckpointRow,
    ItemRow,
    LaneRow,
    MoveRow,
    Row,
    TagRow,
    ThreadRow,
    bereaved,
    pack_slots,
    seal_of,
    sealed,
)

T = TypeVar("T")
_ACTIVE, _OWNER, _BORN = map(ThreadRow._fields.index, ("active", "owner", "created_at"))


def _changing(first: int, row: Sequence[T]) -> list[T]:
    """What a save changes of a thread's row, from some column on.

    Neither its owner nor its age: SQLite writes an index anew for a column that is set to what it
    was.
    """
    return [*row[first:_OWNER], *row[_OWNER + 1 : _BORN], *row[_BORN + 1 :]]


def _fixed(row: ThreadRow) -> tuple[object, ...]:
    """What a save leaves as it is."""
    return (*row[:_ACTIVE], row.owner, row.created_at)


def _update_thread(first: int) -> str:
    changed = ", ".join(f"{name} = ?" for name in _changing(first, COLUMNS[ThreadRow]))
    return f"UPDATE lastgood_thread SET {changed} WHERE thread = ?"


_UPDATE_THREAD = _update_thread(_ACTIVE + 1)
_UPDATE_ACTIVE = _update_thread(_ACTIVE)
_INSERT_CHECKPOINT = (
    f"INSERT INTO lastgood_checkpoint ({', '.join(COLUMNS[CheckpointRow])}) "
    f"VALUES ({', '.join('?' * len(COLUMNS[CheckpointRow]))})"
)


_LAST_KEY = {
    name: f"SELECT (SELECT value FROM lastgood_meta WHERE name = '{name}'), {there}"
    for name, there in {
        "thread": "(SELECT max(thread) FROM lastgood_thread)",
        "stream": "(SELECT max(key) >> 32 FROM lastgood_part)",
    }.items()
}
_NOTE_KEY = "UPDATE lastgood_meta SET value = ? WHERE name = ?"
_DELETE_TAG = "DELETE FROM lastgood_tag WHERE thread = ? AND name = ?"
_DELETE_ITEM = "DELETE FROM lastgood_item WHERE thread = ? AND shelf = ? AND key = ?"
_ANY_PART = "SELECT 1 FROM lastgood_part WHERE key BETWEEN ? AND ? LIMIT 1"
_UPDATE_NEWEST = "UPDATE lastgood_meta SET value = ? WHERE name = 'newest'"
SECOND = 1_000_000
AT_ONCE = 500
"""So many checkpoints are removed with one look for what follows them."""
_INSERT = {
    cls: f"INSERT OR REPLACE INTO lastgood_{TABLES[cls]} ({', '.join(columns)})"
    f" VALUES ({', '.join('?' * len(columns))})"
    for cls, columns in COLUMNS.items()
}
# A head moves with every save. A row that is replaced is written to the second index anew.
_INSERT[BranchRow] = _INSERT[BranchRow].replace(" OR REPLACE", "") + (
    " ON CONFLICT (thread, lane, name) DO UPDATE SET head = excluded.head, seal = excluded.seal"
)


class SqliteWriter(SqliteTables):
    """The rows behind the writing connection, inside a transaction that holds the write lock."""

    def __init__(self, connection: Any, clock: int, known: Verified, recent: Recent) -> None:
        super().__init__(connection, clock, known)
        self._recent = recent
        self.stamp = recent.stamp
        self._lane: LaneRow | None = None
        self._before: ThreadRow | None = None
        self._numbers: dict[int, int] = {}
        """The streams that this commit opens and knows by negative numbers."""

    def line(self, scope: Scope) -> Line:
        found = self._recent.line(scope) or super().line(scope)
        self._lane = found.lane
        self._before = found.thread
        return found

    def audit_items(self, thread: ThreadRow, missing: Sequence[Place] = ()) -> None:
        if not self._recent.accounted(thread.thread):
            super().audit_items(thread, missing)
            self._recent.account(thread.thread)

    def items_at(self, thread: int, places: Sequence[Place]) -> list[ItemRow | None]:
        """What this process wrote last is known, and so is where a shelf ends."""
        shelves = self._recent.shelves
        return [
            None
            if shelves.is_free(thread, place)
            else shelves.items.get((thread, place)) or self._item_or_end(thread, place)
            for place in places
        ]

    def _item_or_end(self, thread: int, place: Place) -> ItemRow | None:
        """The item at a place; where there is none behind it either, that is noted.

        Of the one behind it only the key is read: its value may be large.
        """
        found = self.connection.execute(NEXT_ITEM, (thread, *place)).fetchone()
        if found is None:
            self._recent.shelves.free_from(thread, place)
        elif found[0] == place[1]:
            return self.item(thread, *place)
        return None

    def taken(self, writes: Writes) -> Taken:
        return taken(self, writes, self._grown) | met(self, writes)

    def _grown(self, spot: Spot, count: int) -> bool:  # noqa: ARG002
        """Any number from there on counts, so that nothing is above the end that is noted."""
        known = self._recent.grown(spot)
        if known is not None:
            return known
        low = spot.stream << 32
        found = self.connection.execute(_ANY_PART, (low | spot.number, low | LOW))
        return found.fetchone() is not None

    def write(self, writes: Writes) -> Writes:
        """Carry out what was decided; gives back the writes with their keys."""
        if not self.connection.in_transaction:
            raise StorageError("the transaction ended before its time; nothing was saved.")
        written = self._write(writes)
        self._recent.note(written, self._lane, self.stamp)
        return written

    def _write(self, writes: Writes) -> Writes:
        if self._host_clock - self.newest >= SECOND:
            self.stamp = stamp(self.clock)
            self.connection.execute(_UPDATE_NEWEST, (self.stamp,))
        if writes.wiped is not None:
            self._wipe(writes.wiped)
            return writes
        if writes.thread is not None and writes.thread.thread == 0:
            writes = self._open(writes)
        elif writes.thread is not None:
            self._update(writes.thread)
        for row in (writes.lane, writes.run, writes.move, writes.tag, *writes.branches):
            if row is not None:
                self._put(row)
        if writes.thread is not None:
            self._index_names(writes.thread, writes)
        if writes.items or writes.rows:
            self._put_rows((*writes.items, *writes.rows))
        if writes.checkpoint is not None:
            added = self._add(Brought(writes.checkpoint, writes.slots, writes.parts))
            if added.slots is not writes.slots:
                writes = writes._replace(checkpoint=added.row, slots=added.slots)
        if writes.brought:
            writes = writes._replace(brought=tuple(map(self._add, writes.brought)))
        self._take_away(writes)
        return writes

    def _take_away(self, writes: Writes) -> None:
        for item in writes.dropped:
            self.connection.execute(_DELETE_ITEM, (item.thread, *item.place))
        if writes.untagged is not None:
            self.connection.execute(_DELETE_TAG, writes.untagged[:2])
        for first in range(0, len(writes.removed), AT_ONCE):
            self._remove(writes.removed[first : first + AT_ONCE])
        if writes.thread is not None and writes.swept:
            self._drop_parts(writes.thread.thread, writes.swept)

    def _put(self, row: Row) -> None:
        if isinstance(row, MoveRow | TagRow):
            self.connection.execute(LATER[TABLES[type(row)]])
        elif isinstance(row, ThreadRow):
            if row.owner is not None:
                self.connection.execute(LATER["owner"])
            if row.thread > FEW:
                self.connection.execute(LATER["age"])
        elif isinstance(row, LaneRow):
            self._index_lanes(row.number)
        self.connection.execute(_INSERT[type(row)], sealed(row))

    def _index_lanes(self, highest: int) -> None:
        if highest > COUNTED:
            self.connection.execute(LATER["lane_again"])
            self.connection.execute(LATER["lane_number"])

    def _index_names(self, thread: ThreadRow, writes: Writes) -> None:
        if writes.opens and thread.branches > COUNTED:
            self.connection.execute(LATER["branch_again"])
        if writes.tag is not None and thread.tags > COUNTED:
            self.connection.execute(LATER["tag_again"])

    def _put_rows(self, rows: Sequence[Row]) -> None:
        self._index_lanes(max([row.number for row in rows if isinstance(row, LaneRow)], default=0))
        for cls in dict.fromkeys(type(row) for row in rows):
            table = TABLES[cls]
            if table in LATER and table not in self._recent.made:
                self.connection.execute(LATER[table])
                self._recent.made.add(table)
            mine = [sealed(row) for row in rows if type(row) is cls]
            self.connection.executemany(_INSERT[cls], mine)

    def _update(self, thread: ThreadRow) -> None:
        """Only columns that no index covers, most of the time: few saves touch an index."""
        before = self._before
        if before is None or _fixed(before) != _fixed(thread):
            self._put(thread)  # it has arrived: another state; or it was given to somebody
            return
        changed = thread.active != before.active
        statement = _UPDATE_ACTIVE if changed else _UPDATE_THREAD
        values = _changing(_ACTIVE if changed else _ACTIVE + 1, sealed(thread))
        self.connection.execute(statement, (*values, thread.thread))

    def _open(self, writes: Writes) -> Writes:
        thread = writes.thread
        assert thread is not None
        key = self._next_key("thread")
        self.connection.execute(
            "DELETE FROM lastgood_thread WHERE tenant = ? AND name = ?",
            (thread.tenant, thread.name),
        )
        self._put(thread._replace(thread=key))
        return writes.bound(key)._replace(thread=thread._replace(thread=key))

    def _next_key(self, name: str) -> int:
        """The number after the last one used: the noted one, or one that is there and higher."""
        noted, there = self.connection.execute(_LAST_KEY[name]).fetchone()
        key = max(read_stamp(noted, name), there or 0) + 1
        self.connection.execute(_NOTE_KEY, (stamp(key, name), name))
        return key

    def _add(self, given: Brought) -> Brought:
        row, slots, parts = given
        if any(slot.stream <= 0 for slot in slots):
            slots = tuple(self._stream(row.thread, slot) for slot in slots)
            row = row._replace(slots=pack_slots(slots))
        self._insert_parts(row, slots, parts)
        self.connection.execute(_INSERT_CHECKPOINT, folded(row, seal_of(row)))
        return Brought(row, slots, parts)

    def _stream(self, thread: int, slot: Slot) -> Slot:
        if slot.stream > 0:
            return slot
        key = self._numbers.get(slot.stream)
        if key is None:
            key = self._next_key("stream")
            self.connection.execute("INSERT INTO lastgood_stream VALUES (?, ?)", (thread, key))
            if slot.stream:
                self._numbers[slot.stream] = key
        return slot._replace(stream=key)

    def _insert_parts(
        self, row: CheckpointRow, slots: Sequence[Slot], parts: Sequence[Part]
    ) -> None:
        if not parts:
            return
        keyed = [(slots[part.slot].stream << 32 | part.number, part) for part in parts]
        self.connection.executemany(
            "INSERT INTO lastgood_part VALUES (?, ?, ?, ?)",
            [(key, part.born or row.seq, part.digest, part.data) for key, part in keyed],
        )
        large = [(row.thread, p.digest, key) for key, p in keyed if len(p.data) >= SLICE]
        if large:
            self.connection.executemany(
                "INSERT OR REPLACE INTO lastgood_large VALUES (?, ?, ?)", large
            )

    def _remove(self, removed: Sequence[CheckpointRow]) -> None:
        """The newest are removed first, so what they follow is there still."""
        gone = {row.id: row for row in removed}
        low, ids = removed[0].thread << 32, f"({', '.join('?' * len(gone))})"
        children = self.all(
            CheckpointRow,
            select(
                CheckpointRow, f"key BETWEEN ? AND ? AND (parent IN {ids} OR fallback IN {ids})"
            ),
            *(low, low | LOW, *gone, *gone),
        )
        marked = [bereaved(child, gone) for child in children if child.id not in gone]
        self.connection.executemany(
            "UPDATE lastgood_checkpoint SET fallback = ?, rest = ? WHERE key = ?",
            [(row.fallback, folded(row, seal_of(row))[-1], low | row.seq) for row in marked],
        )
        self.connection.executemany(
            "DELETE FROM lastgood_checkpoint WHERE key = ?", [(low | row.seq,) for row in removed]
        )

    def _drop_parts(self, thread: int, swept: Sequence[Loose]) -> None:
        keys = [(part.spot.stream << 32 | part.spot.number,) for part in swept]
        self.connection.executemany("DELETE FROM lastgood_part WHERE key = ?", keys)
        large = [(thread, part.digest) for part in swept if part.digest]
        self.connection.executemany(
            "DELETE FROM lastgood_large WHERE thread = ? AND digest = ?", large
        )

    def _wipe(self, tombstone: ThreadRow) -> None:
        key = tombstone.thread
        streams = self.connection.execute(
            "SELECT stream FROM lastgood_stream WHERE thread = ?", (key,)
        ).fetchall()
        for (stream,) in streams:
            self.connection.execute(
                "DELETE FROM lastgood_part WHERE key BETWEEN ? AND ?",
                (stream << 32, stream << 32 | LOW),
            )
        self.connection.execute(
            "DELETE FROM lastgood_checkpoint WHERE key BETWEEN ? AND ?",
            (key << 32, key << 32 | LOW),
        )
        for table in ("stream", "large", "lane", "branch", "move", "tag", "run", "item"):
            if is_there(self.connection, table):
                self.connection.execute(f"DELETE FROM lastgood_{table} WHERE thread = ?", (key,))
        self._put(tombstone)
