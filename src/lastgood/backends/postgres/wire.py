"""Sending statements to PostgreSQL, in either colour, and what goes wrong on the way.

One body of SQL serves both colours; only here and in the pools do they differ. Several statements
are sent at once, as one read-only transaction of one moment. No session state: a pooler in
transaction mode may stand between. Statements are prepared on connections of ours where none does,
which saves the server most of its work on a small one (`postgres.exchange`); should a session turn
out not to know them, that ends.
"""

from __future__ import annotations

from collections.abc import AsyncIterator, Iterator, Sequence
from contextlib import asynccontextmanager, contextmanager, nullcontext
from typing import Any

import psycopg
from psycopg import AsyncConnection, AsyncCursor, Connection, Cursor, errors
from psycopg.pq import ExecStatus
from psycopg_pool import PoolTimeout

from lastgood.backends.postgres.connections import (
    PATIENT_SECONDS,
    SILENCE_SECONDS,
    BoundAsyncConnection,
    BoundConnection,
    Signals,
)
from lastgood.backends.postgres.cursors import OwnAsyncCursor, OwnCursor, spelled
from lastgood.backends.postgres.exchange import Parcel, Rows
from lastgood.backends.postgres.given import in_transaction
from lastgood.backends.postgres.pools import FirstContactError, Pools
from lastgood.backends.postgres.refusals import (
    BEGIN_ANEW,
    READS,
    UNSPELLABLE,
    first_line,
    never_reached,
    not_served,
    translation,
)
from lastgood.driver import cancellable, is_blocking
from lastgood.errors import (
    BackendConnectionError,
    StorageError,
    TransientStorageError,
)

Sql = tuple[Any, Sequence[object]]
_BEGIN: Sql = ("BEGIN ISOLATION LEVEL REPEATABLE READ READ ONLY", ())
_COMMIT: Sql = ("COMMIT", ())
_PLAIN: dict[str, Any] = {"prepare": False, "binary": True}
_UNKNOWN = (errors.InvalidSqlStatementName, errors.DuplicatePreparedStatement)
"""What a session says that is not the one in which a statement was prepared."""


async def send(
    pools: Pools, statements: Sequence[Sql], *, silence: float | None = None, writes: bool = False
) -> list[Rows]:
    """The rows of each statement; many are one transaction that reads.

    Raises TransientStorageError if the server says nothing for so many seconds, and
    BackendConnectionError for one that writes on a connection that only reads.
    """
    with translated(pools), cancellable():
        if is_blocking():
            with pools.blocking() as connection:
                if isinstance(connection, BoundConnection):
                    return connection.wait(_exchanged(pools, connection, statements, silence))
                with _given(connection, pools.label, writes=writes):
                    return _send(connection, statements)
        async with pools.native() as other:
            if isinstance(other, BoundAsyncConnection):
                return await other.wait(_exchanged(pools, other, statements, silence))
            with _given(other, pools.label, writes=writes):
                return await _send_native(other, statements)


def _exchanged(
    pools: Pools,
    connection: BoundConnection | BoundAsyncConnection,
    statements: Sequence[Sql],
    silence: float | None,
) -> Signals[list[Rows]]:
    """On a connection of ours."""
    connection.silence = SILENCE_SECONDS if silence is None else silence
    connection.direct = pools.direct
    spelt = [(spelled(text, connection), values) for text, values in statements]
    parcel = Parcel(connection.pgconn, connection.info)
    return connection.repertoire.exchanged(parcel, spelt, prepares=pools.direct)


@contextmanager
def _given(
    connection: Connection[Any] | AsyncConnection[Any], label: str, *, writes: bool
) -> Iterator[None]:
    """On a connection of the application, which has the application's own limits.

    The driver tells the server at the beginning of a transaction that it only reads, and we mostly
    begin none. In one of the application, what has to begin anew only the application can.
    """
    if writes and connection.read_only:
        raise BackendConnectionError(
            f"{label}: the connection that this client was given is read_only.", hint=READS
        )
    joins = in_transaction(connection)
    try:
        yield
    except (errors.SerializationFailure, errors.DeadlockDetected) as error:
        if not joins:
            raise
        raise StorageError(f"{label}: {first_line(error)}", hint=BEGIN_ANEW) from error


def _framed(statements: Sequence[Sql]) -> Sequence[Sql]:
    return statements if len(statements) == 1 else [_BEGIN, *statements, _COMMIT]


def _own(statements: Sequence[Sql], found: list[Rows]) -> list[Rows]:
    """What those brought that were asked for."""
    return found if len(statements) == 1 else found[1:-1]


def _send(connection: Connection[Any], statements: Sequence[Sql]) -> list[Rows]:
    def execute(text: str, values: Sequence[object]) -> Cursor[Any]:
        return OwnCursor(connection).execute(spelled(text, connection), values, **_PLAIN)

    if in_transaction(connection):
        with connection.transaction(), connection.pipeline():
            cursors = [execute(*each) for each in statements]
        return [_rows(cursor) for cursor in cursors]
    with connection.pipeline() if len(statements) > 1 else nullcontext():
        cursors = [execute(*each) for each in _framed(statements)]
    return _own(statements, [_rows(cursor) for cursor in cursors])


async def _send_native(connection: AsyncConnection[Any], statements: Sequence[Sql]) -> list[Rows]:
    async def execute(text: str, values: Sequence[object]) -> AsyncCursor[Any]:
        made = spelled(text, connection)
        return await OwnAsyncCursor(connection).execute(made, values, **_PLAIN)

    if in_transaction(connection):
        async with connection.transaction(), connection.pipeline():
            cursors = [await execute(*each) for each in statements]
        return [await _arows(cursor) for cursor in cursors]
    async with connection.pipeline() if len(statements) > 1 else nullcontext():
        cursors = [await execute(*each) for each in _framed(statements)]
    return _own(statements, [await _arows(cursor) for cursor in cursors])


def _rows(cursor: Cursor[Any]) -> Rows:
    return cursor.fetchall() if _brings_rows(cursor) else []


async def _arows(cursor: AsyncCursor[Any]) -> Rows:
    return await cursor.fetchall() if _brings_rows(cursor) else []


def _brings_rows(cursor: Cursor[Any] | AsyncCursor[Any]) -> bool:
    """Not by `description`, which is made anew, column by column, whenever it is asked for."""
    return cursor.pgresult is not None and cursor.pgresult.status == ExecStatus.TUPLES_OK


class Session:
    """One connection for several round trips: for setting up."""

    def __init__(self, connection: Connection[Any] | AsyncConnection[Any]) -> None:
        self._connection = connection

    @property
    def joins(self) -> bool:
        """Whether it is part of a transaction of the application."""
        return in_transaction(self._connection)

    def wait_for_long(self) -> None:
        """A table may be large that is changed, and others may be at it first."""
        if isinstance(self._connection, BoundConnection | BoundAsyncConnection):
            self._connection.silence = PATIENT_SECONDS

    async def transaction_id(self) -> int | None:
        """Of the application's transaction; None as long as nothing was written in it."""
        ((found,),) = await self.execute("SELECT txid_current_if_assigned()")
        return None if found is None else int(found)

    async def is_direct(self) -> bool:
        """Whether the server itself is at the other end, and not a pooler."""
        ((pid,),) = await self.execute("SELECT pg_backend_pid()")
        return bool(pid == self._connection.info.backend_pid)

    async def execute(self, text: str, values: Sequence[object] = ()) -> Rows:
        """The rows of one statement."""
        made = spelled(text, self._connection)
        if isinstance(self._connection, AsyncConnection):
            other = OwnAsyncCursor(self._connection)
            return await _arows(await other.execute(made, values, **_PLAIN))
        return _rows(OwnCursor(self._connection).execute(made, values, **_PLAIN))

    @asynccontextmanager
    async def transaction(self) -> AsyncIterator[None]:
        """All or nothing. What others have committed is seen, whatever the server's default is: the
        first statement waits for them. In one of the application, the application decides.
        """
        begin = "SELECT 1" if self.joins else "SET TRANSACTION ISOLATION LEVEL READ COMMITTED"
        if isinstance(self._connection, AsyncConnection):
            async with self._connection.transaction():
                await self.execute(begin)
                yield
        else:
            with self._connection.transaction():
                await self.execute(begin)
                yield


@asynccontextmanager
async def session(pools: Pools) -> AsyncIterator[Session]:
    """A connection in the colour of the caller."""
    with translated(pools), cancellable():
        if is_blocking():
            with pools.blocking() as connection:
                yield Session(connection)
        else:
            async with pools.native() as other:
                yield Session(other)


@contextmanager
def translated(pools: Pools) -> Iterator[None]:
    """Raise what PostgreSQL and its driver raise as our own errors."""
    label = pools.label
    try:
        yield
    except _UNKNOWN as error:  # a pooler that was not recognised, and nothing was done
        pools.direct = False
        raise TransientStorageError(f"{label}: sessions are pooled; try again.") from error
    except FirstContactError as error:
        raise never_reached(error.__cause__, label) from error.__cause__
    except PoolTimeout as error:
        raise not_served(error, pools.reach, label) from error
    except UnicodeEncodeError as error:
        letters = error.object[error.start : error.end]
        raise BackendConnectionError(
            f"{label}: {letters!r} is not in the encoding of this connection ({error.encoding}).",
            hint=UNSPELLABLE,
        ) from error
    except psycopg.Error as error:
        raise translation(error, label) from error
