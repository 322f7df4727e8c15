"""Changes as people read them: an operation, a place, the values before and after.

Owns `Change` and the way from edits to changes, which is where encodings become values again.
The one invariant: a change holds all there is to know about it; nothing is looked up later.
"""

from __future__ import annotations

import reprlib
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Literal, NamedTuple

from lastgood import paths
from lastgood.codec import Codec
from lastgood.edits import Added, Changed, Edit, Entries, Items, Members, Moved, Removed, Swap
from lastgood.paths import Steps

Op = Literal["add", "remove", "replace", "move"]

_SIGNS: dict[Op, str] = {"add": "+", "remove": "-", "replace": "~", "move": ">"}
_SHORT = reprlib.Repr()
_SHORT.maxstring = _SHORT.maxother = 60
_SHORT.maxdict = _SHORT.maxlist = _SHORT.maxset = 4
_SHORT.maxlevel = 3


@dataclass(frozen=True, slots=True)
class Change:
    """One difference between two states.

    `path` and `steps` name the same place, once for people and once for programs. The place is in
    the new state, except for "remove", where it is in the old one. All changes of a diff happen at
    once, so no index depends on another change. For a member of a set, the last step is the member
    itself.
    """

    op: Op
    """What happens at the place: `add`, `remove`, `replace` or `move`."""
    path: str
    """The place in the state as text, such as `messages[3].text`."""
    steps: Steps
    """The same place as keys and indices, such as `("messages", 3, "text")`."""
    old: object = None
    """The value before; None for "add"."""
    new: object = None
    """The value after; None for "remove"."""
    source: str | None = None
    """For "move", where the value was in the old state."""
    source_steps: Steps | None = None
    """The same place as `source`, as keys and indices."""

    def __str__(self) -> str:
        return f"{_SIGNS[self.op]} {self.path or 'the state'}{self._detail()}"

    def _detail(self) -> str:
        if self.op == "move":
            return f" (was {self.source})"
        if self.op == "replace":
            return f": {_SHORT.repr(self.old)} -> {_SHORT.repr(self.new)}"
        return f": {_SHORT.repr(self.old if self.op == 'remove' else self.new)}"


class _Place(NamedTuple):
    """A place as the old and as the new state number it."""

    old: Steps = ()
    new: Steps = ()

    def down(self, old: object, new: object) -> _Place:
        return _Place((*self.old, old), (*self.new, new))


def changes_of(codec: Codec, edit: Edit | None) -> tuple[Change, ...]:
    """All changes of an edit, in the order of the state."""
    return () if edit is None else tuple(_Reader(codec).changes(edit, _Place()))


class _Reader:
    def __init__(self, codec: Codec) -> None:
        self._value = codec.unpack

    def changes(self, edit: Edit, place: _Place) -> Iterator[Change]:
        if isinstance(edit, Swap):
            yield _change("replace", place.new, self._value(edit.old), self._value(edit.new))
        elif isinstance(edit, Entries):
            yield from self._entries(edit, place)
        elif isinstance(edit, Members):
            yield from (self._remove(place.old, self._value(m), m) for m in edit.removed)
            yield from (self._add(place.new, self._value(m), m) for m in edit.added)
        else:
            yield from self._items(edit, place)

    def _entries(self, edit: Entries, place: _Place) -> Iterator[Change]:
        for key, inner in edit.changed:
            step = self._value(key)
            yield from self.changes(inner, place.down(step, step))
        yield from (self._remove(place.old, self._value(key), d) for key, d in edit.removed)
        yield from (self._add(place.new, self._value(key), d) for key, d in edit.added)

    def _items(self, edit: Items, place: _Place) -> Iterator[Change]:
        found: list[Removed | Moved | Changed | Added]
        found = [*edit.removed, *edit.moved, *edit.changed, *edit.added]
        found.sort(key=lambda item: item.was if isinstance(item, Removed) else item.at)
        for item in found:
            if isinstance(item, Changed):
                yield from self.changes(item.edit, place.down(item.was, item.at))
            elif isinstance(item, Moved):
                yield self._move(place.down(item.was, item.at), item.data)
            elif isinstance(item, Removed):
                yield self._remove(place.old, item.was, item.data)
            else:
                yield self._add(place.new, item.at, item.data)

    def _remove(self, steps: Steps, last: object, data: bytes) -> Change:
        return _change("remove", (*steps, last), old=self._value(data))

    def _add(self, steps: Steps, last: object, data: bytes) -> Change:
        return _change("add", (*steps, last), new=self._value(data))

    def _move(self, place: _Place, data: bytes) -> Change:
        value = self._value(data)
        source = paths.render(place.old)
        return Change("move", paths.render(place.new), place.new, value, value, source, place.old)


def _change(op: Op, steps: Steps, old: object = None, new: object = None) -> Change:
    return Change(op, paths.render(steps), steps, old, new)
