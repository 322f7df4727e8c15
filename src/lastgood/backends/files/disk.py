"""Files that are there whole or not at all, and locks that other processes heed.

Owns writing beside, syncing and renaming, and what an error of the operating system means. Knows
nothing of what is in the files. The one invariant: under its name a file is always complete.
"""

from __future__ import annotations

import errno
import fcntl
import os
import stat
import time
from collections.abc import Callable, Iterable
from contextlib import suppress
from pathlib import Path
from typing import TypeVar

from lastgood.backends.files.names import PREPARED
from lastgood.errors import (
    BackendConnectionError,
    CheckpointIntegrityError,
    LastgoodError,
    StorageError,
    StorageFullError,
    TransientStorageError,
)

T = TypeVar("T")
PATIENCE = 30.0
"""Seconds that a writer waits for another one."""
_FULL = frozenset({errno.ENOSPC, errno.EDQUOT, errno.EFBIG})
_NO_DIRECTORY = frozenset({errno.EEXIST, errno.ENOTDIR})
_CLOSED = _NO_DIRECTORY | {errno.EACCES, errno.EPERM, errno.EROFS, errno.ENOENT}
NOWHERE = frozenset({errno.ENOENT, errno.ENOTDIR, errno.ELOOP})
"""What is said of a name that leads to nothing."""
# On macOS, fsync leaves data in the cache of the drive.
_FULL_SYNC: int | None = getattr(fcntl, "F_FULLFSYNC", None)


class Disk:
    """Where files are put. A strict one syncs, a relaxed one leaves that to the system."""

    def __init__(self, *, strict: bool) -> None:
        self._strict = strict

    def prepare(self, path: Path, data: bytes) -> Path:
        """Write a file beside its place; gives where it is meanwhile."""
        beside = path.with_name(f".{path.name}{PREPARED}")
        try:
            with beside.open("wb") as file:
                file.write(data)
                file.flush()
                self._sync(file.fileno())
        except BaseException:
            discard([beside])
            raise
        return beside

    def put(self, path: Path, data: bytes) -> None:
        """Write a file into its place; lasting only when its directory is synced."""
        self.prepare(path, data).replace(path)

    def sync(self, directory: Path) -> None:
        """Make the names in a directory last."""
        if self._strict:
            handle = os.open(directory, os.O_RDONLY | os.O_DIRECTORY)
            try:
                self._sync(handle)
            finally:
                os.close(handle)

    def make(self, directory: Path) -> None:
        """Make a directory and those above it, lastingly."""
        missing = [each for each in (directory, *directory.parents) if not each.exists()]
        directory.mkdir(parents=True, exist_ok=True)
        for each in missing:
            self.sync(each.parent)

    def _sync(self, handle: int) -> None:
        if self._strict and _FULL_SYNC is not None:
            fcntl.fcntl(handle, _FULL_SYNC)
        elif self._strict:
            os.fsync(handle)


def under_lock(path: Path, work: Callable[[], T]) -> T:
    """Work while nobody else does who asks for the same lock, in this process or another."""
    end = time.monotonic() + PATIENCE
    while True:
        handle = os.open(path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o666)
        try:
            _wait(handle, path, end)
            try:
                if _is_at(path, handle):
                    return work()
            finally:
                fcntl.flock(handle, fcntl.LOCK_UN)
        finally:
            os.close(handle)
        if time.monotonic() > end:
            raise TransientStorageError(
                f"{path} never stayed the same file for {PATIENCE:.0f} s; nothing was saved.",
                hint="Look for what deletes it. A file system without lasting numbers of files "
                "cannot hold a store.",
            )
        time.sleep(0.001)


def _is_at(path: Path, handle: int) -> bool:
    """Whether the file of a handle has its name still: once deleted, it locks nobody out."""
    try:
        return os.path.samestat(os.fstat(handle), path.stat())
    except FileNotFoundError:
        return False


def _wait(handle: int, path: Path, end: float) -> None:
    """Ask again and again: a call that waits by itself could not be given up."""
    pause = 0.0002
    while True:
        try:
            return fcntl.flock(handle, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            if time.monotonic() > end:
                raise TransientStorageError(
                    f"{path} was locked by somebody else for {PATIENCE:.0f} s; nothing was saved.",
                    hint="Look for a process that was stopped in the middle of a save.",
                ) from None
        time.sleep(pause)
        pause = min(2 * pause, 0.004)


def read(path: Path) -> bytes | None:
    """The content of a file, None if it is not there.

    CheckpointIntegrityError if something else has its name: a pipe or a device would be read for
    ever.
    """
    try:
        if not stat.S_ISREG(path.stat().st_mode):
            raise CheckpointIntegrityError(
                f"{path} is no file.", hint="Move it away, and put back a copy of the file."
            )
        return path.read_bytes()
    except OSError as error:
        if error.errno in NOWHERE:
            return None
        raise


def names_in(directory: Path) -> list[str]:
    """What is in a directory; nothing if it is not there."""
    try:
        with os.scandir(directory) as found:
            return [each.name for each in found]
    except OSError as error:
        if error.errno in NOWHERE:
            return []
        raise


def changed_at(directory: Path) -> int:
    """When a name in a directory came or went; 0 if it is not there."""
    try:
        return directory.stat().st_mtime_ns
    except OSError as error:
        if error.errno in NOWHERE:
            return 0
        raise


def discard(paths: Iterable[Path]) -> None:
    """Remove files, as far as that is possible: what stays is left to the next sweep."""
    for path in paths:
        with suppress(OSError):
            path.unlink()


def translated(error: OSError, directory: str) -> LastgoodError:
    """What an error of the operating system means."""
    is_file = error.errno in _NO_DIRECTORY
    said = "a file is where a directory should be" if is_file else error.strerror or error
    what = f"{error.filename2 or error.filename or directory}: {said}"
    if error.errno in _FULL:
        return StorageFullError(
            f"no space left: {what}. Nothing of this save was kept.", hint="Free some space."
        )
    if error.errno in _CLOSED:
        return BackendConnectionError(
            f"the store files:{directory} cannot be used: {what}.",
            hint="Check the path and the rights.",
        )
    return StorageError(f"the store files:{directory} failed: {what}.", hint="Look at the disk.")
