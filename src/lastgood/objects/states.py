"""The form of a state: the fields of an object by name, and a few words of ours beside them.

    {"memory": [...], "call_count": 2, "__version__": "1.0", "__class__": "MyAgent"}

An object inside another one is such a dict in its place. Where the class's own `state_dict` gives
neither class nor version, both are put behind, and the version is None. A dict of the user's that
has a key `__class__` stands inside `{"__class__": "dict", "__value__": {...}}`, so that nobody
takes it for an object. Owns the words; must not know objects or stores. Invariant: the words begin
with two underscores, which no field does.
"""

from __future__ import annotations

from typing import Any, Final, TypeGuard

State = dict[str, Any]

CLASS: Final = "__class__"
VERSION: Final = "__version__"
VALUE: Final = "__value__"
UNSET: Final = "__unset__"
"""In what is stored of a pydantic model: the fields that nobody has set, if there are any."""
SHARED: Final = "__shared__"
"""In what is stored: the values that several places share, by number."""
OBJECT: Final = "__object__"
"""In what a rollback stores: of which live object it is."""
AGENTS: Final = "__agents__"
"""In what a rollback of several agents stores: their states."""
PICKLE: Final = "__pickle__"
"""In what `fmt="pickle"` stores: the bytes, and how they are signed."""

STORED = frozenset({SHARED, AGENTS, PICKLE})
"""The words that stand in what is stored, and in no state of an object."""

_ESCAPED = {CLASS, VALUE}


def is_word(name: object) -> bool:
    """Whether a key of a state is one of ours and no field."""
    return isinstance(name, str) and name.startswith("__")


def fields_in(state: State) -> State:
    """A state without our words."""
    return {name: value for name, value in state.items() if not is_word(name)}


def unsign(state: State) -> None:
    """Take out of a state what the class's own `state_dict` did not put there."""
    state.pop(OBJECT, None)
    state.pop(UNSET, None)
    if is_state(state) and state[VERSION] is None:
        del state[VERSION], state[CLASS]


def is_reserved(value: object) -> TypeGuard[dict[Any, Any]]:
    """Whether a dict is, or could be taken for, more than data."""
    return type(value) is dict and CLASS in value


def is_state(value: object) -> TypeGuard[State]:
    """Whether a dict stands for an object."""
    return is_reserved(value) and VERSION in value


def is_escaped(value: object) -> TypeGuard[State]:
    """Whether a dict stands for a user's dict that looks like ours."""
    return is_reserved(value) and value.keys() == _ESCAPED


def escaped(value: dict[Any, Any]) -> State:
    """What stands for a user's dict that has our key."""
    return {CLASS: "dict", VALUE: value}
