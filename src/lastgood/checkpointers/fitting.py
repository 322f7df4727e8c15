"""Stored fields into objects of another class, and of the classes that its annotations name.

Owns which fields a stored value has, and what an annotation asks of it: a data class or pydantic
model, or one inside of lists, tuples, dicts and optional ones. All else is taken as it stands.
Invariant: a value that has the class already is not touched, and each object is made by its own
class, in dataclasses as in models: a model validates all that is below it.
"""

from __future__ import annotations

import inspect
import sys
import types
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import fields, is_dataclass
from functools import lru_cache, partial
from typing import Any, Union, cast, get_args, get_origin, get_type_hints

from lastgood.codec import Codec, Opaque, fields_of, with_extra
from lastgood.codec import is_record as is_stored_by_fields
from lastgood.paths import Steps

Fit = Callable[[Any, Steps], Any]
"""Value and the steps to it -> what comes into its place."""

Make = Callable[[Any, dict[str, Any]], Any]
"""Class and fields -> what stands for an object of it."""


class Unfit(Exception):
    """What a class says of fields that do not fit it, and where they are."""

    def __init__(self, steps: Steps, error: Exception) -> None:
        super().__init__(steps, error)
        self.steps = steps
        self.error = error


def is_record(cls: object) -> bool:
    """Whether a class makes its objects from fields."""
    return isinstance(cls, type) and (is_dataclass(cls) or hasattr(cls, "model_validate"))


def fitted(codec: Codec, cls: type, value: Any) -> Any:
    """An object of a class from the fields of another value; raises Unfit."""
    if hasattr(cls, "model_validate"):  # it makes what is below it, too
        return _Fitting(codec, _by_alias).made(cls, value, (), partial(_validated, cls))
    return _Fitting(codec, _constructed).made(cls, value, ())


class _Fitting:
    """One state on its way into another class."""

    def __init__(self, codec: Codec, make: Make) -> None:
        self.codec = codec
        self.make = make
        self.known: dict[type, dict[str, Fit]] = {}

    def made(
        self, cls: type, value: Any, steps: Steps, finish: Callable[[Any], Any] = lambda made: made
    ) -> Any:
        """What stands for an object of a class, its fields fitted to their annotations."""
        try:
            stored = _fields_of(self.codec, value)
            fits = self.fits(cls)
            ready = {
                name: fits[name](part, (*steps, name)) if name in fits else part
                for name, part in stored.items()
            }
            return finish(self.make(cls, ready))
        except Unfit:
            raise
        except Exception as error:
            raise Unfit(steps, error) from error

    def fits(self, cls: type) -> dict[str, Fit]:
        """What is to be done with the fields of a class."""
        if cls not in self.known:
            found = {name: self.fit(hint) for name, hint in _annotations(cls).items()}
            self.known[cls] = {name: fit for name, fit in found.items() if fit is not None}
        return self.known[cls]

    def fit(self, hint: Any) -> Fit | None:
        """What is to be done with a value that has an annotation."""
        origin, inner = get_origin(hint), get_args(hint)
        if is_record(hint):
            return self._record(hint)
        if origin in (Union, types.UnionType):
            rest = [each for each in inner if each is not types.NoneType]
            return self.fit(rest[0]) if len(rest) == 1 else None
        if not isinstance(origin, type) or not inner:  # a bare `Dict` says nothing of its parts
            return None
        if issubclass(origin, Mapping):
            return self._parts(inner[-1])
        if issubclass(origin, Sequence):
            return self._parts(inner[0]) if inner[1:] in ((), (...,)) else None
        return None

    def _record(self, cls: type) -> Fit:
        def fit(value: Any, steps: Steps) -> Any:
            if isinstance(value, cls) or not _has_fields(value):
                return value
            return self.made(cls, value, steps)

        return fit

    def _parts(self, hint: Any) -> Fit | None:
        each = self.fit(hint)
        if each is None:
            return None

        def fit(value: Any, steps: Steps) -> Any:
            if type(value) is dict:
                return {key: each(part, (*steps, key)) for key, part in value.items()}
            if type(value) in (list, tuple):
                return type(value)(each(part, (*steps, at)) for at, part in enumerate(value))
            return value

        return fit


def _annotations(cls: type) -> dict[str, Any]:
    """By field; those that name something which cannot be found do not say what is made."""
    try:
        return get_type_hints(cls) if is_record(cls) else {}
    except Exception:  # one that is imported for type checkers alone, often
        return {name: hint for base in reversed(cls.__mro__) for name, hint in _found_in(base)}


def _found_in(cls: type) -> Iterator[tuple[str, Any]]:
    """The annotations of one class, without those that cannot be told."""
    around = getattr(sys.modules.get(cls.__module__), "__dict__", {})
    with suppress(Exception):  # Python 3.14 may tell none where it cannot tell one
        for name, hint in inspect.get_annotations(cls).items():
            alone = types.SimpleNamespace(__annotations__={name: hint})
            with suppress(Exception):
                yield from get_type_hints(alone, around, dict(vars(cls))).items()


def _has_fields(value: object) -> bool:
    return isinstance(value, Opaque | Mapping) or is_stored_by_fields(type(value))


def _fields_of(codec: Codec, value: Any) -> dict[str, Any]:
    if isinstance(value, Opaque):
        head, stored = cast(list[Any], codec.unpack(value.lastgood_payload))
        return with_extra(head, dict(stored))
    if isinstance(value, Mapping):
        return dict(value)
    if is_dataclass(value):  # what else it holds is its own affair
        names = [each.name for each in fields(value) if hasattr(value, each.name)]
        return {name: getattr(value, name) for name in names}
    return fields_of(value)


def _constructed(wanted: Any, stored: dict[str, Any]) -> Any:
    if hasattr(wanted, "model_validate"):
        return _validated(wanted, _by_alias(wanted, stored))
    if not is_dataclass(wanted):
        return wanted(stored)
    known = [each for each in fields(wanted) if each.name in stored]
    given = {each.name: stored[each.name] for each in known if each.init}
    made = cast(Any, wanted)(**_by_alias(wanted, given))
    for each in known:
        if not each.init:
            object.__setattr__(made, each.name, stored[each.name])
    return made


def _validated(wanted: Any, given: dict[str, Any]) -> Any:
    """A model, by the names of its fields too: what stands under one is never a default instead.

    Pydantic before 2.11 knows aliases alone.
    """
    validate = wanted.model_validate
    return validate(given, by_name=True, by_alias=True) if _knows_names(wanted) else validate(given)


@lru_cache(maxsize=1024)
def _knows_names(wanted: Any) -> bool:
    """Whether a class can be told to take fields by their names."""
    validate = getattr(wanted, "model_validate", None)
    return validate is not None and "by_name" in inspect.signature(validate).parameters


def _by_alias(wanted: Any, stored: dict[str, Any]) -> dict[str, Any]:
    """Stored fields under the names by which a pydantic model or dataclass takes them.

    An alias may be the name of another field, which would take the value for its own.
    """
    names, declared = {name: name for name in stored}, getattr(wanted, "__pydantic_fields__", {})
    kept = declared.keys() if _knows_names(wanted) else ()
    for name, field in declared.items():
        first = _first_text(field.validation_alias or field.alias)
        if first is not None and first not in stored and first not in kept and name in stored:
            names[name] = first
    return {names[name]: value for name, value in stored.items()}


def _first_text(alias: Any) -> str | None:
    """The first alias that is a name of its own, and no way into another value."""
    choices = (alias,) if isinstance(alias, str) else getattr(alias, "choices", ())
    return next((each for each in choices if isinstance(each, str)), None)
