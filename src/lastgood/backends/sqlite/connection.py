"""Connections to one SQLite file: opening, pooling, forking, and what its errors mean.

One writer, used under the group's mutex, and as many readers as there are threads reading at the
same moment. Connections come from a `connect` callable, so that a fault-injecting driver can take
sqlite3's place. The one invariant: no connection is ever shared with a forked child; SQLite keeps
its locks per process, and a child that used or closed an inherited one could drop its parent's
(or lose a WAL that the parent deletes). So everything is closed before a fork and opened again
after it, on both sides.
"""

from __future__ import annotations

import errno
import os
import sqlite3
import threading
import time
import weakref
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path
from typing import Any, NamedTuple, TypeVar

from lastgood.backends.sqlite.lines import Lines
from lastgood.backends.sqlite.log import of_the_disk
from lastgood.backends.sqlite.schema import inspect, prepare
from lastgood.backends.sqlite.still import (
    DisturbedError,
    is_cut_short,
    is_kept_out,
    left_of,
    read_still,
)
from lastgood.backends.sqlite.waiting import PATIENCE
from lastgood.errors import (
    BackendConnectionError,
    CheckpointIntegrityError,
    LastgoodError,
    StorageError,
    StorageFullError,
    TransientStorageError,
)

WAL_LIMIT = 16 << 20
MOMENT = 0.001
TRIES = 3
"""How often a file is read that others open and close again all the time."""
RESCUE_MS = 1000
"""How long a log that has lost its file waits for who still reads."""

Connect = Callable[[str], Any]
T = TypeVar("T")

_MEANINGS: dict[int, tuple[type[LastgoodError], str, str]] = {
    sqlite3.SQLITE_BUSY: (
        TransientStorageError,
        f"another process held the write lock of {{label}} for more than {PATIENCE:.0f} s.",
        "Find the program that keeps a transaction open on this file, then try again.",
    ),
    sqlite3.SQLITE_FULL: (
        StorageFullError,
        "no space left for {label}; nothing of this save was kept.",
        "Free some space and save again: the last good checkpoint is untouched.",
    ),
    sqlite3.SQLITE_READONLY: (
        BackendConnectionError,
        "{label} is read-only.",
        (
            "Give this user write access to the file, to those named -wal and -shm and to the "
            "directory. To look at what a crash left here, use a copy elsewhere."
        ),
    ),
    sqlite3.SQLITE_CANTOPEN: (
        BackendConnectionError,
        "{label} cannot be opened.",
        (
            "Check that the directory exists, and that this user may read the file and write in "
            "the directory. To look at what a crash left here, use a copy elsewhere."
        ),
    ),
    sqlite3.SQLITE_NOTADB: (
        BackendConnectionError,
        "{label} is not a SQLite database.",
        "Pass the path of another file; this one was left as it is.",
    ),
    sqlite3.SQLITE_CORRUPT: (
        CheckpointIntegrityError,
        "{label} is damaged ({error}).",
        (
            "Copy the file and its -wal away before anything else; `lastgood copy --salvage` "
            "brings what can be restored into another store. If it was just put back from a "
            "backup: put it back again, while nobody has it open and without the old -wal and -shm."
        ),
    ),
}
_MEANINGS[sqlite3.SQLITE_IOERR] = (
    StorageError,
    "the disk under {label} failed ({error}); whether this operation was kept is unknown.",
    "When the disk works again, look at the head before you save again.",
)
_MEANINGS[sqlite3.SQLITE_IOERR_SHMSIZE] = _MEANINGS[sqlite3.SQLITE_FULL]
_MEANINGS[sqlite3.SQLITE_LOCKED] = _MEANINGS[sqlite3.SQLITE_BUSY]
_MEANINGS[sqlite3.SQLITE_PERM] = _MEANINGS[sqlite3.SQLITE_CANTOPEN]

_GONE = ("no such table", "no such column")


def is_no_text(error: Exception) -> bool:
    """Whether a statement met text that is no longer UTF-8, which makes it fail as a whole."""
    return getattr(error, "sqlite_errorcode", None) is None and "decode" in str(error)


class Reader(NamedTuple):
    """A connection for reading, what it has seen, and which file it reads."""

    connection: Any
    lines: Lines
    file: tuple[int, int] | None


class ReplacedError(Exception):
    """Another file is at the path than the one that is open, or none."""


def tolerant(work: Callable[[Reader], T]) -> Callable[[Reader], T]:
    """Work that gets such text with escapes in it: no seal fits that, so it hurts its own row only.

    Not the way to read from the start: a function of ours would be called for every text.
    """

    def tolerating(reader: Reader) -> T:
        reader.connection.text_factory = _escaped
        try:
            return work(reader)
        finally:
            reader.connection.text_factory = str

    return tolerating


def _escaped(text: bytes) -> str:
    return text.decode(errors="backslashreplace")


def translated(error: sqlite3.Error | UnicodeDecodeError, label: str) -> LastgoodError:
    """What a SQLite error means to our callers.

    Text that is no longer UTF-8 is damage, and so is a table that is gone since the file was made.
    """
    is_damage = is_no_text(error) or str(error).startswith(_GONE)
    code = sqlite3.SQLITE_CORRUPT if is_damage else getattr(error, "sqlite_errorcode", None)
    unknown = (StorageError, "{label}: {error}. Nothing of this operation was kept.", "")
    general = _MEANINGS.get((code or 0) & 0xFF, unknown)
    kind, message, hint = _MEANINGS.get(code or 0, general)
    if kind is CheckpointIntegrityError and (left := left_of(label)) is not None:
        message = f"{{label}} is cut short: {left[0]:,} of its {left[1]:,} bytes are there."
        hint = (
            "If it is a copy, make it again. Otherwise copy it away before anything else; "
            "`lastgood copy --salvage` brings what can be restored into another store."
        )
    if (code or 0) & 0xFF == sqlite3.SQLITE_CANTOPEN:
        message, hint = _not_opened(label, message, hint)
    return kind(message.format(label=label, error=error), hint=hint)


def _not_opened(label: str, message: str, hint: str) -> tuple[str, str]:
    """Why a file could not be opened, as far as it can be told: SQLite does not say."""
    if label.startswith("~"):
        return message, "A ~ is no home directory here, but a name: pass Path(...).expanduser()."
    try:
        os.close(os.open(os.devnull, os.O_RDONLY))
    except OSError as error:
        if error.errno in (errno.EMFILE, errno.ENFILE):
            message = "{label} cannot be opened: too many files and connections are open."
            hint = "Find what is never closed, or raise the limit of this process (`ulimit -n`)."
    return message, hint


def is_no_file(path: Path) -> bool:
    """Whether something is there that no database can be in."""
    return path.exists() and not path.is_file()


def plain_connect(path: str) -> sqlite3.Connection:
    """The standard library's connection; transactions are ours to begin."""
    return sqlite3.connect(
        path, timeout=PATIENCE, isolation_level=None, check_same_thread=False, cached_statements=256
    )


def _close_all(connections: list[Any]) -> None:
    for connection in connections:
        connection.close()


class Connections:
    """All connections of this process to one file."""

    def __init__(self, path: str, connect: Connect, *, relaxed: bool) -> None:
        self.label = path
        self._place = Path(path).absolute()
        self.path = str(self._place)
        self._connect = connect
        self._synchronous = "NORMAL" if relaxed else "FULL"
        self._idle: list[Reader] = []
        self._writer: Any = None
        self._gate = threading.RLock()  # a signal handler may read while a read is under way
        self._reading: list[int] = []
        self._era = 0
        self._frozen = False
        self._file: tuple[int, int] | None = None
        self._opened: list[Any] = []
        # A client needs no close(). Not at exit, though: a daemon thread may be in the middle.
        weakref.finalize(self, _close_all, self._opened).atexit = False

    def writer(self) -> tuple[Any, bool]:
        """The writing connection and whether it is new; the caller holds the group's mutex."""
        is_new = self._writer is None
        if is_new:
            self._writer = self._open()
            self._writer.execute("PRAGMA busy_timeout = 0")  # see `sqlite.waiting`
            self._file = self._identity()
        return self._writer, is_new

    def check_file(self) -> None:
        """A file that was deleted under us would take our saves with it when we close it."""
        if self._identity() != self._file:
            raise self.replaced("nothing was saved")

    def replaced(self, outcome: str) -> BackendConnectionError:
        """The error for who finds another file than the one that is open."""
        return BackendConnectionError(
            f"{self.label} was removed or replaced while it was open; {outcome}.",
            hint="The next call goes to the file that is at this path by then, or makes one.",
        )

    def discard_writer(self) -> None:
        """After an I/O error the handle is not to be trusted: open another next time."""
        writer, self._writer = self._writer, None
        if writer is not None:
            self._close(writer)

    def read(self, work: Callable[[Reader], T]) -> T:
        """Work with a connection for reading."""
        me, reader, era = threading.get_ident(), None, 0
        try:
            era, reader = self._enter(me)
            if reader is None:
                try:
                    reader = self._reader(self._open())
                except sqlite3.Error as error:
                    if not (is_kept_out(error) or is_cut_short(error, self.path)):
                        raise
                    return self._read_still(work, error)
            elif reader.file != self._identity():
                raise ReplacedError
            return work(reader)
        finally:
            with self._gate:
                if me in self._reading:  # not if it was interrupted, or is in a child by now
                    self._reading.remove(me)
                if reader is not None:
                    self._put_back(reader, era)

    def _reader(self, connection: Any) -> Reader:
        return Reader(connection, Lines(connection), self._identity())

    def _read_still(self, work: Callable[[Reader], T], error: sqlite3.Error) -> T:
        """Read where this user may not write; raises the error if that cannot be done, either."""

        def inspected(connection: Any) -> T:
            inspect(connection, self.label)
            return work(self._reader(connection))

        for _ in range(TRIES):
            try:
                return read_still(self.path, inspected)
            except OSError:
                break
            except DisturbedError:  # somebody began to write, so there is a log to read with
                try:
                    return self._read_once(work)
                except sqlite3.Error as again:
                    if not is_kept_out(again):
                        raise
        raise error

    def _read_once(self, work: Callable[[Reader], T]) -> T:
        connection = self._open()
        try:
            return work(self._reader(connection))
        finally:
            self._close(connection)

    def _enter(self, me: int) -> tuple[int, Reader | None]:
        """Wait while a fork is under way. (A signal can leave a Condition locked.)"""
        while True:
            with self._gate:
                if not self._frozen:
                    self._reading.append(me)
                    return self._era, self._idle_one()
            time.sleep(MOMENT)

    def _idle_one(self) -> Reader | None:
        return self._idle.pop() if self._idle else None

    def _put_back(self, reader: Reader, era: int) -> None:
        """Keep a reader for the next one, unless it was interrupted or everything was closed."""
        if era == self._era and not reader.connection.in_transaction:
            self._idle.append(reader)
        else:
            self._close(reader.connection)

    def _open(self) -> Any:
        """Connect, and make sure that the file is ours: somebody may have put another there."""
        self._check_kind()
        connection = self._connect(self.path)
        try:
            connection.execute(f"PRAGMA busy_timeout = {int(PATIENCE * 1000)}")
            connection.execute(f"PRAGMA synchronous = {self._synchronous}")
            # On macOS, fsync leaves data in the cache of the drive; elsewhere this does nothing.
            connection.execute("PRAGMA fullfsync = ON")
            connection.execute(f"PRAGMA journal_size_limit = {WAL_LIMIT}")
            prepare(connection, self.label, patience=PATIENCE)
        except BaseException:
            connection.close()
            raise
        self._opened.append(connection)
        return connection

    def _check_kind(self) -> None:
        """SQLite would wait for ever for somebody to write into a pipe."""
        if self._place.is_dir():
            raise BackendConnectionError(
                f"{self.label} is a directory.",
                hint="Pass the path of a file in it; for plain files: Client.files(), files:DIR.",
            )
        if is_no_file(self._place):
            raise BackendConnectionError(
                f"{self.label} is a pipe, a socket or a device.", hint="Pass the path of a file."
            )

    def _close(self, connection: Any) -> None:
        self._opened.remove(connection)
        connection.close()

    def _identity(self) -> tuple[int, int] | None:
        """Which file the path leads to: somebody may delete it and make another."""
        try:
            status = os.stat(self.path)  # noqa: PTH116, for it is asked at every commit
        except OSError as error:
            if not of_the_disk(error):
                raise
            return None
        return status.st_dev, status.st_ino

    def close(self) -> None:
        """Close what is idle and the writer; the caller holds the group's mutex."""
        with self._gate:
            self._era += 1
            idle, self._idle = self._idle, []
        for reader in idle:
            self._close(reader.connection)
        self._rescue_log()
        self.discard_writer()

    def _rescue_log(self) -> None:
        """Take what is in the log over into the file that is open, if that is not at its path.

        SQLite leaves the log where it is then: beside a file that it does not belong to, which
        takes it for its own, while the file that was moved away lacks what was saved last.
        """
        if self._writer is None or self._identity() == self._file:
            return
        with suppress(sqlite3.Error):
            self._writer.execute(f"PRAGMA busy_timeout = {RESCUE_MS}")
            self._writer.execute("PRAGMA wal_checkpoint(TRUNCATE)")

    def freeze(self) -> None:
        """Before a fork: let readers finish, then close everything."""
        with self._gate:
            self._frozen = True
        while set(self._reading) - {threading.get_ident()}:
            time.sleep(MOMENT)
        self.close()

    def thaw(self) -> None:
        """After a fork, in the parent."""
        self._frozen = False

    def thaw_in_child(self) -> None:
        """After a fork, in the child: the other threads are gone, and with them their locks."""
        self._gate, self._reading, self._frozen = threading.RLock(), [], False
