"""Editing a value by path: the way `fork(edits=..., remove=...)` changes a state.

Works on every type of the codec, frozen ones too, because a value is taken apart and put together
again along the path; the value that was given stays as it is.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from typing import Any

from lastgood import paths
from lastgood.codec import Codec, Dropped, Family, Shape
from lastgood.codec.kinds import Number

_SETS = (Number.SET, Number.FROZENSET)
_REMOVED: Any = object()

Change = Callable[[object], Any]


def edited(
    codec: Codec, state: object, edits: Mapping[str, object], remove: Iterable[str]
) -> object:
    """The state with values put at paths, and with paths taken away.

    All paths are those of the state as it was, so removing `items[0]` does not shift `items[1]`.
    A key that is not there is added, an index one past the end appends; KeyError for anything else
    that is not there.
    """
    changes = {paths.parse(path): value for path, value in edits.items()}
    changes |= dict.fromkeys(map(paths.parse, remove), _REMOVED)
    if () in changes:
        raise ValueError("an empty path is the whole state. Save a new state instead.")
    return _apply(codec, state, changes, ())


def _apply(
    codec: Codec, value: object, changes: Mapping[paths.Steps, object], path: paths.Steps
) -> object:
    shape = codec.encoder().shape(value, path)
    assert not isinstance(shape, Dropped), "a state that was stored can be opened"
    if shape.family is Family.MAP:
        content: Any = _items(codec, shape, changes, path)
    elif shape.family is Family.ARRAY and shape.kind not in _SETS:
        content = _elements(codec, shape, changes, path)
    else:
        where = paths.render(path) or "the state"
        raise KeyError(f"{where} is a {type(value).__name__}: there is nothing inside to edit.")
    return codec.join(shape.kind, shape.extra, content)


def _items(
    codec: Codec, shape: Shape, changes: Mapping[paths.Steps, object], path: paths.Steps
) -> list[tuple[object, object]]:
    content = dict(shape.content)
    for step, below in _by_first_step(changes).items():
        if step not in content and (() not in below or shape.kind == Number.RECORD):
            raise _missing((*path, step))
        if below.get(()) is _REMOVED and shape.kind == Number.RECORD:
            raise KeyError(f"{paths.render((*path, step))} is a field and cannot be removed.")
        content[step] = _changed(codec, content.get(step, _REMOVED), below, (*path, step))
    return [(key, item) for key, item in content.items() if item is not _REMOVED]


def _elements(
    codec: Codec, shape: Shape, changes: Mapping[paths.Steps, object], path: paths.Steps
) -> list[object]:
    content = list(shape.content)
    length = len(content)
    for step, below in _by_first_step(changes).items():
        if not isinstance(step, int) or not -length <= step <= length:
            raise _missing((*path, step))
        if step == length:
            if () not in below:
                raise _missing((*path, step))
            content.append(_REMOVED)
        content[step] = _changed(codec, content[step], below, (*path, step))
    return [item for item in content if item is not _REMOVED]


def _by_first_step(
    changes: Mapping[paths.Steps, object],
) -> dict[object, dict[paths.Steps, object]]:
    grouped: dict[object, dict[paths.Steps, object]] = {}
    for steps, value in changes.items():
        grouped.setdefault(steps[0], {})[steps[1:]] = value
    return grouped


def _changed(
    codec: Codec, old: object, below: dict[paths.Steps, object], path: paths.Steps
) -> object:
    """One value on the way down: replaced as a whole, or changed inside."""
    if () not in below:
        return _apply(codec, old, below, path)
    if len(below) > 1:
        raise ValueError(f"{paths.render(path)} is edited twice: as a whole, and inside.")
    if below[()] is _REMOVED and old is _REMOVED:
        raise _missing(path)
    return below[()]


def _missing(path: paths.Steps) -> KeyError:
    return KeyError(f"there is no {paths.render(path)} in the state.")
