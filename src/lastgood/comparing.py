"""Comparing states in a store: pages that two of them share are equal and need not be read.

Owns the view of a stored tree as a part of a diff, and which pages have to be read for it; reads
none itself. The one invariant: what is passed over lies at the same spots on both sides, so it is
the same bytes.

A `Shelf` holds the pages read so far. A part that lacks some notes them there and raises `Missing`;
whoever compares fetches what is wanted and compares again, until nothing is.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field
from functools import cached_property
from itertools import chain

from lastgood import pages
from lastgood.codec import (
    ORDERED_DICT,
    SETS,
    Family,
    Shape,
    closed,
    is_token,
    keyed_by_text,
    opened,
    split_values,
    unpaired,
)
from lastgood.diffing import ID, Missing, Part, Run, Unread
from lastgood.manifest import Slot, Spot
from lastgood.sharing import Layout, Share, Span, Stretch, Sum, shared, solved
from lastgood.tree import Extent, Fields, Leaf, Node, Sequence

_TEXTS = (Family.TEXT, Family.RAW)


@dataclass(slots=True)
class Shelf:
    """The pages of one checkpoint as far as they are read, and those that it lacks."""

    slots: tuple[Slot, ...] = ()
    pages: dict[Spot, bytes] = field(default_factory=dict)
    wanted: list[Span] = field(default_factory=list)

    def span(self, extent: Extent) -> Span:
        """Where a range of the manifest really is."""
        return Span(self.slots[extent.slot].stream, *extent[1:])

    def take(self, spans: list[Span]) -> list[bytes]:
        """The pages of spans, one behind the other; Missing if one is not here."""
        lacking = [span for span in spans if not all(spot in self.pages for spot in _spots(span))]
        self.wanted += lacking
        if lacking:
            raise Missing
        return [self.pages[spot] for span in spans for spot in _spots(span)]

    def put(self, span: Span, found: list[bytes]) -> None:
        """Keep pages that were read."""
        self.pages.update(zip(_spots(span), found, strict=True))


def _spots(span: Span) -> Iterator[Spot]:
    return (Spot(span.stream, span.first + number) for number in range(span.length))


class StoredValue(Unread):
    """A node of a stored tree."""

    def __init__(self, node: Node, shelf: Shelf, token: bytes = b"") -> None:
        self.node = node
        self.shelf = shelf
        self.token = token

    def shape(self) -> Shape:
        node = self.node
        if isinstance(node, Leaf):
            return opened(node.data)
        if isinstance(node, Fields):
            items = [(key, self._child(child)) for key, child in node.children.items()]
            return Shape(Family.MAP, unpaired(node.kind), node.extra, items)
        if node.family in _TEXTS:
            return Shape(node.family, node.kind, node.extra, ())
        return self.shaped(self._parts(node))

    def whole(self) -> bytes:
        node = self.node
        if isinstance(node, Leaf):
            return node.data
        shape = self.shape()
        if shape.family in _TEXTS:
            return closed(shape, [self.body()])
        parts = chain.from_iterable(shape.content) if shape.family is Family.MAP else shape.content
        return closed(shape, [p if isinstance(p, bytes) else p.whole() for p in parts])

    def same(self, other: Unread) -> bool:
        if not isinstance(other, StoredValue) or not self._comparable(other):
            return False
        mine, yours = ([span[:3] for span in part.layout.spans] for part in (self, other))
        return mine == yours and self.count == other.count

    def alike(self, other: Unread) -> bool:
        if not isinstance(other, StoredValue) or type(self.node) is not type(other.node):
            return False
        return self._kind == other._kind and self._id == other._id

    @property
    def _id(self) -> Node | None:
        return self.node.children.get(ID) if isinstance(self.node, Fields) else None

    def beside(self, other: Unread) -> tuple[Shape, Shape] | None:
        if not isinstance(other, StoredValue) or not self._comparable(other):
            return None
        if self._indivisible or other._indivisible:
            return None
        shares = shared(self.layout, other.layout)
        return _Beside(self, other, shares).shapes() if shares else None

    @property
    def _indivisible(self) -> bool:
        """Whether all of a sequence must be seen: to tell an order, or a token, or a twin of a key.

        The tokens of nested nodes are told apart by counting them from the beginning.
        """
        node = self.node
        assert isinstance(node, Sequence)
        if node.family is Family.MAP and not keyed_by_text(node.kind):
            return True
        return node.family in _TEXTS or bool(node.nested) or node.kind == ORDERED_DICT

    @cached_property
    def layout(self) -> Layout:
        """Where the pages of a sequence are."""
        assert isinstance(self.node, Sequence)
        places = (place for place in self.node.places if isinstance(place, Extent))
        return Layout([self.shelf.span(place) for place in places])

    @property
    def count(self) -> int:
        """How many elements a sequence has."""
        assert isinstance(self.node, Sequence)
        return self.node.count

    def read(self, stretches: list[Stretch]) -> list[bytes]:
        """Some pages of a sequence, from memory or from the shelf."""
        if self._held:
            return [p for start, length in stretches for p in self._held[start : start + length]]
        return self.shelf.take([s for stretch in stretches for s in self.layout.cut(stretch)])

    def body(self) -> bytes:
        """All pages of a sequence."""
        return b"".join(self.read([Stretch(0, self.layout.pages)]))

    @cached_property
    def _held(self) -> list[bytes]:
        """The pages of a tree that the client remembers."""
        assert isinstance(self.node, Sequence)
        return list(pages.pages_of(self.node.chunks))

    @property
    def _kind(self) -> tuple[int, bytes]:
        assert not isinstance(self.node, Leaf)
        return unpaired(self.node.kind), self.node.extra

    def _comparable(self, other: StoredValue) -> bool:
        sequences = isinstance(self.node, Sequence) and isinstance(other.node, Sequence)
        return sequences and self._kind == other._kind

    def _child(self, node: Node, token: bytes = b"") -> Part:
        return node.data if isinstance(node, Leaf) else StoredValue(node, self.shelf, token)

    def _parts(self, node: Sequence) -> list[Part | Run]:
        """Its elements, or keys and values in turn; tokens give way to the nodes they stand for."""
        count = node.count * 2 if node.family is Family.MAP else node.count
        values: list[Part | Run] = list(split_values(self.body(), count))
        if node.nested:
            nested = iter(node.nested)
            for number, value in enumerate(values):
                if isinstance(value, bytes) and is_token(value):
                    values[number] = self._child(next(nested), value)
        return values

    def shaped(self, values: list[Part | Run]) -> Shape:
        """A sequence opened, from its elements, or from keys and values in turn."""
        assert isinstance(self.node, Sequence)
        kind, extra = self._kind
        if self.node.family is Family.MAP:
            return Shape(Family.MAP, kind, extra, list(zip(values[::2], values[1::2], strict=True)))
        return Shape(Family.ARRAY, kind, extra, values)


class _Beside:
    """Two sequences that share pages, on their way to what differs."""

    def __init__(self, old: StoredValue, new: StoredValue, shares: list[Share]) -> None:
        self.old = _Side(old, [Stretch(share.old, share.length) for share in shares])
        self.new = _Side(new, [Stretch(share.new, share.length) for share in shares])

    def shapes(self) -> tuple[Shape, Shape]:
        _read_all([self.old.part, self.new.part], [self.old.gaps, self.new.gaps])
        runs: list[Run] | None = None
        if self.old.indexed:
            runs = [Run(count) for count in self._counts()]
        return self.old.shape(runs), self.new.shape(runs)

    def _counts(self) -> list[int]:
        """The number of elements in each share; pages are read only where nothing tells it."""
        counts = solved([*self.old.sums(), *self.new.sums()], len(self.old.kept))
        unknown = [self.old.kept[n] for n, count in enumerate(counts) if count is None]
        read = iter(self.old.part.read(unknown))
        return [
            sum(len(split_values(next(read))) for _ in range(stretch.length))
            if count is None
            else count
            for count, stretch in zip(counts, self.old.kept, strict=True)
        ]


def _read_all(parts: list[StoredValue], stretches: list[list[Stretch]]) -> None:
    """Ask for the pages of both sides before giving up on one."""
    missing = False
    for part, wanted in zip(parts, stretches, strict=True):
        try:
            part.read(wanted)
        except Missing:
            missing = True
    if missing:
        raise Missing


class _Side:
    """One of two sequences: the stretches that it shares, and what lies between them."""

    def __init__(self, part: StoredValue, kept: list[Stretch]) -> None:
        self.part = part
        self.kept = kept
        self.gaps = part.layout.gaps(kept)

    @property
    def indexed(self) -> bool:
        """Whether its elements are known by their places."""
        shape = self.part.shaped([])
        return shape.family is Family.ARRAY and shape.kind not in SETS

    @cached_property
    def found(self) -> list[list[list[bytes]]]:
        """The values in each page of each gap."""
        read = iter(self.part.read(self.gaps))
        return [[split_values(next(read)) for _ in range(n)] for _, n in self.gaps]

    def sums(self) -> Iterator[Sum]:
        counted = [
            (gap.start + number, len(page))
            for gap, found in zip(self.gaps, self.found, strict=True)
            for number, page in enumerate(found)
        ]
        yield from self.part.layout.sums(self.kept, counted)
        rest = sum(elements for _, elements in counted)
        yield Sum(self.part.count - rest, range(len(self.kept)))

    def shape(self, runs: list[Run] | None) -> Shape:
        """What is not shared, with a run in each place of what is, if elements have places."""
        content: list[Part | Run] = []
        for number, gap in enumerate(self.found):
            if runs is not None and number:
                content.append(runs[number - 1])
            for page in gap:
                content += page
        return self.part.shaped(content)
