"""Reading a file that cannot be opened in the ordinary way, while nobody has it open.

SQLite writes beside a file even to read it: it makes a log and the index of that. Who may not is
refused, also where there is nothing in a log: the file was closed, or is a copy. And it reads
nothing of a file that ends before its last page, such as a copy that was interrupted, until it
is told to; then only the pages that are gone are damage. Such files are read as ones that do
not change. The one invariant: what was read is given out only if the file did not change
meanwhile and nobody began a log.
"""

from __future__ import annotations

import os
import sqlite3
from collections.abc import Callable
from contextlib import closing
from pathlib import Path
from typing import Any, TypeVar

from lastgood.errors import CheckpointIntegrityError

T = TypeVar("T")
_HEADER, _MAGIC = 100, b"SQLite format 3\0"
_KEPT_OUT = frozenset({sqlite3.SQLITE_READONLY, sqlite3.SQLITE_CANTOPEN, sqlite3.SQLITE_PERM})


class DisturbedError(Exception):
    """Somebody writes: what was read may be half old and half new."""

    def __init__(self) -> None:
        super().__init__("something is in its log, or it changed while it was read")


def is_kept_out(error: sqlite3.Error) -> bool:
    """Whether a file could not be opened because this user may not write there."""
    return (getattr(error, "sqlite_errorcode", None) or 0) & 0xFF in _KEPT_OUT


def is_cut_short(error: sqlite3.Error, path: str) -> bool:
    """Whether a file could not be opened because its end is missing."""
    damaged = (getattr(error, "sqlite_errorcode", None) or 0) & 0xFF == sqlite3.SQLITE_CORRUPT
    return damaged and left_of(path) is not None


def left_of(path: str) -> tuple[int, int] | None:
    """Of a file whose end is missing, how many bytes are there and how many should be.

    None too where something is in the log: that knows better how long the file is by now.
    """
    try:
        if Path(f"{path}-wal").exists() and os.stat(f"{path}-wal").st_size:  # noqa: PTH116
            return None
        with Path(path).open("rb") as file:
            header = file.read(_HEADER)
            there = file.seek(0, os.SEEK_END)
    except OSError:
        return None
    is_counted = header[24:28] == header[92:96]  # else SQLite does not believe its header, either
    if len(header) < _HEADER or not header.startswith(_MAGIC) or not is_counted:
        return None
    page, pages = int.from_bytes(header[16:18]), int.from_bytes(header[28:32])
    whole = (page if page > 1 else 1 << 16) * pages
    return (there, whole) if there < whole else None


def read_still(path: str, work: Callable[[Any], T]) -> T:
    """Work with a connection that is there for this once; `DisturbedError` if somebody writes."""
    before = _stamp(path)
    try:
        with closing(_connect(path)) as connection:
            found = work(connection)
    except (sqlite3.Error, CheckpointIntegrityError) as error:
        if _stamp(path) != before:
            raise DisturbedError from error
        raise
    if _stamp(path) != before:
        raise DisturbedError
    return found


def _connect(path: str) -> sqlite3.Connection:
    connection = sqlite3.connect(
        f"{Path(path).as_uri()}?immutable=1",
        uri=True,
        isolation_level=None,
        check_same_thread=False,
    )
    if left_of(path) is not None:  # nothing can be written to an immutable file, whatever is set
        connection.execute("PRAGMA writable_schema = ON")
    return connection


def _stamp(path: str) -> tuple[int, ...]:
    """Which file it is and when it changed last; `DisturbedError` if something is in its log."""
    try:
        if os.stat(f"{path}-wal").st_size:  # noqa: PTH116
            raise DisturbedError
    except FileNotFoundError:
        pass
    status = os.stat(path)  # noqa: PTH116
    return status.st_dev, status.st_ino, status.st_size, status.st_mtime_ns, status.st_ctime_ns
