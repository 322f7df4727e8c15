"""A state in one piece: the encoding of a whole tree, and the tree back from it.

For stores that show a state as people read it, and keep pages nowhere else. Pure. The one
invariant: `refilled` gives the very tree that `whole` was made of, or raises; an encoding that was
changed is never fitted into a tree by force.
"""

from __future__ import annotations

import hashlib
from collections.abc import Iterable, Iterator
from dataclasses import replace
from typing import NamedTuple

from lastgood import pages
from lastgood.codec import (
    Family,
    Shape,
    closed,
    container_body,
    is_token,
    nested_token,
    opened,
    split_values,
    text_body,
)
from lastgood.errors import CheckpointIntegrityError, LastgoodError
from lastgood.pages import Chunk, Cut
from lastgood.tree import Fields, Leaf, Node, Sequence

_TEXTS = (Family.TEXT, Family.RAW)
Apart = tuple[tuple[int, ...], ...]
"""Which elements are nodes of their own, for each sequence that has such, from the top down."""


class Whole(NamedTuple):
    """The encoding of a state, and what cannot be told by looking at it."""

    data: bytes
    apart: Apart


def whole(node: Node) -> Whole:
    """The value of a tree whose pages have been read in."""
    apart: list[tuple[int, ...]] = []
    return Whole(_encoded(node, apart), tuple(apart))


def _encoded(node: Node, apart: list[tuple[int, ...]]) -> bytes:
    if isinstance(node, Leaf):
        return node.data
    if isinstance(node, Fields):
        items = [(key, _encoded(child, apart)) for key, child in node.children.items()]
        return closed(_shape(node), [part for item in items for part in item])
    if node.family in _TEXTS:
        return closed(_shape(node), [pages.joined(node.chunks)])
    if node.family is Family.ARRAY and not node.nested:
        return closed(_shape(node), [pages.joined(node.chunks)], node.count)
    parts = _parts(node)
    if node.nested:
        values = range(_step(node) - 1, len(parts), _step(node))
        places = [index for index in values if is_token(parts[index])]
        apart.append(tuple(places))
        for place, child in zip(places, node.nested, strict=True):
            parts[place] = _encoded(child, apart)
    return closed(_shape(node), parts)


def _shape(node: Fields | Sequence) -> Shape:
    family = node.family if isinstance(node, Sequence) else Family.MAP
    return Shape(family, node.kind, node.extra, ())


def _step(node: Sequence) -> int:
    """How many encodings an element is: a key and a value, or itself."""
    return 2 if node.family is Family.MAP else 1


def _parts(node: Sequence) -> list[bytes]:
    return split_values(pages.joined(node.chunks), node.count * _step(node))


def stripped(node: Node) -> Node:
    """The tree without any of its values: what `refilled` puts them back into."""
    if isinstance(node, Leaf):
        return Leaf(b"")
    if isinstance(node, Fields):
        return Fields(node.kind, node.extra, {k: stripped(c) for k, c in node.children.items()})
    return replace(node, chunks=(), nested=tuple(map(stripped, node.nested)))


def refilled(node: Node, state: Whole) -> Node:
    """The tree with its values; CheckpointIntegrityError if they are not of this tree."""
    try:
        found = _refilled(node, state.data, iter(state.apart))
        fits = whole(found) == state
    except (LastgoodError, LookupError, ValueError, TypeError, AttributeError, StopIteration):
        fits = False
    if not fits:
        raise CheckpointIntegrityError("the state is not of the form that was saved.")
    return found


def _refilled(node: Node, data: bytes, apart: Iterator[Iterable[int]]) -> Node:
    if isinstance(node, Leaf):
        return Leaf(data)
    if isinstance(node, Fields):
        items: list[tuple[bytes, bytes]] = opened(data).content
        below = zip(node.children.items(), items, strict=True)
        children = {name: _refilled(c, part, apart) for (_, c), (name, part) in below}
        if list(children) != list(node.children):
            raise ValueError("other keys")
        return Fields(node.kind, node.extra, children)
    if node.family in _TEXTS:
        return _filled(node, text_body(node.kind, data) if node.family is Family.TEXT else data)
    if not node.nested:
        return _filled(node, container_body(data))
    parts, nested = _opened_parts(node, data), []
    for place, child in zip(next(apart), node.nested, strict=True):
        nested.append(_refilled(child, parts[place], apart))
        parts[place] = nested_token(nested[-1].hash)
    return replace(_filled(node, b"".join(parts)), nested=tuple(nested))


def _opened_parts(node: Sequence, data: bytes) -> list[bytes]:
    content = opened(data).content
    return [part for item in content for part in item] if _step(node) == 2 else list(content)


def _filled(node: Sequence, body: bytes) -> Sequence:
    chunk = Chunk(body, Cut((len(body),)))
    return replace(node, chunks=(chunk,), running=hashlib.sha256(body))
