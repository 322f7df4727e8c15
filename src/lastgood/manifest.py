"""The manifest: the small recipe that rebuilds a state from inline values and ranges of parts.

Owns its spelling, and the planning that gives new pages their place in a stream. Pure: the commit
calls `plan` with what it found, and may call it again. The one invariant: `read(plan(tree))` asks
for exactly the pages of the tree, in order.

A stream is known to a manifest by its slot, an index into the row's own list of streams, because
the number of a new stream is assigned inside the commit. A manifest is a flat row of records
(msgpack arrays), parents before children, so that one above SKELETON bytes can itself be stored as
pages and a change in it costs a page.
"""

from __future__ import annotations

import hashlib
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from typing import NamedTuple

import ormsgpack

from lastgood import pages
from lastgood.codec import LIST, Family, Shape, array_header
from lastgood.errors import CheckpointIntegrityError
from lastgood.pages import SLICE
from lastgood.splitting import INLINE, from_elements
from lastgood.tree import Extent, Fields, Fresh, Leaf, Node, Place, Sequence, made, moved

_LEAF, _FIELDS, _SEQUENCE = 0, 1, 2
SKELETON = 1024
"""The skeleton of a state that is taken apart stays in its row up to so many bytes."""
_INLINE, _SPLIT = b"\x00", b"\x01"
_FAMILIES = (Family.MAP, Family.ARRAY, Family.TEXT, Family.RAW)
"""A family is spelled by its place in here."""
_TEXTS = (2, 3)

_MARK, _FILLING = ormsgpack.packb(False), ormsgpack.packb(None)

Record = list[object]


class Slot(NamedTuple):
    """A stream as a row knows it: its number (0 until the commit assigns one), its next free page.

    `next` is 0 for a stream of which this line only borrows pages: it never grows there.
    """

    stream: int
    next: int


class Part(NamedTuple):
    """A page on its way into the store."""

    slot: int
    number: int
    data: bytes
    digest: bytes
    born: int = 0
    """The seq of the save that brought it, where that is not the one it is stored with."""


class Spot(NamedTuple):
    """Where a stored page is."""

    stream: int
    number: int


class Stored(NamedTuple):
    """A tree whose pages all have a place, as cached under its checkpoint's id."""

    tree: Node
    slots: tuple[Slot, ...] = ()
    skeleton: Sequence | None = None
    place: tuple[int, int] = (0, 0)
    """The checkpoint's own: its id alone may be in use again, with its pages elsewhere."""


class Plan(NamedTuple):
    """What a commit writes for one state. `stored` is None if the state was not looked into."""

    manifest: bytes
    slots: tuple[Slot, ...]
    parts: tuple[Part, ...] = ()
    stored: Stored | None = None


def part_digest(data: bytes) -> bytes:
    """The short digest that finds repeats and names a damaged part."""
    return hashlib.sha256(data).digest()[:16]


def check_parts(parts: Iterable[tuple[Spot, bytes, bytes]]) -> None:
    """Compare stored pages, each with its spot and digest; the error names the damaged one."""
    for spot, digest, data in parts:
        if type(data) is not bytes or part_digest(data) != digest:
            raise CheckpointIntegrityError(
                f"part {spot.number} of stream {spot.stream} is damaged: its digest differs.",
                hint="Restore a checkpoint that does not need it, or a copy of the store.",
            )


def large_pages(node: Node) -> tuple[bytes, ...]:
    """Digests of the new pages that may be in the thread already: the same image is stored once."""
    return () if node.size < SLICE else tuple(map(part_digest, _large(node)))


def _large(node: Node) -> list[bytes]:
    if isinstance(node, Leaf) or not node.fresh:
        return []
    if isinstance(node, Fields):
        return [page for child in node.children.values() for page in _large(child)]
    new = [page for place in node.places if isinstance(place, Fresh) for page in place.pages]
    nested = [page for child in node.nested for page in _large(child)]
    return [page for page in new if len(page) >= SLICE] + nested


def plan(
    tree: Node,
    base: Stored | None = None,
    found: Mapping[bytes, Spot] | None = None,
    *,
    fresh: bool = False,
) -> Plan:
    """Give every new page a place.

    `found` holds large pages that the thread has already. With `fresh`, nothing grows a stream of
    the base: somebody on another branch took its next numbers.
    """
    planner = _Planner(list(base.slots) if base else [], dict(found or {}), fresh=fresh)
    placed = planner.place(tree, None)
    old = base.skeleton if base else None
    if planner.wasteful(placed):
        placed, old = planner.compacted(placed), None
    records = _records(placed)
    spelled = _spelled(records)
    if len(spelled) <= (INLINE if isinstance(placed, Leaf) else SKELETON):
        return planner.done(inline(spelled), placed, None)
    skeleton = planner.place(_skeleton(records, old), None)
    assert isinstance(skeleton, Sequence)
    return planner.done(_SPLIT + _spelled(_records(skeleton)), placed, skeleton)


def inline(records: bytes) -> bytes:
    """The manifest that holds its records itself."""
    return _INLINE + records


def records_of(tree: Node) -> bytes:
    """What `read_records` reads: the recipe of a tree whose pages all have a place."""
    return _spelled(_records(tree))


def _skeleton(records: list[Record], old: Sequence | None) -> Sequence:
    """The records themselves as a sequence, diffed against the base's."""
    shape = Shape(Family.ARRAY, LIST, b"", ())
    return from_elements(shape, list(map(ormsgpack.packb, records)), old)[0]


def _spelled(records: list[Record]) -> bytes:
    """Records one behind the other: an array of them without its header."""
    return ormsgpack.packb(records)[len(array_header(len(records))) :]


@dataclass(slots=True)
class _Planner:
    slots: list[Slot]
    found: dict[bytes, Spot]
    fresh: bool
    parts: list[Part] = field(default_factory=list)
    here: dict[bytes, Extent] = field(default_factory=dict)

    def place(self, node: Node, home: int | None) -> Node:
        """Place a node and all below it; elements live in the slot of the list they are in."""
        if isinstance(node, Leaf) or not node.fresh:
            return node
        if isinstance(node, Fields):
            children = {key: self.place(child, home) for key, child in node.children.items()}
            return moved(node, children=children, fresh=False)
        slot = self._home(node.home if home is None else home)
        nested = tuple([self.place(child, slot) for child in node.nested])
        places: list[Place] = []
        for place in node.places:
            if isinstance(place, Extent):
                _add(places, place)
            else:
                counts = place.counts or (0,) * len(place.pages)
                for page, count in zip(place.pages, counts, strict=True):
                    _add(places, self._store(page, slot, count))
        return moved(node, places=tuple(places), nested=nested, home=slot, fresh=False)

    def _home(self, wanted: int | None) -> int:
        if wanted is not None and self.slots[wanted].next and not self._taken(wanted):
            return wanted
        self.slots.append(Slot(0, 1))
        return len(self.slots) - 1

    def _taken(self, slot: int) -> bool:
        return self.fresh and self.slots[slot].stream != 0

    def _store(self, page: bytes, slot: int, count: int) -> Extent:
        digest = part_digest(page)
        if len(page) >= SLICE:
            again = self._again(digest, count)
            if again is not None:
                return again
        stream, number = self.slots[slot]
        self.parts.append(Part(slot, number, page, digest))
        self.slots[slot] = Slot(stream, number + 1)
        extent = Extent(slot, number, 1, count)
        if len(page) >= SLICE:
            self.here[digest] = extent
        return extent

    def _again(self, digest: bytes, count: int) -> Extent | None:
        spot = self.found.get(digest)
        if digest in self.here or spot is None:
            return self.here.get(digest)
        streams = [slot.stream for slot in self.slots]
        if spot.stream not in streams:
            self.slots.append(Slot(spot.stream, 0))
            streams.append(spot.stream)
        self.here[digest] = Extent(streams.index(spot.stream), spot.number, 1, count)
        return self.here[digest]

    def done(self, manifest: bytes, tree: Node, skeleton: Sequence | None) -> Plan:
        slots = tuple(self.slots)
        return Plan(manifest, slots, tuple(self.parts), Stored(tree, slots, skeleton))

    def wasteful(self, tree: Node) -> bool:
        """Whether most slots are of values that have gone from the state."""
        return len(self.slots) > 16 and len(_used(tree)) * 2 < len(self.slots)

    def compacted(self, tree: Node) -> Node:
        """Renumber the slots that are still in use."""
        kept = sorted(_used(tree) | {part.slot for part in self.parts})
        numbers = {old: new for new, old in enumerate(kept)}
        self.slots = [self.slots[old] for old in kept]
        self.parts = [part._replace(slot=numbers[part.slot]) for part in self.parts]
        return _renumbered(tree, numbers)


def _add(places: list[Place], place: Extent) -> None:
    """Append an extent, merging it with its neighbour where the numbers go on."""
    last = places[-1] if places else None
    if isinstance(last, Extent) and (last.slot, last.first + last.length) == place[:2]:
        known = last.elements and place.elements
        elements = last.elements + place.elements if known else 0
        places[-1] = Extent(last.slot, last.first, last.length + place.length, elements)
    else:
        places.append(place)


def _used(node: Node) -> set[int]:
    if isinstance(node, Fields):
        return set().union(*map(_used, node.children.values()))
    if not isinstance(node, Sequence):
        return set()
    own = {place.slot for place in node.places if isinstance(place, Extent)}
    return own.union({node.home} if node.home is not None else (), *map(_used, node.nested))


def _renumbered(node: Node, numbers: dict[int, int]) -> Node:
    if isinstance(node, Fields):
        below = {key: _renumbered(child, numbers) for key, child in node.children.items()}
        return moved(node, children=below)
    if not isinstance(node, Sequence):
        return node
    return moved(
        node,
        places=tuple(
            p._replace(slot=numbers[p.slot]) for p in node.places if isinstance(p, Extent)
        ),
        home=None if node.home is None else numbers[node.home],
        nested=tuple(_renumbered(child, numbers) for child in node.nested),
    )


def _records(node: Node) -> list[Record]:
    """A record for the node, then those of everything below it."""
    if isinstance(node, Leaf):
        return [[_LEAF, node.data]]
    found: list[Record]
    if isinstance(node, Fields):
        found = [[_FIELDS, node.kind, node.extra, list(node.children)]]
        for child in node.children.values():
            found += _records(child)
        return found
    head = [_FAMILIES.index(node.family), node.kind, node.extra, node.count, node.home]
    found = [[_SEQUENCE, *head, len(node.places), len(node.nested)]]
    for place in node.places:
        assert isinstance(place, Extent), "a tree is placed before it is spelled"
        found.append(_range(place, alone=len(node.places) == 1))
    for child in node.nested:
        found += _records(child)
    return found


def _range(place: Extent, *, alone: bool) -> Record:
    """A place as a record; the count is left out where the sequence itself has it, or nobody."""
    return list(place if place.elements and not alone else place[:3])


def read(manifest: bytes) -> tuple[Node, bool]:
    """The tree without its pages, and whether it is only the skeleton that leads to the tree."""
    return read_records(manifest[1:]), manifest[:1] == _SPLIT


def may_have(manifest: bytes, key: str) -> bool:
    """Whether a state may have a key; that it has not is certain, and takes no decoding.

    Keys stand in the manifest as they are, unless it is a skeleton or the state is itself pages.
    """
    apart = manifest[:1] == _SPLIT or manifest[2:3] == bytes([_SEQUENCE])
    return apart or not key.isascii() or key.encode() in manifest


def read_skeleton(skeleton: Node) -> Node:
    """The tree behind a skeleton whose pages have been read in."""
    assert isinstance(skeleton, Sequence)
    return read_records(pages.joined(skeleton.chunks))


def read_records(data: bytes) -> Node:
    """The tree without its pages, from the records of a manifest."""
    try:
        return _node(iter(_split_records(data)))
    except (ValueError, TypeError, IndexError, StopIteration, RuntimeError) as error:
        raise CheckpointIntegrityError(f"a manifest is damaged: {error}") from error


def _split_records(data: bytes) -> list[Record]:
    """All records in one call, though nobody knows how many: there is room for as many as can be.

    A record takes two bytes at least. A mark stands behind the last one, then nothing but filling;
    a record that was cut off would take the mark into itself.
    """
    most = len(data) // 2
    found: list[Record] = ormsgpack.unpackb(
        b"".join((array_header(most + 1), data, _MARK, _FILLING * most))
    )
    return found[: found.index(False)]  # type: ignore[arg-type]


def _node(records: Iterator[Record]) -> Node:
    sort, *rest = next(records)
    if sort == _LEAF:
        return Leaf(*rest)  # type: ignore[arg-type]
    if sort == _FIELDS:
        kind, extra, keys = rest
        return Fields(kind, extra, {key: _node(records) for key in keys})  # type: ignore[arg-type, attr-defined]
    family, kind, extra, count, home, places, nested = rest
    return made(
        Sequence,
        family=_FAMILIES[family],  # type: ignore[call-overload]
        kind=kind,
        extra=extra,
        count=count,
        chunks=(),
        places=_read_places(records, places, 0 if family in _TEXTS else count),  # type: ignore[arg-type]
        running=hashlib.sha256(),
        home=home,
        nested=tuple([_node(records) for _ in range(nested)]),  # type: ignore[call-overload]
    )


def _read_places(records: Iterator[list[object]], number: int, count: int) -> tuple[Extent, ...]:
    if number == 1:
        slot, first, length, _ = Extent(*next(records))  # type: ignore[arg-type]
        return (Extent(slot, first, length, count),)
    return tuple([Extent(*next(records)) for _ in range(number)])  # type: ignore[arg-type]
