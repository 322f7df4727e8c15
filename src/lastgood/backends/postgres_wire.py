"""Sending statements to PostgreSQL, in either colour, and what goes wrong on the way.

One body of SQL serves both colours; only here and in the pools do they differ. Several statements
are sent at once, as one read-only transaction of one moment. No session state: a pooler in
transaction mode may stand between. Statements are prepared where none does, which saves the server
most of its work on a small one; should a session turn out not to know them, that ends.
"""

from __future__ import annotations

from collections.abc import AsyncIterator, Iterator, Sequence
from contextlib import asynccontextmanager, contextmanager, nullcontext
from typing import Any, NamedTuple

import psycopg
from psycopg import AsyncConnection, AsyncCursor, Connection, Cursor, errors
from psycopg.pq import ExecStatus
from psycopg_pool import PoolTimeout

from lastgood.backends.postgres_connections import (
    OFTEN,
    SILENCE_SECONDS,
    BoundAsyncConnection,
    BoundConnection,
    Counting,
)
from lastgood.backends.postgres_cursors import OwnAsyncCursor, OwnCursor, spelled
from lastgood.backends.postgres_given import in_transaction
from lastgood.backends.postgres_pools import FirstContactError, Pools
from lastgood.backends.postgres_schema import FORMAT
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
_TUNE: Sql = ("SET plan_cache_mode = force_generic_plan", ())
"""All that we prepare is looked up by keys: no plan depends on the values. Left to itself, a server
makes five plans of each statement before it trusts one."""
_PLAIN: dict[str, Any] = {"prepare": False, "binary": True}
_PREPARED: dict[str, Any] = {"prepare": True, "binary": True}
_UNKNOWN = (errors.InvalidSqlStatementName, errors.DuplicatePreparedStatement)
"""What a session says that is not the one in which a statement was prepared."""


async def send(
    pools: Pools, statements: Sequence[Sql], *, silence: float | None = None, writes: bool = False
) -> list[Rows]:
    """The rows of each statement; many are one transaction that reads.

    Raises TransientStorageError if the server says nothing for so many seconds, and
    BackendConnectionError for one that writes on a connection that only reads.
    """
    with translated(pools.label), _noticing(pools):
        if is_blocking():
            with pools.blocking() as connection:
                _allow(connection, silence)
                _expect_writable(connection, pools.label, writes=writes)
                with _joining(connection, pools.label):
                    return _send(connection, _parcel(pools, connection, statements))
        async with pools.native() as other:
            _allow(other, silence)
            _expect_writable(other, pools.label, writes=writes)
            with _joining(other, pools.label):
                return await _send_native(other, _parcel(pools, other, statements))


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


def _expect_writable(
    connection: Connection[Any] | AsyncConnection[Any], label: str, *, writes: bool
) -> None:
    """The driver tells the server at the beginning of a transaction, and we mostly begin none."""
    if writes and connection.read_only:
        raise BackendConnectionError(
            f"{label}: the connection that this client was given is read_only.", hint=_READS
        )


@contextmanager
def _joining(connection: Connection[Any] | AsyncConnection[Any], label: str) -> Iterator[None]:
    """In a transaction of the application, what has to begin anew only the application can."""
    joins = in_transaction(connection)
    try:
        yield
    except (errors.SerializationFailure, errors.DeadlockDetected) as error:
        if not joins:
            raise
        raise StorageError(f"{label}: {_first_line(error)}", hint=_BEGIN_ANEW) from error


class Parcel(NamedTuple):
    """Statements as they are sent."""

    steps: list[tuple[bytes, Sequence[object], dict[str, Any]]]
    own: slice
    """Those among them that were asked for."""
    piped: bool
    """Whether they go together: several, or one that has to be prepared first."""

    def taken(self, found: list[Rows]) -> list[Rows]:
        """What those brought that were asked for."""
        return found[self.own]


def _parcel(
    pools: Pools, connection: Connection[Any] | AsyncConnection[Any], statements: Sequence[Sql]
) -> Parcel:
    """What has come several times on a connection of ours is prepared."""
    joins = in_transaction(connection)
    alone = joins or len(statements) == 1
    framed = statements if alone else [_BEGIN, *statements, _COMMIT]
    own = slice(0 if alone else 1, len(statements) + (0 if alone else 1))
    if joins or not pools.prepares or not isinstance(connection, Counting):
        steps = [(spelled(text, connection), values, _PLAIN) for text, values in framed]
        return Parcel(steps, own, len(steps) > 1)
    steps, first = [], False
    for text, values in framed:
        times = connection.times(text, values)
        first = first or times == OFTEN
        how = _PLAIN if times < OFTEN else _PREPARED
        steps.append((spelled(text, connection), values, how))
    if first and not connection.tuned:
        connection.tuned = True
        steps.insert(0, (spelled(_TUNE[0], connection), _TUNE[1], _PLAIN))
        own = slice(own.start + 1, own.stop + 1)
    return Parcel(steps, own, first or len(steps) > 1)


def _send(connection: Connection[Any], parcel: Parcel) -> list[Rows]:
    def execute(text: bytes, values: Sequence[object], how: dict[str, Any]) -> Cursor[Any]:
        return OwnCursor(connection).execute(text, values, **how)

    if in_transaction(connection):
        with connection.transaction(), connection.pipeline():
            cursors = [execute(*step) for step in parcel.steps]
        return [_rows(cursor) for cursor in cursors]
    with connection.pipeline() if parcel.piped else nullcontext():
        cursors = [execute(*step) for step in parcel.steps]
    return parcel.taken([_rows(cursor) for cursor in cursors])


async def _send_native(connection: AsyncConnection[Any], parcel: Parcel) -> list[Rows]:
    async def execute(
        text: bytes, values: Sequence[object], how: dict[str, Any]
    ) -> AsyncCursor[Any]:
        return await OwnAsyncCursor(connection).execute(text, values, **how)

    if in_transaction(connection):
        async with connection.transaction(), connection.pipeline():
            cursors = [await execute(*step) for step in parcel.steps]
        return [await _arows(cursor) for cursor in cursors]
    async with connection.pipeline() if parcel.piped else nullcontext():
        cursors = [await execute(*step) for step in parcel.steps]
    return parcel.taken([await _arows(cursor) for cursor in cursors])


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
        made = spelled(text, self._connection)
        if isinstance(self._connection, AsyncConnection):
            other = OwnAsyncCursor(self._connection)
            return await _arows(await other.execute(made, values, **_PLAIN))
        return _rows(OwnCursor(self._connection).execute(made, values, **_PLAIN))

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


@contextmanager
def translated(label: str) -> Iterator[None]:
    """Raise what PostgreSQL and its driver raise as our own errors."""
    try:
        yield
    except FirstContactError as error:
        raise _never_reached(error.__cause__, label) from error.__cause__
    except PoolTimeout as error:
        raise TransientStorageError(
            f"{label}: no connection within the time of the pool: {_first_line(error)}",
            hint="The server cannot be reached, or all connections of the pool are busy.",
        ) from error
    except UnicodeEncodeError as error:
        letters = error.object[error.start : error.end]
        raise BackendConnectionError(
            f"{label}: {letters!r} is not in the encoding of this connection ({error.encoding}).",
            hint=_UNSPELLABLE,
        ) from error
    except psycopg.Error as error:
        raise _translation(error, label) from error


_BEGIN_ANEW = "Roll back your transaction and run it again."
_FAILED_BEFORE = "Your own transaction failed before: roll it back first."
_WRONG = "Check the address, the user and its rights."
_READS = "It only reads: give this client a connection, role and server that may write."
_UNSPELLABLE = "Connect with client_encoding=UTF8, or call the schema something in plain letters."
_REFUSALS: dict[type[psycopg.Error], str] = {
    errors.InsufficientPrivilege: f"`lastgood db sql --since {FORMAT} --role NAME` (with --schema, "
    "if it is not lastgood) prints the rights that a role needs.",
    errors.ReadOnlySqlTransaction: _READS,
    errors.InvalidPassword: _WRONG,
    errors.InvalidAuthorizationSpecification: _WRONG,
    errors.InvalidCatalogName: _WRONG,
    errors.UntranslatableCharacter: _UNSPELLABLE,
    errors.CharacterNotInRepertoire: _UNSPELLABLE,
    **dict.fromkeys(
        (errors.UndefinedTable, errors.InvalidSchemaName, errors.UndefinedColumn),
        "The tables are not there: `lastgood db migrate` makes them.",
    ),
}
"""What does not get better by itself, and what to do about it."""


_TOO_LONG = "Use shorter names and keys: PostgreSQL has room for about 2,700 bytes of one."


def _translation(error: psycopg.Error, label: str) -> LastgoodError:
    state = error.sqlstate or ""
    text = _first_line(error)
    said = f"{label}: {text}"
    if type(error) in _REFUSALS:
        return BackendConnectionError(said, hint=_REFUSALS[type(error)])
    if not state and _says_wrong(text):
        return BackendConnectionError(said, hint=_WRONG)
    if state in ("53100", "53200"):
        return StorageFullError(said, hint="Nothing of this save was kept.")
    if state.startswith("54"):  # a limit of PostgreSQL itself, however often it is tried
        return StorageError(said, hint=_TOO_LONG)
    if isinstance(error, psycopg.OperationalError | psycopg.InterfaceError):
        return TransientStorageError(said, hint="The server may be starting; try again.")
    failed = isinstance(error, errors.InFailedSqlTransaction)
    return StorageError(said, hint=_FAILED_BEFORE if failed else "")


def _never_reached(error: BaseException | None, label: str) -> LastgoodError:
    """Whatever the reason is, the first attempt to connect is not made twice."""
    return BackendConnectionError(
        f"{label}: {_first_line(error)}",
        hint=_WRONG,
    )


def _first_line(error: BaseException | None) -> str:
    return str(error).strip().split("\n", maxsplit=1)[0].removesuffix(".") + "."


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
