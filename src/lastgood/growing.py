"""Values of states that grew out of one another: what a long list begins with is decoded once.

`Growing` makes states that are each their own: from the second on, the list is kept aside and
copied for each. A copy shares texts and numbers but no container, and takes half the time of
decoding. Only lists of plain values are copied; whatever a user's function has made is made anew.

`Sharing` makes states to look at: what did not change is one object in all of them.
"""

from __future__ import annotations

from collections import deque
from typing import Any

from lastgood import pages
from lastgood.building import Making, decoded
from lastgood.codec import Codec
from lastgood.tree import Sequence

LARGE = 16 * 1024
"""Bytes of a list from which on it is looked for in the states before."""
LISTS = 16
"""Lists that are looked through; those of states longer ago are forgotten."""

_CONTAINERS = frozenset({dict, list})
_ATOMS = frozenset({str, int, float, bool, bytes, type(None)})

Inner = tuple[tuple[Any, "Inner"], ...]
"""Where in a container there are others, and what is inside of those."""


class Growing(Making):
    """States of their own, built one after the other, oldest first."""

    def __init__(self) -> None:
        self._lists: deque[_Grown] = deque(maxlen=LISTS)

    def elements(self, codec: Codec, node: Sequence) -> list[object]:
        """The elements for one state, equal to those that `decoded` gives."""
        if node.nested or node.own_size < LARGE:
            return decoded(codec, node)
        for grown in self._lists:
            rest = pages.after(grown.node.chunks, node.chunks)
            if rest is not None:
                return grown.elements(codec, node, rest)
        self._lists.append(_Grown(node))
        return decoded(codec, node)


class _Grown:
    """A list as it is in the newest state so far; its values are nobody else's."""

    def __init__(self, node: Sequence) -> None:
        self.node = node
        self._values: list[Any] = []
        self._inner: Inner | None = ()

    def elements(self, codec: Codec, node: Sequence, rest: bytes) -> list[object]:
        """The elements of the list that it has become by `rest`, for one state alone."""
        if self._inner is None:
            return decoded(codec, node)
        more = node.count - self.node.count
        added = codec.unpack_array(more, rest) if self._values else decoded(codec, node)
        inner = _inside(added)
        if inner is None:
            self._inner = None
            return decoded(codec, node)
        start = len(self._values)
        self.node = node
        self._values += added
        self._inner += tuple((start + index, below) for index, below in inner)
        found: list[object] = _copied(self._values, self._inner)
        return found


def _inside(container: Any) -> Inner | None:
    """The containers in a container; None if there is anything but plain values."""
    found: list[tuple[Any, Inner]] = []
    for key, value in container.items() if type(container) is dict else enumerate(container):
        if type(value) in _CONTAINERS:
            below = _inside(value)
            if below is None:
                return None
            found.append((key, below))
        elif type(value) not in _ATOMS:
            return None
        if type(key) not in _ATOMS:
            return None
    return tuple(found)


def _copied(container: Any, inner: Inner) -> Any:
    made = container.copy()
    for key, below in inner:
        value = container[key]
        made[key] = _copied(value, below) if below else value.copy()
    return made


class Sharing(Making):
    """States that share what did not change, built one after the other, oldest first."""

    def __init__(self) -> None:
        self._values: dict[bytes, object] = {}
        self._lists: deque[tuple[Sequence, list[object]]] = deque(maxlen=LISTS)

    def sequence(self, codec: Codec, node: Sequence) -> object:
        """The value of a sequence, the same object for the same content."""
        if node.hash not in self._values:
            self._values[node.hash] = super().sequence(codec, node)
        return self._values[node.hash]

    def elements(self, codec: Codec, node: Sequence) -> list[object]:
        """The elements; those that the list had before are the same objects."""
        for number, (base, known) in enumerate(self._lists):
            rest = pages.after(base.chunks, node.chunks)
            if rest is not None:
                found = [*known, *codec.unpack_array(node.count - base.count, rest)]
                self._lists[number] = node, found
                return found[:]
        found = decoded(codec, node)
        self._lists.append((node, found))
        return found[:]
