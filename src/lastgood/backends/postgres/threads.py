"""Lists of threads from PostgreSQL: one statement a page, however many threads there are."""

from __future__ import annotations

from itertools import groupby
from typing import Any

from lastgood.backend import Sort
from lastgood.backends.postgres.rows import cut
from lastgood.backends.postgres.schema import COLUMNS
from lastgood.backends.postgres.statement import CLOCK, TOP, Statement, every
from lastgood.backends.remote.queries import AskThreads, PageRows
from lastgood.backends.remote.rows import to_bytes
from lastgood.rows import LIVE, CheckpointRow, LaneRow, RunRow, ThreadRow

_ORDERS: dict[Sort, tuple[str, str]] = {
    "updated": ("(t.active, t.thread) < (%s, %s)", "t.active DESC, t.thread DESC"),
    "created": (
        "(t.created_at, t.thread) < (%s, %s)",
        "t.created_at DESC, t.thread DESC",
    ),
    "name": ("t.name > %s", "t.name"),
}
_OWNED: dict[Sort, tuple[str, str]] = {
    "updated": _ORDERS["updated"],
    "created": (
        "(t.created_at + 0, t.thread) < (%s, %s)",
        "t.created_at + 0 DESC, t.thread DESC",
    ),
    "name": ("t.name || ''::bytea > %s", "t.name || ''::bytea"),
}
"""One user's are sorted: in the order of an index that has everybody's, all would be read."""
_FIRST: dict[Sort, tuple[object, ...]] = {"updated": (TOP, 0), "created": (TOP, 0), "name": ("",)}
_WIDE = sum(len(COLUMNS[cls]) for cls in (ThreadRow, RunRow, LaneRow))


def threads(at: str, query: AskThreads, shift: int) -> Statement:
    """A page of threads, each with its newest run, its lanes and what is over its time."""
    listing = query.listing
    owned = [] if listing.owner is None else [to_bytes(listing.owner)]
    beyond, order = (_OWNED if owned else _ORDERS)[listing.sort]
    whose = "t.owner = %s AND " if owned else ""
    newest = f" LEFT JOIN {at}.checkpoint c ON c.thread = t.thread AND c.seq = t.seq"
    text = (
        f"SELECT {every('t', ThreadRow)}, {every('r', RunRow)}, {every('l', LaneRow)},"
        " v.stored, v.expiring, v.over"
        + (f", {every('c', CheckpointRow)}" if listing.newest else "")
        + f" FROM (SELECT * FROM {at}.thread t WHERE t.tenant = %s AND t.state = {LIVE}"
        f" AND {whose}{beyond} ORDER BY {order} LIMIT %s) t"
        f" LEFT JOIN {at}.run r ON r.thread = t.thread AND r.number = t.runs"
        # The condition is inside too, or those of every thread are counted and then left out.
        " LEFT JOIN LATERAL (SELECT count(*) AS stored, count(expires_at) AS expiring,"
        f" count(*) FILTER (WHERE expires_at <= greatest({CLOCK} + %s, t.updated_at)) AS over"
        f" FROM {at}.checkpoint e WHERE e.thread = t.thread AND t.expiring > 0) v ON t.expiring > 0"
        f" LEFT JOIN {at}.lane l ON l.thread = t.thread"
        + (newest if listing.newest else "")
        + f" ORDER BY {order}, l.number"
    )
    after = listing.after or _FIRST[listing.sort]
    place = [to_bytes(value) if isinstance(value, str) else value for value in after]
    values = [to_bytes(query.tenant), *owned, *place, listing.limit, shift]
    return Statement(text, values, lambda rows: _pages(rows, newest=listing.newest))


def _pages(rows: list[Any], *, newest: bool) -> list[PageRows]:
    """Threads of a page, each from as many rows as it has lanes."""
    return [_page(list(group), newest=newest) for _, group in groupby(rows, key=lambda row: row[0])]


def _page(rows: list[Any], *, newest: bool) -> PageRows:
    each = [cut(row, ThreadRow, RunRow, LaneRow) for row in rows]
    thread, run, _ = each[0]
    assert thread is not None, "a page is made of threads"
    stored, expiring, over = rows[0][_WIDE : _WIDE + 3]
    return PageRows(
        thread=thread,
        run=run,
        newest=cut(rows[0][_WIDE + 3 :], CheckpointRow)[0] if newest else None,
        lanes=[lane for *_, lane in each if lane is not None],
        lives=None if stored is None else (stored, expiring, over),
    )
