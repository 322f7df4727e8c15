"""Lastgood on PostgreSQL."""

from typing import Any

from benchmarks.stores.interface import Pragmas
from benchmarks.stores.lastgood import (
    LastgoodAppend,
    LastgoodSave,
    LastgoodThreads,
    LastgoodUncached,
    LastgoodWriters,
)
from benchmarks.stores.server import CONNECTIONS, OnPostgres


class Blocking(OnPostgres):
    """A blocking client on PostgreSQL."""

    cache_bytes: int

    def opened(self) -> Any:
        """The client."""
        from lastgood import BlockingClient

        return BlockingClient.postgres(self.url, cache_bytes=self.cache_bytes)

    def pragmas(self) -> Pragmas:
        """What a commit is worth."""
        return self.settings()


class PostgresSave(Blocking, LastgoodSave):
    """`run.save` on PostgreSQL."""


class PostgresAppend(Blocking, LastgoodAppend):
    """`run.append` on PostgreSQL."""


class PostgresThreads(Blocking, LastgoodThreads):
    """`client.save` and `client.latest` on PostgreSQL."""


class PostgresUncached(Blocking, LastgoodUncached):
    """The same with `cache_bytes=0`: every restore reads from the server."""


class PostgresWriters(OnPostgres, LastgoodWriters):
    """The async client on PostgreSQL: `save` from many tasks."""

    async def open(self) -> None:
        from lastgood import Client

        self._client = Client.postgres(self.url, pool_size=CONNECTIONS)

    async def pragmas(self) -> Pragmas:
        return self.settings()
