"""A state as a tree of nodes: small values inline, each large value a sequence of pages.

Owns the nodes, the content hash and where a node's pages are; how values become nodes is
`splitting`, the way back is `building`. The one invariant: the hash of a node depends on the value
alone, never on how earlier versions were cut, so it is the same on every backend.

    Leaf      a small encoding
    Fields    a mapping or record taken apart by key, at any depth
    Sequence  a large list, dict, set, text ... as pages; a huge element is itself a node, and a
              token that carries its hash stands in the page for it
"""

from __future__ import annotations

import hashlib
from collections.abc import Callable
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Any, ClassVar, Generic, NamedTuple, TypeVar

from lastgood import pages
from lastgood.codec import Family
from lastgood.pages import Chunk

if TYPE_CHECKING:
    from hashlib import _Hash as Hash


T = TypeVar("T")


class Lazy(Generic[T]):
    """An attribute computed when first asked for; functools' version takes a lock to do so."""

    def __init__(self, compute: Callable[[Any], T]) -> None:
        self._compute = compute
        self._name = compute.__name__

    def __get__(self, owner: object, cls: type) -> T:
        value = owner.__dict__[self._name] = self._compute(owner)
        return value


class Extent(NamedTuple):
    """Pages `first` to `first + length - 1` of the stream that stands in `slot` of the row.

    `elements` is how many are in them, so that a diff need not read what it passes over; 0 where
    that is not known or means nothing (texts).
    """

    slot: int
    first: int
    length: int
    elements: int = 0


class Fresh(NamedTuple):
    """Pages that are not stored yet, and the number of elements in each, if they have any."""

    pages: tuple[bytes, ...]
    counts: tuple[int, ...] = ()


Place = Extent | Fresh


@dataclass(frozen=True)
class Leaf:
    """A small value, by its encoding."""

    data: bytes
    fresh: ClassVar[bool] = False

    @Lazy
    def hash(self) -> bytes:
        return hashlib.sha256(self.data + b"L").digest()

    @property
    def size(self) -> int:
        return len(self.data)


@dataclass(frozen=True)
class Fields:
    """A mapping or record by key; keys are encoded."""

    kind: int
    extra: bytes
    children: dict[bytes, Node]

    @Lazy
    def hash(self) -> bytes:
        pairs = b"".join([_framed(key) + node.hash for key, node in self.children.items()])
        return hashlib.sha256(
            pairs + _trailer(len(self.children), self.kind, self.extra, b"F")
        ).digest()

    @Lazy
    def size(self) -> int:
        return sum([len(key) + node.size for key, node in self.children.items()], len(self.extra))

    @Lazy
    def fresh(self) -> bool:
        """Whether anything below is not stored yet."""
        return any(node.fresh for node in self.children.values())


@dataclass(frozen=True)
class Sequence:
    """A large value as pages. `places` says where they are; `home` is the slot it grows in."""

    family: Family
    kind: int
    extra: bytes
    count: int
    chunks: tuple[Chunk, ...]
    places: tuple[Place, ...]
    running: Hash = field(repr=False, compare=False)
    home: int | None = None
    nested: tuple[Node, ...] = ()
    binary: bool | None = None
    """Whether its elements hold binary values; None where that is not known (read from a store)."""

    @Lazy
    def hash(self) -> bytes:
        final = self.running.copy()
        final.update(_trailer(self.count, self.kind, self.extra, b"S"))
        return final.digest()

    @Lazy
    def own_size(self) -> int:
        """Bytes of its own pages."""
        return sum([len(chunk.data) for chunk in self.chunks])

    @Lazy
    def size(self) -> int:
        own = self.own_size
        return sum([node.size for node in self.nested], own) if self.nested else own

    @Lazy
    def fresh(self) -> bool:
        """Whether any of its pages, or of the nodes in it, is not stored yet."""
        return Fresh in map(type, self.places) or any(node.fresh for node in self.nested)


Node = Leaf | Fields | Sequence


def _framed(data: bytes) -> bytes:
    return len(data).to_bytes(4) + data


def _trailer(count: int, kind: int, extra: bytes, sort: bytes) -> bytes:
    """What closes a hashed node; read from the end, so it needs no separator before it."""
    return extra + len(extra).to_bytes(4) + count.to_bytes(8) + kind.to_bytes(1) + sort


N = TypeVar("N", Fields, Sequence)


def made(cls: type[N], **values: object) -> N:
    """A node of all its fields; a frozen dataclass takes twice as long to set one by one."""
    node = object.__new__(cls)
    node.__dict__.update(values)
    return node


def moved(node: N, **changes: object) -> N:
    """The same value stored elsewhere. Keeps the hash if it was computed: it is the value's."""
    other = object.__new__(type(node))
    other.__dict__.update(node.__dict__, **changes)
    return other


def cut_places(places: tuple[Place, ...], first: int, count: int) -> list[Place]:
    """The places of `count` pages from page number `first` of a sequence on."""
    found: list[Place] = []
    for place in places:
        length = place.length if isinstance(place, Extent) else len(place.pages)
        if first < length and count:
            taken = min(count, length - first)
            found.append(_part(place, first, taken))
            count -= taken
        first = max(0, first - length)
    return found


def _part(place: Place, first: int, count: int) -> Place:
    if isinstance(place, Fresh):
        return Fresh(place.pages[first : first + count], place.counts[first : first + count])
    whole = count == place.length
    return place if whole else Extent(place.slot, place.first + first, count)


def detached(node: Node) -> Node:
    """The same tree with every page to be stored anew, for when the base has gone."""
    if isinstance(node, Fields):
        return replace(
            node, children={key: detached(child) for key, child in node.children.items()}
        )
    if isinstance(node, Sequence):
        return replace(
            node,
            places=(pages_in(node.chunks),),
            home=None,
            nested=tuple(map(detached, node.nested)),
        )
    return node


def settled(node: Node) -> Node:
    """The same tree, whose sequences grow in streams of their own: for a line beside this one."""
    if isinstance(node, Fields):
        return moved(node, children={key: settled(child) for key, child in node.children.items()})
    if isinstance(node, Sequence):
        return moved(node, home=None, nested=tuple(map(settled, node.nested)))
    return node


def pages_in(chunks: tuple[Chunk, ...]) -> Fresh:
    """All of it, to be stored."""
    return Fresh(tuple(pages.pages_of(chunks)), pages.cut_of(chunks).counts)
