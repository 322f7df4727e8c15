"""Surveys of a SQLite file: rows as they are stored, and what SQLite itself says of the file.

Reads by key and past the indexes wherever it can, so that damage in one place does not hide
another. Runs inside a transaction that the caller opened.
"""

from __future__ import annotations

import sqlite3
from collections.abc import Callable, Iterator
from functools import partial
from typing import Any

from lastgood.backend import Columns, Footprint, Section, Sheet, Shelf
from lastgood.backends.described import making
from lastgood.backends.sqlite.rows import LOW, unfolded
from lastgood.backends.sqlite.schema import (
    COLUMNS,
    is_there,
    read_stamp,
    select,
)
from lastgood.backends.surveys import gathered, of_tenant, orphans, told
from lastgood.errors import CheckpointIntegrityError
from lastgood.reports import Problem
from lastgood.rows import (
    DELETED,
    BranchRow,
    CheckpointRow,
    ItemRow,
    LaneRow,
    MoveRow,
    RunRow,
    TagRow,
    ThreadRow,
)

_COUNTED: dict[Shelf, str] = {
    "lane": select(LaneRow, "thread = ? ORDER BY agent"),
    "branch": select(BranchRow, "thread = ? ORDER BY lane, name"),
    "move": select(MoveRow, "thread = ? ORDER BY lane, number"),
    "tag": select(TagRow, "thread = ? ORDER BY name"),
    "run": select(RunRow, "thread = ? ORDER BY number"),
    "item": select(ItemRow, "thread = ? ORDER BY shelf, key"),
    "stream": "SELECT stream FROM lastgood_stream WHERE thread = ? ORDER BY stream",
    "large": f"SELECT digest, key >> 32, key & {LOW} FROM lastgood_large"
    " WHERE thread = ? ORDER BY digest",
}
_KEYED: dict[Shelf, str] = {
    "checkpoint": select(CheckpointRow, "{where} ORDER BY key"),
    "part": f"SELECT key & {LOW}, born, CASE typeof(data) WHEN 'blob' THEN length(data) END, digest"
    ", {data} FROM lastgood_part WHERE {where} ORDER BY key",
}
# A range reads on until it is past its end, onto a page that may be damaged: one key does not.
_WHERE = {1: "key = ?", 2: "key BETWEEN ? AND ?"}
_DATA = {False: "NULL", True: "CASE typeof(data) WHEN 'blob' THEN data END"}
_NUMBER_AT: dict[Shelf, int] = {"checkpoint": 1, "part": 0}
_THREADS = (
    f"SELECT {', '.join(COLUMNS[ThreadRow])} FROM lastgood_thread NOT INDEXED"
    " WHERE thread BETWEEN ? AND ? ORDER BY thread LIMIT ?"
)
_THREAD = select(ThreadRow, "tenant = ? AND name = ? LIMIT ?")
_NAMES = (
    "SELECT thread, tenant, name FROM lastgood_thread INDEXED BY lastgood_thread_name WHERE {where}"
    " ORDER BY thread LIMIT ?"
)
_NAMED, _NUMBERED = "tenant = ? AND name = ?", "+thread BETWEEN ? AND ?"
_UNKNOWN = (None,) * (len(COLUMNS[ThreadRow]) - 3)


def sheet(connection: Any, tenant: str, section: Section) -> Sheet:
    """One section of a survey."""
    if section.table == "thread":
        return _threads(connection, tenant, section)
    if section.table in _KEYED:
        return _keyed(connection, section)
    if not is_there(connection, section.table):
        return Sheet([], None)
    values = (section.owner, section.limit, section.low)
    cursor = connection.execute(f"{_COUNTED[section.table]} LIMIT ? OFFSET ?", values)
    rows, more = gathered(_each(cursor), section.limit)
    return Sheet(rows, section.low + len(rows) if more else None)


def _threads(connection: Any, tenant: str, section: Section) -> Sheet:
    if section.name is not None:
        found = _found(connection, _THREAD, _NAMED, (tenant, section.name), 1)
        return Sheet(list(of_tenant(tenant, section, found)), None)
    rows = _found(connection, _THREADS, _NUMBERED, (section.low, section.high), section.limit)
    # Rows out of order are damage; going back for them would never end, here and below.
    last: Any = rows[-1][0] if rows else 0
    after = max(last, section.low) + 1 if len(rows) == section.limit else None
    return Sheet(list(of_tenant(tenant, section, rows)), after)


def _found(
    connection: Any, statement: str, where: str, values: tuple[object, ...], limit: int
) -> list[Columns]:
    """Rows of threads; one on a page that cannot be read is as its index knows it: key and names.

    Such a page holds the rows of some twenty threads, and nothing of their states.
    """
    try:
        return list(connection.execute(statement, (*values, limit)))
    except sqlite3.DatabaseError:
        names = connection.execute(_NAMES.format(where=where), (*values, limit)).fetchall()
        return [_one(connection, *each) for each in names]


def _one(connection: Any, key: int, *names: object) -> Columns:
    try:
        rows = connection.execute(_THREADS, (key, key, 1)).fetchall()
    except sqlite3.DatabaseError:
        rows = []
    return rows[0] if rows else (key, *names, *_UNKNOWN)


def _keyed(connection: Any, section: Section) -> Sheet:
    low = (section.stream or section.owner) << 32
    keys = tuple(dict.fromkeys((low | section.low, low | section.high)))
    statement = _KEYED[section.table].format(where=_WHERE[len(keys)], data=_DATA[section.data])
    stored = _each(connection.execute(statement, keys))
    each = map(unfolded, stored) if section.table == "checkpoint" else stored
    rows, more = gathered(each, section.limit)
    last: Any = rows[-1][_NUMBER_AT[section.table]] if rows else 0
    return Sheet(rows, max(last, section.low) + 1 if more else None)


def _each(cursor: Any) -> Iterator[Columns]:
    while (row := cursor.fetchone()) is not None:
        yield row


# who has threads: a lookup in the index for each tenant, not one for each thread

_TENANTS = f"""WITH RECURSIVE each(tenant) AS (
    SELECT min(tenant) FROM lastgood_thread
    UNION SELECT (SELECT min(tenant) FROM lastgood_thread WHERE tenant > each.tenant)
    FROM each WHERE each.tenant IS NOT NULL)
SELECT tenant FROM each
    WHERE EXISTS (SELECT 1 FROM lastgood_thread t
        WHERE t.tenant = each.tenant AND t.state < {DELETED})
    OR EXISTS (SELECT 1 FROM lastgood_thread t
        WHERE t.tenant = each.tenant AND t.state > {DELETED})"""
_TENANTS_UNINDEXED = (
    f"SELECT DISTINCT tenant FROM lastgood_thread NOT INDEXED WHERE state <> {DELETED}"
)


def tenants(connection: Any) -> list[str]:
    """Who has a thread that was not deleted; read from the rows if an index cannot be."""
    try:
        found = connection.execute(_TENANTS).fetchall()
    except sqlite3.DatabaseError:
        found = connection.execute(_TENANTS_UNINDEXED).fetchall()
    return told(name for (name,) in found)


# what a thread takes

_CHECKPOINT_BYTES = (
    # A damaged size must not make the sum overflow.
    "SELECT count(*), coalesce(sum(max(0, min(size, 1 << 50))), 0),"
    " coalesce(sum(length(manifest)), 0)"
    " FROM lastgood_checkpoint WHERE key BETWEEN ? AND ?"
)
_PART_BYTES = (
    "SELECT coalesce(sum(length(p.data)), 0) FROM lastgood_stream s JOIN lastgood_part p"
    f" ON p.key BETWEEN s.stream << 32 AND s.stream << 32 | {LOW} WHERE s.thread = ?"
)
_ITEM_BYTES = "SELECT coalesce(sum(length(value)), 0) FROM lastgood_item WHERE thread = ?"


def footprint(connection: Any, thread: int) -> Footprint:
    """What one thread takes; `length` of a blob does not read it."""
    low = thread << 32
    count, logical, inline = connection.execute(_CHECKPOINT_BYTES, (low, low | LOW)).fetchone()
    (parts,) = connection.execute(_PART_BYTES, (thread,)).fetchone()
    items = 0
    if is_there(connection, "item"):
        (items,) = connection.execute(_ITEM_BYTES, (thread,)).fetchone()
    return Footprint(count, logical, inline, parts, items)


# the store as a whole

_OF_THREADS = ("checkpoint", "lane", "branch", "move", "tag", "run", "item", "stream", "large")
_HARMLESS = ("index", "freelist", "never used")


def _own_check(connection: Any) -> Iterator[Problem]:
    """SQLite's own check also compares every index with its table."""
    for (text,) in connection.execute("PRAGMA integrity_check").fetchall():
        for line in text.splitlines():
            if line == "ok" or line.startswith("***"):
                continue
            repairable = any(word in line.lower() for word in _HARMLESS)
            kind = "index" if "index" in line.lower() else "file"
            yield Problem(kind, "store", f"SQLite says: {line}.", repairable=repairable)


def _meta(connection: Any) -> Iterator[Problem]:
    found = dict(connection.execute("SELECT name, value FROM lastgood_meta").fetchall())
    for name in ("newest", "thread", "stream"):
        try:
            read_stamp(found.get(name, ""), name)
        except CheckpointIntegrityError as error:
            message = f"{error.message} It has to be set anew."
            yield Problem("row", "store", message, repairable=True)
    yield from making(found.get("created_at"))


def _lost_threads(table: str, connection: Any) -> Iterator[Problem]:
    statement = "SELECT thread, state FROM lastgood_thread NOT INDEXED"
    states = dict(connection.execute(statement).fetchall())
    for key in _thread_keys(connection, table):
        if key not in states or states[key] == DELETED:
            seqs = _seqs(connection, key) if table == "checkpoint" else []
            yield orphans(table, key, seqs, deleted=key in states)


def _thread_keys(connection: Any, table: str) -> list[int]:
    if table == "checkpoint":
        return list(_upper_halves(connection, table))
    if not is_there(connection, table):
        return []
    found = connection.execute(f"SELECT DISTINCT thread FROM lastgood_{table}").fetchall()
    return [key for (key,) in found]


def _upper_halves(connection: Any, table: str) -> Iterator[int]:
    """The threads of checkpoints or the streams of parts: one lookup each, not one per row.

    Ends where rows are out of order, which SQLite's own check tells: else it would never end.
    """
    statement = f"SELECT min(key) FROM lastgood_{table} WHERE key > ?"
    low, key = -1, connection.execute(statement, (-1,)).fetchone()[0]
    while key is not None and key > low:
        yield key >> 32
        low = key | LOW
        key = connection.execute(statement, (low,)).fetchone()[0]


def _seqs(connection: Any, thread: int) -> list[int]:
    keys = (thread << 32, thread << 32 | LOW)
    statement = "SELECT key FROM lastgood_checkpoint WHERE key BETWEEN ? AND ? ORDER BY key"
    return [key & LOW for (key,) in connection.execute(statement, keys).fetchall()]


def _lost_streams(connection: Any) -> Iterator[Problem]:
    statement = "SELECT stream FROM lastgood_stream NOT INDEXED"
    known = {stream for (stream,) in connection.execute(statement).fetchall()}
    for stream in _upper_halves(connection, "part"):
        if stream not in known:
            message = "its row is missing, its parts are there."
            yield Problem("stream", f"stream {stream}", message, repairable=True)


CHECKS: tuple[Callable[[Any], Iterator[Problem]], ...] = (
    _own_check,
    _meta,
    *(partial(_lost_threads, table) for table in _OF_THREADS),
    _lost_streams,
)
"""Everything that can be wrong beyond single threads. One check that fails stops no other."""
