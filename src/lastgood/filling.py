"""Reading the pages of a tree: which ranges to ask for, and the tree with them read in.

A tree that another one grew out of spares reading and hashing what both begin with: its pages are
in memory, and its running hash goes on where it stopped. Pure: the ranges are read by the core.
"""

from __future__ import annotations

import hashlib
from collections.abc import Iterator
from itertools import chain, islice
from typing import TYPE_CHECKING

from lastgood import pages
from lastgood.codec import nested_token
from lastgood.manifest import Slot, Stored
from lastgood.pages import Chunk, Cut
from lastgood.tree import Extent, Fields, Leaf, Node, Sequence, moved

if TYPE_CHECKING:
    from hashlib import _Hash as Hash

Rest = tuple[Sequence | None, list[Extent]]


class Filling:
    """One tree on its way: `wanted` names what to read, `filled` takes it in the same order."""

    def __init__(self, node: Node, slots: tuple[Slot, ...], near: Stored | None = None) -> None:
        self._node = node
        self._slots = slots
        self._near_slots = near.slots if near else ()
        self._near = {self._start(base): base for base in sequences(near.tree)} if near else {}
        self._plan = [self._rest(each) for each in sequences(node)]

    def _start(self, node: Sequence) -> tuple[int, int]:
        first = node.places[0] if node.places else None
        if not isinstance(first, Extent):
            return 0, 0
        return self._near_slots[first.slot].stream, first.first

    def wanted(self) -> list[Extent]:
        """The ranges to read."""
        return [place for _, rest in self._plan for place in rest]

    def filled(self, ranges: Iterator[list[bytes]]) -> Node:
        """The tree with its pages."""
        return _filled(self._node, iter(self._plan), ranges)

    def _rest(self, node: Sequence) -> Rest:
        """A sequence whose pages all stand at the front of this one, and what comes after them."""
        places = [place for place in node.places if isinstance(place, Extent)]
        if not places or not self._near:
            return None, places
        base = self._near.get((self._slots[places[0].slot].stream, places[0].first))
        after = _after(base, self._near_slots, places, self._slots) if base else None
        return (None, places) if after is None else (base, after)


def _filled(node: Node, plan: Iterator[Rest], ranges: Iterator[list[bytes]]) -> Node:
    if isinstance(node, Leaf):
        return node
    if isinstance(node, Fields):
        below = {key: _filled(child, plan, ranges) for key, child in node.children.items()}
        return moved(node, children=below)
    base, rest = next(plan)
    running = base.running.copy() if base else hashlib.sha256()
    chunks = base.chunks if base else ()
    if rest:
        chunks = pages.grown(chunks, *_chunk(list(chain(*islice(ranges, len(rest)))), running))
    nested = tuple([_filled(child, plan, ranges) for child in node.nested])
    if nested and not _are_named(pages.joined(chunks), nested):
        running = hashlib.sha256()  # no root fits that
    return moved(node, chunks=chunks, running=running, nested=nested)


def _are_named(body: bytes, nested: tuple[Node, ...]) -> bool:
    """Whether nodes are those that a body names: it is the body alone that the root covers."""
    at = 0
    for child in nested:
        token = nested_token(child.hash)
        found = body.find(token, at)
        if found < 0:
            return False
        at = found + len(token)
    return True


def _chunk(found: list[bytes], running: Hash) -> Chunk:
    data = b"".join(found)
    running.update(data)
    return Chunk(data, Cut(tuple(map(len, found))))


def sequences(node: Node) -> Iterator[Sequence]:
    """Every sequence in a tree, from the top down."""
    if isinstance(node, Fields):
        for child in node.children.values():
            if not isinstance(child, Leaf):
                yield from sequences(child)
    elif isinstance(node, Sequence):
        yield node
        for child in node.nested:
            yield from sequences(child)


def _after(
    base: Sequence, base_slots: tuple[Slot, ...], places: list[Extent], slots: tuple[Slot, ...]
) -> list[Extent] | None:
    """What is left of places after those of a base; None if they do not begin with them."""
    rest = list(places)
    for place in base.places:
        if not isinstance(place, Extent) or not rest:
            return None
        here = rest.pop(0)
        same = (slots[here.slot].stream, here.first) == (base_slots[place.slot].stream, place.first)
        if not same or here.length < place.length:
            return None
        if here.length > place.length:
            left = here.length - place.length
            rest.insert(0, here._replace(first=here.first + place.length, length=left))
    return rest
