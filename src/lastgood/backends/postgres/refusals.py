"""What PostgreSQL and its driver refuse, in our own errors: what happened, and what to do about it.

Before a session exists, libpq gives no code, only words; so those are looked at there.
"""

from __future__ import annotations

import psycopg
from psycopg import errors

from lastgood.backends.postgres.connections import Reach
from lastgood.backends.postgres.schema import FORMAT
from lastgood.errors import (
    BackendConnectionError,
    LastgoodError,
    StorageError,
    StorageFullError,
    TransientStorageError,
)

BEGIN_ANEW = "Roll back your transaction and run it again."
READS = "It only reads: give this client a connection, role and server that may write."
UNSPELLABLE = "Connect with client_encoding=UTF8, or call the schema something in plain letters."
FAILED_BEFORE = "Your own transaction failed before: roll it back first."
_WRONG = "Check the address, the user and its rights."
_CROWDED = (
    "The server has no connection left for this role (`max_connections`, CONNECTION LIMIT): end "
    "some, give clients a smaller pool_size, or put a pooler in between."
)
_STARTING = "The server may be starting; try again."
_BUSY = "All connections of the pool are busy: give the client a larger pool_size, or fewer tasks."
_UNKNOWN = (
    "The server cannot be reached, or all connections of the pool are busy; the logger "
    "`psycopg.pool` says which."
)
_CUT_OFF = (
    "It took longer than the `{}` of this role or database allows. Somebody may hold the thread's "
    "row (see pg_locks); else give the role more time."
)
_REFUSALS: dict[type[psycopg.Error], str] = {
    errors.InsufficientPrivilege: f"`lastgood db sql --since {FORMAT} --role NAME` (with --schema, "
    "if it is not lastgood) prints the rights that a role needs.",
    errors.ReadOnlySqlTransaction: READS,
    errors.InvalidPassword: _WRONG,
    errors.InvalidAuthorizationSpecification: _WRONG,
    errors.InvalidCatalogName: _WRONG,
    errors.ConfigurationLimitExceeded: "Give this role a larger temp_file_limit or work_mem.",
    errors.UntranslatableCharacter: UNSPELLABLE,
    errors.CharacterNotInRepertoire: UNSPELLABLE,
    **dict.fromkeys(
        (errors.UndefinedTable, errors.InvalidSchemaName, errors.UndefinedColumn),
        "The tables are not there: `lastgood db migrate` makes them.",
    ),
}
"""What does not get better by itself, and what to do about it."""
_OF_THEIR_OWN: dict[str, str] = {
    "row-level security": "A policy of the table (row-level security) hides rows or refuses them. "
    "Give this role one that lets it read and write all rows of the store, or BYPASSRLS.",
    "statement pooling mode": "Set the pooler to `pool_mode = transaction`.",
}
"""The same, where only the words tell it from something else."""
_LATER: dict[str, str] = {
    "statement timeout": _CUT_OFF.format("statement_timeout"),
    "lock timeout": _CUT_OFF.format("lock_timeout"),
    "idle-in-transaction timeout": _CUT_OFF.format("idle_in_transaction_session_timeout"),
    "transaction timeout": _CUT_OFF.format("transaction_timeout"),
    "no answer from the server": "The server or the network is stuck, or somebody holds the "
    "thread's row in a transaction that is still open (see pg_locks); try again.",
    "due to user request": "An administrator ended it; try again.",
    "could not serialize": "Others write to the same rows; try again.",
    "deadlock detected": "Others write to the same rows; try again.",
}
"""What may be otherwise at the next attempt, by the first of these words that the server says."""
_PASSING = (
    psycopg.OperationalError,
    psycopg.InterfaceError,
    errors.TransactionTimeout,
    errors.IdleInTransactionSessionTimeout,
)
_UNDONE = (
    errors.QueryCanceled,
    errors.LockNotAvailable,
    errors.SerializationFailure,
    errors.DeadlockDetected,
)
"""What the server says of a statement that it has undone."""
_AT_THE_DOOR: dict[str, str] = {
    "password authentication failed": _WRONG,
    "no password supplied": _WRONG,
    "does not exist": _WRONG,
    "could not translate host name": _WRONG,
    "pg_hba.conf": _WRONG,
    "not permitted to log in": _WRONG,
    "read-only": READS,
    "hot standby": READS,
    "too many": _CROWDED,
    "connection slots": _CROWDED,
    "starting up": _STARTING,
    "shutting down": _STARTING,
    "recovery": _STARTING,
}
"""What a server says that lets nobody in, and what to do about it."""
_TOO_LONG = "Use shorter names and keys: PostgreSQL has room for about 2,700 bytes of one."


def translation(error: psycopg.Error, label: str) -> LastgoodError:
    """Our own error for one of a session."""
    state = error.sqlstate or ""
    text = first_line(error)
    said = f"{label}: {text}"
    refusal = _hint(text, _OF_THEIR_OWN, _REFUSALS.get(type(error), ""))
    if refusal:
        return BackendConnectionError(said, hint=refusal)
    if not state and _hint(text, _AT_THE_DOOR, "") == _WRONG:
        return BackendConnectionError(said, hint=_WRONG)
    if state in ("53100", "53200"):
        return StorageFullError(said, hint="Nothing of this save was kept.")
    if state.startswith("54"):  # a limit of PostgreSQL itself, however often it is tried
        return StorageError(said, hint=_TOO_LONG)
    if isinstance(error, _PASSING):
        passing = TransientStorageError(said, hint=_hint(text, _LATER, _STARTING))
        # The driver and we use these errors, too: only those of the server have a code in them.
        passing.refused = isinstance(error, _UNDONE) and error.diag.sqlstate is not None
        return passing
    failed = isinstance(error, errors.InFailedSqlTransaction)
    return StorageError(said, hint=FAILED_BEFORE if failed else "")


def never_reached(error: BaseException | None, label: str) -> LastgoodError:
    """Whatever the reason is, the first attempt to connect is not made twice."""
    text = first_line(error)
    return BackendConnectionError(f"{label}: {text}", hint=_hint(text, _AT_THE_DOOR, _WRONG))


def not_served(error: BaseException, reach: Reach | None, label: str) -> LastgoodError:
    """A pool gave no connection in its time, for a reason that it keeps to itself."""
    text, hint = first_line(error), _UNKNOWN
    if reach is not None:
        hint = _BUSY
        if reach.refusal is not None:
            text = first_line(reach.refusal)
            hint = _hint(text, _AT_THE_DOOR, _STARTING)
    told = TransientStorageError(
        f"{label}: no connection within the time of the pool: {text}", hint=hint
    )
    told.refused = True
    return told


def _hint(text: str, hints: dict[str, str], otherwise: str) -> str:
    return next((hint for words, hint in hints.items() if words in text), otherwise)


def first_line(error: BaseException | None) -> str:
    """What an error says, in one line that ends with a full stop."""
    return str(error).strip().split("\n", maxsplit=1)[0].removesuffix(".") + "."
