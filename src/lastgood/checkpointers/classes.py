"""From a stored state to one of the class that a checkpointer is bound to.

Owns which classes can be states and how the fields of one become another. A state that has the
bound class already is given back as it is; else that class, which the application chose, makes a
new one from the stored fields, by its own rules.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import fields, is_dataclass
from typing import Any, TypeGuard, cast, is_typeddict

from lastgood.codec import Codec, Opaque
from lastgood.errors import SerializationError
from lastgood.paths import render


def is_state_type(state_type: object) -> TypeGuard[type]:
    """Whether states can have a class."""
    return isinstance(state_type, type) and (
        issubclass(state_type, Mapping)
        or is_dataclass(state_type)
        or hasattr(state_type, "model_validate")
    )


def check_state_type(state_type: object) -> type:
    """A class that states can have."""
    if is_state_type(state_type):
        return state_type
    raise TypeError(
        f"{state_type!r} cannot be the class of states. Bind a dataclass, a pydantic model or dict."
    )


def as_state(codec: Codec, state: Any, wanted: type | None, thread: str) -> Any:
    """A stored state as an object of the wanted class; SerializationError if it does not fit."""
    if wanted is not None and is_typeddict(wanted):
        wanted = dict  # what a TypedDict makes, and the only thing that can be asked of a value
    if state is None or wanted is None or isinstance(state, wanted):
        return state
    try:
        return _made(wanted, _fields_of(codec, state))
    except Exception as error:
        raise SerializationError(
            f"thread {thread!r}: the stored {_name_of(state)} does not fit "
            f"{wanted.__qualname__}: {_told(error)}.",
            path="state",
            hint="Give new fields a default, or bind_state_type(dict) to read what is there.",
        ) from error


def _told(error: Exception) -> str:
    """What is wrong in one line; pydantic takes several, with addresses of its pages."""
    details = getattr(error, "errors", None)
    if not callable(details):
        return str(error).removesuffix(".")
    return "; ".join(f"{render(each['loc'], 'state')}: {each['msg']}" for each in details())


def _fields_of(codec: Codec, state: Any) -> dict[str, Any]:
    if isinstance(state, Opaque):
        _, stored = cast(list[Any], codec.unpack(state.lastgood_payload))
        return dict(stored)
    if isinstance(state, Mapping):
        return dict(state)
    if is_dataclass(state):
        names = [each.name for each in fields(state) if hasattr(state, each.name)]
        return {name: getattr(state, name) for name in names}
    return {**vars(state), **(getattr(state, "__pydantic_extra__", None) or {})}


def _made(wanted: Any, stored: dict[str, Any]) -> Any:
    if hasattr(wanted, "model_validate"):
        return wanted.model_validate(_by_alias(wanted, stored))
    if not is_dataclass(wanted):
        return wanted(stored)
    known = [each for each in fields(wanted) if each.name in stored]
    made = cast(Any, wanted)(**{each.name: stored[each.name] for each in known if each.init})
    for each in known:
        if not each.init:
            object.__setattr__(made, each.name, stored[each.name])
    return made


def _by_alias(model: Any, stored: dict[str, Any]) -> dict[str, Any]:
    """Stored fields under the names by which a pydantic model takes them."""
    names = {name: name for name in stored}
    for name, field in model.model_fields.items():
        alias = field.validation_alias or field.alias
        first = alias if isinstance(alias, str) else getattr(alias, "choices", (None,))[0]
        if isinstance(first, str) and first not in stored and name in stored:
            names[name] = first
    return {names[name]: value for name, value in stored.items()}


def _name_of(state: object) -> str:
    if isinstance(state, Opaque):
        return state.lastgood_label.replace(":", ".")
    return type(state).__qualname__
