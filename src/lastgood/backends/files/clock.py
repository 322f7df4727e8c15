"""The newest time that a store of plain files has seen, in a file of its own.

Owns `clock.json` and when it is written. Knows nothing of threads. The one invariant: what it says
never goes back. A file that is lost or damaged says nothing, and hurts nobody as long as the clock
of the host is right; the next change of the store writes another.
"""

from __future__ import annotations

from pathlib import Path

from lastgood.backends.files import disk as files_disk
from lastgood.backends.files.names import CLOCK
from lastgood.codec import text
from lastgood.errors import CheckpointIntegrityError, LastgoodError
from lastgood.integrity import seal

SECOND = 1_000_000
"""So many microseconds the noted time may be behind: not every save writes a file more."""


class StoreClock:
    """What time it is at least, whatever the host says."""

    def __init__(self, root: Path, disk: files_disk.Disk) -> None:
        self._path = root / CLOCK
        self._disk = disk
        self._known: tuple[bytes | None, int] = None, 0

    def newest(self) -> int:
        """The time that was noted last, in microseconds; 0 if there is none."""
        try:
            raw = files_disk.read(self._path)
        except CheckpointIntegrityError:
            return 0
        if raw != self._known[0]:
            self._known = raw, _told(raw)
        return self._known[1]

    def is_behind(self, now: int) -> bool:
        """Whether a time is to be noted."""
        return now - self.newest() >= SECOND

    def note(self, now: int) -> None:
        """Write a time down. The caller holds the lock of the store."""
        if self.is_behind(now):
            document = {"lastgood": "clock", "newest": now, "seal": _seal(now)}
            self._disk.put(self._path, f"{text.lines(document)}\n".encode())
            self._disk.sync(self._path.parent)

    def check(self) -> None:
        """Raise CheckpointIntegrityError if there is a file that says nothing."""
        raw = files_disk.read(self._path)
        if raw is not None and not _told(raw):
            message = f"{self._path} is damaged; the next save replaces it."
            raise CheckpointIntegrityError(message, hint="")


def _told(raw: bytes | None) -> int:
    try:
        document = text.parse((raw or b"{}").decode())
        newest, told = document["newest"], document["seal"]
    except (LastgoodError, LookupError, TypeError, ValueError):
        return 0
    return newest if type(newest) is int and told == _seal(newest) else 0


def _seal(newest: int) -> str:
    return seal("clock", [newest]).hex()
