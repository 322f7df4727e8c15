"""Which attributes of an object are its state, and how they are read and written.

Owns the hooks that a class may override, and the raw access to `__dict__` and slots. Must not know
how states are stored. Invariant: reading and writing run no code of the class but its hooks, and
the properties that `_checkpoint_fields` names.
"""

from __future__ import annotations

import difflib
import inspect
from collections.abc import Callable, Iterable, Mapping
from typing import TYPE_CHECKING, Any, NamedTuple, TypeVar

from lastgood.codec import blank_record, is_record
from lastgood.errors import SchemaMigrationError
from lastgood.objects.layouts import EXTRA, layout_of
from lastgood.objects.models import FIELDS_SET, PRIVATE, begin, is_undefined, unset, written
from lastgood.objects.states import CLASS, UNSET, VERSION, State, is_word

F = TypeVar("F", bound=Callable[..., object])
_OUR_METHODS: set[Callable[..., object]] = set()


class Stateful:
    """What a class may say about its state; the base of `Checkpointable`."""

    __slots__ = ()

    def _checkpoint_version(self) -> str:
        """The version of the state's schema."""
        return "1.0"

    def _checkpoint_fields(self) -> Iterable[str]:
        """The names of the attributes to keep: every one that does not begin with `_`."""
        return public_names(self)

    def _checkpoint_skip(self) -> Iterable[str]:
        """The names of attributes to leave out all the same, such as locks and clients."""
        return ()

    if TYPE_CHECKING:

        def state_dict(self) -> State: ...
        def load_state_dict(
            self, state: Mapping[str, Any], *, strict: bool | None = None
        ) -> None: ...


def ours(method: F) -> F:
    """Mark a method as our own, so that one that replaces it is noticed."""
    _OUR_METHODS.add(method)
    return method


def overrides(value: Stateful, method: str) -> bool:
    """Whether a class brings its own version of one of our methods."""
    return getattr(type(value), method) not in _OUR_METHODS


def adds_holders(cls: type[Stateful]) -> bool:
    """Whether a state of a class may hold what its object does not, such as what a property finds.

    Then making the state gives a holder to a value that had none there before.
    """
    own = cls._checkpoint_fields is not Stateful._checkpoint_fields
    return own or cls.state_dict not in _OUR_METHODS


def held_by(value: object) -> State:
    """What stands in the slots and the `__dict__` of any object."""
    layout = layout_of(type(value))
    found = {}
    for name, slot in layout.slots.items():
        try:
            found[name] = slot.__get__(value)
        except AttributeError:
            continue
    if layout.has_dict:
        found.update(value.__dict__)
    return found


def kept_in(record: object) -> State:
    """The same without what no store keeps of a data class."""
    held = held_by(record)
    for name in layout_of(type(record)).left_out:
        held.pop(name, None)
    return held


def attributes(value: object) -> State:
    """Every attribute that is set, private ones too."""
    found = held_by(value)
    if layout_of(type(value)).is_pydantic:
        found.update(found.get(EXTRA) or {})
    return found


def public_names(value: object) -> list[str]:
    """The attributes that are set and do not begin with an underscore."""
    layout = layout_of(type(value))
    held = attributes(value) if layout.slots or not layout.has_dict else value.__dict__
    cached = layout.cached
    return [name for name in held if not name.startswith("_") and name not in cached]


def version_of(value: Stateful) -> str:
    """The version that an object's class has."""
    version = _asked(value, "_checkpoint_version")
    if not isinstance(version, str):
        raise TypeError(
            f"{type(value).__name__}._checkpoint_version() returned {version!r:.40}. Return text: "
            f"{str(version)[:40]!r}"
        )
    return version


def skipped_by(value: Stateful) -> set[str]:
    """The names that an object leaves out."""
    return set(_names(value, "_checkpoint_skip"))


def _names(value: Stateful, hook: str) -> Iterable[str]:
    names: Any = _asked(value, hook)
    if not isinstance(names, str) and isinstance(names, Iterable):
        found = list(names)
        if all(isinstance(name, str) for name in found):
            return found
    example = repr(names)[:40] if isinstance(names, str) else '"name", ...'
    raise TypeError(
        f"{type(value).__name__}.{hook}() returned {names!r:.40}. Return a list of names: "
        f"[{example}]"
    )


def _asked(value: Stateful, hook: str) -> Any:
    """What a class says; that it may say it in an attribute is an easy mistake."""
    method = getattr(value, hook)
    if not callable(method):
        raise TypeError(
            f"{type(value).__name__}.{hook} is {method!r:.40}, and is called as a method. Write "
            f"`def {hook}(self): return {method!r:.40}`"
        )
    return method()


def scope(value: Stateful) -> list[str]:
    """The names that are this object's state, present or not."""
    skipped = skipped_by(value)
    names = dict.fromkeys(n for n in _names(value, "_checkpoint_fields") if n not in skipped)
    for name in filter(is_word, names):
        raise ValueError(
            f"{type(value).__name__}._checkpoint_fields() names {name!r}, and names that begin "
            "with two underscores are ours. Keep it under another one."
        )
    return list(names)


def captured(value: Stateful) -> State:
    """The fields of an object as they are now, not copied."""
    built_in = layout_of(type(value)).built_in
    if built_in is not object and not overrides(value, "state_dict"):
        raise _unkept(type(value).__name__, built_in.__name__)
    held = attributes(value)
    return {name: held[name] if name in held else _named(value, name) for name in scope(value)}


def _unkept(name: str, built_in: str) -> TypeError:
    return TypeError(
        f"{name} is also a {built_in}, whose contents are no attributes: they would be lost. Let "
        "it hold one in a field, or give it its own state_dict() and load_state_dict()."
    )


def signed(value: Stateful, fields: State) -> State:
    """Fields with the version and the class of their object behind them."""
    names = unset(value, fields)
    words = {UNSET: names} if names else {}
    return {**fields, **words, VERSION: version_of(value), CLASS: type(value).__name__}


def ours_alone(value: Stateful, word: str) -> TypeError:
    """What is wrong with a state that a class gives under one of our words."""
    return TypeError(
        f"{type(value).__name__}.state_dict() gave {word!r}, and names that begin with two "
        "underscores are ours. Keep it under another one, or add to what super().state_dict() "
        "gives."
    )


def _named(value: Stateful, name: str) -> object:
    """A field that the class names and that is no plain attribute: a property, or a mistake."""
    found = inspect.getattr_static(type(value), name, None)
    if isinstance(found, property) and not _may_be_set(type(value), found):
        _check_settable(value, name)
    try:
        return getattr(value, name)
    except AttributeError:
        near = difflib.get_close_matches(name, attributes(value), 1)
        meant = f" Did you mean {near[0]!r}?" if near else " Set it before, or leave it out."
        raise AttributeError(
            f"{type(value).__name__}._checkpoint_fields() names {name!r}, which this object "
            f"does not have.{meant}",
            name=name,
            obj=value,
        ) from None


def _may_be_set(cls: type, found: property) -> bool:
    """Whether there is code that sets a property: its own, or the `__setattr__` of the class."""
    if found.fset is not None or type(found).__set__ is not property.__set__:
        return True
    owner = next(base for base in cls.__mro__ if "__setattr__" in vars(base))
    return owner is not object and owner.__module__.partition(".")[0] != "pydantic"


def _check_settable(value: Stateful, name: str) -> None:
    """Raise for a property without a setter, unless the class brings what to do with its value."""
    if not overrides(value, "load_state_dict"):
        raise TypeError(
            f"{type(value).__name__}._checkpoint_fields() names {name!r}, a property without a "
            "setter: no load could give it back. Leave it out, or give it a setter."
        )


def present(value: Stateful) -> set[str]:
    """The names of the fields that an object has now."""
    held = attributes(value)
    return {name for name in scope(value) if name in held or hasattr(value, name)}


def check_room(value: Stateful, fields: State) -> None:
    """Raise SchemaMigrationError if an object has no place for one of the fields."""
    layout = layout_of(type(value))
    if layout.has_dict:
        return
    name = type(value).__name__
    lost = [f for f in fields if f not in layout.slots and not _is_descriptor(value, f)]
    if lost:
        raise SchemaMigrationError(
            f"{name} has no place for the stored field {', '.join(lost)}: it has slots alone.",
            hint=f"Give it a slot, or remove the field with register_migration({name!r}, ...).",
        )


def write(value: Stateful, fields: State) -> None:
    """Make the fields of an object exactly these; what is no field stays as it is.

    What its class sets itself comes last, as a setter may look at the other fields.
    """
    held, slots = attributes(value), layout_of(type(value)).slots
    for name in held.keys() & set(scope(value)) - fields.keys():
        _remove(value, name)
    by_class = {
        name: item
        for name, item in fields.items()
        if name not in held and name not in slots and _is_descriptor(value, name)
    }
    _put(value, {name: item for name, item in fields.items() if name not in by_class})
    for name, item in by_class.items():
        setattr(value, name, item)
    if by_class:  # what a setter keeps under its own name was read there, and is written there
        held = attributes(value)
        _put(value, {name: item for name, item in by_class.items() if name in held})


def _put(value: Stateful, fields: State) -> None:
    """Set fields where they stand, past the class."""
    layout = layout_of(type(value))
    for name in fields.keys() & layout.slots.keys():
        layout.slots[name].__set__(value, fields[name])
    plain = {name: item for name, item in fields.items() if name not in layout.slots}
    if layout.is_pydantic:
        plain = written(value, layout, plain)
    if plain:
        value.__dict__.update(plain)


def _is_descriptor(value: object, name: str) -> bool:
    """Whether the class itself sees to an attribute, as a property does."""
    return hasattr(getattr(type(value), name, None), "__set__")


def _remove(value: Any, name: str) -> None:
    layout = layout_of(type(value))
    if name in layout.slots:
        layout.slots[name].__delete__(value)
    elif layout.has_dict and name in value.__dict__:
        del value.__dict__[name]
    elif layout.is_pydantic and name in (value.__pydantic_extra__ or ()):
        del value.__pydantic_extra__[name]
    if layout.is_pydantic:
        value.__pydantic_fields_set__.discard(name)


def blank(cls: type) -> Any:
    """An object of a class before it is filled; its constructor does not run.

    It has what a class declares with a default: private fields need not be in a state.
    """
    layout = layout_of(cls)
    if layout.built_in is object and not layout.is_pydantic and is_record(cls):
        return blank_record(cls)
    try:
        made: Any = layout.built_in.__new__(cls)
    except TypeError:  # a msgspec.Struct, or an abstract class
        return blank_record(cls)
    if layout.is_pydantic:
        begin(made, layout)
    return made


def made_like(value: Any) -> Any:
    """Another object of the same class, ready to be filled: constructed if that needs nothing.

    Otherwise what is no state is shared with the original.
    """
    cls = type(value)
    try:
        signature = inspect.signature(cls)
        signature.bind()
    except (TypeError, ValueError):
        return _sharing(value)
    if any(is_undefined(each.default) for each in signature.parameters.values()):
        return _sharing(value)
    made = cls()
    return _sharing(value) if made is value else made  # of a class with one object


def _sharing(value: Stateful) -> Any:
    made, layout, fields = blank(type(value)), layout_of(type(value)), set(scope(value))
    fields |= layout.cached  # of the state of the original, and made anew when asked for
    for name, item in held_by(value).items():
        if name == PRIVATE:
            layout.slots[name].__set__(made, item and dict(item))
        elif name in layout.slots and name not in fields and name not in (EXTRA, FIELDS_SET):
            layout.slots[name].__set__(made, item)
        elif name not in layout.slots and name not in fields:
            made.__dict__[name] = item
    return made


class Backup(NamedTuple):
    """All attributes of an object at one moment, to be put back if a load fails."""

    value: object
    held: State
    extra: State | None
    fields_set: set[str] | None

    @classmethod
    def of(cls, value: object) -> Backup:
        layout, held = layout_of(type(value)), attributes(value)
        if not layout.is_pydantic:
            return cls(value, held, None, None)
        extra = held.get(EXTRA)
        return cls(value, held, None if extra is None else dict(extra), set(held[FIELDS_SET]))

    def put_back(self) -> None:
        layout = layout_of(type(self.value))
        own: dict[str, Any] = self.value.__dict__ if layout.has_dict else {}
        own.clear()
        for name, item in self.held.items():
            if name in layout.slots:
                layout.slots[name].__set__(self.value, item)
            elif name not in (self.extra or ()):
                own[name] = item
        for name in layout.slots.keys() - self.held.keys():
            if name in attributes(self.value):
                layout.slots[name].__delete__(self.value)
        if layout.is_pydantic:
            layout.slots[EXTRA].__set__(self.value, self.extra)
            layout.slots[FIELDS_SET].__set__(self.value, self.fields_set)
