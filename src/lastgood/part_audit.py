"""Auditing the pages of one thread: which are needed, which are there, which are damaged.

Needs come from manifests, as ranges of numbers in streams; a stream that grew is one range,
however many checkpoints share it, so this stays small. Each part is looked at once. Pure.
"""

from __future__ import annotations

from bisect import bisect_left, bisect_right
from collections.abc import Iterable, Iterator, Sequence
from typing import NamedTuple

from lastgood.filling import Filling
from lastgood.intervals import Intervals
from lastgood.manifest import Slot, Spot, part_digest
from lastgood.tree import Node

Columns = Sequence[object]


class Reach(NamedTuple):
    """Parts of one stream that a checkpoint needs, first and last."""

    stream: int
    first: int
    last: int


class Fault(NamedTuple):
    """Neighbouring parts with the same thing wrong; `suspect`: they do not fit their digests."""

    stream: int
    first: int
    last: int
    suspect: bool

    @property
    def where(self) -> str:
        """As people say it."""
        if self.first == self.last:
            return f"stream {self.stream} part {self.first}"
        return f"stream {self.stream} parts {self.first} to {self.last}"

    def inside(self, reaches: Iterable[Reach]) -> bool:
        """Whether a checkpoint needs all of them."""
        return any(
            reach.stream == self.stream and reach.first <= self.first and self.last <= reach.last
            for reach in reaches
        )


def reaches_of(node: Node, slots: tuple[Slot, ...]) -> list[Reach]:
    """The parts that a tree needs."""
    return [
        Reach(slots[extent.slot].stream, extent.first, extent.first + extent.length - 1)
        for extent in Filling(node, slots).wanted()
    ]


class FaultFinder:
    """Which faults a checkpoint meets."""

    def __init__(self, faults: Iterable[Fault]) -> None:
        self._faults: dict[int, list[Fault]] = {}
        for fault in sorted(faults):
            self._faults.setdefault(fault.stream, []).append(fault)

    def met(self, reaches: Iterable[Reach]) -> set[Fault]:
        """The faults in what a checkpoint needs."""
        found: set[Fault] = set()
        for stream, first, last in reaches:
            faults = self._faults.get(stream, [])
            low = bisect_left(faults, first, key=lambda fault: fault.last)
            high = bisect_right(faults, last, key=lambda fault: fault.first)
            found.update(faults[low:high])
        return found


class PartAudit:
    """What is wrong with the parts of one thread."""

    def __init__(self) -> None:
        self.parts = 0
        self.bytes = 0
        self.misborn: list[Spot] = []
        self.foreign: dict[int, int] = {}
        """Streams that are not the thread's, with the seq of a checkpoint that needs each."""
        self._streams: set[int] = set()
        self._needed: dict[int, Intervals] = {}
        self._sound: dict[int, Intervals] = {}
        self._suspect: dict[int, Intervals] = {}
        self._large: dict[Spot, bytes] = {}
        self._digests: dict[Spot, object] = {}

    def stream(self, number: int) -> None:
        """A stream that belongs to the thread."""
        self._streams.add(number)

    def large(self, digest: bytes, spot: Spot) -> None:
        """A large page that saves would find again."""
        self._large[spot] = digest

    def need(self, seq: int, reaches: Iterable[Reach]) -> None:
        """What a checkpoint needs."""
        for stream, first, last in reaches:
            self._needed.setdefault(stream, Intervals()).add(first, last)
            if stream not in self._streams:
                self.foreign.setdefault(stream, seq)

    def wanted(self) -> list[tuple[int, int]]:
        """The streams to look at, each with the highest number that matters."""
        highest = {stream: needed.highest for stream, needed in self._needed.items()}
        for stream, number in self._large:
            highest[stream] = max(number, highest.get(stream, 0))
        return sorted(highest.items())

    def take(self, stream: int, columns: Columns, newest: int | None) -> None:
        """A stored part: number, born, size, digest, and its data if that was read."""
        number, born, size, digest, data = columns
        if not isinstance(number, int) or not isinstance(size, int):
            return  # no bytes: as good as missing
        spot = Spot(stream, number)
        self.parts += 1
        self.bytes += size
        if not isinstance(born, int) or born < 1 or (newest is not None and born > newest):
            self.misborn.append(spot)
        if spot in self._large:
            self._digests[spot] = digest
        whole = not isinstance(data, bytes) or part_digest(data) == digest
        kept = self._sound if whole else self._suspect
        kept.setdefault(stream, Intervals()).add(number, number)

    def faults(self) -> Iterator[Fault]:
        """What is missing, and what does not fit its digest."""
        nothing = Intervals()
        for stream, needed in self._needed.items():
            suspect = self._suspect.get(stream, nothing)
            present = Intervals()
            for first, last in [*self._sound.get(stream, nothing), *suspect]:
                present.add(first, last)
            for first, last in needed.without(present):
                yield Fault(stream, first, last, suspect=False)
        for stream, suspect in self._suspect.items():
            yield from (Fault(stream, first, last, suspect=True) for first, last in suspect)

    def misled(self) -> Iterator[Spot]:
        """Entries of the index of large pages that lead to nothing, or to something else."""
        for spot, digest in self._large.items():
            if self._digests.get(spot) != digest:
                yield spot
