"""Lists of threads from SQLite: two queries a page, however many threads there are.

A third one counts what is over its time, where there are threads with a time to live.

The last columns of a page are the store's newest time and the last key that was given out: in a
small store the index that the page came from is checked against the table, and the table against an
index, because either loses entries without a sound. In a large one that is left to `verify`.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from lastgood.backend import Sort, ThreadListing
from lastgood.backends.sqlite.rows import LOW
from lastgood.backends.sqlite.schema import COLUMNS, prefixed, read_stamp, select
from lastgood.backends.sqlite.verified import Verified
from lastgood.backends.views import Lifetimes, Listed, Views
from lastgood.errors import CheckpointIntegrityError
from lastgood.rows import (
    LIVE,
    CheckpointRow,
    LaneRow,
    R,
    RunRow,
    ThreadRow,
    intact,
    suspect,
)

FEW = 256
"""With keys up to this the whole table of threads is looked at."""
VARIABLES = 500
"""How many values one statement takes; older SQLite stops at 999."""

_RUN_AT = len(COLUMNS[ThreadRow])
_NEWEST_AT = _RUN_AT + len(COLUMNS[RunRow])

_ORDERS: dict[Sort, tuple[str, str, str]] = {
    "updated": (
        "INDEXED BY lastgood_thread_active",
        "(t.active, t.thread) < (?, ?)",
        "t.active DESC, t.thread DESC",
    ),
    "created": ("", "(t.created_at, t.thread) < (?, ?)", "t.created_at DESC, t.thread DESC"),
    "name": ("INDEXED BY lastgood_thread_name", "t.name > ?", "t.name"),
}
_OWNED: dict[Sort, tuple[str, str, str]] = {
    **{
        sort: ("", f"t.owner = ? AND {beyond}", order)
        for sort, (_, beyond, order) in _ORDERS.items()
    },
    "created": (
        "",
        "t.owner = ? AND (+t.created_at, t.thread) < (?, ?)",
        "+t.created_at DESC, t.thread DESC",
    ),
    "name": ("", "t.owner = ? AND +t.name > ?", "+t.name"),
}
"""By the index of owners, which not every file has. For the plus see `sqlite.tables`."""
_FIRST: dict[Sort, tuple[object, ...]] = {
    "updated": (1 << 62, 0),
    "created": (1 << 62, 0),
    "name": ("",),
}
_LAST_KEY = "SELECT value FROM lastgood_meta WHERE name = 'thread'"
_KEYS = "SELECT thread FROM lastgood_thread {} WHERE tenant = ? AND state = ? ORDER BY thread"
_KEYS_BY_TABLE = _KEYS.format("NOT INDEXED")
_KEYS_BY_INDEX = _KEYS.format("INDEXED BY lastgood_thread_active")


def _page(sort: Sort, *, newest: bool, owned: bool) -> str:
    index, beyond, order = (_OWNED if owned else _ORDERS)[sort]
    join = ""
    columns = f"{prefixed('t', ThreadRow)}, {prefixed('r', RunRow)}"
    if newest:
        columns += f", {prefixed('c', CheckpointRow)}"
        join = " LEFT JOIN lastgood_checkpoint c ON c.key = (t.thread << 32 | t.seq)"
    return (
        f"SELECT {columns}, (SELECT value FROM lastgood_meta WHERE name = 'newest'),"
        f" ({_LAST_KEY}) FROM lastgood_thread t {index}"
        f" LEFT JOIN lastgood_run r ON r.thread = +t.thread AND r.number = t.runs{join}"
        f" WHERE t.tenant = ? AND t.state = ? AND {beyond} ORDER BY {order} LIMIT ?"
    )


def _again(sort: Sort, *, owned: bool) -> str:
    """The keys of the same page by another way: the table itself."""
    _, beyond, order = (_OWNED if owned else _ORDERS)[sort]
    return (
        "SELECT t.thread FROM lastgood_thread t NOT INDEXED"
        f" WHERE t.tenant = ? AND t.state = ? AND {beyond} ORDER BY {order} LIMIT ?"
    )


_LIFETIMES = (
    "WITH asked(thread, low, now) AS (VALUES {values})"
    " SELECT thread, count(DISTINCT key), count(key), count(expires_at), total(expires_at <= now)"
    " FROM asked"
    f" LEFT JOIN lastgood_checkpoint ON key BETWEEN low AND low | {LOW} GROUP BY thread"
)


class ThreadLists(Views):
    """Threads by page, over one connection."""

    def __init__(self, connection: Any, known: Verified) -> None:
        self.connection = connection
        self._known = known
        self.stamp: object = None
        """The store's newest time as it is kept, once it was read."""

    def one(self, cls: type[R], statement: str, *values: object) -> R | None:
        """At most one row."""
        found = self.connection.execute(statement, values).fetchone()
        return None if found is None else self.verified(cls, found)

    def all(self, cls: type[R], statement: str, *values: object) -> list[R]:
        """Any number of rows."""
        return self._known.rows(cls, self.connection.execute(statement, values).fetchall())

    def verified(self, cls: type[R], columns: Sequence[object]) -> R:
        return self._known.row(cls, columns)

    def thread_page(self, tenant: str, listing: ThreadListing) -> list[Listed]:
        after = listing.after or _FIRST[listing.sort]
        owned = () if listing.owner is None else (listing.owner,)
        statement = _page(listing.sort, newest=listing.newest, owned=bool(owned))
        values = (tenant, LIVE, *owned, *after, listing.limit)
        rows = self.connection.execute(statement, values).fetchall()
        if rows:
            self.stamp = rows[0][-2]
        if self._few(rows):
            again = self._keys(_again(listing.sort, owned=bool(owned)), *values)
            by_table, by_index = (
                self._keys(each, tenant, LIVE) for each in (_KEYS_BY_TABLE, _KEYS_BY_INDEX)
            )
            if [row[0] for row in rows] != again or by_table != by_index:
                raise CheckpointIntegrityError("the table of threads is damaged: rows are missing.")
        listed = [self._listed(row, listing) for row in rows]
        if any(found.thread.tenant != tenant or not found.thread.live for found in listed):
            raise CheckpointIntegrityError("the index of threads is damaged: it names others.")
        return listed

    def _listed(self, row: Sequence[Any], listing: ThreadListing) -> Listed:
        columns, run, last = row[:_RUN_AT], row[_RUN_AT:_NEWEST_AT], row[_NEWEST_AT:-2]
        try:
            return Listed(
                self.verified(ThreadRow, columns),
                self.verified(RunRow, run) if run[0] is not None else None,
                self.verified(CheckpointRow, last) if _is_there(last, listing) else None,
            )
        except CheckpointIntegrityError as error:
            damaged = suspect(columns)
            # The index says whose it is: damage must not take it off that user's list.
            owner = damaged.owner if listing.owner is None else listing.owner
            return Listed(damaged._replace(owner=owner), damage=error.message)

    def _few(self, rows: Sequence[Any]) -> bool:
        """Whether the table is small enough to be looked through.

        The highest key in a damaged table may be anything, so the one that was given out last is
        asked for; where that is damaged too, the table is looked through whatever its size.
        """
        row = rows[0] if rows else self.connection.execute(f"SELECT ({_LAST_KEY})").fetchone()
        try:
            return read_stamp(row[-1], "thread") <= FEW
        except CheckpointIntegrityError:
            return True

    def _keys(self, statement: str, *values: object) -> list[int]:
        return [key for (key,) in self.connection.execute(statement, values).fetchall()]

    def lanes_of(self, threads: Sequence[int]) -> list[LaneRow]:
        found: list[LaneRow] = []
        for first in range(0, len(threads), VARIABLES):
            some = threads[first : first + VARIABLES]
            marks = ", ".join("?" * len(some))
            rows = self.connection.execute(select(LaneRow, f"thread IN ({marks})"), some)
            found += [lane for row in rows.fetchall() if (lane := intact(LaneRow, row))]
        return found

    def lifetimes(self, threads: Sequence[ThreadRow]) -> dict[int, Lifetimes]:
        found: dict[int, Lifetimes] = {}
        for first in range(0, len(threads), VARIABLES // 3):
            some = threads[first : first + VARIABLES // 3]
            asked = [(row.thread, row.thread << 32, self.now_in(row)) for row in some]
            statement = _LIFETIMES.format(values=", ".join(["(?, ?, ?)"] * len(asked)))
            values = [value for each in asked for value in each]
            counts = self.connection.execute(statement, values).fetchall()
            for thread, unique, stored, expiring, over in counts:
                found[thread] = Lifetimes(stored if stored == unique else -1, expiring, int(over))
        return found


def _is_there(newest: Sequence[Any], listing: ThreadListing) -> bool:
    return listing.newest and newest[0] is not None
