"""Walking through what objects hold: which objects there are, and what is reached twice.

Owns which types are looked into. Must not know what is made of what it finds. Invariant: every
container is looked into once, in an order that follows from the values alone.

Lists, dicts, tuples, deques and data classes are looked into. Keys of dicts and members of sets
are taken as values: nothing in them is followed. What we have no word for is a leaf, and so is what
a registered function encodes: that gets the object of its user.
"""

from __future__ import annotations

import datetime as dt
import gc
import pathlib
import sys
import types
import uuid
from collections import Counter, OrderedDict, defaultdict, deque
from collections.abc import Callable, Iterable, Iterator, Mapping
from decimal import Decimal
from enum import Enum, EnumType
from functools import lru_cache, partial
from itertools import compress
from sys import getrefcount
from types import MappingProxyType
from typing import Any, NamedTuple, cast
from zoneinfo import ZoneInfo

from lastgood.codec import is_encoded, is_record, registrations
from lastgood.objects.asking import asking_once, is_asked
from lastgood.objects.fields import (
    Stateful,
    adds_holders,
    attributes,
    captured,
    kept_in,
    overrides,
    signed,
)
from lastgood.objects.giving import given_by
from lastgood.objects.states import CLASS, VALUE, State, is_escaped, is_reserved

ATOMS = frozenset(
    {
        *(type(None), bool, int, float, complex, str, bytes, bytearray, range, frozenset, Decimal),
        *(dt.datetime, dt.date, dt.time, dt.timedelta, dt.timezone, ZoneInfo, uuid.UUID),
        *(pathlib.PosixPath, pathlib.WindowsPath, pathlib.PurePosixPath, pathlib.PureWindowsPath),
        *(type, types.FunctionType, types.BuiltinFunctionType),
    }
)
"""Types whose values are taken as such: whether two places share one is not kept."""

UNTRACKED = frozenset({"msgspec", "numpy"})
"""Libraries with values that can be shared, or hold others, and that the collector overlooks."""

MAPPINGS = frozenset({dict, OrderedDict, defaultdict, Counter})
CONTAINERS = MAPPINGS | {list, tuple, deque}


class Sort(Enum):
    """How a value is walked through."""

    ATOM = "atom"
    CONTAINER = "container"
    RECORD = "record"
    OBJECT = "object"
    LEAF = "leaf"


def _sort(cls: type) -> Sort:
    if cls in ATOMS or issubclass(cls, type) or isinstance(cls, EnumType):
        return Sort.ATOM
    if cls in CONTAINERS:
        return Sort.CONTAINER
    if issubclass(cls, Stateful):
        return Sort.OBJECT
    return Sort.RECORD if is_record(cls) and not is_encoded(cls) else Sort.LEAF


_sorts = lru_cache(maxsize=4096)(_sort)
sort_of: Callable[[type], Sort] = cast(Any, _sorts)
"""The sort of a class's values."""
_REGISTERED = [registrations()]
"""How many registrations there were when the sorts were found out."""


def _recall_sorts() -> None:
    """Forget the sorts that classes had before a registration."""
    if [registrations()] != _REGISTERED:
        _REGISTERED[:] = [registrations()]
        _sorts.cache_clear()


def parts_of(value: Any) -> Iterable[object]:
    """What a container or a record holds, whatever its class says."""
    if type(value) in MAPPINGS:
        return value.values()  # type: ignore[no-any-return]
    if isinstance(value, tuple):
        return tuple.__iter__(value)
    return value if type(value) in CONTAINERS else kept_in(value).values()


def is_settled(value: Any, around: tuple[int, ...] = ()) -> bool:
    """Whether nobody can change a value, nor anything in it, so that sharing it means nothing."""
    sort = sort_of(type(value))
    if sort is Sort.ATOM:
        return True
    fixed = isinstance(value, tuple) or (sort is Sort.RECORD and _is_value(type(value)))
    if not fixed or id(value) in around:
        return False
    return all(is_settled(part, (*around, id(value))) for part in parts_of(value))


def _is_value(cls: type) -> bool:
    """Whether objects of a class cannot change and are compared by what is in them."""
    how = getattr(cls, "__dataclass_params__", None)
    return how is not None and bool(how.frozen and how.eq)


class Level(NamedTuple):
    """What is reached in so many steps: for the first time, and once more."""

    fresh: list[Any]
    again: list[Any]
    kinds: frozenset[type]
    """The types among them."""


Below = Callable[[Level], list[object]]
"""What is held by the values of a level."""

Sifted = tuple[list[object], frozenset[type]]
"""What of some values is no atom, and the types of that."""

Sift = Callable[[list[object]], Sifted]
"""How values are told from atoms."""


def without_atoms(values: Iterable[object]) -> Sifted:
    """The values that are no atoms."""
    found = [value for value in values if type(value) not in ATOMS]
    kinds = frozenset(map(type, found))
    more = {cls for cls in kinds if sort_of(cls) is Sort.ATOM}
    if more:
        return [value for value in found if type(value) not in more], kinds - more
    return found, kinds


def levels(roots: Iterable[object], below: Below, sift: Sift = without_atoms) -> Iterator[Level]:
    """What is reached from some values, step by step, atoms left out."""
    found, kinds = without_atoms(roots)
    reached = _Reached(found)
    while found:
        level = reached.parted(found, kinds)
        yield level
        if any(issubclass(cls, Stateful) and adds_holders(cls) for cls in kinds):
            reached.note_anew()
        found, kinds = sift(below(level))  # in no variable of its own: that would count


class _Reached:
    """What was reached so far, which is kept: an id means an object as long as that is there.

    What a walk reaches for the second time has two holders and stands in two of our lists, if not
    twice in one: the interpreter counts two more for it than for what is held once. Nearly all of
    a state is counted less, and need not be noted: a set of the ids of everything would take longer
    than the encoding.
    """

    def __init__(self, roots: list[object]) -> None:
        self._roots = [*roots]  # their one holder may be out of our sight
        self._lists: list[list[object]] = []
        self._seen: set[int] = set()
        self._noted = 0
        """Of so many lists, what has several holders is among the seen."""
        self._whole, self._doubted = 0, 0
        """Of so many lists all is among the seen, and of so many it has to be."""

    def parted(self, found: list[object], kinds: frozenset[type]) -> Level:
        """What comes next, by whether it was reached before."""
        self._lists.append(found)
        if max(set(map(getrefcount, found))) <= HELD_ONCE + 1:
            return Level(found, [], kinds)
        self._note()
        ids = set(map(id, found))
        if len(ids) == len(found) and ids.isdisjoint(self._seen):
            self._seen |= ids
            return Level(found, [], kinds)
        return self._told_apart(found, kinds)

    def note_anew(self) -> None:
        """Do not count on what was noted: a state that is made now may hold what was held once."""
        self._doubted = len(self._lists)

    def _note(self) -> None:
        """Note what may be reached again, all but the last list.

        Each list is gone through twice at most, however many levels give holders to what was there
        before: else a chain of objects would take the square of its length.
        """
        for known in self._lists[self._whole : self._doubted]:
            self._seen.update(map(id, known))
        self._whole = self._doubted
        for known in self._lists[max(self._noted, self._whole) : -1]:
            held_again = map(HELD_ONCE.__lt__, map(getrefcount, known))
            self._seen.update(compress(map(id, known), held_again))
        self._noted = len(self._lists)

    def _told_apart(self, found: list[object], kinds: frozenset[type]) -> Level:
        level = Level([], [], kinds)
        for value in found:
            (level.again if id(value) in self._seen else level.fresh).append(value)
            self._seen.add(id(value))
        return level


def _held_once() -> int:
    """What the interpreter counts for a value with one holder, where `_Reached` asks for it."""
    holder: list[object] = [[]]
    found, _ = without_atoms(gc.get_referents(holder))
    return max(map(getrefcount, found))


HELD_ONCE = _held_once()


def inside(level: Level) -> list[object]:
    """What containers and records hold; objects are not looked into.

    The interpreter's own enumeration takes half the time of a loop over values and elements.
    """
    if level.kinds <= CONTAINERS:
        return gc.get_referents(*_holding(level.fresh))
    held = gc.get_referents(*_holding([v for v in level.fresh if type(v) in CONTAINERS]))
    for value in level.fresh:
        if sort_of(type(value)) is Sort.RECORD:
            held.extend(parts_of(value))
    return held


def _holding(containers: list[Any]) -> Iterable[Any]:
    """Without those that hold atoms alone, as the collector knows of dicts and tuples.

    Of a state of messages these are half of all containers. Python 3.14 does not tell them apart
    any more: then all are looked into.
    """
    return containers if UNTRACKED & sys.modules.keys() else filter(gc.is_tracked, containers)


def inside_states(level: Level) -> list[object]:
    """The same, without looking into the dicts that stand for objects."""
    return inside(level._replace(fresh=[v for v in level.fresh if not is_reserved(v)]))


def inside_graph(level: Level) -> list[object]:
    """What the values of a state that was read hold; of an escaped dict, only what is in it."""
    data: list[Any] = [value[VALUE] for value in level.fresh if is_escaped(value)]
    held = inside(level._replace(fresh=[v for v in level.fresh if not is_escaped(v)]))
    return [*held, *(part for value in data for part in value.values())]


class Survey(NamedTuple):
    """What there is in objects besides plain data that is held once."""

    objects: list[Stateful]
    shared: list[Any]
    states: dict[int, State]
    """By the id of each object: its fields as they are, not copied.

    They are asked for once. A property may give another value each time, and what was found out
    about one value must not be said of the next."""
    given: dict[int, State]
    """The same for objects whose class brings its own `state_dict`: what that gave."""

    def state(self, value: Stateful) -> State:
        """The state of an object that was found."""
        return self.states.get(id(value)) or self.given[id(value)]


def survey(
    roots: Iterable[object],
    own: Stateful | None = None,
    sift: Sift = without_atoms,
    given: Mapping[int, State] = MappingProxyType({}),
) -> Survey:
    """Look through values and everything that they hold.

    The `state_dict` that a class brings is called, unless the object is `own`, whose method asks,
    or has `given` its state already.
    """
    _recall_sorts()
    found = Survey([], [], {}, {**given})
    shared: dict[int, object] = {}
    with asking_once():
        for level in levels(roots, partial(_inside_objects, found, own), sift):
            shared.update((id(value), value) for value in level.again if not is_settled(value))
            found.objects.extend(objects_in(level))
    found.shared.extend(shared.values())
    return found


def objects_in(level: Level) -> list[Stateful]:
    """The objects that a level has for the first time."""
    if not any(issubclass(cls, Stateful) for cls in level.kinds):
        return []
    return [value for value in level.fresh if isinstance(value, Stateful)]


def objects_below(roots: Iterable[object]) -> list[Stateful]:
    """Every object that some lead to, private attributes included; no code of theirs runs."""
    return [value for level in levels(roots, _inside_attributes) for value in objects_in(level)]


def _inside_attributes(level: Level) -> list[object]:
    held = inside(level)
    for value in objects_in(level):
        held.extend(attributes(value).values())
    return held


def leaves_in(root: object) -> list[Any]:
    """What is not looked into, below a value; objects are not looked into either."""
    return [
        value
        for level in levels([root], inside)
        if any(sort_of(cls) is Sort.LEAF for cls in level.kinds)
        for value in level.fresh
        if sort_of(type(value)) is Sort.LEAF
    ]


def reserved_below(roots: Iterable[object], found: Survey) -> list[dict[Any, Any]]:
    """The dicts of users that could be taken for an object, wherever a survey has looked.

    What a `state_dict` of the class itself gave is taken as a state, whatever is in it.
    """
    seen = levels(roots, partial(_inside_states_of, found))
    return [value for level in seen for value in reserved_in(level)]


def reserved_in(level: Level) -> list[dict[Any, Any]]:
    """The dicts that have our key."""
    return [value for value in level.fresh if type(value) is dict and CLASS in value]


def _inside_objects(found: Survey, own: Stateful | None, level: Level) -> list[object]:
    held = inside(level)
    for value in objects_in(level):
        if id(value) in found.given:
            continue
        if value is own or not overrides(value, "state_dict") or is_asked(value):
            state = found.states[id(value)] = signed(value, captured(value))
        else:
            state = found.given[id(value)] = given_by(value)
        held.extend(state.values())
    return held


def _inside_states_of(found: Survey, level: Level) -> list[object]:
    held = inside(level)
    for value in objects_in(level):
        held.extend(found.states.get(id(value), {}).values())
    return held


def reaches(value: object, special: Callable[[Level], object], below: Below = inside) -> bool:
    """Whether something special is found in one of the levels below a value, or is that value."""
    return any(special(level) for level in levels([value], below))
