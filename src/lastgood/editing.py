"""Editing a value by path: the way `fork(edits=..., remove=...)` changes a state.

Works on every type of the codec, frozen ones too, because a value is taken apart and put together
again along the path; the value that was given stays as it is.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import fields, is_dataclass
from typing import Any

from lastgood import paths
from lastgood.codec import SETS, Codec, Dropped, Family, Shape
from lastgood.codec.kinds import Number
from lastgood.errors import an

_REMOVED: Any = object()

Changes = Sequence[tuple[paths.Steps, object]]


def edited(
    codec: Codec, state: object, edits: Mapping[str, object], remove: Iterable[str]
) -> object:
    """The state with values put at paths, and with paths taken away.

    All paths are those of the state as it was, so removing `items[0]` does not shift `items[1]`.
    A key that is not there is added, an index one past the end appends; KeyError for anything else
    that is not there.
    """
    changes = [(paths.parse(path), value) for path, value in edits.items()]
    changes += [(paths.parse(path), _REMOVED) for path in remove]
    if any(not steps for steps, _ in changes):
        raise ValueError("an empty path is the whole state. Save a new state instead.")
    return _apply(codec, state, changes, ())


def _apply(codec: Codec, value: object, changes: Changes, path: paths.Steps) -> object:
    shape = codec.encoder().shape(value, path)
    if isinstance(shape, Dropped):
        raise _nothing_inside(value, path)
    if shape.family is Family.MAP:
        content: Any = _items(codec, shape, value, changes, path)
    elif shape.kind in SETS:
        content = _members(codec, shape, changes, path)
    elif shape.family is Family.ARRAY:
        content = _elements(codec, shape, changes, path)
    else:
        raise _nothing_inside(value, path)
    return codec.join(shape.kind, shape.extra, content)


def _items(
    codec: Codec, shape: Shape, value: object, changes: Changes, path: paths.Steps
) -> list[tuple[object, object]]:
    content = dict(shape.content)
    for step, below in _by_first_step(changes).items():
        if step not in content and not (_whole(below) and _has_room(value, shape, step)):
            raise _missing((*path, step))
        if shape.kind == Number.RECORD and any(value is _REMOVED for value in _whole(below)):
            raise KeyError(f"{paths.render((*path, step))} is a field and cannot be removed.")
        content[step] = _changed(codec, content.get(step, _REMOVED), below, (*path, step))
    return [(key, item) for key, item in content.items() if item is not _REMOVED]


def _has_room(value: object, shape: Shape, step: object) -> bool:
    """Whether a key can be added: to a record only a field whose default its class has."""
    return shape.kind != Number.RECORD or (
        is_dataclass(value) and step in [field.name for field in fields(value)]
    )


def _elements(codec: Codec, shape: Shape, changes: Changes, path: paths.Steps) -> list[object]:
    content = [*shape.content, _REMOVED]
    end = len(content) - 1
    counted = [((_from_front(steps[0], end), *steps[1:]), value) for steps, value in changes]
    for step, below in _by_first_step(counted).items():
        absent = not isinstance(step, int) or not 0 <= step <= end
        if absent or (step == end and not _whole(below)):
            raise _missing((*path, step))
        assert isinstance(step, int)
        content[step] = _changed(codec, content[step], below, (*path, step))
    return [item for item in content if item is not _REMOVED]


def _members(codec: Codec, shape: Shape, changes: Changes, path: paths.Steps) -> list[object]:
    """The members of a set. Each is the name of its own place, so it is there or it is not."""
    content = {member: member for member in shape.content}
    for step, below in _by_first_step(changes).items():
        place = (*path, step)
        if step not in content and not _whole(below):
            raise _missing(place)
        new = _changed(codec, content.get(step, _REMOVED), below, place)
        if new is not _REMOVED and (type(new), new) != (type(step), step):
            raise ValueError(
                f"{paths.render(place)} names a member of a set by its value: it can be removed, "
                f"or put as {step!r}."
            )
        content[step] = new
    return [member for member in content.values() if member is not _REMOVED]


def _from_front(step: object, length: int) -> object:
    """An index from the end as one from the front, so that each place has one name."""
    return step + length if isinstance(step, int) and -length <= step < 0 else step


def _by_first_step(changes: Changes) -> dict[object, Changes]:
    grouped: dict[object, list[tuple[paths.Steps, object]]] = {}
    for steps, value in changes:
        grouped.setdefault(steps[0], []).append((steps[1:], value))
    return dict(grouped)


def _whole(below: Changes) -> list[object]:
    """What takes the place of a value as a whole, if anything does."""
    return [value for steps, value in below if not steps]


def _changed(codec: Codec, old: object, below: Changes, path: paths.Steps) -> object:
    """One value on the way down: replaced as a whole, or changed inside."""
    if not _whole(below):
        return _apply(codec, old, below, path)
    if len(below) > 1:
        raise ValueError(f"{paths.render(path)} is edited twice. Give each place one change.")
    new = below[0][1]
    if new is _REMOVED and old is _REMOVED:
        raise _missing(path)
    return new


def _nothing_inside(value: object, path: paths.Steps) -> KeyError:
    where = paths.render(path) or "the state"
    return KeyError(f"{where} is {an(type(value).__name__)}: there is nothing inside to edit.")


def _missing(path: paths.Steps) -> KeyError:
    return KeyError(f"there is no {paths.render(path)} in the state.")
