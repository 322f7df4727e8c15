"""Room in SQLite's log ahead of what is written to it: a commit then waits for the disk once.

A file that grows has to have its new length on the disk too, which a file system writes apart from
the data: a commit at the end of the log waits about half as long again as one within it. SQLite
uses its log again from the start after a while, so this is about the first megabytes of each
process. Owns when and by how much; must not know what is in the log.

The invariant: nothing but zeros, behind the last byte, by who holds the write lock. SQLite takes
them for no frame, as it does what a crash has left there, and writes its own over them.
"""

from __future__ import annotations

import os
import stat

EVERY = 4
"""Commits from one look at the log to the next."""
TIMES, MOST = 8, 512 << 10
"""There is room for so many times what was written since the last look, and at most for so much:
the next commit has to write the zeros out too."""
END = 512
"""So many zeros at the end are room: SQLite fills its pages from behind."""
ZEROS = bytes(MOST)  # not made at a commit, which would fail where memory is short

_FLAGS = os.O_RDWR | os.O_APPEND | getattr(os, "O_NOFOLLOW", 0)


def of_the_disk(error: OSError) -> bool:
    """Whether a call about a file has failed; the handler of a signal may raise TimeoutError."""
    return error.errno is not None and not isinstance(error, TimeoutError)


class LogAhead:
    """The log of one store, as it is found by commits that are on the disk when they return."""

    def __init__(self, path: str) -> None:
        self._path = os.path.realpath(path) + "-wal"
        self._commits = 0
        self._size: int | None = None

    def committing(self) -> None:
        """Before each commit, inside its transaction; that there is no room does not hinder it."""
        self._commits += 1
        if self._commits % EVERY:
            return
        try:
            self._look()
        except OSError as error:
            if not of_the_disk(error):
                raise

    def _look(self) -> None:
        known, self._size = self._size, os.stat(self._path).st_size  # noqa: PTH116, in commits
        if known is not None and self._size > known:
            self._size += extended(self._path, min(MOST, TIMES * (self._size - known)))


def extended(path: str, ahead: int) -> int:
    """By how much a log was made longer; not at all if another process has made room before us."""
    file = os.open(path, _FLAGS)
    try:
        if not stat.S_ISREG(os.fstat(file).st_mode):
            return 0
        os.lseek(file, -END, os.SEEK_END)
        return os.write(file, memoryview(ZEROS)[:ahead]) if any(os.read(file, END)) else 0
    finally:
        os.close(file)
