"""A PostgreSQL for one measurement: its own process, at the server's default durability.

One server stands for one directory. It is started when the first store asks for it, and ends with
the process. Bytes at rest are those of all tables with their indexes.
"""

import atexit
from functools import cache
from pathlib import Path
from typing import Any

from benchmarks.stores.interface import FULL, Pragmas

CONNECTIONS = 8
"""The size of pools."""

_SIZE = (
    "SELECT coalesce(sum(pg_total_relation_size(c.oid)), 0)::bigint FROM pg_class c JOIN"
    " pg_namespace n ON n.oid = c.relnamespace WHERE c.relkind = 'r'"
    " AND n.nspname NOT IN ('pg_catalog', 'information_schema')"
)
_SETTINGS = "SELECT current_setting('fsync'), current_setting('synchronous_commit')"


@cache
def postgres(directory: Path) -> str:  # noqa: ARG001
    """The address of the server of a directory."""
    from lastgood.testing.servers import PostgresServer

    server = PostgresServer(fsync=True, settings={"autovacuum": "on"})
    server.start()
    atexit.register(server.close)
    return server.url


class OnPostgres:
    """What stores on PostgreSQL have in common."""

    path: Path

    @property
    def url(self) -> str:
        """Where the server is."""
        return postgres(self.path.parent)

    def size(self) -> int:
        """Bytes of all tables."""
        return int(self._row(_SIZE)[0])

    def kept(self) -> int:
        """The same, after closing."""
        return self.size()

    def settings(self) -> Pragmas:
        """What a commit on this server is worth."""
        fsync, commit = self._row(_SETTINGS)
        return {("PostgreSQL", FULL if (fsync, commit) == ("on", "on") else 0)}

    def _row(self, text: str) -> tuple[Any, ...]:
        import psycopg

        with psycopg.connect(self.url) as connection:
            found: tuple[Any, ...] = connection.execute(text).fetchone()  # type: ignore[assignment]
            return found
