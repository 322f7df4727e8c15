"""Edits as a JSON Patch (RFC 6902): operations that are carried out one after the other.

Owns the way from "all at once" to "one by one". The one invariant: each pointer is right at the
moment its operation comes, so a list is first cut, then put in order, then filled, and only then
gone into.
"""

from __future__ import annotations

import math
from collections.abc import Iterator
from typing import Any

from lastgood import paths
from lastgood.codec import DICT, LIST, Codec
from lastgood.edits import Edit, Entries, Items, Swap
from lastgood.errors import an
from lastgood.paths import Steps

Operation = dict[str, Any]


def json_patch(codec: Codec, edit: Edit | None) -> list[Operation]:
    """The operations; TypeError with the path of what JSON has no word for."""
    return [] if edit is None else list(_Writer(codec).operations(edit, ()))


class _Writer:
    def __init__(self, codec: Codec) -> None:
        self._codec = codec

    def operations(self, edit: Edit, at: Steps) -> Iterator[Operation]:
        if isinstance(edit, Swap):
            self._value(edit.old, at)
            yield {"op": "replace", "path": pointer(at), "value": self._value(edit.new, at)}
        elif isinstance(edit, Entries) and edit.kind == DICT:
            yield from self._entries(edit, at)
        elif isinstance(edit, Items) and edit.kind == LIST:
            yield from self._items(edit, at)
        else:
            raise _not_json(at, "neither a plain list nor a plain dict")

    def _entries(self, edit: Entries, at: Steps) -> Iterator[Operation]:
        for key, _ in edit.removed:
            yield {"op": "remove", "path": pointer((*at, self._name(key, at)))}
        for key, data in edit.added:
            inner = (*at, self._name(key, at))
            yield {"op": "add", "path": pointer(inner), "value": self._value(data, inner)}
        for key, change in edit.changed:
            yield from self.operations(change, (*at, self._name(key, at)))

    def _items(self, edit: Items, at: Steps) -> Iterator[Operation]:
        for item in sorted(edit.removed, key=lambda item: item.was, reverse=True):
            yield {"op": "remove", "path": pointer((*at, item.was))}
        yield from self._moves(edit, at)
        for added in sorted(edit.added, key=lambda item: item.at):
            inner = (*at, added.at)
            yield {"op": "add", "path": pointer(inner), "value": self._value(added.data, inner)}
        for change in edit.changed:
            yield from self.operations(change.edit, (*at, change.at))

    def _moves(self, edit: Items, at: Steps) -> Iterator[Operation]:
        """Each moved element goes behind the one that it follows in the end."""
        if not edit.moved:
            return
        gone, moved = ({item.was for item in some} for some in (edit.removed, edit.moved))
        row = _Row([was not in gone for was in range(edit.old_count)])
        staying = -1  # the last one that was passed; those that moved behind it count with it
        for was in edit.sources():
            if was is None:
                continue
            if was not in moved:
                staying = was
                continue
            from_ = row.until(was)
            row.move(was, staying)
            to = row.until(staying + 1) - 1
            yield {"op": "move", "from": pointer((*at, from_)), "path": pointer((*at, to))}

    def _name(self, key: bytes, at: Steps) -> str:
        name = self._codec.unpack(key)
        if not isinstance(name, str):
            raise _not_json((*at, name), f"under a key of type {type(name).__name__}")
        return name

    def _value(self, data: bytes, at: Steps) -> object:
        value = self._codec.unpack(data)
        _check(value, at)
        return value


class _Row:
    """How many elements there are up to each place of a list while some move (a Fenwick tree).

    Place -1 is the front. An element that moved counts at the one that stays before it.
    """

    def __init__(self, there: list[bool]) -> None:
        self._sums = [0, 0, *map(int, there)]
        for node, count in enumerate(self._sums):
            above = node + (node & -node)
            if node and above < len(self._sums):
                self._sums[above] += count

    def until(self, place: int) -> int:
        """How many are before a place."""
        node, count = place + 1, 0
        while node:
            count += self._sums[node]
            node &= node - 1
        return count

    def move(self, place: int, to: int) -> None:
        """One element counts elsewhere."""
        self._add(place, -1)
        self._add(to, 1)

    def _add(self, place: int, count: int) -> None:
        node = place + 2
        while node < len(self._sums):
            self._sums[node] += count
            node += node & -node


def pointer(steps: Steps) -> str:
    """A JSON pointer (RFC 6901)."""
    return "".join("/" + str(step).replace("~", "~0").replace("/", "~1") for step in steps)


_ATOMS = (type(None), bool, int, str)


def _check(value: object, at: Steps) -> None:
    if type(value) is list:
        for index, element in enumerate(value):
            _check(element, (*at, index))
    elif type(value) is dict:
        for key, item in value.items():
            if type(key) is not str:
                raise _not_json((*at, key), f"under a key of type {type(key).__name__}")
            _check(item, (*at, key))
    elif type(value) is float:
        if not math.isfinite(value):
            raise _not_json(at, f"the number {value}")
    elif type(value) not in _ATOMS:
        raise _not_json(at, an(type(value).__name__))


def _not_json(at: Steps, what: str) -> TypeError:
    where = paths.render(at) or "the state"
    return TypeError(f"{where} is {what}, which JSON has no word for. Use patch(), or str(diff).")
