"""From a stored state to one of the class that a checkpointer is bound to.

Owns which classes can be states, and what is said of one that does not fit. A state that has the
bound class already is given back as it is; else that class, which the application chose, makes a
new one from the stored fields, by its own rules.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, TypeGuard, is_typeddict

from lastgood.checkpointers.fitting import Unfit, fitted, is_record
from lastgood.codec import Codec, Opaque
from lastgood.errors import SerializationError
from lastgood.paths import render


def is_state_type(state_type: object) -> TypeGuard[type]:
    """Whether states can have a class."""
    return isinstance(state_type, type) and (
        issubclass(state_type, Mapping) or is_record(state_type)
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
        return fitted(codec, wanted, state)
    except Unfit as unfit:
        raise SerializationError(
            f"thread {thread!r}: the stored {_name_of(state)} does not fit "
            f"{wanted.__qualname__}: {_told(unfit)}.",
            path="state",
            hint="Give new fields a default, or bind_state_type(dict) to read what is there.",
        ) from unfit.error


def _told(unfit: Unfit) -> str:
    """What is wrong in one line; pydantic takes several, with addresses of its pages."""
    details = getattr(unfit.error, "errors", None)
    if callable(details):
        places = [(render((*unfit.steps, *each["loc"]), "state"), each) for each in details()]
        return "; ".join(f"{place}: {each['msg']}" for place, each in places)
    where = f"{render(unfit.steps, 'state')}: " if unfit.steps else ""
    return where + str(unfit.error).removesuffix(".")


def _name_of(state: object) -> str:
    if isinstance(state, Opaque):
        return state.lastgood_label.replace(":", ".")
    return type(state).__qualname__
