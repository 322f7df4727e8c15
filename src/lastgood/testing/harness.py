"""How a case gets at a backend: making it, its clock, its raw rows.

A harness stands for one set of data in one temporary place. `backend()` gives a handle on it, and
may be called again for a second one, as another process would have it. What a store cannot offer
(another process, a clock of ours, raw rows) a harness says, and cases take the nearest way round.
"""

from __future__ import annotations

import sqlite3
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any, cast

import pytest

from lastgood import registry
from lastgood.backend import Backend
from lastgood.backends.memory import MemoryBackend
from lastgood.backends.sqlite.backend import SqliteBackend
from lastgood.backends.sqlite.rows import STORED, folded, unfolded
from lastgood.backends.sqlite.schema import select
from lastgood.commits import Intent, Writes
from lastgood.errors import StorageFullError
from lastgood.rows import TABLES, CheckpointRow, fields_of

FIELDS: dict[str, tuple[str, ...]] = {
    name: (*fields_of(cls), "seal") for cls, name in TABLES.items()
}

ORDER = {
    "lane": "number",
    "branch": "lane",
    "move": "number",
    "tag": "made_at",
    "run": "number",
    "item": "updated_at",
}
"""What makes a row of a table newer than another of its thread."""


class Time:
    """A clock in nanoseconds that a case can turn."""

    def __init__(self) -> None:
        self.shift = 0.0
        self.stopped_at: int | None = None

    def __call__(self) -> int:
        now = time.time_ns() if self.stopped_at is None else self.stopped_at
        return now + round(self.shift * 1e9)

    def stop(self) -> None:
        """From now on every moment is this one, until `shift` is changed."""
        self.stopped_at = time.time_ns()


class BackendHarness:
    """One set of data that a case runs on; derive from it, and let `make` return your backend.

    By default, all handles on the data share one backend, which the registry makes without
    arguments.
    """

    scheme = ""
    server: str | None = None
    """The kind of server that the data is on, of `servers.VARIABLES`; None for no server."""
    also: tuple[str, ...] = ()
    """Other servers that it needs."""
    quick = True
    """Whether its cases belong into the quick loop."""
    turns_clock = False
    """Whether the backend reads `self.time`; if not, cases sleep, or are skipped."""
    address: str | None = None
    """The url under which another process opens the same data; None if none can."""

    def __init__(self, directory: Path) -> None:
        self.directory = directory
        self.time = Time()
        self._shared: Backend | None = None

    def backend(self) -> Backend:
        """A handle on the data."""
        if self._shared is None:
            self._shared = self.make()
        return self._shared

    def make(self) -> Backend:
        """The one backend that all handles share."""
        return registry.make(self.scheme)

    def reuse(self) -> None:
        """Begin with an empty store that another case left, if to make one anew takes longer."""

    def close(self) -> None:
        """Leave nothing behind that is not in the directory."""

    def stored_bytes(self) -> int | None:
        """What the data takes, after all clients are closed; None if nobody knows."""
        return None

    def flip_part(self, thread: str) -> None:
        """Change one byte in the middle of a stored page of a thread."""
        pytest.skip(f"{type(self).__name__} cannot damage parts of {thread}")

    def flip_digest(self, thread: str) -> None:
        """Change the digest of that page instead."""
        pytest.skip(f"{type(self).__name__} cannot damage digests of {thread}")

    def lose_part(self, thread: str) -> None:
        """Remove that page."""
        pytest.skip(f"{type(self).__name__} cannot remove parts of {thread}")

    def edit_row(self, table: str, thread: str, column: str, value: object) -> None:
        """Change a column in the newest row of a table that belongs to a thread, and no other."""
        pytest.skip(f"{type(self).__name__} cannot edit {table}.{column} of {thread}: {value!r}")

    def lose_row(self, table: str, thread: str) -> None:
        """Remove the newest row of a table that belongs to a thread."""
        pytest.skip(f"{type(self).__name__} cannot remove {table} of {thread}")

    @contextmanager
    def full_disk(self, backend: Backend) -> Iterator[None]:
        """Within the block, what `backend` writes does not fit."""

        async def refuse(intent: Intent) -> Writes:  # noqa: ARG001
            raise StorageFullError("no space left; nothing of this save was kept.")

        whole = backend.commit
        backend.commit = refuse  # type: ignore[method-assign]
        yield
        backend.commit = whole  # type: ignore[method-assign]


class SqliteHarness(BackendHarness):
    """A file in the temporary directory."""

    scheme = "sqlite"
    turns_clock = True

    def __init__(self, directory: Path) -> None:
        super().__init__(directory)
        self.path = directory / "contract.db"
        self.address = f"sqlite:///{self.path}"

    def backend(self) -> Backend:
        return SqliteBackend(self.path, clock=self.time)

    def stored_bytes(self) -> int:
        return sum(path.stat().st_size for path in self.directory.glob("contract.db*"))

    def _sql(self, statement: str, *values: object) -> list[Any]:
        with sqlite3.connect(self.path) as connection:
            found = connection.execute(statement, values).fetchall()
        connection.close()
        return found

    def _key(self, thread: str) -> int:
        return int(self._sql("SELECT thread FROM lastgood_thread WHERE name = ?", thread)[0][0])

    def _newest(self, table: str, thread: str) -> str:
        """Where the newest row of a table is, as SQL."""
        key = self._key(thread)
        if table == "checkpoint":
            return f"key = (SELECT max(key) FROM lastgood_checkpoint WHERE key >> 32 = {key})"
        order = ORDER.get(table)
        if order is None:
            return f"thread = {key}"
        newest = f"SELECT max({order}) FROM lastgood_{table} WHERE thread = {key}"
        return f"thread = {key} AND {order} = ({newest})"

    def _part(self, thread: str) -> tuple[int, bytes, bytes]:
        """Key, digest and data of the first page."""
        found: tuple[int, bytes, bytes] = self._sql(
            "SELECT key, digest, data FROM lastgood_part WHERE key >> 32 IN"
            " (SELECT stream FROM lastgood_stream WHERE thread = ?) ORDER BY key LIMIT 1",
            self._key(thread),
        )[0]
        return found

    def flip_part(self, thread: str) -> None:
        spot, _, data = self._part(thread)
        self._sql("UPDATE lastgood_part SET data = ? WHERE key = ?", flipped(data), spot)

    def flip_digest(self, thread: str) -> None:
        spot, digest, _ = self._part(thread)
        self._sql("UPDATE lastgood_part SET digest = ? WHERE key = ?", flipped(digest), spot)

    def lose_part(self, thread: str) -> None:
        self._sql("DELETE FROM lastgood_part WHERE key = ?", self._part(thread)[0])

    def edit_row(self, table: str, thread: str, column: str, value: object) -> None:
        where = self._newest(table, thread)
        if table == "checkpoint" and column not in STORED:
            column, value = "rest", self._edited_rest(where, column, value)
        self._sql(f"UPDATE lastgood_{table} SET {column} = ? WHERE {where}", value)

    def _edited_rest(self, where: str, column: str, value: object) -> object:
        *fields, seal = unfolded(self._sql(select(CheckpointRow, where))[0])
        row = CheckpointRow._make(fields)._replace(**{column: value})  # type: ignore[arg-type]
        return folded(row, cast(bytes, seal))[-1]

    def lose_row(self, table: str, thread: str) -> None:
        self._sql(f"DELETE FROM lastgood_{table} WHERE {self._newest(table, thread)}")

    @contextmanager
    def full_disk(self, backend: Backend) -> Iterator[None]:
        def refuse(point: str) -> None:
            if point == "before-commit":
                error = sqlite3.OperationalError("database or disk is full")
                error.sqlite_errorcode = sqlite3.SQLITE_FULL
                raise error

        assert isinstance(backend, SqliteBackend)
        before, backend.failpoint = backend.failpoint, refuse
        yield
        backend.failpoint = before


class MemoryHarness(BackendHarness):
    """One backend object, whose dicts stand for the file."""

    scheme = "memory"
    turns_clock = True

    def make(self) -> Backend:
        return MemoryBackend(clock=self.time)

    @property
    def shelves(self) -> Any:
        backend = self.backend()
        assert isinstance(backend, MemoryBackend)
        return backend.shelves

    def stored_bytes(self) -> int:
        rows = [row for of in self.shelves.checkpoints.values() for row in of.values()]
        inline = sum(len(value) for row in rows for value in row if isinstance(value, bytes))
        return inline + sum(len(part.data) for part in self.shelves.parts.values())

    def _key(self, thread: str) -> int:
        return max(int(key) for (_, name), key in self.shelves.names.items() if name == thread)

    def _rows(self, table: str, thread: str) -> tuple[dict[Any, Any], Any]:
        """The dict that holds the newest row of a table, and its key there."""
        key = self._key(thread)
        if table == "thread":
            return self.shelves.threads, key
        plural = "branches" if table == "branch" else f"{table}s"
        rows = getattr(self.shelves, plural)[key]
        return rows, list(rows)[-1]

    def _spot(self, thread: str) -> Any:
        key = self._key(thread)
        return min(s for s in self.shelves.parts if self.shelves.streams[s.stream] == key)

    def flip_part(self, thread: str) -> None:
        spot = self._spot(thread)
        part = self.shelves.parts[spot]
        self.shelves.parts[spot] = part._replace(data=flipped(part.data))

    def flip_digest(self, thread: str) -> None:
        spot = self._spot(thread)
        part = self.shelves.parts[spot]
        self.shelves.parts[spot] = part._replace(digest=flipped(part.digest))

    def lose_part(self, thread: str) -> None:
        del self.shelves.parts[self._spot(thread)]

    def edit_row(self, table: str, thread: str, column: str, value: object) -> None:
        rows, key = self._rows(table, thread)
        columns = list(rows[key])
        columns[FIELDS[table].index(column)] = value
        rows[key] = tuple(columns)

    def lose_row(self, table: str, thread: str) -> None:
        rows, key = self._rows(table, thread)
        del rows[key]


def flipped(data: bytes) -> bytes:
    """The bytes with one of them changed."""
    middle = len(data) // 2
    return data[:middle] + bytes([data[middle] ^ 1]) + data[middle + 1 :]
