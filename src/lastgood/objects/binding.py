"""States to objects: everything is prepared first, then written, and undone if that fails.

Owns which object a state goes into: the one that was given for it, the one in the same place of
the target, or else a blank one of its class, which must derive from `Checkpointable` and be
imported already. Must not know stores. Invariant: a load that fails changes nothing, and one that
succeeds leaves each object with exactly the fields of its state, and those that it could not keep.
"""

from __future__ import annotations

import inspect
from collections import deque
from collections.abc import Callable, Iterator, Sequence
from typing import Any

from lastgood.errors import SchemaMigrationError
from lastgood.objects.classes import class_named, classes_named
from lastgood.objects.fields import (
    Backup,
    Stateful,
    attributes,
    blank,
    check_room,
    overrides,
    present,
    scope,
    skipped_by,
    write,
)
from lastgood.objects.going import Done, going, is_made
from lastgood.objects.leaving import left
from lastgood.objects.marking import meant
from lastgood.objects.migrating import migrated
from lastgood.objects.models import count_as_unset
from lastgood.objects.reshaping import refilled
from lastgood.objects.states import (
    CLASS,
    OBJECT,
    UNSET,
    VALUE,
    State,
    fields_in,
    is_escaped,
    is_reserved,
    is_state,
    unsign,
)
from lastgood.objects.walking import (
    MAPPINGS,
    Level,
    Sort,
    inside,
    inside_states,
    levels,
    objects_below,
    reaches,
    reserved_in,
    sort_of,
)

Strict = bool | None
"""True: the fields must be the same; None: they become the same; False: those that the state lacks
stay, and the class may have another name."""


def load(
    states: Sequence[State],
    roots: Sequence[Stateful],
    *,
    strict: Strict = None,
    own: Stateful | None = None,
) -> Done:
    """Fill objects with states, which are used up; gives what has become of each part of them.

    One whose class brings its own `load_state_dict` is filled by that, unless it is `own`, whose
    method this is.
    """
    binder = _Binder(roots, strict, own)
    for state, root in zip(states, roots, strict=True):
        binder.bind(state, root)
    binder.prepare()
    binder.write()
    return Done(binder.objects.values(), binder.became)


class _Binder:
    """Some states on their way into objects."""

    def __init__(self, roots: Sequence[Stateful], strict: Strict, own: Stateful | None) -> None:
        self.strict = strict
        self.own = own
        self.pairs: list[tuple[State, Stateful]] = []
        self.objects: dict[int, Stateful] = {}
        self.taken = set(map(id, [*roots, *meant()]))
        self.seen: dict[int, tuple[Any, Any]] = {}
        self.remade: set[int] = set()
        self.new: set[int] = set()
        self.later: Callable[[object], object] = lambda part: part

    def bind(self, state: State, value: Stateful) -> None:
        """Decide that a state goes into an object."""
        self.objects[id(state)] = value
        self.taken.add(id(value))
        self.pairs.append((state, value))

    def prepare(self) -> None:
        """Turn what stands for objects into objects; nothing is written to any of them yet."""
        for state, value in self.pairs:  # grows while it is walked through
            if self._loads_itself(value):
                self._check_strict(value)
                continue
            self._check_class(state, value)
            migrated(state, value)
            # What leads back to a state is found by this word; a class's own may be without.
            state.setdefault(CLASS, type(value).__name__)
            current = attributes(value)
            for name, part in fields_in(state).items():
                state[name] = self.value(part, current.get(name))
            self._check_fields(state, value)

    def became(self, part: Any) -> object:
        """What stands for a part of the states that were loaded."""
        if is_escaped(part):
            return self.became(part[VALUE])
        if id(part) in self.objects:
            return self.objects[id(part)]
        return self.seen[id(part)][1] if id(part) in self.seen else self.later(part)

    def _loads_itself(self, value: Stateful) -> bool:
        return value is not self.own and overrides(value, "load_state_dict")

    def _check_strict(self, value: Stateful) -> None:
        """Raise if the class's own method does not know what it is to be called with."""
        if self.strict is None:
            return
        try:
            inspect.signature(value.load_state_dict).bind({}, strict=self.strict)
        except TypeError as error:
            raise TypeError(
                f"{type(value).__name__}.load_state_dict() does not take strict={self.strict}: "
                f"{error}. Write `def load_state_dict(self, state, *, strict=None)`, or leave "
                "strict out."
            ) from None

    def value(self, value: Any, current: Any) -> Any:
        """What comes into a place, given what stands there now."""
        if id(value) in self.objects:
            return self.objects[id(value)]
        if id(value) in self.seen:  # a tuple whose list was filled shows no more what it was
            return self.seen[id(value)][1]
        return value if is_made(value) else self._made(value, current)

    def _made(self, value: Any, current: Any) -> Any:
        if is_state(value):
            return self._object(value, current)
        if is_escaped(value):
            return self._parts(value[VALUE], current)
        if is_reserved(value) or reaches(value, self._changes, inside_states):
            return self._parts(value, current)
        return value

    def _changes(self, level: Level) -> bool:
        """Whether something there stands for an object, or is a tuple that is made anew."""
        anew = self.remade
        return bool(reserved_in(level)) or (
            bool(anew) and not anew.isdisjoint(map(id, level.fresh))
        )

    def _parts(self, value: Any, current: Any) -> Any:
        if is_made(value):
            return value
        # Both are kept: an id means a value only as long as that is there.
        if id(value) not in self.seen:
            if isinstance(value, tuple):  # before its parts: they may hold it, and must change then
                self.remade.add(id(value))
            else:
                self.seen[id(value)] = value, value
            made = refilled(value, lambda part, step: self.value(part, _part(current, step)))
            self.seen.setdefault(id(value), (value, made))
        return self.seen[id(value)][1]

    def _object(self, state: State, current: object) -> Stateful:
        value = self._marked(state)
        if value is None:
            value = self._in_place(state, current)
        if value is None:
            value = blank(class_named(state[CLASS], near=self.pairs[0][1]))
            self.new.add(id(value))
        self.bind(state, value)
        return value

    def _marked(self, state: State) -> Stateful | None:
        mark = state.get(OBJECT)
        return meant()[mark] if isinstance(mark, int) and meant() else None

    def _in_place(self, state: State, current: object) -> Stateful | None:
        if not isinstance(current, Stateful) or id(current) in self.taken or is_made(current):
            return None
        return current if self._fits(state, current) else None

    def _fits(self, state: State, current: Stateful) -> bool:
        """Whether it is of the class, or may have been when that had another name."""
        if type(current).__name__ == state[CLASS]:
            return True
        return self.strict is False and not classes_named(state[CLASS], current)

    def _check_class(self, state: State, value: Stateful) -> None:
        name = state.get(CLASS)
        names = {cls.__name__ for cls in type(value).__mro__}
        if name is None or name in names or self.strict is False:
            return
        raise SchemaMigrationError(
            f"this is the state of class {name}, and it was to be loaded into class "
            f"{type(value).__name__}.",
            hint="Load it into a class of that name or one derived from it, or strict=False.",
        )

    def _check_fields(self, state: State, value: Stateful) -> None:
        fields = fields_in(state)
        check_room(value, fields)
        if self.strict is True and id(value) not in self.new:
            missing, unknown = present(value) - fields.keys(), fields.keys() - present(value)
            missing -= left()
            if missing or unknown:
                raise _unlike(type(value).__name__, missing, unknown)

    def write(self) -> None:
        """Write everything; if that fails, put everything back.

        What classes load themselves goes first: they may write to objects that have a state here.
        """
        own = [pair for pair in self.pairs if self._loads_itself(pair[1])]
        plain = [pair for pair in self.pairs if not self._loads_itself(pair[1])]
        loading = [*objects_below(value for _, value in own), *meant()] if own else []
        backups = [Backup.of(value) for value in [*(value for _, value in plain), *loading]]
        try:
            parts = [*self.pairs, *_parts_of(plain)] if own else ()
            with going(parts, several=len(own) > 1) as self.later:
                for state, value in own:
                    self._load_one(state, value)
            for state, value in plain:
                self._write_one(state, value)
        except BaseException:
            for backup in backups:
                backup.put_back()
            raise

    def _load_one(self, state: State, value: Stateful) -> None:
        unsign(state)
        how = {} if self.strict is None else {"strict": self.strict}
        own: Callable[..., object] = value.load_state_dict
        found = own(state, **how)
        if inspect.iscoroutine(found):
            found.close()
            raise TypeError(
                f"{type(value).__name__}.load_state_dict() is a coroutine, and nothing was loaded: "
                "no load awaits it. Make it a def."
            )

    def _write_one(self, state: State, value: Stateful) -> None:
        fields = self._staying(value) | fields_in(state)
        skipped = skipped_by(value)
        write(value, {name: item for name, item in fields.items() if name not in skipped})
        names = state.get(UNSET)
        if isinstance(names, list):  # what was not written stays as it is
            given = fields_in(state).keys() - skipped
            count_as_unset(value, [name for name in names if type(name) is str and name in given])

    def _staying(self, value: Stateful) -> State:
        """The fields that an object keeps if the state has none of that name."""
        if self.strict is not False and not left():
            return {}
        held = attributes(value)
        names = [name for name in scope(value) if self.strict is False or name in left()]
        return {name: held[name] for name in names if name in held}


def _parts_of(pairs: list[tuple[State, Stateful]]) -> Iterator[tuple[object, object]]:
    """What the fields of states hold, each part for itself."""
    fields = [part for state, _ in pairs for part in fields_in(state).values()]
    for level in levels(fields, inside):
        yield from zip(level.fresh, level.fresh, strict=True)


def _unlike(name: str, missing: set[str], unknown: set[str]) -> SchemaMigrationError:
    sides = (("the state", missing), ("the object", unknown))
    lacks = [f"{side} has no {', '.join(sorted(names))}" for side, names in sides if names]
    return SchemaMigrationError(
        f"{name}: {', and '.join(lacks)} (strict=True).",
        hint="Register a migration, or leave strict out.",
    )


def _part(current: Any, step: object) -> Any:
    """What stands at the same step of the target, if it has the like."""
    if type(current) in MAPPINGS:
        return current.get(step)
    if isinstance(current, list | tuple | deque) and isinstance(step, int):
        return current[step] if step < len(current) else None
    if sort_of(type(current)) is Sort.RECORD and isinstance(step, str):
        return attributes(current).get(step)
    return None
