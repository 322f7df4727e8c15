"""LangGraph's PostgreSQL savers, driven like its SQLite ones."""

from pathlib import Path
from typing import Any

from benchmarks.data import State
from benchmarks.stores.interface import Pragmas, Store
from benchmarks.stores.langgraph import (
    LanggraphSteps,
    LanggraphThreads,
    LanggraphWriters,
    checkpoint,
    config_of,
    metadata,
    serializer,
)
from benchmarks.stores.langgraph_delta import LanggraphDelta
from benchmarks.stores.server import CONNECTIONS, OnPostgres

_CONNECTION: dict[str, Any] = {"autocommit": True, "prepare_threshold": 0}
"""What `from_conn_string` of the savers asks for."""


class PostgresSaving(OnPostgres):
    """PostgresSaver on one connection; versions of channels are texts there."""

    def __init__(self, path: Path) -> None:
        Store.__init__(self, path)  # type: ignore[arg-type]
        from langgraph.checkpoint.postgres import PostgresSaver
        from psycopg import Connection
        from psycopg.rows import dict_row

        self.connection: Any = Connection.connect(self.url, row_factory=dict_row, **_CONNECTION)
        self.saver: Any = PostgresSaver(self.connection, serde=serializer())
        self.saver.setup()

    def version(self, step: int) -> str:
        """The version of a channel at a step."""
        return f"{step:032}"

    def pragmas(self) -> Pragmas:
        """What a commit is worth."""
        return self.settings()


class PostgresSteps(PostgresSaving, LanggraphSteps):
    """PostgresSaver: `put` with the whole state."""


class PostgresDelta(PostgresSaving, LanggraphDelta):
    """PostgresSaver with a DeltaChannel for the messages."""

    def __init__(self, path: Path) -> None:
        super().__init__(path)
        self.learn()


class PostgresThreads(PostgresSaving, LanggraphThreads):
    """PostgresSaver with many threads."""

    def __init__(self, path: Path) -> None:
        super().__init__(path)
        self._configs = {}


class PostgresWriters(OnPostgres, LanggraphWriters):
    """AsyncPostgresSaver over a pool."""

    async def open(self) -> None:
        from langgraph.checkpoint.postgres.aio import AsyncPostgresSaver
        from psycopg.rows import dict_row
        from psycopg_pool import AsyncConnectionPool

        self._pool: Any = AsyncConnectionPool(
            self.url,
            min_size=CONNECTIONS,
            max_size=CONNECTIONS,
            open=False,
            kwargs={**_CONNECTION, "row_factory": dict_row},
        )
        await self._pool.open(wait=True)
        self._saver: Any = AsyncPostgresSaver(self._pool)
        await self._saver.setup()
        self._configs = {}

    async def save(self, thread: str, step: int, state: State) -> None:
        version = f"{step:032}"
        versions = dict.fromkeys(state, version)
        self._configs[thread] = await self._saver.aput(
            self._configs.get(thread) or config_of(thread),
            checkpoint(state, step, versions),
            metadata(step),
            versions,
        )

    async def pragmas(self) -> Pragmas:
        return self.settings()

    async def close(self) -> None:
        await self._pool.close()
