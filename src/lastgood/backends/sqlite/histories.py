"""A thread's history from SQLite: two statements for a page of most threads.

Most threads have one lane and one branch. Such a thread is read together with both and with the
store's newest time; any other one, or one of which something is missing, step by step. Of a long
history one row more than a page is read: the parent of the page's last row, which must be there.
"""

from __future__ import annotations

from collections.abc import Collection, Sequence
from functools import cache
from typing import Any, NamedTuple

from lastgood.backend import Listing, Located
from lastgood.backends.sqlite.rows import LOW, STORED
from lastgood.backends.sqlite.schema import COLUMNS, is_there, prefixed, select
from lastgood.backends.sqlite.threads import VARIABLES, ThreadLists
from lastgood.backends.tables import COUNTED
from lastgood.errors import CheckpointIntegrityError
from lastgood.rows import BranchRow, CheckpointRow, LaneRow, ThreadRow

LANE_AT = len(COLUMNS[ThreadRow])
BRANCH_AT = LANE_AT + len(COLUMNS[LaneRow])
_AGENT = COLUMNS[LaneRow].index("agent")
_KEY, _ID = (STORED.index(name) for name in ("key", "id"))

_THREAD = select(ThreadRow, "tenant = ? AND name = ?")
_THREAD_AGAIN = _THREAD.replace("WHERE", "INDEXED BY lastgood_thread_again WHERE")
_LANES = select(LaneRow, "thread = ?")
# By itself SQLite would rather read all lanes of the thread.
_NUMBERED = select(LaneRow, "thread = ? AND number IN ({marks})").replace(
    "WHERE", "INDEXED BY lastgood_lane_number WHERE"
)
_BRANCHES = select(BranchRow, "thread = ?")
_KEYS = "SELECT key FROM lastgood_checkpoint WHERE key BETWEEN ? AND ? ORDER BY key"
_BEFORE = select(CheckpointRow, "key BETWEEN ? AND ? ORDER BY key DESC LIMIT ?")
# For the plus see `sqlite.tables`. A second row would say that a count is wrong.
_ALONE = (
    f"SELECT {prefixed('t', ThreadRow)}, {prefixed('l', LaneRow)}, {prefixed('b', BranchRow)},"
    " (SELECT value FROM lastgood_meta WHERE name = 'newest')"
    " FROM lastgood_thread t"
    " JOIN lastgood_lane l ON l.thread = +t.thread"
    " JOIN lastgood_branch b ON b.thread = l.thread"
    " WHERE t.tenant = ? AND t.name = ? AND t.lanes = 1 AND t.branches = 1 LIMIT 2"
)


class Alone(NamedTuple):
    """A thread with its only lane and its only branch, as they are stored."""

    thread: ThreadRow
    lane: Sequence[object]
    branch: Sequence[object]


class Histories(ThreadLists):
    """Checkpoints by page, over one connection and at one moment."""

    _alone: Alone | None = None
    _beyond: Sequence[Sequence[Any]] = ()
    """What a scan has read behind the page."""

    def history(self, tenant: str, listing: Listing) -> list[Located]:
        found = self.connection.execute(_ALONE, (tenant, listing.thread)).fetchall()
        self._alone = (
            self._read_alone(found[0], tenant, listing.thread) if len(found) == 1 else None
        )
        if self._alone is not None and self._alone.lane[_AGENT] == listing.agent:
            listing = listing._replace(agent=None)  # all of the thread is this agent's
        return super().history(tenant, listing)

    def _read_alone(self, found: Sequence[Any], tenant: str, name: str) -> Alone:
        self.stamp = found[-1]
        thread = self.verified(ThreadRow, found[:LANE_AT])
        led_to(thread[1:3], (tenant, name), "threads")
        return Alone(thread, found[LANE_AT:BRANCH_AT], found[BRANCH_AT:-1])

    def thread(self, tenant: str, name: str) -> ThreadRow | None:
        if self._alone is not None and self._alone.thread[1:3] == (tenant, name):
            return self._alone.thread
        row = self.one(ThreadRow, _THREAD, tenant, name)
        if row is None and self.one(ThreadRow, _THREAD_AGAIN, tenant, name) is not None:
            raise CheckpointIntegrityError(f"the index of threads is damaged near {name!r}.")
        if row is not None:
            led_to(row[1:3], (tenant, name), "threads")
        return row

    def lane_columns(
        self, thread: int, numbers: Collection[int] | None = None
    ) -> list[Sequence[object]]:
        if self._alone is not None and self._alone.thread.thread == thread:
            return [self._alone.lane]
        statement, some = _LANES, numbers or ()
        if 0 < len(some) <= VARIABLES and is_there(self.connection, "lane_number"):
            statement = _NUMBERED.format(marks=", ".join("?" * len(some)))
        else:
            some = ()
        found: list[Sequence[object]]
        found = self.connection.execute(statement, (thread, *some)).fetchall()
        return found

    def branches(self, thread: int) -> list[BranchRow]:
        if self._alone is not None and self._alone.thread.thread == thread:
            return [self.verified(BranchRow, self._alone.branch)]
        return self.all(BranchRow, _BRANCHES, thread)

    def scan(
        self, thread: int, lane: int | None, listing: Listing, now: int
    ) -> list[CheckpointRow]:
        low = thread << 32
        before = LOW + 1 if listing.before is None else listing.before
        top = low | min(LOW, max(0, before - 1))
        low |= 0 if listing.above is None else min(LOW, max(0, listing.above + 1))
        where, values = _filters(lane, listing)
        long = self._alone is not None and self._alone.thread.checkpoints > COUNTED
        statement = _scan(where, one_more=long and not where)
        wanted = (low, top, *values, now, listing.limit)
        found = self.connection.execute(statement, wanted).fetchall()
        self._beyond = found[listing.limit :]
        return self._known.rows(CheckpointRow, found[: listing.limit])

    def checkpoints_of(self, thread: int, ids: Sequence[bytes]) -> list[CheckpointRow | None]:
        beyond = {
            columns[_ID]: columns for columns in self._beyond if columns[_KEY] >> 32 == thread
        }
        return [
            self.verified(CheckpointRow, beyond[id])
            if id in beyond
            else self.checkpoint(thread, id)
            for id in ids
        ]

    def nearby(self, row: CheckpointRow, limit: int) -> dict[bytes, Sequence[object]]:
        low = row.thread << 32
        found = self.connection.execute(_BEFORE, (low, low | row.seq - 1, limit)).fetchall()
        return {columns[_ID]: columns for columns in found}

    def seqs(self, thread: int) -> list[int]:
        found = self.connection.execute(_KEYS, (thread << 32, thread << 32 | LOW)).fetchall()
        return [key & LOW for (key,) in found]


def _filters(lane: int | None, listing: Listing) -> tuple[str, list[object]]:
    """The conditions that a listing adds, and their values."""
    optional: tuple[tuple[str, object, int], ...] = (
        ("(lane = ? OR source_lane = ?)", lane, 2),
        ("branch = ?", listing.branch, 1),
        ("step_name = ?", listing.step_name, 1),
        ("created_at >= ?", listing.since, 1),
        ("created_at < ?", listing.until, 1),
    )
    given = [each for each in optional if each[1] is not None]
    where = "".join([f" AND {text}" for text, _, _ in given])
    return where, [value for _, value, times in given for _ in range(times)]


@cache
def _scan(where: str, *, one_more: bool) -> str:
    statement = select(
        CheckpointRow,
        f"key BETWEEN ? AND ?{where}"
        " AND (expires_at IS NULL OR expires_at > ?) ORDER BY key DESC LIMIT ?",
    )
    return f"{statement} + 1" if one_more else statement


def led_to(found: object, wanted: object, what: str) -> None:
    """A damaged index may lead to another row, which is intact itself."""
    if found != wanted:
        raise CheckpointIntegrityError(f"the index of {what} is damaged.")
