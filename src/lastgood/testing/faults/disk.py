"""A disk that records every write and can refuse any of them: a SQLite VFS, made with apsw.

    disk = Disk()
    backend = SqliteBackend(path, connect=disk.connect)

apsw carries its own SQLite, so the connection is apsw's, dressed as one of the standard library:
the same calls, the same errors. Reads and locks go to the real file system. A temporary file has
no name and is not recorded: nobody reads it after a power cut.
"""

from __future__ import annotations

import itertools
import sqlite3
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any, NamedTuple

import apsw

_numbers = itertools.count(1)


class Op(NamedTuple):
    """One thing that was done to the disk: write, truncate, sync or delete; or a mark of a test."""

    kind: str
    file: str = ""
    offset: int = 0
    data: bytes = b""


Fault = Callable[[str, str], None]
"""Called with (kind, file name) before each operation; raises to make it fail."""


def no_fault(kind: str, file: str) -> None:
    """The disk is fine."""


class Disk(apsw.VFS):
    """A file system whose history can be read and whose operations can be made to fail."""

    def __init__(self, fault: Fault = no_fault) -> None:
        self.name = f"lastgood-disk-{next(_numbers)}"
        self.journal: list[Op] = []
        self.fault = fault
        super().__init__(self.name, "")

    def connect(self, path: str) -> Connection:
        """A connection through this disk, for `SqliteBackend(connect=)`."""
        with _translating():
            return Connection(apsw.Connection(path, vfs=self.name))

    def mark(self, number: int) -> None:
        """Note in the journal that everything up to `number` has been acknowledged."""
        self.journal.append(Op("mark", offset=number))

    def xOpen(self, name: Any, flags: Any) -> _File:  # noqa: N802
        return _File(self, name, flags)

    def xDelete(self, filename: str, syncdir: bool) -> None:  # noqa: N802
        self.fault("delete", Path(filename).name)
        super().xDelete(filename, syncdir)
        self.journal.append(Op("delete", Path(filename).name))


class _File(apsw.VFSFile):
    def __init__(self, disk: Disk, name: Any, flags: Any) -> None:
        self._disk = disk
        path = name.filename() if isinstance(name, apsw.URIFilename) else name
        self._file = Path(path).name if path else ""
        super().__init__("", name, flags)

    def _done(self, kind: str, offset: int = 0, data: bytes = b"") -> None:
        if self._file:
            self._disk.journal.append(Op(kind, self._file, offset, data))

    def xRead(self, amount: int, offset: int) -> bytes:  # noqa: N802
        self._disk.fault("read", self._file)
        return super().xRead(amount, offset)

    def xWrite(self, data: Any, offset: int) -> None:  # noqa: N802
        self._disk.fault("write", self._file)
        super().xWrite(data, offset)
        self._done("write", offset, bytes(data))

    def xTruncate(self, newsize: int) -> None:  # noqa: N802
        self._disk.fault("truncate", self._file)
        super().xTruncate(newsize)
        self._done("truncate", newsize)

    def xSync(self, flags: int) -> None:  # noqa: N802
        self._disk.fault("sync", self._file)
        super().xSync(flags)
        self._done("sync")


class Connection:
    """An apsw connection that behaves like the standard library's."""

    def __init__(self, inner: apsw.Connection) -> None:
        self._inner = inner

    @property
    def in_transaction(self) -> bool:
        return self._inner.in_transaction

    def execute(self, statement: str, values: Sequence[Any] = ()) -> Cursor:
        with _translating():
            return Cursor(self._inner.execute(statement, tuple(values)))

    def executemany(self, statement: str, rows: Sequence[Sequence[Any]]) -> Cursor:
        with _translating():
            return Cursor(self._inner.executemany(statement, [tuple(row) for row in rows]))

    def close(self) -> None:
        with _translating():
            self._inner.close()


class Cursor:
    """The rows of one statement."""

    def __init__(self, inner: apsw.Cursor) -> None:
        self._inner = inner

    def fetchone(self) -> Any:
        with _translating():
            return self._inner.fetchone()

    def fetchall(self) -> list[Any]:
        with _translating():
            return self._inner.fetchall()


_KINDS: dict[int, type[sqlite3.Error]] = {
    apsw.SQLITE_CONSTRAINT: sqlite3.IntegrityError,
    apsw.SQLITE_CORRUPT: sqlite3.DatabaseError,
    apsw.SQLITE_NOTADB: sqlite3.DatabaseError,
}
_CODES = {type(apsw.exception_for(code)): code for code in range(1, 27)}


@contextmanager
def _translating() -> Iterator[None]:
    try:
        yield
    except apsw.Error as error:
        raise translated(error) from error


def translated(error: apsw.Error) -> sqlite3.Error:
    """The standard library's error for one of apsw's, whether SQLite or a fault raised it."""
    code = getattr(error, "extendedresult", 0) or _CODES.get(type(error), apsw.SQLITE_ERROR)
    made = _KINDS.get(code & 0xFF, sqlite3.OperationalError)(str(error))
    made.sqlite_errorcode = code
    return made
