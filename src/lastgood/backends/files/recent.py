"""What was read from files, remembered for as long as the files stay as they are."""

from __future__ import annotations

from collections import OrderedDict
from contextlib import suppress
from pathlib import Path
from typing import Generic, TypeVar

from lastgood.backends.files.disk import NOWHERE
from lastgood.errors import CheckpointIntegrityError

T = TypeVar("T")
Signature = tuple[int, int, int]
"""Inode, size and time of a file: another file under its name has another one."""


class Recent(Generic[T]):
    """Things that were read, by path, at most so many bytes; those not used for long go first.

    Takes no lock: what two threads do at once costs an entry at most. Each operation on the dict is
    atomic by itself, because its keys are texts: a path is hashed and compared by Python code.
    """

    def __init__(self, limit: int) -> None:
        self._limit = limit
        self._weight = 0
        self._entries: OrderedDict[str, tuple[Signature, int, T]] = OrderedDict()

    def get(self, path: Path, signature: Signature) -> T | None:
        found = self._entries.get(str(path))
        if found is None or found[0] != signature:
            return None
        with suppress(KeyError):
            self._entries.move_to_end(str(path))
        return found[2]

    def put(self, path: Path, signature: Signature, weight: int, value: T) -> None:
        self._drop(str(path))
        entry = signature, weight, value
        if self._entries.setdefault(str(path), entry) is entry:
            self._weight += weight
        if self._weight > self._limit:
            self._shrink()

    def _shrink(self) -> None:
        for path in list(self._entries):
            if self._weight <= self._limit:
                return
            self._drop(path)

    def _drop(self, path: str) -> None:
        found = self._entries.pop(path, None)
        self._weight -= found[1] if found else 0


def signature_of(path: Path) -> Signature:
    """What changes when a file does."""
    try:
        found = path.stat()
    except OSError as error:
        if error.errno in NOWHERE:
            raise missing(path) from None
        raise
    return found.st_ino, found.st_size, found.st_mtime_ns


def missing(path: Path) -> CheckpointIntegrityError:
    """The error for a file that should be there."""
    return CheckpointIntegrityError(f"{path} is missing.", hint="Put back a copy of the file.")
