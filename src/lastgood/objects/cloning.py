"""Copies of objects as objects.

Owns which object is the copy of which. Must not know stores. Invariant: wherever an object is held,
also inside of what is not looked into, its copy holds the copy.
"""

from __future__ import annotations

from collections.abc import Iterable

from lastgood.errors import SerializationError
from lastgood.objects.binding import load
from lastgood.objects.copying import Copier
from lastgood.objects.fields import Stateful, captured, made_like, overrides, write
from lastgood.objects.marking import marking, meaning
from lastgood.objects.models import count_as_set, names_set
from lastgood.objects.states import OBJECT, State
from lastgood.objects.walking import Level, inside, levels, objects_in
from lastgood.objects.weaving import snapshot


def clone(root: Stateful) -> Stateful:
    """A copy of an object and of every one that it leads to."""
    found = _Found([root])
    cloned = _by_one_state(root) if found.own else None
    return _by_fields(root, found) if cloned is None else cloned


def _by_one_state(root: Stateful) -> Stateful | None:
    """By the state of everything, so that those with methods of their own share with the others.

    None if there is none: something that is not looked into holds an object.
    """
    with marking() as marked:
        try:
            state = snapshot(root)
        except SerializationError:
            return None
    copies = [made_like(each) for each in marked]
    cloned = copies[state[OBJECT]]
    with meaning(copies):
        load([state], [cloned])
    for each, made in zip(marked, copies, strict=True):
        if not overrides(each, "load_state_dict"):
            count_as_set(made, names_set(each))
    return cloned  # type: ignore[no-any-return]


def _by_fields(root: Stateful, found: _Found) -> Stateful:
    """By the fields of each object, and the states of those with methods of their own."""
    with marking() as marked:
        given = {key: snapshot(each) for key, each in found.own.items()}
    originals = found.plain | found.own | {id(each): each for each in marked}
    copies = {key: made_like(each) for key, each in originals.items()}
    with meaning([copies[id(each)] for each in marked]):
        for key, state in given.items():
            load([state], [copies[key]])
    copier = Copier(copies)
    for key, each in found.plain.items():
        write(copies[key], copier.fields(each, found.fields[key]))
        count_as_set(copies[key], names_set(each))
    return copies[id(root)]  # type: ignore[no-any-return]


class _Found:
    """The objects that some lead to, by their ids; those with methods of their own lead nowhere."""

    def __init__(self, roots: Iterable[Stateful]) -> None:
        self.plain: dict[int, Stateful] = {}
        self.own: dict[int, Stateful] = {}
        self.fields: dict[int, State] = {}
        for _ in levels(roots, self._inside):
            pass

    def _inside(self, level: Level) -> list[object]:
        held = inside(level)
        for value in objects_in(level):
            if overrides(value, "state_dict") or overrides(value, "load_state_dict"):
                self.own[id(value)] = value
            else:
                self.plain[id(value)] = value
                self.fields[id(value)] = captured(value)
                held.extend(self.fields[id(value)].values())
        return held
