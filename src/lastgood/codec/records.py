"""Data classes as records: taken apart into fields, rebuilt by filling fields.

Owns what counts as a data class and how each sort of it is opened and closed: dataclass,
attrs, pydantic, msgspec.Struct, NamedTuple. Those libraries are recognised through
`sys.modules`, never imported. Must not know the registry, nor of bytes more than that a head
which many objects share is packed once. Invariant: no constructor, validator, `__post_init__`,
`__setstate__`, property or `__setattr__` of the class ever runs.

When the class has changed since the save: a stored field that it no longer has is set all the
same where the object has a `__dict__`, and is an error naming the field where it has none. A
field that is missing in the stored data gets its default, or a fresh one if the default
factory is a built-in container; otherwise it stays unset, as nobody knows its value.
"""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterable, Iterator, Mapping
from functools import lru_cache
from operator import itemgetter
from types import MemberDescriptorType
from typing import Any, Protocol, cast

from lastgood.codec.defaults import completed, of_attributes, of_model, of_struct
from lastgood.codec.heads import Head, shared_head
from lastgood.codec.kinds import Refused
from lastgood.codec.labels import ancestry, attribute, namespace
from lastgood.codec.members import CACHED_HASH, cached_names, caches_hash, left_out, slots_of

Fields = dict[str, object]

_set = object.__setattr__
_new = object.__new__
_set_class = cast(Any, object.__dict__["__class__"]).__set__

Taken = tuple[object, object]
Known = tuple[object, type | None, object]
"""The names of the fields set, the type of the extra, and the head of models that have them."""

Shared = dict[int, Known]
"""Number of fields set, or `FULL` -> what was last seen with so many."""

FULL = -1
UNKNOWN: Known = (None, None, None)
_NO_EXTRA = (type(None), dict)
_MODEL_SLOTS = frozenset(
    {"__pydantic_fields_set__", "__pydantic_extra__", "__pydantic_private__", "__dict__"}
)
# A class has few combinations of fields that are set, unless they come from elsewhere.
_MAX_HEADS = 64


class Plan(Protocol):
    """How the objects of one class are opened and closed.

    `take` gives `(head, fields)`, where the head is the label followed by sections that are
    no fields: a list, or a `Head` that many share. `whole` says that an object without one of
    its fields cannot exist. `shared` is there for `taking.take_each`.
    """

    whole: bool
    shared: Shared | None

    def take(self, value: Any) -> Taken: ...

    def make(self, head: list[Any], fields: Fields) -> object: ...


class StatePlan:
    """A dataclass or attrs class: everything in the object's `__dict__` and its slots.

    That is more than the declared fields: an attribute set in `__post_init__` must come back,
    because `__post_init__` does not run again. Left out are values of `cached_property`, and the
    note that typing leaves on the object of `Box[int](1)`; a hash that attrs keeps is forgotten.
    """

    whole = False
    shared: Shared | None = None

    def __init__(self, cls: type, label: str) -> None:
        _new(cls)  # TypeError here, and not in the middle of a restore
        self._cls = cls
        self._head = shared_head([label])
        self._slots = dict(slots_of(cls))
        self._has_dict = cls.__dictoffset__ != 0
        self._left_out = left_out(cls)
        self._defaults = of_attributes(cls)
        self._probe = _probe(self._defaults)
        self._forgets = caches_hash(cls)
        own = self._slots or self._left_out or self._forgets
        self._bare = self._has_dict and not own

    def take(self, value: Any) -> Taken:
        if self._bare:
            return self._head, value.__dict__
        state = {name: item for name, item in self._state(value) if name not in self._left_out}
        if self._forgets and CACHED_HASH in state:
            state[CACHED_HASH] = None
        return self._head, state

    def _state(self, value: Any) -> Iterator[tuple[str, object]]:
        for name, slot in self._slots.items():
            try:
                yield name, slot.__get__(value)
            except AttributeError:
                continue
        if self._has_dict:
            yield from value.__dict__.items()

    def make(self, head: list[Any], fields: Fields) -> object:
        made: object = _new(self._cls)
        fields = _of_a_model(head, fields)
        try:
            self._probe(fields)
        except KeyError:
            fields = completed(fields, self._defaults)
        if self._slots:
            fields = self._fill_slots(made, fields)
        if self._has_dict:
            _set(made, "__dict__", fields)
        elif fields:
            raise _unknown_fields(self._cls, fields)
        return made

    def _fill_slots(self, made: object, fields: Fields) -> Fields:
        rest = {}
        for name, item in fields.items():
            slot = self._slots.get(name)
            if slot is None:
                rest[name] = item
            else:
                slot.__set__(made, item)
        return rest


class PydanticPlan:
    """A pydantic model: fields, and as sections of the head the fields set, extra and private.

    A head of the label alone means the common case: all fields set, nothing extra or private. A
    class that got room for those since has it, and private attributes have their defaults.
    """

    whole = False

    def __init__(self, cls: type, label: str) -> None:
        _new(cls)
        slots = dict(slots_of(cls))
        self._cls = cls
        self._label = label
        self._heads: dict[tuple[int, frozenset[str], type], Head | list[object]] = {}
        self._last: Shared = {}
        self._cached = cached_names(cls)
        self._slots = [slot for name, slot in slots.items() if name not in _MODEL_SLOTS]
        own = self._cached or self._slots or attribute(cls, "__private_attributes__")
        self.shared = None if own else self._last
        self._declared = attribute(cls, "__pydantic_fields__") or {}
        self._defaults = of_model(self._declared)
        self._probe = _probe(self._defaults)
        private = attribute(cls, "__private_attributes__") or {}
        self._privates = of_model(private) if private else None
        self._allows = (attribute(cls, "model_config") or {}).get("extra") == "allow"
        self._set_fields_set = slots["__pydantic_fields_set__"].__set__
        self._set_extra = slots["__pydantic_extra__"].__set__
        self._set_private = slots["__pydantic_private__"].__set__

    def take(self, value: Any) -> Taken:
        state = value.__dict__
        if self._slots and any(_is_filled(slot, value) for slot in self._slots):
            raise Refused("a model with values in slots of its own cannot be stored")
        if self._cached:
            state = {name: item for name, item in state.items() if name not in self._cached}
        names = value.__pydantic_fields_set__
        extra = value.__pydantic_extra__
        private = value.__pydantic_private__
        count = len(names)
        if count == len(state) and names == state.keys():
            count = FULL
        if private is not None or extra or type(extra) not in _NO_EXTRA:
            return [self._label, None if count == FULL else sorted(names), extra, private], state
        known = self._last.get(count, UNKNOWN)
        if known[0] != names or type(extra) is not known[1]:
            known = self._remember(count, names, extra)
        return known[2], state

    def _remember(self, count: int, names: set[str], extra: object) -> Known:
        key = (count, frozenset(names), type(extra))
        head = self._heads.get(key)
        if head is None:
            head = self._made_head(count, names, extra)
            if len(self._heads) >= _MAX_HEADS:
                self._heads.clear()
            self._heads[key] = head
        known = (*key[1:], head)
        if type(head) is Head:
            self._last[count] = known
        return known

    def _made_head(self, count: int, names: set[str], extra: object) -> Head | list[object]:
        if count == FULL and extra is None:
            return shared_head([self._label])
        listed = None if count == FULL else sorted(names)
        return shared_head([self._label, listed, None if extra is None else {}, None])

    def make(self, head: list[Any], fields: Fields) -> object:
        _, names, extra, private = head if len(head) == 4 else (None, None, None, None)
        made: object = _new(self._cls)
        try:
            self._probe(fields)
        except KeyError:
            stored, fields = fields, completed(fields, self._defaults, self._declared)
            names = list(stored) if names is None else names
        _set(made, "__dict__", fields)
        self._set_fields_set(made, set(fields if names is None else names))
        if extra is None and self._allows:
            extra = {}
        if self._privates is not None:
            private = completed(private or {}, self._privates)
        self._set_extra(made, extra)
        self._set_private(made, private)
        return made


class StructPlan:
    """A msgspec.Struct, whose objects only its own constructor can make.

    The constructor runs `__post_init__`, so a class that has one is made through a subclass
    that silences it, and the object is then given its real class. One with `dict=True` may have
    attributes beside its fields, which are kept with them.
    """

    whole = False
    shared: Shared | None = None

    def __init__(self, cls: type, label: str) -> None:
        self._cls = cls
        self._head = shared_head([label])
        self._names: tuple[str, ...] = type.__getattribute__(cls, "__struct_fields__")
        self._slots = dict(slots_of(cls))
        self._has_dict = cls.__dictoffset__ != 0
        self._left_out = left_out(cls)
        self._defaults = of_struct(cls, self._names)
        self._blank = _silenced(cls) if attribute(cls, "__post_init__") else cls

    def take(self, value: Any) -> Taken:
        state = {name: self._slots[name].__get__(value) for name in self._names}
        if self._has_dict:
            held = value.__dict__.items()
            state |= {name: item for name, item in held if name not in self._left_out}
        return self._head, state

    def make(self, head: list[Any], fields: Fields) -> object:
        fields = _of_a_model(head, fields)
        beside = {name: item for name, item in fields.items() if name not in self._slots}
        if beside and not self._has_dict:
            raise _unknown_fields(self._cls, beside)
        stored = {name: item for name, item in fields.items() if name not in beside}
        values = completed(stored, self._defaults)
        absent = [name for name in self._names if name not in values]
        made = self._blank(**values, **dict.fromkeys(absent))
        if self._blank is not self._cls:
            _set_class(made, self._cls)
        for name in absent:
            self._slots[name].__delete__(made)
        if beside:
            made.__dict__.update(beside)
        return made


class NamedTuplePlan:
    """A NamedTuple, which cannot exist without one of its fields."""

    whole = True
    shared: Shared | None = None

    def __init__(self, cls: type, label: str) -> None:
        self._cls: Any = cls
        self._head = shared_head([label])
        self._names: tuple[str, ...] = attribute(cls, "_fields")
        self._defaults: Mapping[str, object] = attribute(cls, "_field_defaults") or {}
        self._left_out = left_out(cls)

    def take(self, value: Any) -> Taken:
        if getattr(value, "__dict__", {}).keys() - self._left_out:
            raise Refused("a NamedTuple with attributes beside its fields cannot be stored")
        return self._head, dict(zip(self._names, value, strict=True))

    def make(self, head: list[Any], fields: Fields) -> object:
        fields = _of_a_model(head, fields)
        if fields.keys() - set(self._names):
            raise _unknown_fields(self._cls, fields.keys() - set(self._names))
        values = {**self._defaults, **fields}
        return tuple.__new__(self._cls, [values[name] for name in self._names])


def plan_for(cls: type, label: str) -> Plan | None:
    """The plan of a data class; None when the class is not one.

    A class with `__del__` is none: an object filled with stored data would run it in the end.
    """
    if attribute(cls, "__del__") is not None:
        return None
    for recognises, plan in _SORTS:
        if recognises(cls):
            try:
                return plan(cls, label)
            except TypeError:  # abstract, or built on a class with a layout of its own
                return None
    return None


_plan_of: Callable[[type], Plan | None] = cast(
    Any, lru_cache(maxsize=1024)(lambda cls: plan_for(cls, ""))
)
"""The plan of a class without its label; to make one takes longer than to use it."""


def is_record(cls: type) -> bool:
    """Whether objects of a class are stored as their fields, under its name."""
    return _plan_of(cls) is not None


def blank_record(cls: type) -> object:
    """A record without stored fields; TypeError for a class that is none."""
    plan = _plan_of(cls)
    if plan is None:
        raise TypeError(f"objects of {cls.__qualname__} cannot be made without its constructor")
    return plan.make([""], {})


def fields_of(value: object) -> Fields:
    """What a record is stored with, extra fields of a model among it; TypeError if it is none."""
    plan = _plan_of(type(value))
    if plan is None:
        raise TypeError(f"{type(value).__qualname__} has no fields")
    head, fields = plan.take(value)
    return with_extra(head, cast(Fields, fields))


def with_extra(head: object, fields: Fields) -> Fields:
    """The fields of a record, and those that the head of a model has beside them."""
    extra = head[2] if type(head) is list and len(head) == 4 else None
    return {**fields, **(extra or {})}


def _descends(module: str, name: str) -> Callable[[type], bool]:
    def recognises(cls: type) -> bool:
        base = namespace(sys.modules.get(module)).get(name)
        return base is not None and base in ancestry(cls) and cls is not base

    return recognises


def _defines(name: str) -> Callable[[type], bool]:
    return lambda cls: attribute(cls, name) is not None


def _is_named_tuple(cls: type) -> bool:
    names = attribute(cls, "_fields")
    return tuple in ancestry(cls) and type(names) is tuple and set(map(type, names)) <= {str}


_SORTS: tuple[tuple[Callable[[type], bool], Callable[[type, str], Plan]], ...] = (
    (_descends("pydantic.main", "BaseModel"), PydanticPlan),
    (_descends("msgspec", "Struct"), StructPlan),
    (_is_named_tuple, NamedTuplePlan),
    (_defines("__attrs_attrs__"), StatePlan),
    (_defines("__dataclass_fields__"), StatePlan),
)


def _silenced(cls: type) -> type:
    if any("__init_subclass__" in namespace(base) for base in ancestry(cls)[:-3]):
        raise TypeError("a subclass would run code of the class")
    defstruct = cast(Any, namespace(sys.modules["msgspec"])["defstruct"])
    quiet = {"__post_init__": lambda self: None}  # noqa: ARG005
    return cast(type, defstruct(cls.__name__, [], bases=(cls,), namespace=quiet))


def _is_filled(slot: MemberDescriptorType, value: object) -> bool:
    try:
        slot.__get__(value)
    except AttributeError:
        return False
    return True


def _probe(names: Iterable[str]) -> Callable[[Fields], object]:
    """What raises KeyError for fields that lack one of some names, at native speed."""
    return itemgetter(*names) if names else len


def _of_a_model(head: list[Any], fields: Fields) -> Fields:
    """All that is stored of a class which was a pydantic model once: private attributes, too."""
    return {**with_extra(head, fields), **(head[3] or {})} if len(head) == 4 else fields


def _unknown_fields(cls: type, names: Any) -> ValueError:
    listed = ", ".join(sorted(names))
    return ValueError(f"{cls.__qualname__} has no place for the stored field {listed}")
