"""Reading rows from SQLite, over one connection and inside a transaction that the caller opened.

Owns every SELECT on our rows. Uses nothing newer than SQLite 3.31, and only `execute` and the
cursor's `fetch*`, so that another driver's connection can take the place of sqlite3's.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any

from lastgood.backend import Census, Extents, ItemListing, Located
from lastgood.backends.audits import absent, audit
from lastgood.backends.described import described
from lastgood.backends.sqlite.histories import BRANCH_AT, LANE_AT, Histories, led_to
from lastgood.backends.sqlite.rows import LOW
from lastgood.backends.sqlite.schema import (
    COLUMNS,
    PAGE_SIZE,
    is_there,
    prefixed,
    read_stamp,
    select,
)
from lastgood.backends.sqlite.verified import Verified
from lastgood.backends.tables import COUNTED, Line
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
)

SMALL = 64 << 20
_CHECKPOINT = select(CheckpointRow, "id = ? AND key >> 32 = ?")
_CHECKPOINTS = select(CheckpointRow, "id = ?")
_CHECKPOINT_AT = select(CheckpointRow, "key = ?")


_THREAD_BY_KEY = select(ThreadRow, "thread = ?")
_MOVE = select(MoveRow, "thread = ? AND lane = ? ORDER BY number DESC LIMIT 1")
_TAG = select(TagRow, "thread = ? AND name = ?")
_TAGS = select(TagRow, "thread = ? ORDER BY name")
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
_LANE_AGAIN = (
    "SELECT 1 FROM lastgood_lane INDEXED BY lastgood_lane_again WHERE agent = ? AND thread = ?"
)
_BRANCH = select(BranchRow, "thread = ? AND lane = ? AND name = ?")
_BRANCH_AGAIN = (
    "SELECT 1 FROM lastgood_branch INDEXED BY lastgood_branch_again"
    " WHERE name = ? AND lane = ? AND thread = ?"
)
_TAG_AGAIN = (
    "SELECT 1 FROM lastgood_tag INDEXED BY lastgood_tag_again WHERE name = ? AND thread = ?"
)
_RUN = select(RunRow, "thread = ? AND lane = ? ORDER BY number DESC LIMIT 1")
_NEWEST_RUN = select(RunRow, "thread = ? ORDER BY number DESC LIMIT 1")
_ITEM = select(ItemRow, "thread = ? AND shelf = ? AND key = ?")
_ITEMS = select(ItemRow, "thread = ? AND shelf = ? AND key >= ?")
NEXT_ITEM = (
    "SELECT key FROM lastgood_item WHERE thread = ? AND shelf = ? AND key >= ? ORDER BY key LIMIT 1"
)
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
_HEAD_AT = BRANCH_AT + len(COLUMNS[BranchRow])
_BY_ID = (
    f"SELECT {prefixed('t', ThreadRow)}, {prefixed('l', LaneRow)}, {prefixed('c', CheckpointRow)},"
    " (SELECT value FROM lastgood_meta WHERE name = 'newest')"
    " FROM lastgood_checkpoint c"
    " JOIN lastgood_thread t ON t.thread = c.key >> 32"
    " JOIN lastgood_lane l ON l.thread = c.key >> 32 AND l.number = c.lane"
    " WHERE c.id = ? AND t.tenant = ?"
)


class SqliteTables(Histories):
    """The rows behind one connection, at one moment of the host's clock."""

    def __init__(self, connection: Any, clock: int, known: Verified) -> None:
        super().__init__(connection, known)
        self._host_clock = clock

    @property
    def newest(self) -> int:
        """The latest time of any change, to a second."""
        if self.stamp is None:
            (self.stamp,) = self.connection.execute(_NEWEST).fetchone() or ("",)
        return read_stamp(self.stamp)

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
        self.stamp = found[-1]
        thread = self.verified(ThreadRow, found[:LANE_AT])
        lane = self.verified(LaneRow, found[LANE_AT:BRANCH_AT])
        branch = self.verified(BranchRow, found[BRANCH_AT:_HEAD_AT])
        head = self.verified(CheckpointRow, found[_HEAD_AT:-1])
        led_to(thread[1:3], (scope.tenant, scope.thread), "threads")
        led_to(head.id, branch.head, "checkpoints")
        return Line(thread, lane, branch, head)

    def thread_by_key(self, key: int) -> ThreadRow | None:
        return self.one(ThreadRow, _THREAD_BY_KEY, key)

    def lane(self, thread: int, agent: str) -> LaneRow | None:
        return self.one(LaneRow, _LANE, thread, agent)

    def confirm_no_lane(self, thread: ThreadRow, agent: str) -> None:
        """Of many lanes, a second index must not know it either."""
        if thread.lanes <= COUNTED or not is_there(self.connection, "lane_again"):
            self.account_for_lanes(thread, agent)
        else:
            self._not_again(thread, "lane", _LANE_AGAIN, agent)

    def confirm_no_branch(self, thread: ThreadRow, lane: int, name: str) -> None:
        if thread.branches <= COUNTED or not is_there(self.connection, "branch_again"):
            self.account_for_branches(thread, lane, name)
        else:
            self._not_again(thread, "branch", _BRANCH_AGAIN, name, lane)

    def confirm_no_tag(self, thread: ThreadRow, name: str) -> None:
        if thread.tags <= COUNTED or not is_there(self.connection, "tag_again"):
            self.account_for_tags(thread, name)
        else:
            self._not_again(thread, "tag", _TAG_AGAIN, name)

    def _not_again(self, thread: ThreadRow, what: str, statement: str, *key: object) -> None:
        again = self.connection.execute(statement, (*key, thread.thread)).fetchone()
        absent(thread, again is None, what)

    def branch(self, thread: int, lane: int, name: str) -> BranchRow | None:
        return self.one(BranchRow, _BRANCH, thread, lane, name)

    def checkpoint(self, thread: int, id: bytes) -> CheckpointRow | None:
        row = self.one(CheckpointRow, _CHECKPOINT, id, thread)
        if row is not None:
            led_to(row.id, id, "checkpoints")
        return row

    def checkpoints(self, id: bytes) -> list[CheckpointRow]:
        return self.all(CheckpointRow, _CHECKPOINTS, id)

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

    def item_columns(self, thread: int, places: Sequence[Place]) -> dict[Place, Sequence[object]]:
        found = {place: self.connection.execute(_ITEM, (thread, *place)) for place in places}
        stored = {place: cursor.fetchone() for place, cursor in found.items()}
        return {place: columns for place, columns in stored.items() if columns is not None}

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
        if not listing.every:
            live = "expires_at <= ?" if listing.over else "(expires_at IS NULL OR expires_at > ?)"
            statement, values = f"{statement} AND {live}", [*values, now]
        order = "DESC" if listing.reverse else "ASC"
        statement = f"{statement} ORDER BY key {order} LIMIT ? OFFSET ?"
        return self.all(ItemRow, statement, *values, listing.limit, listing.offset)

    def large(self, thread: int, digests: Sequence[bytes]) -> dict[bytes, Spot]:
        found: dict[bytes, Spot] = {}
        for digest in digests:
            row = self.connection.execute(_LARGE, (thread, digest)).fetchone()
            if row is not None:
                found[digest] = Spot(row[0] >> 32, row[0] & LOW)
        return found

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
        self.stamp = found[-1]
        thread = self.verified(ThreadRow, found[:LANE_AT])
        if not thread.live:
            return None
        lane = self.verified(LaneRow, found[LANE_AT:BRANCH_AT])
        row = self.verified(CheckpointRow, found[BRANCH_AT:-1])
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
        if thread is not None and thread.live and 0 < seq <= thread.seq and self._small():
            key = thread.thread << 32 | seq
            if self.connection.execute(_COUNT_KEY_INDEXED, (key,)).fetchone() != (0,):
                raise CheckpointIntegrityError(f"{name}@{seq} is missing from its table.")
        return found

    def checkpoint_at(self, thread: int, seq: int) -> CheckpointRow | None:
        return self.one(CheckpointRow, _CHECKPOINT_AT, thread << 32 | seq)

    def census(self, tenant: str) -> Census:
        """How much there is."""
        threads = self.connection.execute(
            "SELECT count(*) FROM lastgood_thread WHERE tenant = ? AND state = ?", (tenant, LIVE)
        ).fetchone()[0]
        created = self.connection.execute(
            "SELECT value FROM lastgood_meta WHERE name = 'created_at'"
        ).fetchone()
        made = described(created[0] if created else None, "created_at", "the file")
        return Census(threads, made, self._disk(tenant))

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
