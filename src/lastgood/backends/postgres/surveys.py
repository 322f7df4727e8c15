"""Surveys of a store in PostgreSQL: rows as they are stored, and rows of no thread."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any

from lastgood.backend import Footprint, Section, Sheet, Shelf
from lastgood.backends.described import making
from lastgood.backends.postgres.exchange import Rows
from lastgood.backends.postgres.schema import COLUMNS
from lastgood.backends.postgres.wire import Sql
from lastgood.backends.remote.rows import columns, to_bytes, to_text
from lastgood.backends.surveys import gathered, of_tenant, orphans, told
from lastgood.reports import Problem
from lastgood.rows import (
    DELETED,
    TABLES,
    BranchRow,
    CheckpointRow,
    ItemRow,
    LaneRow,
    MoveRow,
    RunRow,
    TagRow,
    ThreadRow,
)

_ORDERS: dict[type, str] = {
    LaneRow: "agent",
    BranchRow: "lane, name",
    MoveRow: "lane, number",
    TagRow: "name",
    RunRow: "number",
    ItemRow: "shelf, key",
}
_ROWS = {name: cls for cls, name in TABLES.items()}
_OF_THREADS: tuple[Shelf, ...] = (
    "checkpoint",
    "lane",
    "branch",
    "move",
    "tag",
    "run",
    "item",
    "stream",
    "large",
    "part",
)


def statement(schema: str, tenant: str, section: Section) -> Sql:
    """The statement for a section."""
    table = f"{schema}.{section.table}"
    if section.table == "thread":
        names = ", ".join(COLUMNS[ThreadRow])
        if section.name is not None:
            values: list[object] = [to_bytes(tenant), to_bytes(section.name)]
            return f"SELECT {names} FROM {table} WHERE tenant = %s AND name = %s", values
        where = "thread BETWEEN %s AND %s ORDER BY thread LIMIT %s"
        return f"SELECT {names} FROM {table} WHERE {where}", (
            section.low,
            section.high,
            section.limit,
        )
    if section.table == "checkpoint":
        names = ", ".join(COLUMNS[CheckpointRow])
        where = "thread = %s AND seq BETWEEN %s AND %s ORDER BY seq LIMIT %s"
        ends = (section.owner, section.low, section.high, section.limit)
        return f"SELECT {names} FROM {table} WHERE {where}", ends
    if section.table == "part":
        data = "data" if section.data else "NULL"
        where = "thread = %s AND stream = %s AND number BETWEEN %s AND %s ORDER BY number LIMIT %s"
        names = f"number, born, length(data), digest, {data}"
        bounds = (section.owner, section.stream, section.low, section.high, section.limit)
        return f"SELECT {names} FROM {table} WHERE {where}", bounds
    names, order = {
        "stream": ("stream", "stream"),
        "large": ("digest, stream, number", "digest"),
    }.get(section.table) or (
        ", ".join(COLUMNS[_ROWS[section.table]]),
        _ORDERS[_ROWS[section.table]],
    )
    where = f"thread = %s ORDER BY {order} LIMIT %s OFFSET %s"
    return f"SELECT {names} FROM {table} WHERE {where}", (section.owner, section.limit, section.low)


def sheet(tenant: str, section: Section, rows: Rows) -> Sheet:
    """What becomes of the rows."""
    cls = _ROWS.get(section.table)
    read: Iterable[Any] = rows if cls is None else (columns(cls, row) for row in rows)
    if section.table == "thread":
        after = rows[-1][0] + 1 if len(rows) == section.limit and section.name is None else None
        return Sheet(list(of_tenant(tenant, section, read)), after)
    found, more = gathered(read, section.limit)
    if section.table in ("checkpoint", "part"):
        last: Any = found[-1][1 if section.table == "checkpoint" else 0] if found else 0
        return Sheet(found, last + 1 if more else None)
    return Sheet(found, section.low + len(found) if more else None)


def tenants(schema: str) -> Sql:
    """Who has a thread that was not deleted: a few lookups in indexes for each tenant.

    DISTINCT would go through the threads. A scalar sub-query is carried out for each row as it
    stands; EXISTS might become a join, which reads the table.
    """
    table = f"{schema}.thread t"
    first = f"(SELECT t.tenant FROM {table} ORDER BY t.tenant LIMIT 1)"
    behind = f"(SELECT t.tenant FROM {table} WHERE t.tenant > e.tenant ORDER BY t.tenant LIMIT 1)"
    own = f"SELECT 1 FROM {table} WHERE t.tenant = e.tenant AND t.state"
    # In this order, or before the first ANALYZE all that were deleted may be read by their names.
    states = [f"({own} {side} {DELETED} ORDER BY t.state LIMIT 1) = 1" for side in "<>"]
    text = (
        f"WITH RECURSIVE e(tenant) AS (SELECT {first} UNION ALL"
        f" SELECT {behind} FROM e WHERE e.tenant IS NOT NULL)"
        f" SELECT e.tenant FROM e WHERE e.tenant IS NOT NULL AND ({' OR '.join(states)})"
    )
    return text, ()


def read_tenants(rows: Rows) -> list[str]:
    """The answer."""
    return told(to_text(name) for (name,) in rows)


def footprint(schema: str, thread: int) -> Sql:
    """What one thread takes; the length of a column is known without reading it."""
    text = (
        "SELECT count(*), coalesce(sum(size), 0)::bigint,"
        " coalesce(sum(length(manifest)), 0)::bigint,"
        f" (SELECT coalesce(sum(length(data)), 0)::bigint FROM {schema}.part WHERE thread = %s),"
        f" (SELECT coalesce(sum(length(value)), 0)::bigint FROM {schema}.item WHERE thread = %s)"
        f" FROM {schema}.checkpoint WHERE thread = %s"
    )
    return text, (thread, thread, thread)


def read_footprint(rows: Rows) -> Footprint:
    """The answer."""
    return Footprint(*rows[0])


def checks(schema: str) -> list[Sql]:
    """What is asked about a store as a whole; `problems` reads the answers.

    The time of its making; checkpoints that bear another tenant than their thread, so that nobody
    finds them by their ids; for each table, rows whose thread is not there, or was deleted.
    """
    misplaced = (
        f"SELECT c.thread, array_agg(c.seq ORDER BY c.seq) FROM {schema}.checkpoint c"
        f" JOIN {schema}.thread t ON t.thread = c.thread AND t.tenant <> c.tenant"
        " GROUP BY c.thread"
    )
    made = f"SELECT value FROM {schema}.meta WHERE name = 'created_at'"
    return [(made, ()), (misplaced, ()), *((_lost(schema, table), ()) for table in _OF_THREADS)]


def _lost(schema: str, table: Shelf) -> str:
    number = "array_agg(x.seq ORDER BY x.seq)" if table == "checkpoint" else "NULL::bigint[]"
    return (
        f"SELECT x.thread, t.state, {number} FROM {schema}.{table} x"
        f" LEFT JOIN {schema}.thread t ON t.thread = x.thread"
        f" WHERE t.thread IS NULL OR t.state = {DELETED} GROUP BY x.thread, t.state"
    )


def problems(found: Sequence[Rows]) -> list[Problem]:
    """What the statements of `checks` found."""
    made, misplaced, *lost = found
    return [
        *making(made[0][0] if made else None),
        *(_misplaced(key, seqs) for key, seqs in misplaced),
        *(
            orphans(table, key, seqs or (), deleted=state is not None)
            for table, rows in zip(_OF_THREADS, lost, strict=True)
            for key, state, seqs in rows
        ),
    ]


def _misplaced(key: int, seqs: Sequence[int]) -> Problem:
    names = tuple(f"#{key}@{seq}" for seq in seqs)
    message = "checkpoints bear another tenant than their thread: nobody finds them by their ids."
    return Problem("index", f"thread #{key}", message, names, repairable=True)
