"""Objects to states: as a copy for the caller, or as one tree for the store.

A graph of objects may share parts and lead back to itself. The caller's copy does the same, in
plain dicts. What is stored is a tree: everything that is reached twice stands once under
`__shared__`, and a `Shared` with its number in each of its places; number 0 is the state itself. A
state without `__shared__` is plain: nothing in it is an object, whatever it looks like.
Must not know stores. Invariant: what is not special is never copied for the store, so that a save
of a large plain state costs one look through it.
"""

from __future__ import annotations

import copy
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from lastgood.codec import register
from lastgood.objects.asking import asker, asking_once
from lastgood.objects.copying import Copier, of_leaves
from lastgood.objects.fields import Stateful, overrides
from lastgood.objects.forms import Forms
from lastgood.objects.giving import own_state
from lastgood.objects.handed import Copies
from lastgood.objects.marking import mark
from lastgood.objects.numbering import Numbering
from lastgood.objects.reshaping import reshaped
from lastgood.objects.states import AGENTS, SHARED, UNSET, State, escaped
from lastgood.objects.walking import (
    MAPPINGS,
    Level,
    Sort,
    Survey,
    reaches,
    reserved_below,
    sort_of,
    survey,
    without_atoms,
)

SHARED_LABEL = "lastgood.shared"


@register(SHARED_LABEL)
@dataclass(frozen=True, slots=True)
class Shared:
    """Stands in every place of a value that several places share."""

    number: int


def snapshot(value: Stateful, own: Stateful | None = None) -> State:
    """The state of an object as plain dicts of its own: nothing in it is shared with the object.

    A `state_dict` that its class brings is used, unless it is `own`, whose method asks.
    """
    found = survey([value], own)
    reserved = reserved_below([value], found)
    leaves = of_leaves({id(each): each for each in found.objects})
    for each in found.objects:
        leaves.fields(each, found.state(each))
    shells: dict[int, Any] = {id(each): {} for each in found.objects}
    inner = {id(each): dict.fromkeys(each) for each in reserved}
    copier = Copier(leaves.memo | shells | {key: escaped(data) for key, data in inner.items()})
    for each in found.objects:
        shells[id(each)].update(copier.fields(each, found.state(each)))
        shells[id(each)].pop(UNSET, None)  # for stores: users may give a field another value
        mark(shells[id(each)], each)
    for data in reserved:
        inner[id(data)].update(
            {key: copy.deepcopy(part, copier.memo) for key, part in data.items()}
        )
    asked = None if own is None or reserved else asker(own)
    if asked and not (asked.whole and _is_plain(found)):
        asked.handed = Copies(value, copier.memo, found.objects)
    return shells[id(value)]  # type: ignore[no-any-return]


def _is_plain(found: Survey) -> bool:
    """Whether an object holds data alone, and not itself."""
    return not any(isinstance(value, Stateful) for value in (*found.objects[1:], *found.shared))


def woven(root: Stateful, forms: Forms | None = None, numbering: Numbering | None = None) -> State:
    """The state of an object as one tree to be stored.

    Plain parts are taken as they stand: encode it before anybody changes the objects. What a
    `state_dict` of the class itself gives is taken as a state, whatever is in it. `forms` and
    `numbering` are those of the state that was stored before.
    """
    sift = forms.sift() if forms else without_atoms
    if overrides(root, "state_dict"):
        with asking_once():
            given = own_state(root, whole=True)
            # What is looked into is taken as it is: it may lead back to itself.
            state = given if type(given) in MAPPINGS else dict(given)
            found = survey([state], sift=sift, given={id(root): state})
        tree = _Weaver(found, [], numbering).tree(root, state)
    else:
        found = survey([root], sift=sift)
        tree = found.states[id(root)]
        if found.shared or len(found.objects) > 1:
            tree = _Weaver(found, reserved_below([root], found), numbering).tree(root, tree)
    mark(tree, root)
    return tree


def woven_together(roots: Sequence[Stateful]) -> State:
    """The states of several objects as one tree, with what they share among them."""
    found = survey(roots)
    weaver = _Weaver(found, reserved_below(roots, found))
    return weaver.tree(None, {AGENTS: list(roots)})


class _Weaver:
    """One graph on its way to becoming a tree."""

    def __init__(
        self,
        found: Survey,
        reserved: list[dict[Any, Any]],
        numbering: Numbering | None = None,
    ) -> None:
        self.found = found
        self.numbering = numbering or Numbering()
        self.numbers = self.numbering.begin()
        self.shared = frozenset(map(id, found.shared))
        self.roots: frozenset[int] = frozenset()
        self.special = self.shared.union(map(id, [*found.objects, *reserved]))
        self.reserved = frozenset(map(id, reserved))

    def tree(self, root: Stateful | None, state: State) -> State:
        """A state whose parts are trees, with a table of what they share."""
        self.roots = frozenset(id(each) for each in (root, state) if each is not None)
        made = {name: self.value(part) for name, part in state.items()}
        made[SHARED] = self.table()
        self.numbering.note(self.numbers)
        return made

    def table(self) -> State:
        """What is shared, by number."""
        # What is shared is met in the state and, while they are made, in other shared values.
        made = {self.numbers.of(value): self.whole(value) for value in self.numbers.met}
        return {str(number): made[number] for number in sorted(made)}

    def value(self, value: Any, _step: object = None) -> Any:
        """What is stored in a place of a value."""
        if id(value) in self.roots:
            return Shared(0)
        return Shared(self.numbers.of(value)) if id(value) in self.shared else self.whole(value)

    def whole(self, value: Any) -> Any:
        """The same for its first or only place."""
        if isinstance(value, Stateful):
            return self.state(value)
        if not reaches(value, self._is_special):
            return value
        if sort_of(type(value)) is Sort.LEAF:
            return value
        made = reshaped(value, self.value)
        return escaped(made) if id(value) in self.reserved else made

    def _is_special(self, level: Level) -> bool:
        return not self.special.isdisjoint(map(id, level.fresh))

    def state(self, value: Stateful) -> State:
        """The state of an object."""
        made = {name: self.value(part) for name, part in self.found.state(value).items()}
        mark(made, value)
        return made
