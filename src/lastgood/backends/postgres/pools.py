"""Where connections to PostgreSQL come from: pools of our own.

A connection is taken for one round trip and given back. Async connections belong to the event loop
that made them, so there is a pool for each loop. A forked child makes its own, and never touches
what it inherited: closing it would end the parent's.
"""

from __future__ import annotations

import asyncio
import threading
import weakref
from abc import ABC, abstractmethod
from collections.abc import AsyncGenerator, AsyncIterator, Iterator
from contextlib import asynccontextmanager, contextmanager, suppress
from typing import Any, NamedTuple

import psycopg
from psycopg import AsyncConnection, Connection
from psycopg_pool import AsyncConnectionPool, ConnectionPool, PoolClosed, PoolTimeout

from lastgood.backend import Pulsing
from lastgood.backends.postgres.address import CONNECT_SECONDS, lively, parsed, shown
from lastgood.backends.postgres.connections import (
    BoundAsyncConnection,
    BoundConnection,
    Reach,
    is_dead,
)
from lastgood.backends.remote.holding import held
from lastgood.backends.remote.room import Room
from lastgood.driver import is_blocking

_ABANDONED: list[object] = []
"""What a forked child inherited: kept, so that nothing closes it."""
_MOMENT_SECONDS = 0.2
"""Long enough to be seen by a pool whose log is slow."""


class FirstContactError(Exception):
    """The server was never reached from here: not worth another try. Its cause says why."""


class Pools(ABC):
    """Connections of both colours to one database."""

    label: str
    """Where that is, without any secret."""
    own_dsn: str | None = None
    """How to make a connection of our own; None where all belong to the application."""
    commits = True
    """Whether what was sent is committed when the answer is there."""
    pulse: Pulsing = "thread"
    """Who may come for a connection in the name of a run."""
    reach: Reach | None = None
    """Whether the server lets itself be reached; None where only the application knows."""
    direct = False
    """Whether a session is our own and no pooler hands out others: then statements are prepared,
    and one that nobody waits for any more is cancelled."""

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


class _NativePool(NamedTuple):
    pool: AsyncConnectionPool[BoundAsyncConnection]
    end: AsyncGenerator[None, None]
    """Stands until the loop ends, or it is closed."""


class Guests:
    """Who uses a connection, or waits for one.

    A pool that has given up makes no connection for those who wait, but it does for who comes next.
    """

    def __init__(self) -> None:
        self._guests: set[object] = set()

    @property
    def several(self) -> bool:
        """Whether one may wait for what another one has."""
        return len(self._guests) > 1

    @contextmanager
    def one(self) -> Iterator[None]:
        me = object()
        try:
            self._guests.add(me)
            yield
        finally:
            self._guests.discard(me)

    def forgotten(self, pool: ConnectionPool[BoundConnection]) -> None:
        """Come next, for all who wait."""
        if self._guests:
            with suppress(PoolTimeout, PoolClosed):
                pool.putconn(pool.getconn(_MOMENT_SECONDS))

    async def native_forgotten(self, pool: AsyncConnectionPool[BoundAsyncConnection]) -> None:
        """The same on an event loop."""
        if self._guests:
            with suppress(PoolTimeout, PoolClosed), self.one():
                await pool.putconn(await pool.getconn(_MOMENT_SECONDS))


class OwnPools(Pools):
    """Pools that we make, for a connection string.

    A pool goes on trying in silence to reach its server. So before the first one is made, a
    connection of its own says at once what is wrong with the address.
    """

    def __init__(self, dsn: str, size: int) -> None:
        self.label = shown(parsed(dsn))
        self.dsn = self.own_dsn = lively(dsn)
        self._size = size
        self._reached = False
        self._begin()

    def _begin(self) -> None:
        self._lock = threading.Lock()
        self._pool: ConnectionPool[BoundConnection] | None = None
        self._pools: weakref.WeakKeyDictionary[asyncio.AbstractEventLoop, _NativePool] = (
            weakref.WeakKeyDictionary()
        )
        self._room = Room(self._size, CONNECT_SECONDS, _full)
        self._guests = Guests()
        self.reach = Reach()

    def _options(self) -> dict[str, Any]:
        return {
            "kwargs": {"autocommit": True, "reach": self.reach},
            "min_size": 0,
            "max_size": self._size,
            "timeout": CONNECT_SECONDS,
            # After that it begins anew, without the long pauses of many failed attempts.
            "reconnect_timeout": CONNECT_SECONDS,
            "open": False,
        }

    @contextmanager
    def blocking(self) -> Iterator[Connection[Any]]:
        with self._room.blocking() as seconds, self._guests.one():
            pool, returned = self._opened(), False
            try:
                connection = _living(pool, seconds)
                try:
                    yield connection
                except BaseException:
                    with suppress(psycopg.Error):
                        connection.rollback()
                    raise
                finally:
                    pool.putconn(connection)
                    returned = True
            except BaseException as stop:
                if not (returned or isinstance(stop, Exception)):
                    self._leave(pool)
                raise

    def _leave(self, pool: ConnectionPool[BoundConnection]) -> None:
        """An interrupt came in the middle of taking a connection or giving it back, and a pool that
        lost one counts it for ever. What is in use is closed when it comes back.
        """
        if self._pool is pool:
            self._pool = None
            _close_apart(pool)

    def _opened(self) -> ConnectionPool[BoundConnection]:
        with self._lock:
            if self._pool is None:
                if not self._reached:
                    self._probe()
                pool = ConnectionPool(
                    self.dsn,
                    connection_class=BoundConnection,
                    reconnect_failed=self._guests.forgotten,
                    **self._options(),
                )
                try:
                    pool.open()
                except BaseException:
                    _close_apart(pool)
                    raise
                self._pool = pool
            return self._pool

    def _probe(self) -> None:
        try:
            psycopg.connect(self.dsn).close()
        except psycopg.Error as error:
            raise FirstContactError from error
        self._reached = True

    @asynccontextmanager
    async def native(self) -> AsyncIterator[AsyncConnection[Any]]:
        pool = await self._native_opened()
        async with self._room.native() as seconds:
            with self._guests.one():
                connection = await _native_living(pool, seconds)
                try:
                    yield connection
                except BaseException:
                    with suppress(psycopg.Error):
                        await connection.rollback()
                    raise
                finally:
                    if self._guests.several:
                        await given_back(pool, connection)
                    else:  # nobody waits for it, so nothing suspends
                        await pool.putconn(connection)

    async def _native_opened(self) -> AsyncConnectionPool[BoundAsyncConnection]:
        if not self._reached:
            await self._native_probe()
        loop = asyncio.get_running_loop()
        found = self._pools.get(loop)
        if found is None:
            self._leave_closed()
            pool = AsyncConnectionPool(
                self.dsn,
                connection_class=BoundAsyncConnection,
                reconnect_failed=self._guests.native_forgotten,
                **self._options(),
            )
            found = self._pools[loop] = _NativePool(pool, self._until_the_end(pool))
            await anext(found.end)
        if found.pool.closed:
            await found.pool.open()
        return found.pool

    def _leave_closed(self) -> None:
        """What stands in a loop keeps it in memory, also if it was closed without an end."""
        for each in self._pools.keyrefs():  # made at once: other threads have loops, too
            if (loop := each()) is not None and loop.is_closed():
                self._pools.pop(loop, None)

    async def _until_the_end(
        self, pool: AsyncConnectionPool[BoundAsyncConnection]
    ) -> AsyncGenerator[None, None]:
        """Closes a pool when its loop ends, and with it what stands in it, or nobody has it."""
        loop = asyncio.get_running_loop()
        end = loop.create_task(_ended_for_good(pool.name), name="lastgood-pool-end")
        kept = held(pool, end)
        try:
            yield
        finally:
            kept.cancel()
            self._pools.pop(loop, None)
            try:
                await pool.close()
            finally:
                end.cancel()

    async def _native_probe(self) -> None:
        try:
            await (await AsyncConnection.connect(self.dsn)).close()
        except psycopg.Error as error:
            raise FirstContactError from error
        self._reached = True

    async def close(self) -> None:
        with self._lock:
            pool, self._pool = self._pool, None
        if pool is not None:
            pool.close()
        self._leave_closed()
        if not is_blocking():
            mine = self._pools.get(asyncio.get_running_loop())
            if mine is not None:
                await mine.end.aclose()

    def abandon(self) -> None:
        _ABANDONED.extend([self._pool, *self._pools.values()])
        self._begin()


def _living(pool: ConnectionPool[BoundConnection], seconds: float) -> BoundConnection:
    """A connection that was not ended while it lay idle. Without the pool's own frame around it,
    which commits at the end: each statement has done so, and that takes a while.
    """
    while is_dead(connection := pool.getconn(seconds)):
        connection.close()
        pool.putconn(connection)
    return connection


async def _native_living(
    pool: AsyncConnectionPool[BoundAsyncConnection], seconds: float
) -> BoundAsyncConnection:
    while is_dead(connection := await pool.getconn(seconds)):
        await connection.close()
        await given_back(pool, connection)
    return connection


def _close_apart(pool: ConnectionPool[BoundConnection]) -> None:
    """Close a pool whose threads may not end: another one waits for them."""
    with suppress(RuntimeError):  # none can be started: the process ends
        threading.Thread(target=pool.close, name="lastgood-pool-end", daemon=True).start()


def _full() -> Exception:
    return PoolTimeout(f"nobody got a connection for {CONNECT_SECONDS} s")


async def given_back(pool: AsyncConnectionPool[Any], connection: AsyncConnection[Any]) -> None:
    """Give a connection back, whoever is cancelled meanwhile: in the middle of handing it on, the
    pool would lose it, and the one who waits for it would wait in vain.
    """
    await asyncio.shield(pool.putconn(connection))


async def _ended_for_good(pool: str) -> None:
    """Stands until a loop that ends cancels whatever is left in it. A pool takes that for a failure
    like any other, and goes on, so the loop would wait for ever: cancel its tasks until they end.
    """
    try:
        await asyncio.Event().wait()
    finally:
        while left := [t for t in asyncio.all_tasks() if t.get_name().startswith(f"{pool}-")]:
            for task in left:
                task.cancel()
            await asyncio.sleep(0)
