"""Trees to values: `build` gives back the value that `split` took apart, type for type.

Knows the codec and the nodes; reads no store: pages are in the tree already. `grafted` appends to
a list inside a tree, at the cost of what is appended wherever the path leads through nodes.
"""

from __future__ import annotations

from collections.abc import Mapping, MutableSequence
from typing import Any

from lastgood import pages, paths
from lastgood.codec import (
    DICT,
    LIST,
    NOWHERE,
    Codec,
    Dropped,
    Encoder,
    Family,
    Nested,
    Noticing,
    array_header,
    keyed_by_text,
    map_header,
    name_places,
)
from lastgood.errors import CheckpointIntegrityError, SerializationError, an
from lastgood.splitting import Addition, Path, appended, split
from lastgood.tree import Fields, Leaf, Node, Sequence


def decoded(codec: Codec, node: Sequence) -> list[object]:
    """The elements of a sequence, with a token in place of each that is a node itself."""
    return codec.unpack_array(node.count, pages.joined(node.chunks))


class Making:
    """How sequences become values: here each anew, for the one value that is built."""

    def sequence(self, codec: Codec, node: Sequence) -> object:
        """The value of a sequence."""
        return _sequence(codec, node, self)

    def elements(self, codec: Codec, node: Sequence) -> list[object]:
        """The elements of a list; the value that is built takes this very list."""
        return decoded(codec, node)


ANEW = Making()


def build(codec: Codec, node: Node, making: Making = ANEW) -> object:
    """The value of a tree."""
    pieces: list[bytes] = []
    if making is ANEW and _spelled(node, pieces):
        return codec.unpack(*pieces)
    if isinstance(node, Leaf):
        return codec.unpack(node.data)
    if isinstance(node, Fields):
        return codec.join(node.kind, node.extra, _items(codec, node.children, making))
    return making.sequence(codec, node)


def _sequence(codec: Codec, node: Sequence, making: Making) -> object:
    if node.family is Family.ARRAY:
        found = making.elements(codec, node)
        if node.nested:
            found = _with_nested(codec, node, found, making)
        return codec.join(node.kind, node.extra, found)
    body = pages.joined(node.chunks)
    if node.family in (Family.TEXT, Family.RAW):
        return codec.join(node.kind, node.extra, body)
    pairs = _pairs(codec, node, body)
    if node.nested:
        values = _with_nested(codec, node, [value for _, value in pairs], making)
        pairs = [(key, value) for (key, _), value in zip(pairs, values, strict=True)]
    return codec.join(node.kind, node.extra, pairs)


def _with_nested(
    codec: Codec, node: Sequence, values: list[object], making: Making
) -> list[object]:
    """Values with those that are nodes in the places of their tokens."""
    named = [value.digest for value in values if isinstance(value, Nested)]
    if named != [child.hash for child in node.nested]:
        raise CheckpointIntegrityError(
            "the large elements of a list or dict are not those that it names."
        )
    children = iter([build(codec, child, making) for child in node.nested])
    return [next(children) if isinstance(value, Nested) else value for value in values]


_HEADERS = {LIST: array_header, DICT: map_header}


def _spelled(node: Node, pieces: list[bytes]) -> bool:
    """Whether a value is plain dicts and lists down to what is small; `pieces` then spell it.

    Most states are. What is decoded in one call need not be put together by us.
    """
    if isinstance(node, Leaf):
        pieces.append(node.data)
        return True
    if isinstance(node, Sequence):
        header = _HEADERS.get(node.kind)
        if header is None or node.nested:
            return False
        pieces.append(header(node.count))
        pieces.extend([chunk.data for chunk in node.chunks])
        return True
    if node.kind != DICT:
        return False
    pieces.append(map_header(len(node.children)))
    for key, child in node.children.items():
        if isinstance(child, Leaf):
            pieces += (key, child.data)
            continue
        pieces.append(key)
        if not _spelled(child, pieces):
            return False
    return True


def build_state(codec: Codec, node: Node, making: Making = ANEW) -> object:
    """The value of a whole state; what this process lacks the class of knows its place in it."""
    try:
        with Noticing() as opaques:
            value = build(codec, node, making)
    except SerializationError as error:
        raise _placed(codec, node, error) if codec.strict_types else error from error.__cause__
    if opaques:
        name_places(value, "state")
    return value


def _placed(codec: Codec, node: Node, error: SerializationError) -> SerializationError:
    """The error with the first place of the class that it names; nothing is made of it."""
    with Noticing() as opaques:
        value = build(codec.showing(), node)
    name_places(value, "state")
    named = (each.lastgood_path for each in opaques if each.lastgood_label in error.message)
    path = next((path for path in named if path != NOWHERE), None)
    if path is None:
        return error
    return SerializationError(f"{path}: {error.message}", path=path, hint=error.hint)


def _items(
    codec: Codec, children: dict[bytes, Node], making: Making
) -> list[tuple[object, object]]:
    """Keys and values; the keys and all that is small are decoded in one call."""
    small = [child.data for child in children.values() if isinstance(child, Leaf)]
    values = iter(codec.unpack_array(len(children) + len(small), b"".join([*children, *small])))
    keys = [next(values) for _ in children]
    nodes = zip(keys, children.values(), strict=True)
    return [
        (key, next(values) if isinstance(node, Leaf) else build(codec, node, making))
        for key, node in nodes
    ]


def _pairs(codec: Codec, node: Sequence, body: bytes) -> list[tuple[object, object]]:
    if keyed_by_text(node.kind):
        return list(codec.unpack_map(node.count, body).items())
    flat = codec.unpack_array(2 * node.count, body)
    return list(zip(flat[::2], flat[1::2], strict=True))


def grafted(codec: Codec, encoder: Encoder, node: Node, added: Addition, depth: int = 0) -> Node:
    """The tree with items appended to the list that a path leads to.

    Raises KeyError where the path does not lead anywhere, TypeError where it leads to no list.
    """
    steps = added.steps[depth:]
    if isinstance(node, Fields) and steps:
        name = encoder.pack(steps[0])
        if isinstance(name, Dropped) or name not in node.children:
            raise _missing(added.steps[: depth + 1])
        longer = grafted(codec, encoder, node.children[name], added, depth + 1)
        return Fields(node.kind, node.extra, {**node.children, name: longer})
    if isinstance(node, Sequence) and not steps and node.kind == LIST:
        return appended(codec, encoder, node, added)
    value = build(codec, node)
    items = codec.unpack_array(len(added.encoded), b"".join(added.encoded))
    list_at(value, steps, added.steps[:depth]).extend(items)
    tree = split(encoder, value, node, added.steps[:depth])
    assert not isinstance(tree, Dropped), "only values that were stored can be here"
    return tree


def list_at(value: object, steps: Path, path: Path = ()) -> MutableSequence[Any]:
    """The list that a path leads to inside a value."""
    target = value
    for position, step in enumerate(steps):
        target = _down(target, step, (*path, *steps[: position + 1]))
    if not isinstance(target, MutableSequence):
        where = paths.render((*path, *steps)) or "the state"
        raise TypeError(
            f"{where} is {an(type(target).__name__)}, not a list: nothing to append to."
        )
    return target


def _down(target: object, step: object, path: Path) -> object:
    try:
        if isinstance(target, Mapping):
            if step not in target:  # asked for it, a defaultdict would make it
                raise KeyError(step)
        elif isinstance(step, str) and hasattr(target, step):
            return getattr(target, step)
        return target[step]  # type: ignore[index]
    except (KeyError, IndexError, TypeError):
        raise _missing(path) from None


def _missing(path: Path) -> KeyError:
    return KeyError(f"there is no {paths.render(path)} in the state. Save it once as a list first.")
