"""Reading a file that this user may not write, while nobody has it open.

SQLite writes beside a file even to read it: it makes a log and the index of that. Who may not is
refused, also where there is nothing in a log: the file was closed, or is a copy. Such a file is
read as one that does not change. The one invariant: what was read is given out only if the file
did not change meanwhile and nobody began a log.
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
_KEPT_OUT = frozenset({sqlite3.SQLITE_READONLY, sqlite3.SQLITE_CANTOPEN, sqlite3.SQLITE_PERM})


class DisturbedError(Exception):
    """Somebody writes: what was read may be half old and half new."""

    def __init__(self) -> None:
        super().__init__("something is in its log, or it changed while it was read")


def is_kept_out(error: sqlite3.Error) -> bool:
    """Whether a file could not be opened because this user may not write there."""
    return (getattr(error, "sqlite_errorcode", None) or 0) & 0xFF in _KEPT_OUT


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
    return sqlite3.connect(
        f"{Path(path).as_uri()}?immutable=1",
        uri=True,
        isolation_level=None,
        check_same_thread=False,
    )


def _stamp(path: str) -> tuple[int, ...]:
    """Which file it is and when it changed last; `DisturbedError` if something is in its log."""
    try:
        if os.stat(f"{path}-wal").st_size:  # noqa: PTH116
            raise DisturbedError
    except FileNotFoundError:
        pass
    status = os.stat(path)  # noqa: PTH116
    return status.st_dev, status.st_ino, status.st_size, status.st_mtime_ns, status.st_ctime_ns
