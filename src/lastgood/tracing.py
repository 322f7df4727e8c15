"""Following one value back from a state to the one before it.

Pure: trees and values in, paths out. The way through a list is found by content: an element that
others were inserted before, or removed from before, is the same element, and so is one that was
edited where it stands. An `id` on both sides decides alone, as in a diff.
"""

from __future__ import annotations

from collections.abc import Sequence as Items
from difflib import SequenceMatcher
from typing import Any

from lastgood import paths
from lastgood.codec import SETS, Codec, Dropped, Family, skip
from lastgood.diffing import id_of
from lastgood.manifest import Slot, Stored
from lastgood.pages import pages_of
from lastgood.paths import Steps
from lastgood.tree import Extent, Fields, Leaf, Node, Sequence

ALIGNED = 4096
"""Of longer stretches that differ, an element is looked for at its own place alone."""


Range = tuple[int, int, int]


def value_at(codec: Codec, value: object, steps: Steps) -> object:
    """What stands at a path; KeyError if nothing does."""
    for depth, step in enumerate(steps):
        content = _content(codec, value)
        if isinstance(content, dict) and step in content:
            value = content[step]
        elif isinstance(content, list) and _fits(step, content):
            value = content[step]  # type: ignore[call-overload]
        else:
            raise KeyError(f"there is no {paths.render(steps[: depth + 1])} in the state.")
    return value


def from_front(codec: Codec, value: object, steps: Steps) -> Steps:
    """A path that leads somewhere, with each index counted from the front: lists grow."""
    found: list[object] = []
    for step in steps:
        content: Any = _content(codec, value)
        found.append(step % len(content) if isinstance(content, list) else step)  # type: ignore[operator]
        value = content[step]
    return tuple(found)


def _fits(step: object, content: Items[object]) -> bool:
    return isinstance(step, int) and -len(content) <= step < len(content)


def _content(codec: Codec, value: object) -> dict[object, object] | list[object] | None:
    """A value by key, member or position, whatever its type; None where it has no inside."""
    shape = codec.encoder().shape(value)
    if isinstance(shape, Dropped):
        return None
    if shape.family is Family.MAP:
        return dict(shape.content)
    if shape.kind in SETS:
        return {member: member for member in shape.content}
    if shape.family is Family.ARRAY:
        return list(shape.content)
    return None


def counterpart(codec: Codec, new: object, old: object, steps: Steps) -> Steps | None:
    """The path in the older value to what stands at a path in the newer; None if it is new."""
    found: list[object] = []
    for step in steps:
        here, there = _content(codec, new), _content(codec, old)
        if isinstance(here, dict) and isinstance(there, dict):
            at = step if step in there else None
        elif isinstance(here, list) and isinstance(there, list) and isinstance(step, int):
            at = _same_element(codec, here, there, step % len(here))
        else:
            return None
        if at is None:
            return None
        found.append(at)
        new, old = here[step], there[at]  # type: ignore[call-overload]
    return tuple(found)


def _same_element(codec: Codec, new: Items[Any], old: Items[Any], index: int) -> int | None:
    """Where an element was: by what is alike around it, by its bytes, or by its place."""
    if index < len(old) and codec.pack(new[: index + 1]) == codec.pack(old[: index + 1]):
        return index  # the usual case, told without what comes behind
    here, there = [codec.pack(item) for item in new], [codec.pack(item) for item in old]
    front = _common(here, there)
    if index < front:
        return index
    back = _common(here[front:][::-1], there[front:][::-1])
    if index >= len(here) - back:
        return index - len(here) + len(there)
    found = _aligned(
        here[front : len(here) - back], there[front : len(there) - back], index - front
    )
    return None if found is None else found + front


def _aligned(new: list[bytes], old: list[bytes], index: int) -> int | None:
    alike = [at for at, data in enumerate(old) if data == new[index]]
    if alike:
        return min(alike, key=lambda at: abs(at - index))
    name = id_of(new[index])
    ids = [] if name is None else list(map(id_of, old))
    if name in ids:
        return ids.index(name)
    at = _opposite(new, old, index)
    return None if at is None or (ids and ids[at] is not None) else at


def _opposite(new: list[bytes], old: list[bytes], index: int) -> int | None:
    """What stood in the place of an element, given what is alike around it."""
    if max(len(new), len(old)) > ALIGNED:
        return index if index < len(old) else None
    blocks = SequenceMatcher(None, old, new, autojunk=False).get_opcodes()
    for _, old_start, old_end, start, end in blocks:
        if start <= index < end:
            at = old_start + index - start
            return at if at < old_end else None
    return None


def _common(left: Items[bytes], right: Items[bytes]) -> int:
    length = min(len(left), len(right))
    return next((at for at in range(length) if left[at] != right[at]), length)


# what storage alone can tell


def unchanged(new: Stored, old: Stored, steps: Steps, page: int | None) -> bool:
    """Whether the same pages show that the value at a path is in both, at the same path.

    Needs the trees without their pages alone. `page` is the one that holds the value, if it is an
    element of a sequence. False means: not known.
    """
    codec = Codec()
    here: Node | None = new.tree
    there: Node | None = old.tree
    for step in steps:
        if not isinstance(here, Fields) or not isinstance(there, Fields):
            break
        name = codec.pack(step)
        here, there = here.children.get(name), there.children.get(name)
    if isinstance(here, Leaf) and isinstance(there, Leaf):
        return here.data == there.data
    if not isinstance(here, Sequence) or not isinstance(there, Sequence):
        return False
    kinds = (here.family, here.kind, here.extra), (there.family, there.kind, there.extra)
    if here.nested or there.nested or kinds[0] != kinds[1]:
        return False
    if page is None and here.count != there.count:
        return False
    count = None if page is None else page + 1
    return _ranges(here, new.slots, count) == _ranges(there, old.slots, count)


def _ranges(node: Sequence, slots: tuple[Slot, ...], count: int | None) -> list[Range]:
    """The first pages of a sequence by stream and number, or all of them."""
    found: list[Range] = []
    for place in node.places:
        assert isinstance(place, Extent), "a stored tree has no page without a place"
        length = place.length if count is None else min(place.length, count)
        if length:
            found.append((slots[place.slot].stream, place.first, length))
        count = None if count is None else count - length
    return found


def page_of(codec: Codec, tree: Node, steps: Steps) -> int | None:
    """Which page of a sequence of elements holds what a path leads to; None if none does."""
    node: Node | None = tree
    for step in steps:
        if isinstance(node, Fields):
            node = node.children.get(codec.pack(step))
        elif isinstance(node, Sequence) and _is_counted(node) and isinstance(step, int):
            return _page_with(node, step % node.count)
        else:
            return None
    return None


def _is_counted(node: Sequence) -> bool:
    return node.family is Family.ARRAY and node.kind not in SETS


def _page_with(node: Sequence, index: int) -> int:
    for number, page in enumerate(pages_of(node.chunks)):
        offset = 0
        while offset < len(page):
            offset = skip(page, offset)
            if index == 0:
                return number
            index -= 1
    raise IndexError(index)
