"""Measuring the states of a thread by key path: logical bytes, and what is really stored.

From manifests and the sizes of parts alone: no value is decoded but the keys of mappings. Pure.
"""

from __future__ import annotations

from array import array
from collections.abc import Iterator
from dataclasses import dataclass, field

import ormsgpack

from lastgood import paths
from lastgood.codec import map_header, skip
from lastgood.filling import Filling
from lastgood.intervals import Intervals
from lastgood.manifest import Slot
from lastgood.reports import Size
from lastgood.tree import Extent, Fields, Leaf, Node

DEPTH = 3
"""How many levels of keys are told apart."""

Steps = tuple[object, ...]


class PartSizes:
    """How large each part of a thread is; a range of them is added up at once."""

    def __init__(self) -> None:
        self._sums: dict[int, array[int]] = {}

    def add(self, stream: int, number: int, size: int) -> None:
        """The next part of a stream; numbers grow."""
        sums = self._sums.setdefault(stream, array("Q", [0]))
        while len(sums) < number:
            sums.append(sums[-1])  # one that is not there
        if len(sums) == number:
            sums.append(sums[-1] + size)

    def total(self, stream: int, first: int, last: int) -> int:
        """Bytes of the parts from `first` to `last`."""
        sums = self._sums.get(stream)
        if sums is None:
            return 0
        end = len(sums) - 1
        return sums[min(last, end)] - sums[min(first - 1, end)]


@dataclass(slots=True)
class _Tally:
    checkpoints: int = 0
    logical: int = 0
    inline: int = 0
    pages: dict[int, Intervals] = field(default_factory=dict)
    shared: set[int] = field(default_factory=set)


class PathMeter:
    """Adds up the states of a thread, path by path; a path includes what is below it."""

    def __init__(self, sizes: PartSizes) -> None:
        self._sizes = sizes
        self._tallies: dict[Steps, _Tally] = {}
        self._slots: tuple[Slot, ...] = ()
        self._split = False

    def add(self, state: Node, slots: tuple[Slot, ...], *, split: bool) -> None:
        """The tree of a checkpoint. `split`: its manifest is stored as pages, which are shared."""
        self._slots, self._split = slots, split
        self._walk(state, ())

    def sizes(self) -> list[Size]:
        """Every path, the largest first."""
        found = [
            Size(paths.render(steps), tally.checkpoints, tally.logical, self._physical(tally))
            for steps, tally in self._tallies.items()
            if steps
        ]
        return sorted(found, key=lambda size: (-size.physical, -size.logical, size.name))

    def _physical(self, tally: _Tally) -> int:
        pages = (
            self._sizes.total(stream, first, last)
            for stream, numbers in tally.pages.items()
            for first, last in numbers
        )
        return tally.inline + sum(pages)

    def _walk(self, node: Node, steps: Steps) -> None:
        self._count(node, steps)
        if len(steps) == DEPTH:
            return
        if isinstance(node, Fields):
            for key, child in node.children.items():
                self._walk(child, (*steps, _key(key)))
        elif isinstance(node, Leaf):
            for key, data in items_of(node.data):
                self._walk(Leaf(data), (*steps, _key(key)))

    def _count(self, node: Node, steps: Steps) -> None:
        tally = self._tallies.setdefault(steps, _Tally())
        tally.checkpoints += 1
        for leaf in _leaves(node):
            tally.logical += len(leaf)
            if not self._split:
                tally.inline += len(leaf)
            elif hash(leaf) not in tally.shared:
                tally.shared.add(hash(leaf))
                tally.inline += len(leaf)
        for extent in Filling(node, self._slots).wanted():
            self._count_pages(tally, extent)

    def _count_pages(self, tally: _Tally, extent: Extent) -> None:
        stream, first = self._slots[extent.slot].stream, extent.first
        last = first + extent.length - 1
        tally.logical += self._sizes.total(stream, first, last)
        tally.pages.setdefault(stream, Intervals()).add(first, last)


def _leaves(node: Node) -> Iterator[bytes]:
    """The values and keys of a tree that stand in its manifest."""
    if isinstance(node, Leaf):
        yield node.data
    elif isinstance(node, Fields):
        yield node.extra
        for key, child in node.children.items():
            yield key
            yield from _leaves(child)
    else:
        for child in node.nested:
            yield from _leaves(child)


def items_of(data: bytes) -> Iterator[tuple[bytes, bytes]]:
    """The encoded items of an encoded mapping; none if it is something else."""
    at, count = _map(data)
    for _ in range(count):
        middle = skip(data, at)
        end = skip(data, middle)
        yield data[at:middle], data[middle:end]
        at = end


def _map(data: bytes) -> tuple[int, int]:
    """Where the items of a mapping begin, and how many there are."""
    first = data[0] if data else 0
    if first & 0xF0 == map_header(0)[0]:
        return 1, first & 0x0F
    for width in (2, 4):
        count = int.from_bytes(data[1 : 1 + width])
        if data[: 1 + width] == map_header(count) and count:
            return 1 + width, count
    return 0, 0


def _key(key: bytes) -> object:
    """A key of a mapping as it stands in a path; one that is no plain value, by its bytes."""
    try:
        value: object = ormsgpack.unpackb(key)
    except ValueError:
        return key
    return value
