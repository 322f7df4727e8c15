"""A store in PostgreSQL for cases: a schema of its own, and raw access to its rows."""

from __future__ import annotations

import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any
from uuid import uuid4

from lastgood.backend import Backend
from lastgood.backends.postgres_statement import CLOCK
from lastgood.rows import TABLES
from lastgood.testing.harness import ORDER, BackendHarness, flipped
from lastgood.testing.servers.addresses import address

_TABLES = (*TABLES.values(), "stream", "part", "large")
_USES = 20
"""So often a schema is emptied: what was deleted from its tables still takes room in them."""
_EMPTIED: dict[str, list[tuple[str, int]]] = {}
"""By server: the schemas that nobody uses now, and how many cases each has seen."""


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
        """A schema that others know of is not used again: they may still write when they are gone."""
        self._used = _USES
        mark = "&" if "?" in self.url else "?"
        return f"{self.url}{mark}schema={self.schema}"

    def backend(self) -> Backend:
        from lastgood.backends.postgres import PostgresBackend

        return PostgresBackend(
            self.url, schema=self.schema, pool_size=self.pool_size, shift=self._shift
        )

    def _shift(self) -> int:
        """How far the clock of the case is ahead of the host's."""
        return (self.time() - time.time_ns()) // 1000

    def reuse(self) -> None:
        waiting = _EMPTIED.setdefault(self.url, [])
        self.schema, self._used = waiting.pop() if waiting else (self.schema, 0)

    def close(self) -> None:
        """Leave nothing on the server, or tables without rows for another case."""
        if self._used < _USES and self._emptied():
            _EMPTIED[self.url].append((self.schema, self._used + 1))
        else:
            self._sql(f"DROP SCHEMA IF EXISTS {self.schema} CASCADE")

    def _emptied(self) -> bool:
        """Make the tables, if there are any, what they were at first; waits for who still writes."""
        import psycopg

        tables = [f"{self.schema}.{name}" for name in _TABLES]
        with psycopg.connect(self.url, autocommit=True) as connection:
            made = connection.execute(f"SELECT to_regclass('{self.schema}.meta')").fetchone()
            if made == (None,):
                return False
            connection.execute(
                f"BEGIN; LOCK TABLE {', '.join(tables)};"
                + "".join(f"DELETE FROM {table};" for table in tables)
                + f"SELECT setval('{self.schema}.thread_key', 1, false),"
                f" setval('{self.schema}.stream_key', 1, false);"
                f"UPDATE {self.schema}.meta SET value = ({CLOCK})::text WHERE name = 'created_at';"
                "COMMIT"
            )
            return True

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
