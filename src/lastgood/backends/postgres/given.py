"""Connections to PostgreSQL that the application owns: a pool, or one connection.

What is the application's is never closed here. On a pool every operation is a transaction of its
own. On a connection too, unless the application has a transaction under way there: then what is
saved becomes part of it, and is rolled back with it.
"""

from __future__ import annotations

import asyncio
import weakref
from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager, contextmanager, suppress
from typing import Any, TypeVar

from psycopg import AsyncConnection, Connection, Error
from psycopg.pq import TransactionStatus
from psycopg_pool import AsyncConnectionPool, ConnectionPool

from lastgood.backends.postgres.address import parsed, shown
from lastgood.backends.postgres.pools import OwnPools, Pools, given_back
from lastgood.backends.postgres.refusals import FAILED_BEFORE
from lastgood.errors import BackendConnectionError, StorageError
from lastgood.serial import Turnstile

C = TypeVar("C", Connection[Any], AsyncConnection[Any])
_OTHER = (
    "this client stands on {have}, which {colour} callers cannot use. Give it {want}, or a DSN."
)
_UNDER_WAY = (TransactionStatus.INTRANS, TransactionStatus.INERROR)


class _Given(Pools):
    """What the application owns is not ours to close."""

    async def close(self) -> None:
        """It stays open."""

    def abandon(self) -> None:
        """The application sees to its own connections."""


class GivenPool(_Given):
    """A pool that the application owns and closes."""

    def __init__(self, pool: ConnectionPool[Any] | AsyncConnectionPool[Any]) -> None:
        self._pool = pool
        self.pulse = "thread" if isinstance(pool, ConnectionPool) else "loop"
        dsn, more = pool.conninfo, pool.kwargs
        given = {} if callable(dsn) else parsed(dsn)
        self.label = shown({**given, **({} if callable(more) else more or {})})

    @contextmanager
    def blocking(self) -> Iterator[Connection[Any]]:
        if not isinstance(self._pool, ConnectionPool):
            have = {"have": "an async pool", "colour": "blocking", "want": "a ConnectionPool"}
            raise TypeError(_OTHER.format(**have))
        self._expect_open("pool.open()")
        with self._pool.connection() as connection, _autocommitting(connection):
            yield connection

    @asynccontextmanager
    async def native(self) -> AsyncIterator[AsyncConnection[Any]]:
        if not isinstance(self._pool, AsyncConnectionPool):
            have = {"have": "a blocking pool", "colour": "async", "want": "an AsyncConnectionPool"}
            raise TypeError(_OTHER.format(**have))
        self._expect_open("await pool.open()")
        connection = await self._pool.getconn()
        try:
            async with _autocommitting_native(connection):
                yield connection
        finally:
            await given_back(self._pool, connection)

    def _expect_open(self, how: str) -> None:
        """Nobody but the application can open it; to wait for that would be in vain."""
        if self._pool.closed:
            raise BackendConnectionError(
                f"{self.label}: the pool that this client was given is not open.",
                hint=f"Open it first ({how}, or a with block around it), and close it last.",
            )


class GivenConnection(_Given):
    """One connection that the application owns: operations take turns on it.

    The application has turns too, of which we know nothing: so nobody uses it but who calls us.
    """

    commits = False
    pulse = "steps"

    def __init__(self, connection: Connection[Any] | AsyncConnection[Any]) -> None:
        self._connection = connection
        self._turn = Turnstile()
        self._turns: weakref.WeakKeyDictionary[asyncio.AbstractEventLoop, asyncio.Lock] = (
            weakref.WeakKeyDictionary()
        )
        self.label = _address(connection)

    @contextmanager
    def blocking(self) -> Iterator[Connection[Any]]:
        if not isinstance(self._connection, Connection):
            have = {"have": "an async connection", "colour": "blocking", "want": "a Connection"}
            raise TypeError(_OTHER.format(**have))
        with self._turn.held(), _autocommitting(self._usable(self._connection)):
            yield self._connection

    @asynccontextmanager
    async def native(self) -> AsyncIterator[AsyncConnection[Any]]:
        if not isinstance(self._connection, AsyncConnection):
            have = {
                "have": "a blocking connection",
                "colour": "async",
                "want": "an AsyncConnection",
            }
            raise TypeError(_OTHER.format(**have))
        turn = self._turns.setdefault(asyncio.get_running_loop(), asyncio.Lock())
        async with turn, _autocommitting_native(self._usable(self._connection)):
            yield self._connection

    def _usable(self, connection: C) -> C:
        """Nobody but the application can open it again, or end its pipeline."""
        if connection.closed:
            raise BackendConnectionError(
                f"{self.label}: the connection that this client was given is closed.",
                hint="Give it an open one, or a pool, or a connection string.",
            )
        if connection.pgconn.pipeline_status:
            raise BackendConnectionError(
                f"{self.label}: the connection that this client was given is in pipeline mode, "
                "where no answer comes before the end.",
                hint="Save before the pipeline or after it, or give this client a pool.",
            )
        if connection.info.transaction_status == TransactionStatus.INERROR:
            # psycopg before 3.3.7 could not even be rolled back if we tried.
            raise StorageError(
                f"{self.label}: the transaction of the connection that this client was given failed"
                " before.",
                hint=FAILED_BEFORE,
            )
        return connection


def _address(connection: Connection[Any] | AsyncConnection[Any]) -> str:
    """Where a connection leads; one that is closed does not tell."""
    info = connection.info
    if connection.closed:
        return "PostgreSQL"
    return shown({"user": info.user, "host": info.host, "port": info.port, "dbname": info.dbname})


def in_transaction(connection: Connection[Any] | AsyncConnection[Any]) -> bool:
    """Whether the application's own transaction is under way on a connection that it gave us."""
    return connection.info.transaction_status in _UNDER_WAY


@contextmanager
def _autocommitting(connection: Connection[Any]) -> Iterator[None]:
    """Outside of a transaction, what we send is committed at once, or leaves nothing open."""
    if in_transaction(connection):
        yield
        return
    before = connection.autocommit
    connection.autocommit = True
    try:
        yield
    finally:
        if not _is_idle(connection):
            _end(connection)
        if not connection.closed:
            connection.autocommit = before


def _end(connection: Connection[Any]) -> None:
    """Undo what we began and did not finish; close what does not let itself be undone."""
    with suppress(Error):
        try:
            connection.rollback()
        finally:
            if not _is_idle(connection):
                connection.close()


@asynccontextmanager
async def _autocommitting_native(connection: AsyncConnection[Any]) -> AsyncIterator[None]:
    if in_transaction(connection):
        yield
        return
    before = connection.autocommit
    await connection.set_autocommit(True)
    try:
        yield
    finally:
        if not _is_idle(connection):
            await _end_native(connection)
        if not connection.closed:
            await connection.set_autocommit(before)


async def _end_native(connection: AsyncConnection[Any]) -> None:
    with suppress(Error):
        try:
            await connection.rollback()
        finally:
            if not _is_idle(connection):
                await connection.close()


def _is_idle(connection: Connection[Any] | AsyncConnection[Any]) -> bool:
    return connection.info.transaction_status == TransactionStatus.IDLE


def pools_for(source: object, size: int) -> Pools:
    """Pools over whatever was given; raises TypeError for what is none of it."""
    if isinstance(source, str):
        return OwnPools(source, size)
    if isinstance(source, ConnectionPool | AsyncConnectionPool):
        return GivenPool(source)
    if isinstance(source, Connection | AsyncConnection):
        return GivenConnection(source)
    kind = f"{type(source).__module__}.{type(source).__qualname__}"
    raise TypeError(
        f"Client.postgres() cannot use {kind}. Pass a connection string such as "
        "'postgresql://user@host/db', or a pool or connection of psycopg 3: "
        "psycopg_pool.ConnectionPool, AsyncConnectionPool, psycopg.Connection, AsyncConnection."
    )
