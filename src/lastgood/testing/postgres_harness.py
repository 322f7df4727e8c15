"""A store in PostgreSQL for cases: a schema of its own, and raw access to its rows."""

from __future__ import annotations

import atexit
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from functools import cache
from pathlib import Path
from typing import Any
from uuid import uuid4

from lastgood.backend import Backend
from lastgood.backends.postgres.statement import CLOCK
from lastgood.rows import TABLES
from lastgood.testing.harness import ORDER, BackendHarness, flipped
from lastgood.testing.servers.addresses import address

_USES = 20
"""So often a schema is emptied: what was deleted from its tables still takes room in them."""
_TABLES = (*TABLES.values(), "stream", "part", "large")


class Schemas:
    """The schemas of one server that a case leaves to the next, and the session that tidies up.

    To make and to drop one takes six times as long as to empty it in a session that knows it.
    """

    def __init__(self, url: str) -> None:
        self._url = url
        self._left: list[tuple[str, int]] = []
        self._session: Any = None
        atexit.register(self._close)

    def take(self, new: str) -> tuple[str, int]:
        """An empty schema, or a name for one, and how often it was emptied."""
        return self._left.pop() if self._left else (new, 0)

    def leave(self, schema: str, used: int) -> None:
        """Empty it, if its tables were made, for the next one."""
        if self._run(f"SELECT to_regclass('{schema}.meta')").fetchone() == (None,):
            return
        tables = [f"{schema}.{name}" for name in _TABLES]
        self._run(
            f"BEGIN; LOCK TABLE {', '.join(tables)};"  # waits for who still writes
            + "".join(f"DELETE FROM {table};" for table in tables)
            + f"SELECT setval('{schema}.thread_key', 1, false),"
            f" setval('{schema}.stream_key', 1, false);"
            f"UPDATE {schema}.meta SET value = ({CLOCK})::text WHERE name = 'created_at'; COMMIT"
        )
        self._left.append((schema, used + 1))

    def _run(self, text: str) -> Any:
        import psycopg

        if self._session is None or self._session.closed:
            self._session = psycopg.connect(self._url, autocommit=True, prepare_threshold=None)
        return self._session.execute(text)

    def _close(self) -> None:
        if self._session is not None:
            with suppress(Exception):  # the server may be gone, and everything with it
                for schema, _ in self._left:
                    self._run(f"DROP SCHEMA {schema} CASCADE")
            self._session.close()


schemas_of = cache(Schemas)


class PostgresHarness(BackendHarness):
    """A schema on the server of the test run, or on another one."""

    scheme = "postgresql"
    server = "postgres"
    turns_clock = True

    def __init__(self, directory: Path, url: str | None = None) -> None:
        super().__init__(directory)
        self.schema = f"t_{uuid4().hex[:16]}"
        self._url = url
        self._used = _USES
        self.pool_size = 8

    @property
    def url(self) -> str:
        """Where the server is."""
        return self._url or address(self.server or "postgres")

    @property
    def address(self) -> str:  # type: ignore[override]
        """Where others find it; their sessions may outlive them, so that nobody uses it again."""
        self._used = _USES
        mark = "&" if "?" in self.url else "?"
        return f"{self.url}{mark}schema={self.schema}"

    def backend(self) -> Backend:
        from lastgood.backends.postgres.backend import PostgresBackend

        return PostgresBackend(
            self.url, schema=self.schema, pool_size=self.pool_size, shift=self._shift
        )

    def _shift(self) -> int:
        """How far the clock of the case is ahead of the host's."""
        return (self.time() - time.time_ns()) // 1000

    def reuse(self) -> None:
        self.schema, self._used = schemas_of(self.url).take(self.schema)

    def close(self) -> None:
        """Leave nothing on the server, or tables without rows for another case."""
        if self._used < _USES:
            schemas_of(self.url).leave(self.schema, self._used)
        else:
            self._sql(f"DROP SCHEMA IF EXISTS {self.schema} CASCADE")

    def _sql(self, statement: str, *values: object) -> list[Any]:
        import psycopg

        with psycopg.connect(self.url, autocommit=True) as connection:
            cursor = connection.execute(statement, values, binary=True)
            return cursor.fetchall() if cursor.description else []

    def stored_bytes(self) -> int:
        tables = ("checkpoint", "part", "branch", "lane", "item")
        sizes = [
            f"(SELECT coalesce(sum(pg_column_size(x.*)), 0) FROM {self.schema}.{t} x)"
            for t in tables
        ]
        return int(self._sql(f"SELECT ({' + '.join(sizes)})::bigint")[0][0])

    def _key(self, thread: str) -> int:
        statement = f"SELECT thread FROM {self.schema}.thread WHERE name = %s"
        return int(self._sql(statement, thread.encode())[0][0])

    def _newest(self, table: str, thread: str) -> str:
        """Where the newest row of a table is, as SQL."""
        key = self._key(thread)
        order = "seq" if table == "checkpoint" else ORDER.get(table)
        if order is None:
            return f"thread = {key}"
        newest = f"SELECT max({order}) FROM {self.schema}.{table} WHERE thread = {key}"
        return f"thread = {key} AND {order} = ({newest})"

    def _part(self, thread: str) -> tuple[str, bytes, bytes]:
        """Where the first page is, its digest and its data."""
        key = self._key(thread)
        found = self._sql(
            f"SELECT stream, number, digest, data FROM {self.schema}.part WHERE thread = {key}"
            " ORDER BY stream, number LIMIT 1"
        )[0]
        return f"thread = {key} AND stream = {found[0]} AND number = {found[1]}", found[2], found[3]

    def flip_part(self, thread: str) -> None:
        where, _, data = self._part(thread)
        self._sql(f"UPDATE {self.schema}.part SET data = %s WHERE {where}", flipped(data))

    def flip_digest(self, thread: str) -> None:
        where, digest, _ = self._part(thread)
        self._sql(f"UPDATE {self.schema}.part SET digest = %s WHERE {where}", flipped(digest))

    def lose_part(self, thread: str) -> None:
        self._sql(f"DELETE FROM {self.schema}.part WHERE {self._part(thread)[0]}")

    def edit_row(self, table: str, thread: str, column: str, value: object) -> None:
        where = self._newest(table, thread)
        stored = value.encode("utf-8", "surrogatepass") if isinstance(value, str) else value
        self._sql(f'UPDATE {self.schema}.{table} SET "{column}" = %s WHERE {where}', stored)

    def lose_row(self, table: str, thread: str) -> None:
        self._sql(f"DELETE FROM {self.schema}.{table} WHERE {self._newest(table, thread)}")

    @contextmanager
    def full_disk(self, backend: Backend) -> Iterator[None]:
        with super().full_disk(backend):
            yield
