"""Where connections to PostgreSQL come from: our own pools, or what the application owns.

A connection is taken for one round trip and given back. Async connections belong to the event loop
that made them, so there is a pool for each loop. A forked child makes its own, and never touches
what it inherited: closing it would end the parent's.
"""

from __future__ import annotations

import asyncio
import threading
import weakref
from abc import ABC, abstractmethod
from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager, contextmanager
from typing import Any

import psycopg
from psycopg import AsyncConnection, Connection, conninfo
from psycopg_pool import AsyncConnectionPool, ConnectionPool

from lastgood.driver import Turnstile, is_blocking

CONNECT_SECONDS = 5
"""How long an attempt to connect may take, and the wait for a free connection."""
_LIVELY = {
    "connect_timeout": CONNECT_SECONDS,
    "keepalives_idle": 10,
    "keepalives_interval": 5,
    "keepalives_count": 3,
    "tcp_user_timeout": 20_000,
}
"""What a connection string gets that does not say otherwise: a dead peer is noticed."""

_ABANDONED: list[object] = []
"""What a forked child inherited: kept, so that nothing closes it."""


class Pools(ABC):
    """Connections of both colours to one database."""

    label: str
    """Where that is, without any secret."""

    @abstractmethod
    @contextmanager
    def blocking(self) -> Iterator[Connection[Any]]:
        """A connection for one round trip."""

    @abstractmethod
    @asynccontextmanager
    async def native(self) -> AsyncIterator[AsyncConnection[Any]]:
        """The same on this event loop."""
        yield  # type: ignore[misc]

    @abstractmethod
    async def close(self) -> None:
        """Let go of what is ours."""

    @abstractmethod
    def abandon(self) -> None:
        """In a forked child: begin anew."""


class OwnPools(Pools):
    """Pools that we make, for a connection string.

    A pool goes on trying in silence to reach its server. So before one is made, a connection of its
    own says at once what is wrong with the address.
    """

    def __init__(self, dsn: str, size: int) -> None:
        given = conninfo.conninfo_to_dict(dsn)
        self.dsn = conninfo.make_conninfo(
            dsn, **{k: v for k, v in _LIVELY.items() if k not in given}
        )
        self.label = _shown(given)
        self._size = size
        self._begin()

    def _begin(self) -> None:
        self._lock = threading.Lock()
        self._pool: ConnectionPool[Connection[Any]] | None = None
        self._pools: weakref.WeakKeyDictionary[
            asyncio.AbstractEventLoop, AsyncConnectionPool[AsyncConnection[Any]]
        ] = weakref.WeakKeyDictionary()

    def _options(self) -> dict[str, Any]:
        return {
            "kwargs": {"autocommit": True},
            "min_size": 0,
            "max_size": self._size,
            "timeout": CONNECT_SECONDS,
            "open": False,
        }

    @contextmanager
    def blocking(self) -> Iterator[Connection[Any]]:
        with self._lock:
            if self._pool is None:
                psycopg.connect(self.dsn).close()
                self._pool = ConnectionPool(self.dsn, **self._options())
                self._pool.open()
        with self._pool.connection() as connection:
            yield connection

    @asynccontextmanager
    async def native(self) -> AsyncIterator[AsyncConnection[Any]]:
        loop = asyncio.get_running_loop()
        pool = self._pools.get(loop)
        if pool is None:
            await (await AsyncConnection.connect(self.dsn)).close()
            pool = self._pools[loop] = AsyncConnectionPool(self.dsn, **self._options())
        await pool.open()
        async with pool.connection() as connection:
            yield connection

    async def close(self) -> None:
        with self._lock:
            pool, self._pool = self._pool, None
        if pool is not None:
            pool.close()
        if not is_blocking():
            mine = self._pools.pop(asyncio.get_running_loop(), None)
            if mine is not None:
                await mine.close()

    def abandon(self) -> None:
        _ABANDONED.extend([self._pool, *self._pools.values()])
        self._begin()


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
        self.label = _shown(conninfo.conninfo_to_dict(str(pool.conninfo)))

    @contextmanager
    def blocking(self) -> Iterator[Connection[Any]]:
        if not isinstance(self._pool, ConnectionPool):
            raise TypeError(
                _OTHER.format(have="an async pool", colour="blocking", want="a ConnectionPool")
            )
        with self._pool.connection() as connection, _autocommitting(connection):
            yield connection

    @asynccontextmanager
    async def native(self) -> AsyncIterator[AsyncConnection[Any]]:
        if not isinstance(self._pool, AsyncConnectionPool):
            raise TypeError(
                _OTHER.format(have="a blocking pool", colour="async", want="an AsyncConnectionPool")
            )
        async with self._pool.connection() as connection:
            before = connection.autocommit
            await connection.set_autocommit(True)
            try:
                yield connection
            finally:
                if not connection.closed:
                    await connection.set_autocommit(before)


class GivenConnection(_Given):
    """One connection that the application owns: operations take turns on it."""

    def __init__(self, connection: Connection[Any] | AsyncConnection[Any]) -> None:
        self._connection = connection
        self._turn = Turnstile()
        self._turns: weakref.WeakKeyDictionary[asyncio.AbstractEventLoop, asyncio.Lock] = (
            weakref.WeakKeyDictionary()
        )
        info = connection.info
        self.label = _shown(
            {"user": info.user, "host": info.host, "port": info.port, "dbname": info.dbname}
        )

    @contextmanager
    def blocking(self) -> Iterator[Connection[Any]]:
        if not isinstance(self._connection, Connection):
            raise TypeError(
                _OTHER.format(have="an async connection", colour="blocking", want="a Connection")
            )
        with self._turn.held():
            yield self._connection

    @asynccontextmanager
    async def native(self) -> AsyncIterator[AsyncConnection[Any]]:
        if not isinstance(self._connection, AsyncConnection):
            raise TypeError(
                _OTHER.format(
                    have="a blocking connection", colour="async", want="an AsyncConnection"
                )
            )
        turn = self._turns.setdefault(asyncio.get_running_loop(), asyncio.Lock())
        async with turn:
            yield self._connection


_OTHER = (
    "this client stands on {have}, which {colour} callers cannot use. Give it {want}, or a DSN."
)


@contextmanager
def _autocommitting(connection: Connection[Any]) -> Iterator[None]:
    before = connection.autocommit
    connection.autocommit = True
    try:
        yield
    finally:
        if not connection.closed:
            connection.autocommit = before


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
        f"Client.postgres() cannot use a {kind}. Pass a connection string such as "
        "'postgresql://user@host/db', or a pool or connection of psycopg 3: "
        "psycopg_pool.ConnectionPool, AsyncConnectionPool, psycopg.Connection, AsyncConnection."
    )


def _shown(parts: dict[str, Any]) -> str:
    """An address without a secret."""
    user = f"{parts['user']}@" if parts.get("user") else ""
    host = str(parts.get("host") or parts.get("hostaddr") or "")
    port = f":{parts['port']}" if parts.get("port") else ""
    return f"postgresql://{user}{host}{port}/{parts.get('dbname') or ''}"
