"""Applying edits to an encoding.

The inverse of `diffing`: bytes in, bytes out. The one invariant: whatever an edit takes away or
goes through must be there as it was when the edit was found, or nothing is applied and the error
names the place. What no edit touches may differ.
"""

from __future__ import annotations

from collections import Counter
from itertools import chain

from lastgood import paths
from lastgood.codec import Codec, Shape, closed, opened
from lastgood.diffing import compare
from lastgood.edits import Edit, Entries, Items, Members, Moved, Removed, Swap
from lastgood.paths import Steps


def patched(codec: Codec, data: bytes, edit: Edit, path: Steps = ()) -> bytes:
    """The encoding after an edit; ValueError where the value is not the one it was found in."""
    if isinstance(edit, Swap):
        _expect(data, edit.old, path)
        return edit.new
    shape = opened(data)
    if shape.kind != edit.kind:
        raise _other(path, "is of another type")
    if isinstance(edit, Entries):
        return _patched_map(codec, shape, edit, path)
    if isinstance(edit, Members):
        return _patched_set(shape, edit, path)
    return _patched_list(codec, shape, edit, path)


def _patched_map(codec: Codec, shape: Shape, edit: Entries, path: Steps) -> bytes:
    items: dict[bytes, bytes] = dict(shape.content)
    for key, old in edit.removed:
        at = (*path, codec.unpack(key))
        if key not in items:
            raise _other(at, "is not there")
        _expect(items.pop(key), old, at)
    for key, inner in edit.changed:
        at = (*path, codec.unpack(key))
        if key not in items:
            raise _other(at, "is not there")
        items[key] = patched(codec, items[key], inner, at)
    for key, new in edit.added:
        if key in items:
            raise _other((*path, codec.unpack(key)), "is there already")
        items[key] = new
    return closed(shape, list(chain.from_iterable(items.items())))


def _patched_set(shape: Shape, edit: Members, path: Steps) -> bytes:
    members = Counter[bytes](shape.content)
    if not members >= Counter(edit.removed) or not members.keys().isdisjoint(edit.added):
        raise _other(path, "has other members")
    left = members - Counter(edit.removed)
    return closed(shape, sorted([*left.elements(), *edit.added]))


def _patched_list(codec: Codec, shape: Shape, edit: Items, path: Steps) -> bytes:
    old: list[bytes] = shape.content
    if len(old) != edit.old_count:
        raise _other(path, f"has {len(old)} elements instead of {edit.old_count}")
    taken: list[Removed | Moved] = [*edit.removed, *edit.moved]
    for item in taken:
        _expect(old[item.was], item.data, (*path, item.was))
    new = [b"" if was is None else old[was] for was in edit.sources()]
    for change in edit.changed:
        new[change.at] = patched(codec, new[change.at], change.edit, (*path, change.was))
    for added in edit.added:
        new[added.at] = added.data
    return closed(shape, new)


def _expect(found: bytes, expected: bytes, path: Steps) -> None:
    if found != expected and compare(expected, found) is not None:
        raise _other(path, "has another value")


def _other(path: Steps, how: str) -> ValueError:
    where = paths.render(path) or "the state"
    return ValueError(
        f"{where} {how}: this is not the state that the diff starts from. "
        "Patch the state of the older of the two checkpoints."
    )
