"""Reading rows from SQLite, over one connection and inside a transaction that the caller opened.

Owns every SELECT on our rows. Uses nothing newer than SQLite 3.31, and only `execute` and the
cursor's `fetch*`, so that another driver's connection can take the place of sqlite3's.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any

from lastgood.backend import Census, Extents, ItemListing, Listing, Located
from lastgood.backends.sqlite_schema import (
    COLUMNS,
    LOW,
    PAGE_SIZE,
    SELECT_CHECKPOINT,
    prefixed,
    read_stamp,
    select,
)
from lastgood.backends.sqlite_threads import ThreadLists
from lastgood.backends.tables import COUNTED, Line, absent, audit
from lastgood.backends.views import span
from lastgood.commits import Place, Scope
from lastgood.errors import CheckpointIntegrityError
from lastgood.item_rules import belongs
from lastgood.manifest import Spot, check_parts
from lastgood.rows import (
    LIVE,
    BranchRow,
    CheckpointRow,
    ItemRow,
    LaneRow,
    MoveRow,
    RunRow,
    TagRow,
    ThreadRow,
    unsealed,
)

SMALL = 64 << 20
_CHECKPOINT = f"{SELECT_CHECKPOINT} id = ? AND key >> 32 = ?"


_THREAD = select(ThreadRow, "tenant = ? AND name = ?")
_THREAD_AGAIN = _THREAD.replace("WHERE", "INDEXED BY lastgood_thread_again WHERE")
_THREAD_BY_KEY = select(ThreadRow, "thread = ?")
_MOVE = select(MoveRow, "thread = ? AND lane = ? ORDER BY number DESC LIMIT 1")
_TAG = select(TagRow, "thread = ? AND name = ?")
_TAGS = select(TagRow, "thread = ? ORDER BY name")
_KEYS = "SELECT key FROM lastgood_checkpoint WHERE key BETWEEN ? AND ? ORDER BY key"
_TENANTS = (
    "SELECT (SELECT min(tenant) FROM lastgood_thread), (SELECT max(tenant) FROM lastgood_thread)"
)
_NEWEST = "SELECT value FROM lastgood_meta WHERE name = 'newest'"
_COUNT_ID = "SELECT count(*) FROM lastgood_checkpoint WHERE id = ?"
_COUNT_ID_UNINDEXED = "SELECT count(*) FROM lastgood_checkpoint NOT INDEXED WHERE id = ?"
_COUNT_KEY_INDEXED = (
    "SELECT count(*) FROM lastgood_checkpoint INDEXED BY lastgood_checkpoint_id"
    " WHERE id >= x'' AND +key = ?"
)
_LANE = select(LaneRow, "thread = ? AND agent = ?")
_LANES = select(LaneRow, "thread = ?")
_BRANCH = select(BranchRow, "thread = ? AND lane = ? AND name = ?")
_BRANCHES = select(BranchRow, "thread = ?")
_RUN = select(RunRow, "thread = ? AND lane = ? ORDER BY number DESC LIMIT 1")
_NEWEST_RUN = select(RunRow, "thread = ? ORDER BY number DESC LIMIT 1")
_ITEM = select(ItemRow, "thread = ? AND shelf = ? AND key = ?")
_ITEMS = select(ItemRow, "thread = ? AND shelf = ? AND key >= ?")
_COUNT_ITEMS = "SELECT count(*) FROM lastgood_item WHERE thread = ?"
_PLACES = "SELECT shelf, key FROM lastgood_item WHERE thread = ?"
_LARGE = "SELECT key FROM lastgood_large WHERE thread = ? AND digest = ?"
# With a limit it stops at the last one, and does not look at the page behind it.
_PARTS = "SELECT data FROM lastgood_part WHERE key BETWEEN ? AND ? ORDER BY key LIMIT ?"
_PARTS_CHECKED = _PARTS.replace("data", "data, key, digest", 1)


# Without the plus, which takes a column's type away, SQLite compares a key of the thread's table as
# a number with columns that have no type, and then cannot use their indexes.
_LINE = (
    f"SELECT {prefixed('t', ThreadRow)}, {prefixed('l', LaneRow)}, {prefixed('b', BranchRow)},"
    f" {prefixed('c', CheckpointRow)},"
    " (SELECT value FROM lastgood_meta WHERE name = 'newest')"
    " FROM lastgood_thread t"
    " JOIN lastgood_lane l ON l.thread = +t.thread AND l.agent = ?"
    " JOIN lastgood_branch b ON b.thread = l.thread AND b.lane = l.number"
    " AND b.name = coalesce(?, l.current)"
    " JOIN lastgood_checkpoint c ON c.id = b.head AND c.key >> 32 = b.thread"
    " WHERE t.tenant = ? AND t.name = ?"
)
_LANE_AT = len(COLUMNS[ThreadRow])
_BRANCH_AT = _LANE_AT + len(COLUMNS[LaneRow])
_HEAD_AT = _BRANCH_AT + len(COLUMNS[BranchRow])
_BY_ID = (
    f"SELECT {prefixed('t', ThreadRow)}, {prefixed('l', LaneRow)}, {prefixed('c', CheckpointRow)},"
    " (SELECT value FROM lastgood_meta WHERE name = 'newest')"
    " FROM lastgood_checkpoint c"
    " JOIN lastgood_thread t ON t.thread = c.key >> 32"
    " JOIN lastgood_lane l ON l.thread = c.key >> 32 AND l.number = c.lane"
    " WHERE c.id = ? AND t.tenant = ?"
)


class SqliteTables(ThreadLists):
    """The rows behind one connection, at one moment of the host's clock."""

    def __init__(self, connection: Any, clock: int) -> None:
        super().__init__(connection)
        self._host_clock = clock

    @property
    def newest(self) -> int:
        """The latest time of any change, to a second."""
        if self._stamp is None:
            (self._stamp,) = self.connection.execute(_NEWEST).fetchone() or ("",)
        return read_stamp(self._stamp)

    @property
    def clock(self) -> int:  # type: ignore[override]
        """The host's clock, which is not believed where it is behind the newest change."""
        return max(self._host_clock, self.newest)

    def line(self, scope: Scope) -> Line:
        """In one query when all of it is there, which is the usual case; else step by step."""
        names = (scope.agent, scope.branch, scope.tenant, scope.thread)
        found = self.connection.execute(_LINE, names).fetchone()
        if found is None:
            return super().line(scope)
        self._stamp = found[-1]
        thread = unsealed(ThreadRow, found[:_LANE_AT])
        lane = unsealed(LaneRow, found[_LANE_AT:_BRANCH_AT])
        branch = unsealed(BranchRow, found[_BRANCH_AT:_HEAD_AT])
        head = unsealed(CheckpointRow, found[_HEAD_AT:-1])
        _led_to(thread[1:3], (scope.tenant, scope.thread), "threads")
        _led_to(head.id, branch.head, "checkpoints")
        return Line(thread, lane, branch, head)

    def thread(self, tenant: str, name: str) -> ThreadRow | None:
        row = self.one(ThreadRow, _THREAD, tenant, name)
        if row is None and self.one(ThreadRow, _THREAD_AGAIN, tenant, name) is not None:
            raise CheckpointIntegrityError(f"the index of threads is damaged near {name!r}.")
        if row is not None:
            _led_to(row[1:3], (tenant, name), "threads")
        return row

    def thread_by_key(self, key: int) -> ThreadRow | None:
        return self.one(ThreadRow, _THREAD_BY_KEY, key)

    def lane(self, thread: int, agent: str) -> LaneRow | None:
        return self.one(LaneRow, _LANE, thread, agent)

    def lane_columns(self, thread: int) -> list[Sequence[object]]:
        found: list[Sequence[object]] = self.connection.execute(_LANES, (thread,)).fetchall()
        return found

    def branch(self, thread: int, lane: int, name: str) -> BranchRow | None:
        return self.one(BranchRow, _BRANCH, thread, lane, name)

    def branches(self, thread: int) -> list[BranchRow]:
        return self.all(BranchRow, _BRANCHES, thread)

    def checkpoint(self, thread: int, id: bytes) -> CheckpointRow | None:
        row = self.one(CheckpointRow, _CHECKPOINT, id, thread)
        if row is not None:
            _led_to(row.id, id, "checkpoints")
        return row

    def checkpoints(self, id: bytes) -> list[CheckpointRow]:
        return self.all(CheckpointRow, f"{SELECT_CHECKPOINT} id = ?", id)

    def newest_move(self, thread: int, lane: int) -> MoveRow | None:
        return self.one(MoveRow, _MOVE, thread, lane)

    def tag(self, thread: int, name: str) -> TagRow | None:
        return self.one(TagRow, _TAG, thread, name)

    def tags(self, thread: int) -> list[TagRow]:
        return self.all(TagRow, _TAGS, thread)

    def run(self, thread: int, lane: int) -> RunRow | None:
        return self.one(RunRow, _RUN, thread, lane)

    def newest_run(self, thread: int) -> RunRow | None:
        return self.one(RunRow, _NEWEST_RUN, thread)

    def item(self, thread: int, shelf: str, key: bytes) -> ItemRow | None:
        return self.one(ItemRow, _ITEM, thread, shelf, key)

    def item_count(self, thread: int) -> int:
        return int(self.connection.execute(_COUNT_ITEMS, (thread,)).fetchone()[0])

    def audit_items(self, thread: ThreadRow, missing: Sequence[Place] = ()) -> None:
        """A damaged page may list an item twice, and another that cannot be found by its key."""
        if 0 < thread.items <= COUNTED:
            places = set(self.connection.execute(_PLACES, (thread.thread,)))
            audit(thread, len(places), thread.items, "item")
            absent(thread, places.isdisjoint(missing), "item")

    def scan_items(self, thread: int, listing: ItemListing, now: int) -> list[ItemRow]:
        low, high = span(listing)
        statement, values = _ITEMS, [thread, listing.shelf, low]
        if high is not None:
            statement, values = f"{statement} AND key < ?", [*values, high]
        if listing.contains is not None:
            statement, values = f"{statement} AND instr(text, ?)", [*values, listing.contains]
        live = "expires_at <= ?" if listing.over else "(expires_at IS NULL OR expires_at > ?)"
        order = "DESC" if listing.reverse else "ASC"
        statement = f"{statement} AND {live} ORDER BY key {order} LIMIT ? OFFSET ?"
        return self.all(ItemRow, statement, *values, now, listing.limit, listing.offset)

    def large(self, thread: int, digests: Sequence[bytes]) -> dict[bytes, Spot]:
        found: dict[bytes, Spot] = {}
        for digest in digests:
            row = self.connection.execute(_LARGE, (thread, digest)).fetchone()
            if row is not None:
                found[digest] = Spot(row[0] >> 32, row[0] & LOW)
        return found

    def scan(
        self, thread: int, lane: int | None, listing: Listing, now: int
    ) -> list[CheckpointRow]:
        low = thread << 32
        before = LOW + 1 if listing.before is None else listing.before
        top = low | min(LOW, max(0, before - 1))
        low |= 0 if listing.above is None else min(LOW, max(0, listing.above + 1))
        optional: list[tuple[str, object, tuple[object, ...]]] = [
            ("(lane = ? OR source_lane = ?)", lane, (lane, lane)),
            ("branch = ?", listing.branch, (listing.branch,)),
            ("step_name = ?", listing.step_name, (listing.step_name,)),
            ("created_at >= ?", listing.since, (listing.since,)),
            ("created_at < ?", listing.until, (listing.until,)),
        ]
        given = [(text, values) for text, value, values in optional if value is not None]
        where = "".join(f" AND {text}" for text, _ in given)
        statement = (
            f"{SELECT_CHECKPOINT} key BETWEEN ? AND ?{where}"
            " AND (expires_at IS NULL OR expires_at > ?) ORDER BY key DESC LIMIT ?"
        )
        values = [value for _, group in given for value in group]
        return self.all(CheckpointRow, statement, low, top, *values, now, listing.limit)

    def find(self, tenant: str, ids: Iterable[bytes]) -> dict[bytes, Located]:
        wanted = list(ids)
        found = super().find(tenant, wanted)
        missing = [id for id in wanted if id not in found]
        if missing and self._small():
            self._confirm_absent(missing)
        return found

    def by_id(self, tenant: str, id: bytes) -> Located | None:
        """In one query when all of it is there, which is the usual case; else step by step."""
        found = self.connection.execute(_BY_ID, (id, tenant)).fetchone()
        if found is None:
            return super().by_id(tenant, id)
        self._stamp = found[-1]
        thread = unsealed(ThreadRow, found[:_LANE_AT])
        lane = unsealed(LaneRow, found[_LANE_AT:_BRANCH_AT])
        row = unsealed(CheckpointRow, found[_BRANCH_AT:-1])
        return Located(row, thread.name, lane.agent, row.expired(self.now_in(thread)))

    def _small(self) -> bool:
        """Whether the file is small enough to be read through where that makes an answer sure."""
        pages = self.connection.execute("PRAGMA page_count").fetchone()[0]
        return int(pages) * PAGE_SIZE <= SMALL

    def _confirm_absent(self, ids: list[bytes]) -> None:
        """An id that the index does not know must not be in the table either."""
        for id in ids:
            indexed = self.connection.execute(_COUNT_ID, (id,)).fetchone()
            if indexed != self.connection.execute(_COUNT_ID_UNINDEXED, (id,)).fetchone():
                raise CheckpointIntegrityError("the index of checkpoints is damaged.")

    def at(self, tenant: str, name: str, seq: int) -> Located | None:
        found = super().at(tenant, name, seq)
        thread = self.thread(tenant, name) if found is None else None
        if thread is not None and 0 < seq <= thread.seq and self._small():
            key = thread.thread << 32 | seq
            if self.connection.execute(_COUNT_KEY_INDEXED, (key,)).fetchone() != (0,):
                raise CheckpointIntegrityError(f"{name}@{seq} is missing from its table.")
        return found

    def checkpoint_at(self, thread: int, seq: int) -> CheckpointRow | None:
        return self.one(CheckpointRow, f"{SELECT_CHECKPOINT} key = ?", thread << 32 | seq)

    def seqs(self, thread: int) -> list[int]:
        found = self.connection.execute(_KEYS, (thread << 32, thread << 32 | LOW)).fetchall()
        return [key & LOW for (key,) in found]

    def census(self, tenant: str) -> Census:
        """How much there is."""
        threads = self.connection.execute(
            "SELECT count(*) FROM lastgood_thread WHERE tenant = ? AND state = ?", (tenant, LIVE)
        ).fetchone()[0]
        created = self.connection.execute(
            "SELECT value FROM lastgood_meta WHERE name = 'created_at'"
        ).fetchone()
        return Census(threads, int(created[0]) if created else 0, self._disk(tenant))

    def _disk(self, tenant: str) -> int | None:
        """Bytes of the file, unless a part of it is somebody else's to measure."""
        found = self.connection.execute(_TENANTS).fetchone()
        if not all(other is None or belongs(str(other), tenant) for other in found):
            return None
        return int(self.connection.execute("PRAGMA page_count").fetchone()[0]) * PAGE_SIZE

    def parts(self, ranges: Sequence[Extents], *, checked: bool) -> list[list[bytes]]:
        """The parts of each range."""
        found = []
        for extent in ranges:
            low = extent.first.stream << 32 | extent.first.number
            values = (low, low + extent.length - 1, extent.length)
            if checked:
                rows = self.connection.execute(_PARTS_CHECKED, values).fetchall()
                check_parts((Spot(key >> 32, key & LOW), digest, d) for d, key, digest in rows)
            else:
                rows = self.connection.execute(_PARTS, values).fetchall()
            found.append([row[0] for row in rows if type(row[0]) is bytes])
        return found


def _led_to(found: object, wanted: object, what: str) -> None:
    """A damaged index may lead to another row, which is intact itself."""
    if found != wanted:
        raise CheckpointIntegrityError(f"the index of {what} is damaged.")
