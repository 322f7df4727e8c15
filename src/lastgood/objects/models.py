"""What pydantic models keep beside their fields: which were set, extra ones, private attributes.

Owns how that is read and written, past the model. Must not know states. Invariant: no code of the
model runs.
"""

from __future__ import annotations

import copy
from collections.abc import Collection, Iterable, Mapping
from typing import Any

from lastgood.objects.layouts import EXTRA, Layout, layout_of

FIELDS_SET = "__pydantic_fields_set__"
PRIVATE = "__pydantic_private__"


def begin(made: Any, layout: Layout) -> None:
    """Give a model that no constructor made what every model has."""
    allows = made.model_config.get("extra") == "allow"
    layout.slots[EXTRA].__set__(made, {} if allows else None)
    layout.slots[FIELDS_SET].__set__(made, set())
    layout.slots[PRIVATE].__set__(made, _plain_privates(made.__private_attributes__))


def _plain_privates(declared: Mapping[str, Any]) -> dict[str, Any] | None:
    """The private attributes that have a default which no code makes."""
    found = {
        name: copy.deepcopy(attribute.default)
        for name, attribute in declared.items()
        if attribute.default_factory is None and not is_undefined(attribute.default)
    }
    return found if declared else None


def is_undefined(default: object) -> bool:
    """Whether a default is pydantic's word for none, as a root model has it for its root."""
    return type(default).__name__ == "PydanticUndefinedType"


def written(value: Any, layout: Layout, fields: dict[str, Any]) -> dict[str, Any]:
    """Put what the model does not declare among its extra fields; what is loaded counts as set."""
    declared = type(value).__pydantic_fields__
    extra = value.__pydantic_extra__  # not in its slot: a root model has none
    layout.slots[FIELDS_SET].__get__(value).update(fields)
    if extra is None:
        return fields
    extra.update({name: item for name, item in fields.items() if name not in declared})
    return {name: item for name, item in fields.items() if name in declared}


def unset(value: Any, names: Collection[str]) -> list[str]:
    """The fields among some that are as they are because nobody has set them."""
    if not layout_of(type(value)).is_pydantic:
        return []
    # There is no such set yet while a constructor has not called that of the model.
    rest = type(value).__pydantic_fields__.keys() - getattr(value, FIELDS_SET, set())
    return [name for name in names if name in rest]


def names_set(value: Any) -> frozenset[str] | None:
    """Which fields count as set; None for objects that are no models."""
    return frozenset(value.__pydantic_fields_set__) if layout_of(type(value)).is_pydantic else None


def count_as_set(value: Any, names: frozenset[str] | None) -> None:
    """Let exactly these fields count as set, as `names_set` gave them."""
    if names is not None:
        layout_of(type(value)).slots[FIELDS_SET].__set__(value, set(names))


def count_as_unset(value: Any, names: Iterable[str]) -> None:
    """Let these fields count as not set, as they did when the state was made."""
    if layout_of(type(value)).is_pydantic:
        value.__pydantic_fields_set__.difference_update(names)
