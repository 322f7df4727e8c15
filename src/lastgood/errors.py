"""Every error a caller can meet, grouped by what the handler would do.

    LastgoodError
    |- CheckpointNotFoundError (KeyError)      look elsewhere: it is not there
    |  `- CheckpointExpiredError                 look for a newer one: its time is over
    |- CheckpointConflictError                 choose another id: this one holds other content
    |- StaleWriterError                        read again: somebody moved the head
    |- ThreadDeletedError                      stop: the thread was deleted under this writer
    |- ThreadOwnerError                        stop: the thread is another user's
    |- RunStateError                           open the run: it is not inside its block
    |- SerializationError (TypeError)          fix the state: a value in it cannot be kept
    |- SchemaMigrationError                    write a migration: the class has changed since
    |- IncompatibleCheckpointError             upgrade, or import: the format is not ours
    |- WrongKeyError                           pass the key that it was signed with
    |- AdapterError                            pass what the framework gave you: this is not it
    |- CheckpointIntegrityError                restore another: stored bytes are damaged
    `- StorageError                            look at the store
       |- TransientStorageError                  try again later: it is busy
       |- StorageFullError                       free some space
       `- BackendConnectionError                 check the address and the rights

Messages say what happened, where, and what to do next. `code` is stable across releases;
`hint` repeats the "what to do" part alone. This module knows nothing of the rest.
"""

from __future__ import annotations

from typing import Any

_DAMAGED = (
    "`lastgood verify` tells what else is damaged. `lastgood copy --salvage` brings what can be "
    "restored into another store."
)


def an(word: str) -> str:
    """The word with its article, for a message: `an int`, `a str`, `a UUID`."""
    return f"{'an' if word[:1] in 'aeioAEIO' else 'a'} {word}"


def remade(
    kind: type[BaseException], args: tuple[object, ...], known: dict[str, Any]
) -> BaseException:
    """An error as it was in another process, by pickle; its class is not called."""
    error = kind.__new__(kind, *args)
    error.__setstate__(known)
    return error


class LastgoodError(Exception):
    """The base of all errors that Lastgood raises on purpose."""

    code = "lastgood"

    def __init__(self, message: str, *, hint: str = "") -> None:
        super().__init__(message)
        self.message = message
        self.hint = hint

    def __str__(self) -> str:
        return f"{self.message} {self.hint}" if self.hint else self.message

    def __reduce__(self) -> tuple[object, ...]:
        return remade, (type(self), self.args, vars(self))


class CheckpointNotFoundError(LastgoodError, KeyError):
    """A ref names no checkpoint in this store."""

    code = "not_found"


class CheckpointExpiredError(CheckpointNotFoundError):
    """The checkpoint was there, but its time to live is over."""

    code = "expired"


class CheckpointConflictError(LastgoodError):
    """What should be new is there already: an id, a branch, or the first checkpoint of a lane."""

    code = "conflict"


class StaleWriterError(LastgoodError):
    """The head moved between reading and writing, and nothing was written.

    `expected` is the id of the checkpoint that this writer began at, and `head` the id of the one
    that is the head now.
    """

    code = "stale_writer"

    def __init__(
        self, message: str, *, expected: str | None, head: str | None, hint: str = ""
    ) -> None:
        super().__init__(message, hint=hint)
        self.expected = expected
        self.head = head


class ThreadDeletedError(LastgoodError):
    """The thread was deleted while this writer still held a part of it."""

    code = "thread_deleted"


class ThreadOwnerError(LastgoodError):
    """The thread belongs to a user other than the one who writes, and nothing was written."""

    code = "thread_owner"


class RunStateError(LastgoodError):
    """A run was used before it was entered or after it was left."""

    code = "run_state"


class SerializationError(LastgoodError, TypeError):
    """A value cannot be stored, or stored bytes cannot be read; `path` says where."""

    code = "serialization"

    def __init__(self, message: str, *, path: str = "", hint: str = "") -> None:
        super().__init__(message, hint=hint)
        self.path = path


class SchemaMigrationError(LastgoodError):
    """A stored state does not fit the class it is loaded into, and no migration leads there."""

    code = "schema_migration"


class IncompatibleCheckpointError(LastgoodError):
    """The store or the checkpoint has a format that this version does not read."""

    code = "incompatible"


class WrongKeyError(LastgoodError):
    """The key at hand did not sign what is stored, or cannot be used; no pickle was read."""

    code = "wrong_key"


class AdapterError(LastgoodError):
    """An adapter was given something that its framework did not make."""

    code = "adapter"


class CheckpointIntegrityError(LastgoodError):
    """Stored bytes differ from what was saved: this is damage, which is never returned as good."""

    code = "integrity"

    def __init__(self, message: str, *, hint: str = _DAMAGED) -> None:
        super().__init__(message, hint=hint)


class StorageError(LastgoodError):
    """The store failed; the message says whether anything of the operation was kept."""

    code = "storage"
    in_doubt = True
    """Whether what failed may have been kept all the same."""


class TransientStorageError(StorageError):
    """The store did not answer, or was busy for longer than Lastgood waits."""

    code = "storage_busy"
    in_doubt = False
    refused = False
    """Whether the store was not reached, or said no: then it has done nothing."""


class StorageFullError(StorageError):
    """There is no space left on the device that holds the store."""

    code = "storage_full"
    in_doubt = False


class BackendConnectionError(StorageError):
    """The store cannot be opened: a wrong address, missing rights, or not a database."""

    code = "connection"
    in_doubt = False


UNUSABLE = (BackendConnectionError, IncompatibleCheckpointError, TransientStorageError)
"""What says nothing of damage: nobody has looked."""
