"""Containers with other parts in them: as a copy, or in place.

Owns how each sort of container is opened and closed again. Must not know what the parts are.
Invariant: no constructor or method of a user's class runs; a container that cannot be changed in
place is made anew.
"""

from __future__ import annotations

import copy
from collections import deque
from collections.abc import Callable
from typing import Any, Final

from lastgood.objects.fields import kept_in
from lastgood.objects.layouts import layout_of
from lastgood.objects.walking import MAPPINGS

Change = Callable[[Any, object], Any]
"""Part and step (a key, an index, the name of a field) -> what stands there instead, or `GONE`."""

GONE: Final = object()
"""In place of a part: it is left out, as the codec leaves out what cannot be kept."""


def reshaped(value: Any, change: Change) -> Any:
    """A copy of a container or record, with its parts changed; the original stays as it is."""
    if type(value) in MAPPINGS:
        return refilled(copy.copy(value), change)
    if isinstance(value, tuple):
        row = _row(value, change)
        whole = type(value) is tuple or len(row) == len(value)
        return tuple.__new__(type(value), row) if whole else GONE
    if type(value) is deque:
        return deque(_row(value, change), value.maxlen)
    return _row(value, change) if type(value) is list else _record(value, change)


def refilled(value: Any, change: Change) -> Any:
    """The same container or record, its parts changed in place; a tuple is made anew."""
    if type(value) in MAPPINGS:
        for key, part in list(value.items()):
            value[key] = change(part, key)
            if value[key] is GONE:
                del value[key]
    elif isinstance(value, tuple):
        return reshaped(value, change)
    elif type(value) in (list, deque):
        row = _row(value, change)
        value.clear()
        value.extend(row)
    else:
        _fill(value, kept_in(value), change)
    return value


def _row(value: Any, change: Change) -> list[Any]:
    made = [change(part, index) for index, part in enumerate(value)]
    return [part for part in made if part is not GONE]


def _record(value: Any, change: Change) -> Any:
    try:
        made = object.__new__(type(value))
    except TypeError:  # a msgspec.Struct, which only its own code can make
        made = copy.copy(value)
    _fill(made, kept_in(value), change)
    return made


def _fill(record: Any, held: dict[str, Any], change: Change) -> None:
    layout = layout_of(type(record))
    for name, part in held.items():
        made, slot = change(part, name), layout.slots.get(name)
        if slot is not None:
            slot.__delete__(record) if made is GONE else slot.__set__(record, made)
        elif made is GONE:
            del record.__dict__[name]
        else:
            record.__dict__[name] = made
