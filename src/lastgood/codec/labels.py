"""From a class to its label and back, among what this process has already imported.

A label is `module:qualname`, plain text. Owns the look-up; must not know what a class is good
for. Invariant: finding a label imports nothing and runs no code of the class or its module:
every step reads a namespace directly, so neither `__getattr__` nor a descriptor gets a turn.
"""

from __future__ import annotations

import re
import sys
from collections.abc import Mapping
from functools import lru_cache
from types import EllipsisType, ModuleType, NoneType, UnionType
from typing import Any, Literal, TypeGuard, Union, cast, get_args, get_origin

_namespace_of_class = cast(Any, type.__dict__["__dict__"]).__get__
_OUTPUT = re.compile(r"_+\d*")
"""What a notebook calls the values that it has shown."""
_FIELD_WORDS = (
    "__dataclass_fields__",
    "__pydantic_fields__",
    "__attrs_attrs__",
    "__struct_fields__",
    "_fields",
    "_member_map_",
    "_member_names_",
)
_UNIONS = (Union, UnionType)
_PLAIN = (NoneType, EllipsisType)
"""What stands for itself among the arguments of a generic class."""
_mro_of_class = cast(Any, type.__dict__["__mro__"]).__get__


def label_of(cls: type) -> str:
    """The label under which instances of a class are stored unless it is registered.

    Pydantic puts `Box[Item]` into the module that names it first, and calls it so whichever `Item`
    it is of: here it is known by the places of `Box` and of that.
    """
    base, bracket, parameters = cls.__qualname__.partition("[")
    told = namespace(cls).get("__pydantic_generic_metadata__") if bracket else None
    origin, args = (told["origin"], told["args"]) if isinstance(told, dict) else (None, ())
    if _is_class(origin) and origin.__name__ == base:
        spelled = [_argument(arg) for arg in args]
        if None not in spelled:
            parameters = ", ".join(map(str, spelled)) + "]"
        return f"{label_of(origin)}[{parameters}"
    return f"{cls.__module__}:{cls.__qualname__}"


def _argument(arg: object) -> str | None:
    """What a generic class is made of, by the places of all classes in it, as in `list[m:Item]`.

    None where something else is in it, such as what an `Annotated` says.
    """
    if _is_class(arg):
        return label_of(arg).removeprefix("builtins:")
    origin, inner = _taken_apart(arg)
    if origin is None:
        return repr(arg) if type(arg) in _PLAIN else None
    spelled = [repr(each) if origin is Literal else _argument(each) for each in inner]
    if None in spelled:
        return None
    name = "Union" if origin in _UNIONS else _argument(origin) or repr(origin)
    return f"{name}[{', '.join(map(str, spelled))}]"


def _taken_apart(arg: object) -> tuple[object, tuple[object, ...]]:
    """`list[int]` as list and int, and so on for all that Python itself makes so."""
    if type(arg).__module__ in ("types", "typing"):
        return get_origin(arg), get_args(arg)
    return None, ()


def imported(label: str) -> bool:
    """Whether the module of a label is imported."""
    return isinstance(sys.modules.get(label.partition(":")[0]), ModuleType)


def find(label: str) -> type | None:
    """The class a label names, or None when there is no such class here now."""
    module, outer, name, whole = _parts(label)
    scope = namespace(sys.modules.get(module))
    for part in outer:
        scope = namespace(scope.get(part))
    found = scope.get(name)
    if whole != name:
        found = _parametrised(scope, found, whole, label)
    return found if _is_class(found) else None


def is_named(cls: type) -> bool:
    """Whether the label of a class leads to it, or to one that took its place: its module was
    loaded again, or its cell run again. Not to another one that is there beside it.
    """
    found = find(label_of(cls))
    if found is None or found is cls:
        return found is not None
    names = namespace(sys.modules.get(cls.__module__)).items()
    if any(each is cls and not _OUTPUT.fullmatch(name) for name, each in list(names)):
        return False
    return _holds(cls) == _holds(found) and (
        "[" not in cls.__qualname__ or _of_the_same(cls, found)
    )


def _holds(cls: type) -> dict[str, list[object]]:
    """By the sort of a data class, the names of its fields or members. One with others that a
    function has made under a name of its module is not what took the place of that.
    """
    told = [word for word in _FIELD_WORDS if attribute(cls, word) is not None]
    return {
        word: [getattr(field, "name", field) for field in type.__getattribute__(cls, word)]
        for word in told
    }


def _of_the_same(cls: type, found: type) -> bool:
    """Whether two of pydantic's `Box[Item]` differ by nothing but an `Item` that was defined again,
    or a `Box`.
    """
    told = [namespace(each).get("__pydantic_generic_metadata__") for each in (cls, found)]
    one, other = (each["args"] if isinstance(each, dict) else () for each in told)
    return len(one) == len(other) and all(map(_alike, one, other))


def _alike(one: object, other: object) -> bool:
    if not (_is_class(one) and _is_class(other)):
        (origin, args), (other_origin, others) = _taken_apart(one), _taken_apart(other)
        if origin is None or origin is not other_origin or len(args) != len(others):
            return one is other or one == other
        return all(map(_alike, args, others))
    return one is other or (label_of(one) == label_of(other) and is_named(one) and is_named(other))


@lru_cache(maxsize=4096)
def _parts(label: str) -> tuple[str, list[str], str, str]:
    """Module, enclosing classes, name, and the name with its parameters if it has any."""
    module, _, qualname = label.partition(":")
    base, bracket, parameters = qualname.partition("[")
    *outer, name = base.split(".")
    return module, outer, name, name + bracket + parameters


def _parametrised(scope: Mapping[str, object], origin: object, name: str, label: str) -> object:
    """`Box[int]`: pydantic makes a class of it, known to its module or at least to `Box`."""
    if name in scope or not _is_class(origin):
        return scope.get(name)
    subclasses: list[type] = type.__subclasses__(origin)[::-1]
    exact = next((cls for cls in subclasses if label == label_of(cls)), None)
    if exact is not None:
        return exact
    called = {label_of(cls): cls for cls in subclasses[::-1] if name == cls.__name__}
    return next(iter(called.values())) if len(called) == 1 else None


def namespace(holder: object) -> Mapping[str, object]:
    """The names defined by a module or class itself; nothing for any other object."""
    if issubclass(type(holder), ModuleType):
        # Not `vars`: the attribute access would load a lazily imported module.
        return cast(Mapping[str, object], object.__getattribute__(holder, "__dict__"))
    return cast(Mapping[str, object], _namespace_of_class(holder)) if _is_class(holder) else {}


def ancestry(cls: type) -> tuple[type, ...]:
    """The class and its bases in look-up order."""
    return cast(tuple[type, ...], _mro_of_class(cls))


def attribute(cls: type, name: str) -> Any:
    """What the class or a base of it defines under a name, or None."""
    for ancestor in ancestry(cls):
        names = _namespace_of_class(ancestor)
        if name in names:
            return names[name]
    return None


def _is_class(value: object) -> TypeGuard[type]:
    # `isinstance` would ask the value for its `__class__`, which a proxy may answer with code.
    return issubclass(type(value), type)
