"""The tables of a SQLite store, and what has to be true of a file before we use it.

Owns the DDL, the format number and the recognition of other libraries' files. Names carry the
prefix `lastgood_`, so that an application may keep its own tables in the same file.

- A checkpoint's key is `thread << 32 | seq` and a part's is `stream << 32 | no`, in ordinary rowid
  tables: rows of a thread lie together and a range is one BETWEEN. (Measured: WITHOUT ROWID costs
  2.8 times the bytes of the change here, this 1.2 to 1.4 times.)
- Columns have no declared type: SQLite would convert a value to it, and the row's seal, which was
  made of the value that was given, would no longer fit.
- Thread and stream keys are counted in the meta table and never used twice: with a reused key a
  late writer could write into another tenant's thread.
- Every table and index takes a page of its own, so there are no more of them than are needed, and
  those that most stores never use are made at the first use.
- A checkpoint's id is unique within a tenant, which the commit sees to; the index is not unique,
  because one tenant's choice of an id must not be felt by another.
- Threads are indexed for looking up and for listing. A list is sorted by `active`, which few
  saves change: an index on the exact time of the last save would be written at every save.
- Threads are found twice, by (tenant, name) and by (name, tenant): that a thread is *not* there
  is believed only if both say so, because a damaged index page loses entries without a sound.
"""

from __future__ import annotations

import shlex
import time
from functools import lru_cache
from typing import Any

from lastgood.backends.described import DIGITS, described
from lastgood.backends.sqlite.rows import STORED
from lastgood.errors import (
    BackendConnectionError,
    CheckpointIntegrityError,
    IncompatibleCheckpointError,
)
from lastgood.integrity import seal
from lastgood.rows import TABLES, CheckpointRow, fields_of

FORMAT = 3
PAGE_SIZE = 8192

DDL = """
CREATE TABLE lastgood_meta (name TEXT PRIMARY KEY, value NOT NULL) WITHOUT ROWID;
CREATE TABLE lastgood_thread (
    thread INTEGER PRIMARY KEY, tenant NOT NULL, name NOT NULL,
    incarnation NOT NULL, state NOT NULL, active NOT NULL, title NOT NULL, owner,
    seq NOT NULL, checkpoints NOT NULL, newest NOT NULL,
    expiring NOT NULL, lanes NOT NULL, branches NOT NULL,
    tags NOT NULL, runs NOT NULL, items NOT NULL,
    size NOT NULL, last_step,
    created_at NOT NULL, updated_at NOT NULL, seal NOT NULL);
CREATE UNIQUE INDEX lastgood_thread_name ON lastgood_thread (tenant, name);
CREATE INDEX lastgood_thread_again ON lastgood_thread (name, tenant);
CREATE INDEX lastgood_thread_active ON lastgood_thread (tenant, state, active, thread);
CREATE TABLE lastgood_lane (
    thread NOT NULL, number NOT NULL, agent NOT NULL, current NOT NULL,
    moves NOT NULL, seal NOT NULL, PRIMARY KEY (thread, agent)) WITHOUT ROWID;
CREATE TABLE lastgood_branch (
    thread NOT NULL, lane NOT NULL, name NOT NULL, head NOT NULL,
    seal NOT NULL, PRIMARY KEY (thread, lane, name)) WITHOUT ROWID;
CREATE TABLE lastgood_run (
    thread NOT NULL, lane NOT NULL, id NOT NULL, number NOT NULL,
    closed NOT NULL, status NOT NULL, attempt NOT NULL, inside NOT NULL,
    started_at NOT NULL, beat_at NOT NULL, step, error,
    result NOT NULL, seal NOT NULL, PRIMARY KEY (thread, number)) WITHOUT ROWID;
CREATE TABLE lastgood_checkpoint (
    key INTEGER PRIMARY KEY, id NOT NULL, lane NOT NULL, branch NOT NULL,
    parent NOT NULL, fallback NOT NULL, step_name, created_at NOT NULL,
    expires_at, source_lane, size NOT NULL, rest NOT NULL, manifest NOT NULL);
CREATE INDEX lastgood_checkpoint_id ON lastgood_checkpoint (id);
CREATE TABLE lastgood_stream (
    thread NOT NULL, stream NOT NULL, PRIMARY KEY (thread, stream)) WITHOUT ROWID;
CREATE TABLE lastgood_part (
    key INTEGER PRIMARY KEY, born NOT NULL, digest NOT NULL, data NOT NULL);
CREATE TABLE lastgood_large (
    thread NOT NULL, digest NOT NULL, key NOT NULL,
    PRIMARY KEY (thread, digest)) WITHOUT ROWID;
"""

LATER = {
    "move": """CREATE TABLE IF NOT EXISTS lastgood_move (
    thread NOT NULL, lane NOT NULL, number NOT NULL, id NOT NULL,
    kind NOT NULL, old_branch NOT NULL, new_branch NOT NULL, made_at NOT NULL,
    seal NOT NULL, PRIMARY KEY (thread, lane, number)) WITHOUT ROWID""",
    "tag": """CREATE TABLE IF NOT EXISTS lastgood_tag (
    thread NOT NULL, name NOT NULL, checkpoint NOT NULL, made_at NOT NULL,
    seal NOT NULL, PRIMARY KEY (thread, name)) WITHOUT ROWID""",
    "owner": """CREATE INDEX IF NOT EXISTS lastgood_thread_owner
    ON lastgood_thread (tenant, state, owner, active, thread) WHERE owner IS NOT NULL""",
    "lane_again": """CREATE INDEX IF NOT EXISTS lastgood_lane_again
    ON lastgood_lane (agent, thread)""",
    "lane_number": """CREATE INDEX IF NOT EXISTS lastgood_lane_number
    ON lastgood_lane (thread, number)""",
    "branch_again": """CREATE INDEX IF NOT EXISTS lastgood_branch_again
    ON lastgood_branch (name, lane, thread)""",
    "tag_again": """CREATE INDEX IF NOT EXISTS lastgood_tag_again
    ON lastgood_tag (name, thread)""",
    "age": """CREATE INDEX IF NOT EXISTS lastgood_thread_age
    ON lastgood_thread (tenant, state, created_at, thread)""",
    "item": """CREATE TABLE IF NOT EXISTS lastgood_item (
    thread NOT NULL, shelf NOT NULL, key NOT NULL, value NOT NULL, text,
    created_at NOT NULL, updated_at NOT NULL, expires_at,
    seal NOT NULL, PRIMARY KEY (thread, shelf, key)) WITHOUT ROWID""",
}
"""Tables that are there once something was written to them; an index for threads of users, one for
the list by age, where it has more threads than are quickly sorted, and some for threads of more
lanes, branches or tags than are quickly counted: that one is *not* there is believed only if both
ways say so."""

COLUMNS = {cls: (*fields_of(cls), "seal") for cls in TABLES} | {CheckpointRow: STORED}

FOREIGN = (
    # tables that must all be there, who they belong to, how they count threads, the import name
    (
        {"checkpoints", "writes"},
        "LangGraph's SqliteSaver",
        "SELECT count(DISTINCT thread_id) FROM checkpoints",
        "langgraph-sqlite",
    ),
    (
        {"checkpoints"},
        "checkpnt",
        "SELECT count(DISTINCT session_id) FROM checkpoints WHERE payload IS NOT NULL",
        "checkpnt",
    ),
)


def select(cls: type, where: str) -> str:
    """The query for whole rows of one kind."""
    return f"SELECT {', '.join(COLUMNS[cls])} FROM lastgood_{TABLES[cls]} WHERE {where}"


def prefixed(alias: str, cls: type) -> str:
    """The columns of one kind of row in a join."""
    return ", ".join(f"{alias}.{name}" for name in COLUMNS[cls])


def is_there(connection: Any, name: str) -> bool:
    """Whether a table or an index was made already."""
    if name not in LATER:
        return True
    statement = "SELECT 1 FROM sqlite_master WHERE name = ?"
    return connection.execute(statement, (f"lastgood_{name}",)).fetchone() is not None


def stamp(number: int, name: str = "newest") -> str:
    """A number as kept in the meta table, with its own check value: a time, the last key used."""
    return f"{number} {seal(name, (number,)).hex()}"


@lru_cache(maxsize=8)
def read_stamp(text: object, name: str = "newest") -> int:
    """The number behind a stamp; raises CheckpointIntegrityError if it was changed."""
    value = str(text).partition(" ")[0]
    if not value.isdecimal() or stamp(int(value), name) != text:
        raise CheckpointIntegrityError(
            f"the stamp {name!r} of the store is damaged.",
            hint="Put back a copy of the file; `lastgood verify` tells what else is damaged.",
        )
    return int(value)


def prepare(connection: Any, label: str, *, patience: float) -> None:
    """Make sure that a file is ours: tables, format, WAL. Safe for many processes at once."""
    tables = _inspected(connection, label)
    if "lastgood_meta" not in tables:
        if not tables:
            connection.execute(f"PRAGMA page_size = {PAGE_SIZE}")
        _use_wal(connection, label, patience)
        _create(connection)
    _check_format(connection, label)
    if connection.execute("PRAGMA journal_mode").fetchone()[0] != "wal":
        _use_wal(connection, label, patience)


def inspect(connection: Any, label: str) -> None:
    """Make sure that a file which cannot be written is ours."""
    if "lastgood_meta" not in _inspected(connection, label):
        raise BackendConnectionError(
            f"{label} has no tables of ours, and cannot be written.",
            hint="Pass the path of a store, or of a file that this user may write.",
        )
    _check_format(connection, label)


def _inspected(connection: Any, label: str) -> set[str]:
    """The tables of a file that is ours, new or an application's; looked at in one moment."""
    connection.execute("BEGIN")
    try:
        tables = _tables(connection)
        if "lastgood_meta" not in tables:
            _refuse_foreign(connection, tables, label)
        if not tables:
            _check_empty(connection, label)
        return tables
    finally:
        connection.execute("COMMIT")


def _check_empty(connection: Any, label: str) -> None:
    """A file without tables must have no pages in use: else its list of tables is damaged."""
    pages = connection.execute("PRAGMA page_count").fetchone()[0]
    free = connection.execute("PRAGMA freelist_count").fetchone()[0]
    if pages - free > 1:
        raise CheckpointIntegrityError(
            f"{label} holds data but no tables: its first page is damaged.",
            hint="Copy the file away before anything else; nothing was written to it.",
        )


def _create(connection: Any) -> None:
    connection.execute("BEGIN IMMEDIATE")
    try:
        if "lastgood_meta" not in _tables(connection):
            now = time.time_ns() // 1000
            for statement in filter(str.strip, DDL.split(";")):
                connection.execute(statement)
            connection.executemany(
                "INSERT INTO lastgood_meta VALUES (?, ?)",
                [
                    ("format", str(FORMAT)),
                    ("created_at", str(now)),
                    *((name, stamp(0, name)) for name in ("newest", "thread", "stream")),
                ],
            )
        connection.execute("COMMIT")
    except BaseException:
        if connection.in_transaction:
            connection.execute("ROLLBACK")
        raise


def _tables(connection: Any) -> set[str]:
    found = connection.execute("SELECT name FROM sqlite_master WHERE type = 'table'")
    return {name for (name,) in found.fetchall()}


def _use_wal(connection: Any, label: str, patience: float) -> None:
    """Switch to WAL; SQLite does not wait for others by itself here, so we do."""
    deadline = time.monotonic() + patience
    while True:
        try:
            mode = connection.execute("PRAGMA journal_mode = WAL").fetchone()[0]
        except Exception as error:
            busy = "locked" in str(error) or "busy" in str(error).lower()
            if not busy or time.monotonic() > deadline:
                raise
            time.sleep(0.01)
            continue
        if mode not in ("wal", "memory"):
            raise BackendConnectionError(
                f"{label} cannot use WAL (journal mode is {mode!r}).",
                hint="Put the file on a local disk: network file systems cannot share it safely.",
            )
        return


_OLDER = (
    "Let the version that wrote it copy it to plain files (`lastgood copy FILE files:DIRECTORY`),"
    " and copy those from here to another file. It was not changed."
)


def _check_format(connection: Any, label: str) -> None:
    row = connection.execute("SELECT value FROM lastgood_meta WHERE name = 'format'").fetchone()
    found = described(str(row[0])[:DIGITS] if row else None, "format", label)
    if found != FORMAT:
        raise IncompatibleCheckpointError(
            f"{label} has format {found}; this version of Lastgood reads format {FORMAT}.",
            hint=_OLDER
            if found < FORMAT
            else "Upgrade lastgood here too: a newer version wrote the file.",
        )


def owner_of(connection: Any, tables: set[str]) -> tuple[str, str] | None:
    """Which other library a file belongs to, with its threads, and the name of its import."""
    for needed, owner, count, name in FOREIGN:
        if not needed <= tables:
            continue
        try:
            threads = connection.execute(count).fetchone()[0]
        except Exception:
            continue
        return f"{owner} ({threads} {'thread' if threads == 1 else 'threads'})", name
    return None


def _refuse_foreign(connection: Any, tables: set[str], label: str) -> None:
    if (found := owner_of(connection, tables)) is not None:
        owner, name = found
        raise IncompatibleCheckpointError(
            f"{label} belongs to {owner}.", hint=f"Bring it over: {import_command(name, label)}"
        )


def import_command(name: str, file: str) -> str:
    """What is to be typed, whatever the file is called."""
    dashes = ["--"] if file.startswith("-") else []
    return shlex.join(["lastgood", "import", name, *dashes, file])
