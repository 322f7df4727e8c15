"""The fingerprint of a thread: one digest over all that it consists of, equal on every store.

Covers every row and every part that a checkpoint needs, in short everything but the numbers that a
store assigns by itself: the thread's key, its incarnation, the numbers of streams. Those take part
by the order in which checkpoints first name them. Pure; rows are passed in as a thread is read.
"""

from __future__ import annotations

import hashlib

import ormsgpack

from lastgood.integrity import framed
from lastgood.manifest import Slot, Spot
from lastgood.rows import LIVE, TABLES, CheckpointRow, Row, ThreadRow, pack_slots, read_slots


class Fingerprint:
    """Grows with what it is shown: checkpoints in the order of their seq, all else in any order."""

    def __init__(self) -> None:
        self.streams: dict[int, int] = {}
        """Streams by their numbers in the store: which one it is, counted from 1 on."""
        self._history = hashlib.sha256()
        self._others = 0
        self._parts = 0

    def checkpoint(self, row: CheckpointRow) -> None:
        """The next checkpoint."""
        slots = [Slot(self._stream(slot.stream), slot.next) for slot in read_slots(row.slots)]
        self._history.update(_spelled(row._replace(thread=0, slots=pack_slots(slots))))

    def _stream(self, number: int) -> int:
        return self.streams.setdefault(number, len(self.streams) + 1)

    def row(self, row: Row) -> None:
        """A lane, branch, move, tag, run or item."""
        self._others ^= _number(_spelled(row._replace(thread=0)))

    def part(self, spot: Spot, born: int, digest: bytes) -> None:
        """A part that a checkpoint needs; its stream was named by then."""
        named = [self.streams[spot.stream], spot.number, born, digest]
        self._parts ^= _number(ormsgpack.packb(named))

    def history(self) -> bytes:
        """The digest of checkpoints and parts so far."""
        return framed(self._history.digest(), self._parts.to_bytes(32))

    def whole(self, thread: ThreadRow) -> str:
        """The digest of all of it, in hex digits."""
        # What it takes is not what it is: a store that was not swept has more pages of it.
        row = thread._replace(thread=0, tenant="", incarnation=0, state=LIVE, size=0)
        parts = (_spelled(row), self.history(), self._others.to_bytes(32))
        return hashlib.sha256(framed(*parts)).hexdigest()


def _spelled(row: Row) -> bytes:
    return framed(TABLES[type(row)].encode(), ormsgpack.packb(tuple(row)))


def _number(data: bytes) -> int:
    """As a number that does not care for the order in which rows come."""
    return int.from_bytes(hashlib.sha256(data).digest())
