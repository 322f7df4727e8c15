"""Values to trees: `split` takes a value apart, taking over every page that recurs in a base.

Knows the codec, the page rules and the nodes; knows no streams and no store. The one invariant:
whether a value is inline, taken apart or a sequence follows from the value alone; the base only
decides which pages are new. Encoding happens here and nowhere later, so it is over before an
operation suspends for the first time.
"""

from __future__ import annotations

from collections.abc import Callable, Collection
from collections.abc import Sequence as Items
from dataclasses import replace
from functools import lru_cache
from typing import Any, NamedTuple

from lastgood import pages
from lastgood.codec import (
    DICT,
    Codec,
    Dropped,
    Encoder,
    Family,
    Shape,
    entries,
    map_header,
    nested_token,
    skip,
)
from lastgood.pages import SLICE, Chunk
from lastgood.placing import grown, laid
from lastgood.recurring import LARGE, jump, nearly
from lastgood.tree import Fields, Leaf, Node, Sequence, moved

INLINE = 4096
"""A value whose encoding has at most this many bytes stays inline."""
FIELDS = 64
"""A mapping of at most so many keys is taken apart by key, a larger one is a sequence of items."""

Path = tuple[object, ...]
_KEYS = Codec()
_TAKEN_APART = (Fields, Sequence)


class _Site(NamedTuple):
    """One value on its way into the tree: what it is, where it stands, what was there before."""

    encoder: Encoder
    value: object
    shape: Shape
    path: Path
    base: Node | None
    known: Sequence | None
    """The base, if its pages can be compared with this value's."""
    same: Collection[object] = ()
    """Keys of which the caller knows that their values are those of the base."""


def split(
    encoder: Encoder,
    value: object,
    base: Node | None = None,
    path: Path = (),
    same: Collection[object] = (),
    *,
    is_large: bool = False,
) -> Node | Dropped:
    """Make the tree of a value; `Dropped` if policy says so and the value cannot be kept.

    What stands under one of the keys `same` is taken over from the base where that is possible.
    """
    if same and isinstance(base, Leaf):
        base = _opened(base, same)
    if not is_large and type(value) is not list and not isinstance(base, _TAKEN_APART):
        leaf = _leaf(encoder, value, path)
        if leaf is not None:
            return base if base == leaf else leaf  # the base's hash is computed already
    shape = encoder.shape(value, path)
    if isinstance(shape, Dropped):
        return shape
    fits = isinstance(base, Sequence) and base.family is shape.family
    known = base if fits else None
    site = _Site(encoder, value, shape, path, base, known, same)  # type: ignore[arg-type]
    if shape.family is Family.MAP and len(shape.content) <= FIELDS:
        return _fields(site)
    return _text(site) if shape.family in (Family.TEXT, Family.RAW) else _elements(site)


def _opened(base: Leaf, same: Collection[object]) -> Fields:
    """What a small mapping has under some of its keys."""
    found = entries(base.data, same)
    return Fields(DICT, b"", {short_name(key): Leaf(v) for key, v in found.items()})


def _leaf(encoder: Encoder, value: object, path: Path) -> Leaf | Dropped | None:
    data = encoder.pack(value, path)
    if isinstance(data, Dropped):
        return data
    return Leaf(data) if len(data) <= INLINE else None


def _fields(site: _Site) -> Node | Dropped:
    """Go down by key. A base that was taken apart spares packing the whole to see its size."""
    old = site.base.children if isinstance(site.base, Fields) else {}
    children: dict[bytes, Node] = {}
    child: Node | Dropped | None
    size = 0
    for key, item in site.shape.content:
        path = (*site.path, key)
        name = short_name(key) if type(key) is str else site.encoder.pack_key(key, path, item)
        if isinstance(name, Dropped):
            continue
        if name in children:
            return _elements(site)  # two keys with one encoding, such as NaN and NaN
        child = old.get(name)
        if child is None or key not in site.same:
            child = split(site.encoder, item, child, path)
        if not isinstance(child, Dropped):
            children[name] = child
            size += len(name) + child.size
    if size <= INLINE:
        mixed = site.same and site.shape.kind == DICT
        leaf = _closed(children) if mixed else _leaf(site.encoder, site.value, site.path)
        if leaf is not None:
            return leaf
    return Fields(site.shape.kind, site.shape.extra, children)


def _closed(children: dict[bytes, Node]) -> Leaf | None:
    """A plain mapping of small values as one value, with those that are taken over as they are."""
    parts = [name + child.data for name, child in children.items() if isinstance(child, Leaf)]
    data = map_header(len(children)) + b"".join(parts)
    return Leaf(data) if len(parts) == len(children) and len(data) <= INLINE else None


@lru_cache(maxsize=4096)
def short_name(key: str) -> bytes:
    """The encoding of a key; the same few come at every save."""
    return _KEYS.pack(key)


def _text(site: _Site) -> Node | Dropped:
    body: bytes = site.shape.content
    if len(body) <= INLINE:
        leaf = _leaf(site.encoder, site.value, site.path)
        if leaf is not None:
            return leaf
    matches = pages.match_text(_base(site.known), body)
    return laid(site.shape, len(body), body, matches, site.known)


def _elements(site: _Site) -> Node | Dropped:
    similar = nearly(site.encoder, site.shape, site.known) if site.known else None
    if similar is not None:
        return similar
    items = site.shape.family is Family.MAP
    pack = site.encoder.pack_items if items else site.encoder.pack_each
    encoded = pack(site.shape.content, site.path, exact=False)
    kept = _without_lost(site, encoded)
    if _below(encoded, INLINE):
        leaf = _leaf(site.encoder, site.value, site.path)
        if leaf is not None:
            return leaf
    node, new = _laid_out(kept, encoded)
    if site.known is None or site.known.binary is not False:
        new = list(range(len(encoded)))
    seen = site.encoder.inspect(new, kept.shape.content, encoded, items=items)
    if not seen.exact:
        encoded = pack(site.shape.content, site.path)
        node, _ = _laid_out(_without_lost(site, encoded), encoded)
    return moved(node, binary=seen.binary or not seen.exact)


def _below(encoded: list[bytes], limit: int) -> bool:
    """Whether all of it is shorter than a limit; in a long list the beginning tells."""
    return sum(map(len, encoded[:64])) < limit and sum(map(len, encoded)) < limit


def _laid_out(site: _Site, encoded: list[bytes]) -> tuple[Sequence, list[int]]:
    """The sequence of encoded elements, and which of them are new."""
    node, new = from_elements(site.shape, encoded, site.known)
    if all(len(encoded[index]) <= SLICE for index in new):
        return node, new
    tokens = list(encoded)
    nested = _take_apart(site, tokens)
    return from_elements(site.shape, tokens, site.known, nested)


def from_elements(
    shape: Shape, encoded: list[bytes], known: Sequence | None, nested: tuple[Node, ...] = ()
) -> tuple[Sequence, list[int]]:
    """A sequence of elements, given by their encodings, on top of an earlier version of it.

    Also tells which elements are new.
    """
    body = b"".join(encoded)
    size, count = (known.own_size, known.count) if known else (0, 0)
    lengths = pages.KnownLengths(encoded, size, count)
    matches = pages.match_elements(_base(known), body, lengths, jump(shape.family))
    node = laid(shape, len(encoded), body, matches, known, nested, lengths)
    if node.own_size >= LARGE:
        node = moved(node, chunks=pages.recounted(node.chunks, encoded))
    return node, lengths.new(matches)


def _base(known: Sequence | None) -> tuple[Chunk, ...]:
    return known.chunks if known else ()


def _without_lost(site: _Site, encoded: list[bytes]) -> _Site:
    """After a loss: the content that was kept, so that positions fit the encodings again."""
    encoder, known = site.encoder, len(site.encoder.losses)
    if len(encoded) == len(site.shape.content):
        return site
    pack = encoder.pack_items if site.shape.family is Family.MAP else encoder.pack_each
    kept = [each for each in site.shape.content if pack([each], site.path)]
    del encoder.losses[known:]  # they were told when all were packed
    return site._replace(shape=replace(site.shape, content=kept))


def _take_apart(site: _Site, encoded: list[bytes]) -> tuple[Node, ...]:
    """Replace each huge element by a token with its hash; give the nodes in order."""
    content: Items[object] = site.shape.content
    old = site.known.nested if site.known else ()
    stored = {node.hash: node for node in old}
    nested: list[Node] = []
    told = len(site.encoder.losses)
    for index, data in enumerate(encoded):
        if len(data) > SLICE:
            step, item, key = _item(site.shape, content[index], index, data)
            base = old[len(nested)] if len(nested) < len(old) else None
            node = _nested(site.encoder, item, base, (*site.path, step))
            nested.append(stored.get(node.hash, node))
            encoded[index] = key + nested_token(node.hash)
    del site.encoder.losses[told:]  # they were told when all were packed, by their own places
    return tuple(nested)


def _nested(encoder: Encoder, item: object, base: Node | None, path: Path) -> Node:
    node = split(encoder, item, base, path, is_large=True)
    assert not isinstance(node, Dropped), "it was packed a moment ago"
    return node


def _item(shape: Shape, item: Any, index: int, data: bytes) -> tuple[object, object, bytes]:
    """Path step, value and encoded key (if any) of one element."""
    if shape.family is Family.MAP:
        return item[0], item[1], data[: skip(data, 0)]
    return index, item, b""


class Addition(NamedTuple):
    """Items on their way to the end of a list, encoded."""

    steps: Path
    encoded: tuple[bytes, ...]
    binary: bool


def addition(
    encoder: Encoder, steps: Path, items: Items[object], length: Callable[[], int]
) -> Addition:
    """Encode what is to be appended to the list at a path, which is that long."""
    encoded, binary = encoder.pack_more(items, steps, length)
    return Addition(steps, tuple(encoded), binary)


def appended(codec: Codec, encoder: Encoder, known: Sequence, added: Addition) -> Sequence:
    """A list with items at its end, without looking at what is in it already."""
    encoded, nested = list(added.encoded), known.nested
    for index, data in enumerate(encoded):
        if len(data) > SLICE:
            node = _nested(encoder, codec.unpack(data), None, added.steps)
            encoded[index] = nested_token(node.hash)
            nested = (*nested, node)
    cut = pages.cut_elements([len(data) for data in encoded])
    shape = Shape(known.family, known.kind, known.extra, ())
    unknown = known.binary is None and not added.binary
    binary = None if unknown else known.binary or added.binary
    tail = b"".join(encoded)
    return grown(known, shape, known.count + len(encoded), tail, cut, nested, binary)


def rebased(node: Node, base: Node) -> Node:
    """A tree that was made without a base, laid over one afterwards: bytes tell what recurs."""
    if isinstance(node, Fields) and isinstance(base, Fields):
        old = base.children
        below = {k: rebased(c, old[k]) if k in old else c for k, c in node.children.items()}
        return replace(node, children=below)
    same_sort = isinstance(node, Sequence) and isinstance(base, Sequence)
    if not same_sort or node.family is not base.family:  # type: ignore[union-attr]
        return node
    assert isinstance(node, Sequence)
    assert isinstance(base, Sequence)
    body = pages.joined(node.chunks)
    lengths = None
    if node.family in (Family.TEXT, Family.RAW):
        matches = pages.match_text(base.chunks, body)
    else:
        over = jump(node.family)
        lengths = pages.ScannedLengths(body, over, node.count)
        matches = pages.match_elements(base.chunks, body, lengths, over)
    nested = _rebased_nested(node.nested, base.nested)
    shape = Shape(node.family, node.kind, node.extra, ())
    found = laid(shape, node.count, body, matches, base, nested, lengths)
    return moved(found, binary=node.binary)  # the base may hold less


def _rebased_nested(nested: tuple[Node, ...], old: tuple[Node, ...]) -> tuple[Node, ...]:
    stored = {node.hash: node for node in old}
    return tuple(
        stored.get(node.hash) or (rebased(node, old[index]) if index < len(old) else node)
        for index, node in enumerate(nested)
    )
