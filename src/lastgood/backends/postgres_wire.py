"""Sending statements to PostgreSQL, in either colour, and what goes wrong on the way.

One body of SQL serves both colours; only here and in the pools do they differ. Several statements
are sent at once, as one read-only transaction of one moment. No session state: a pooler in
transaction mode may stand between. Statements are prepared where none does, which saves the server
most of its work on a small one; should a session turn out not to know them, that ends.
"""

from __future__ import annotations

from collections.abc import AsyncIterator, Iterator, Sequence
from contextlib import asynccontextmanager, contextmanager
from functools import lru_cache
from typing import Any

import psycopg
from psycopg import (
    AsyncConnection,
    AsyncCursor,
    AsyncRawCursor,
    Connection,
    Cursor,
    RawCursor,
    errors,
)
from psycopg.pq import ExecStatus
from psycopg.rows import tuple_row
from psycopg_pool import PoolTimeout

from lastgood.backends.postgres_address import CONNECT_SECONDS
from lastgood.backends.postgres_connections import (
    SILENCE_SECONDS,
    BoundAsyncConnection,
    BoundConnection,
)
from lastgood.backends.postgres_given import in_transaction
from lastgood.backends.postgres_pools import FirstContactError, Pools
from lastgood.driver import is_blocking
from lastgood.errors import (
    BackendConnectionError,
    LastgoodError,
    StorageError,
    StorageFullError,
    TransientStorageError,
)

Sql = tuple[Any, Sequence[object]]
Rows = list[tuple[Any, ...]]
_BEGIN: Sql = ("BEGIN ISOLATION LEVEL REPEATABLE READ READ ONLY", ())
_COMMIT: Sql = ("COMMIT", ())
_PLAIN: dict[str, Any] = {"prepare": False, "binary": True}
_PREPARED: dict[str, Any] = {"prepare": True, "binary": True}
_UNKNOWN = (errors.InvalidSqlStatementName, errors.DuplicatePreparedStatement)
"""What a session says that is not the one in which a statement was prepared."""


async def send(
    pools: Pools, statements: Sequence[Sql], *, silence: float | None = None
) -> list[Rows]:
    """The rows of each statement; many are one transaction that reads.

    Raises TransientStorageError if the server says nothing for so many seconds.
    """
    with translated(pools.label), _noticing(pools):
        if is_blocking():
            with pools.blocking() as connection:
                _allow(connection, silence)
                return _send(connection, statements, _how(pools, connection))
        async with pools.native() as other:
            _allow(other, silence)
            return await _send_native(other, statements, _how(pools, other))


def _how(pools: Pools, connection: Connection[Any] | AsyncConnection[Any]) -> dict[str, Any]:
    """Whether to prepare; an application that switched it off for its connection is heeded."""
    wanted = pools.prepares and connection.prepare_threshold is not None
    return _PREPARED if wanted else _PLAIN


@contextmanager
def _noticing(pools: Pools) -> Iterator[None]:
    """A pooler that was not recognised: nothing is prepared from now on, and nothing was done."""
    try:
        yield
    except _UNKNOWN as error:
        pools.prepares = False
        raise TransientStorageError(f"{pools.label}: sessions are pooled; try again.") from error


def _allow(connection: Connection[Any] | AsyncConnection[Any], silence: float | None) -> None:
    """Connections of the application have the application's own limits."""
    if isinstance(connection, BoundConnection | BoundAsyncConnection):
        connection.silence = SILENCE_SECONDS if silence is None else silence


def _send(
    connection: Connection[Any], statements: Sequence[Sql], how: dict[str, Any]
) -> list[Rows]:
    def execute(text: Any, values: Sequence[object], how: dict[str, Any] = how) -> Cursor[Any]:
        cursor = RawCursor(connection, row_factory=tuple_row)
        return cursor.execute(numbered(text), values, **how)

    if in_transaction(connection):
        with connection.transaction(), connection.pipeline():
            cursors = [execute(*each, _PLAIN) for each in statements]
        return [_rows(cursor) for cursor in cursors]
    if len(statements) == 1:
        return [_rows(execute(*statements[0]))]
    with connection.pipeline():
        cursors = [execute(*each) for each in _framed(statements)]
    return [_rows(cursor) for cursor in cursors][1:-1]


async def _send_native(
    connection: AsyncConnection[Any], statements: Sequence[Sql], how: dict[str, Any]
) -> list[Rows]:
    async def execute(
        text: Any, values: Sequence[object], how: dict[str, Any] = how
    ) -> AsyncCursor[Any]:
        cursor = AsyncRawCursor(connection, row_factory=tuple_row)
        return await cursor.execute(numbered(text), values, **how)

    if in_transaction(connection):
        async with connection.transaction(), connection.pipeline():
            cursors = [await execute(*each, _PLAIN) for each in statements]
        return [await _arows(cursor) for cursor in cursors]
    if len(statements) == 1:
        return [await _arows(await execute(*statements[0]))]
    async with connection.pipeline():
        cursors = [await execute(*each) for each in _framed(statements)]
    return [await _arows(cursor) for cursor in cursors][1:-1]


@lru_cache(maxsize=1024)
def numbered(text: str) -> bytes:
    """A statement as the server takes it: `$1`, `$2` in the place of each `%s`.

    The driver would do that too, but for one with more than 50 values each time anew.
    """
    first, *rest = text.split("%s")
    return "".join([first, *(f"${n}{piece}" for n, piece in enumerate(rest, start=1))]).encode()


def _framed(statements: Sequence[Sql]) -> list[Sql]:
    return [_BEGIN, *statements, _COMMIT]


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

    async def is_direct(self) -> bool:
        """Whether the server itself is at the other end, and not a pooler."""
        ((pid,),) = await self.execute("SELECT pg_backend_pid()")
        return bool(pid == self._connection.info.backend_pid)

    async def execute(self, text: str, values: Sequence[object] = ()) -> Rows:
        """The rows of one statement."""
        if isinstance(self._connection, AsyncConnection):
            return await _arows(await self._connection.execute(text, values, prepare=False))
        return _rows(self._connection.execute(text, values, prepare=False))

    @asynccontextmanager
    async def transaction(self) -> AsyncIterator[None]:
        """All or nothing."""
        if isinstance(self._connection, AsyncConnection):
            async with self._connection.transaction():
                yield
        else:
            with self._connection.transaction():
                yield


@asynccontextmanager
async def session(pools: Pools) -> AsyncIterator[Session]:
    """A connection in the colour of the caller."""
    with translated(pools.label):
        if is_blocking():
            with pools.blocking() as connection:
                yield Session(connection)
        else:
            async with pools.native() as other:
                yield Session(other)


_WRONG = (
    errors.InvalidPassword,
    errors.InvalidAuthorizationSpecification,
    errors.InvalidCatalogName,
)


@contextmanager
def translated(label: str) -> Iterator[None]:
    """Raise what PostgreSQL and its driver raise as our own errors."""
    try:
        yield
    except FirstContactError as error:
        raise _never_reached(error.__cause__, label) from error.__cause__
    except PoolTimeout as error:
        raise TransientStorageError(
            f"{label}: no connection within {CONNECT_SECONDS} seconds.",
            hint="The server cannot be reached, or all connections of the pool are busy.",
        ) from error
    except psycopg.Error as error:
        raise _translation(error, label) from error


def _translation(error: psycopg.Error, label: str) -> LastgoodError:
    state = error.sqlstate or ""
    text = _first_line(error)
    said = f"{label}: {text}"
    if isinstance(error, errors.InsufficientPrivilege):
        return BackendConnectionError(
            said, hint="`lastgood db sql --role NAME` prints the rights that a role needs."
        )
    if isinstance(error, _WRONG) or _says_wrong(text):
        return BackendConnectionError(said, hint="Check the address, the user and its rights.")
    if state in ("53100", "53200"):
        return StorageFullError(said, hint="Nothing of this save was kept.")
    if isinstance(error, errors.UndefinedTable | errors.InvalidSchemaName | errors.UndefinedColumn):
        return BackendConnectionError(
            said, hint="The tables are not there: `lastgood db migrate` makes them."
        )
    if isinstance(error, psycopg.OperationalError | psycopg.InterfaceError):
        return TransientStorageError(said, hint="The server may be starting; try again.")
    return StorageError(said)


def _never_reached(error: BaseException | None, label: str) -> LastgoodError:
    """Whatever the reason is, the first attempt to connect is not made twice."""
    return BackendConnectionError(
        f"{label}: {_first_line(error)}", hint="Check the address, the user and its rights."
    )


def _first_line(error: BaseException | None) -> str:
    return str(error).strip().split("\n", maxsplit=1)[0]


def _says_wrong(text: str) -> bool:
    """Before a session exists, libpq gives no code, only words."""
    return any(
        words in text
        for words in (
            "password authentication failed",
            "no password supplied",
            "does not exist",
            "could not translate host name",
            "pg_hba.conf",
        )
    )
