"""Which classes may be stored, and under which labels.

Owns the registered names and, per class, the kind by which its objects are stored. Must not
know bytes. Invariant: one name means one class, and a label that is not registered is looked
up afresh each time among the imported modules, so a module imported later is found.

    @register                      the label is module:qualname, and allowed under strict_types
    @register("shop.order")        a name of your own: the class may move or be renamed
    register(Money, "money", encode=Money.cents, decode=Money)
"""

from __future__ import annotations

import enum
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from functools import partial
from typing import Any, TypeVar, overload

from lastgood.codec.addresses import address_kind
from lastgood.codec.arrays import array_kind
from lastgood.codec.atoms import ATOMS
from lastgood.codec.containers import CONTAINERS
from lastgood.codec.kinds import Family, Kind, Number, Refused, Unresolved
from lastgood.codec.labels import find, imported, is_named, label_of
from lastgood.codec.records import Fields, Plan, is_record, plan_for
from lastgood.codec.unset import unset_kind

C = TypeVar("C", bound=type)
Encode = Callable[[Any], object]
Decode = Callable[[Any], object]

# Classes made at run time must not pile up here for ever.
_MAX_PLANS = 4096
_KNOWN: dict[type, Kind] = {**ATOMS, **CONTAINERS}
_STRICT = "is not registered, and strict_types is on, or an allowlist"
_ACCEPT = "Register the class, or add it to the allowlist"
_OTHER_VERSION = "The program that saved it has that member: restore it there, or add the member."
_FIELDS = (
    "If the class is not yours, store what is in it: dataclasses.asdict(value), value.model_dump()."
)


@dataclass(frozen=True, slots=True)
class _Entry:
    cls: type
    name: str
    encode: Encode | None
    decode: Decode | None
    gaps: bool = False


class Registry:
    """The classes of one client; what it does not know is asked of the process-wide registry."""

    def __init__(self, types: Iterable[type] = (), *, parent: Registry | None = None) -> None:
        self._parent = parent if parent is not None else _default_registry()
        self._names: dict[str, _Entry] = {}
        self._classes: dict[type, _Entry] = {}
        self._kinds: dict[bool, dict[type, Kind]] = {}
        self._plans: dict[type, Plan] = {}
        self._generation = -1
        for cls in types:
            self.register(cls)

    def register(
        self,
        cls: C,
        name: str | None = None,
        *,
        encode: Encode | None = None,
        decode: Decode | None = None,
        gaps: bool = False,
    ) -> C:
        """Give a class a stable name; ValueError if another class has it.

        A class may be registered again under another name: objects are written under the
        newest, and read under all of them. One that is defined again takes the place of itself.
        With `gaps` an object does without what cannot be kept of it, under the drop policy: None
        stands in the place of a field, or of a part of the list or dict that `encode` gives.
        """
        if not isinstance(cls, type):
            raise TypeError(f"what is registered is a class, not {cls!r:.60}")
        if (encode is None) != (decode is None):
            raise ValueError("encode and decode belong together: give both or neither")
        for what, function in (("encode", encode), ("decode", decode)):
            if function is not None and not callable(function):
                raise TypeError(f"{what} must be a function, not {type(function).__name__}")
        if encode is None and not _is_data(cls):
            raise ValueError(
                f"{cls.__qualname__} is not a data class: register it with encode= and decode="
            )
        entry = _Entry(cls, name or label_of(cls), encode, decode, gaps)
        taken = self._names.get(entry.name, entry)
        if taken.cls is not cls and not _is_redefined(taken.cls, cls):
            raise ValueError(f"{entry.name!r} is already the name of {taken.cls.__qualname__}")
        self._names[entry.name] = self._classes[cls] = entry
        known = self._names.setdefault(label_of(cls), entry)
        if known.cls is not cls and _is_redefined(known.cls, cls):
            self._names[label_of(cls)] = entry
        _Generation.current += 1
        return cls

    def read_only(self, name: str, cls: type, decode: Decode) -> None:
        """Read what was once stored under a name; it is written without it by now."""
        self._names[name] = _Entry(cls, name, None, decode)

    def kinds(self, *, strict: bool = False) -> dict[type, Kind]:
        """The kinds found so far, by class; valid until the next registration."""
        current = _Generation.current
        if self._generation != current:
            self._kinds = {False: dict(_KNOWN), True: dict(_KNOWN)}
            self._generation = current  # last: another thread may look meanwhile
        elif len(self._kinds[strict]) > _MAX_PLANS:
            self._kinds[strict] = dict(_KNOWN)
        return self._kinds[strict]

    def kind_of(self, cls: type, *, strict: bool = False) -> Kind | None:
        """The kind of a class's objects; None when they cannot be stored."""
        kind = _KNOWN.get(cls) or array_kind(cls)
        if kind is None:
            entry = self._entry(cls)
            kind = None if entry else address_kind(cls) or unset_kind(cls)
            if kind is None:
                kind = self._class_kind(cls, entry)
                if strict and kind is not None and entry is None:
                    raise Refused(f"{label_of(cls)} cannot be stored: it {_STRICT}", f"{_ACCEPT}.")
        if kind is not None:
            self.kinds(strict=strict)[cls] = kind
        return kind

    def _class_kind(self, cls: type, entry: _Entry | None) -> Kind | None:
        label = entry.name if entry else label_of(cls)
        if entry and entry.encode:
            encode = entry.encode
            taken: Callable[[Any], object] = lambda value: [label, encode(value)]  # noqa: E731
            return Kind(Number.CUSTOM, "custom", taken, _made_elsewhere, gaps=entry.gaps)
        if isinstance(cls, enum.EnumType):
            take: Callable[[Any], object] = lambda value: [label, _member_key(value)]  # noqa: E731
            kind = Kind(Number.ENUM, "enum", take, _made_elsewhere)
        else:
            plan = plan_for(cls, label)
            if plan is None:
                return None
            gaps = entry is not None and entry.gaps
            kind = _record(plan.take, _made_elsewhere, whole=plan.whole, gaps=gaps, plan=plan)
        if entry is None and not (_is_data(find(label)) and is_named(cls)):
            raise Refused(
                f"{label} cannot be found again by its name; "
                "move the class to the top of its module or use lastgood.register",
                _FIELDS,
            )
        return kind

    def maker_of(self, label: str, *, strict: bool) -> Callable[[list[Any], Fields], object]:
        """What rebuilds an object from its head and fields, without running code of its class."""
        cls = self._class_named(label, strict=strict)
        return (self._plans.get(cls) or self._plan(cls, label)).make

    def _plan(self, cls: type, label: str) -> Plan:
        plan = plan_for(cls, label)
        if plan is None:
            raise Unresolved(label, f"{cls.__qualname__} is not a data class")
        if len(self._plans) > _MAX_PLANS:
            self._plans.clear()
        self._plans[cls] = plan
        return plan

    def make_member(self, label: str, key: object, *, strict: bool) -> object:
        """The member of an enum, by name, or by value for combined flags."""
        if type(label) is not str:
            raise ValueError("a label is text")
        cls: Any = self._class_named(label, strict=strict)
        if not isinstance(cls, enum.EnumType):
            raise Unresolved(label, f"{cls.__qualname__} is not an enum")
        if type(key) is str:
            member = type.__getattribute__(cls, "_member_map_").get(key)
        else:
            member = _unlisted(cls, *key) if type(key) is list else _combined(cls, key)
        if member is None:
            raise Unresolved(label, f"{cls.__qualname__} has no member {key!r}", _OTHER_VERSION)
        return member

    def make_custom(self, label: str, value: object) -> object:
        """Hand a stored value to the decode function that the application registered."""
        entry = self._entry_named(label)
        if entry is None or entry.decode is None:
            raise Unresolved(label, "no decode function is registered for it")
        return entry.decode(value)

    def _class_named(self, label: str, *, strict: bool) -> type:
        entry = self._entry_named(label)
        if entry is not None and (strict or entry.name == label):
            return entry.cls
        if strict:
            raise Unresolved(label, f"it {_STRICT}", f"{_ACCEPT}.")
        cls = find(label)
        if entry is not None:  # by the name that it had before it got one of its own
            other = None if is_named(entry.cls) else cls
            return other if other is not None and _is_data(other) else entry.cls
        if cls is None:
            raise Unresolved(label, _absence(label))
        return cls

    def _entry(self, cls: type) -> _Entry | None:
        return self._classes.get(cls) or (self._parent._entry(cls) if self._parent else None)

    def _entry_named(self, name: str) -> _Entry | None:
        own = self._names.get(name)
        return own or (self._parent._entry_named(name) if self._parent else None)


def is_encoded(cls: type) -> bool:
    """Whether objects of a class are stored by a function that somebody registered for it."""
    entry = DEFAULT._entry(cls)
    return entry is not None and entry.encode is not None


def registrations() -> int:
    """How many there were in this process: what was found out about classes holds as long."""
    return _Generation.current


class _Generation:
    """Counts registrations in the process, so that no registry serves a stale kind."""

    current = 0


_record = partial(Kind, Number.RECORD, "record", family=Family.MAP, headed=True)


def _made_elsewhere(body: object) -> object:
    raise TypeError(f"objects are made by their registry, not from {body!r}")


def _is_redefined(old: type, new: type) -> bool:
    """Whether its module was loaded again, or its cell run again; of functions, classes differ."""
    return label_of(old) == label_of(new) and "<locals>" not in new.__qualname__


def _is_data(cls: type | None) -> bool:
    return cls is not None and (isinstance(cls, enum.EnumType) or is_record(cls))


def _member_key(member: Any) -> object:
    """A name; of what its class does not list the value, and unless it combines flags, both."""
    cls, name, value = type(member), member._name_, member._value_
    if cls._member_map_.get(name) is member:
        return name
    if isinstance(member, enum.Flag):
        return value
    if not _may_be_open(cls, name, value):
        raise Refused(f"a {cls.__qualname__} that is none of its members cannot be stored")
    return [name, value]


def _may_be_open(cls: Any, name: object, value: object) -> bool:
    """Whether members that are not listed equal each other by value: they are text or int."""
    sort = type(value)
    return type(name) is str and sort in (str, int) and sort is cls._member_type_


def _unlisted(cls: Any, name: object, value: object) -> object:
    """A member as `_missing_` of an open enum makes it, for a value that the class did not list."""
    if not _may_be_open(cls, name, value):
        return None
    known = cls._value2member_map_.get(value)
    if known is not None:
        return known
    made = cls._member_type_.__new__(cls, value)
    for field, item in (("_name_", name), ("_value_", value)):
        object.__setattr__(made, field, item)
    return made


def _combined(cls: Any, value: object) -> object:
    """Make a combination of flags by the standard library's code, whatever the class overrides."""
    if type(value) is not int or enum.Flag not in cls.__mro__:
        return None
    known = cls._value2member_map_.get(value)
    if known is not None:
        return known
    return enum.Flag.__dict__["_missing_"].__func__(cls, value)


def _absence(label: str) -> str:
    module, _, name = label.partition(":")
    if not name:
        return "no class is registered under this name"
    if not imported(label):
        return f"module {module!r} is not imported here"
    if module == "__main__":
        return "the program that saved it had this class in its main script"
    if "[" in name and find(label.partition("[")[0]) is not None:
        return f"nothing has named {name} here yet, as an annotation or an alias does"
    return f"module {module!r} has no class {name} any more"


def _default_registry() -> Registry | None:
    return globals().get("DEFAULT")


DEFAULT = Registry()


@overload
def register(cls: C, name: str | None = None, /) -> C: ...
@overload
def register(name: str, /) -> Callable[[C], C]: ...
@overload
def register(cls: C, name: str | None = None, /, *, encode: Encode, decode: Decode) -> C: ...
def register(
    cls: Any,
    name: str | None = None,
    /,
    *,
    encode: Encode | None = None,
    decode: Decode | None = None,
) -> Any:
    """Register a class for the whole process.

    `@register` on a class allows it under `strict_types`. `@register("shop.order")` also stores it
    under that name, so that the class may move to another module. For a class that is not data, use
    `register(Money, "money", encode=..., decode=...)`: `encode` turns an object into a value that
    can be stored, `decode` turns that value back. Raises ValueError if the name belongs to another
    class.
    """
    if isinstance(cls, str):
        return lambda decorated: DEFAULT.register(decorated, cls, encode=encode, decode=decode)
    return DEFAULT.register(cls, name, encode=encode, decode=decode)
