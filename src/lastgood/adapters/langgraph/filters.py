"""Which values of the store a filter finds, and which namespaces a condition: pure.

Numbers are compared as numbers and text as text; what has another type never compares. A key is a
key, never a path. True is not 1.
"""

from __future__ import annotations

import operator
from collections.abc import Callable, Mapping, Sequence
from typing import Any

from langgraph.store.base import MatchCondition

_ORDERS: dict[str, Callable[[Any, Any], bool]] = {
    "$gt": operator.gt,
    "$gte": operator.ge,
    "$lt": operator.lt,
    "$lte": operator.le,
}
Namespace = tuple[str, ...]


def matches(value: Any, wanted: Mapping[str, Any] | None) -> bool:
    """Whether a value has all that a filter asks for."""
    if wanted and not isinstance(value, Mapping):
        return False
    return all(_is(value.get(key), sought) for key, sought in (wanted or {}).items())


def _is(value: Any, sought: Any) -> bool:
    if isinstance(sought, Mapping):
        if any(isinstance(key, str) and key.startswith("$") for key in sought):
            return all(_compares(value, name, bound) for name, bound in sought.items())
        return isinstance(value, Mapping) and matches(value, sought)
    return _alike(value, sought, _is)


def _equals(value: Any, sought: Any) -> bool:
    """The same with nothing left out; in what is sought, no key is an operator."""
    if isinstance(sought, Mapping):
        same = isinstance(value, Mapping) and value.keys() == sought.keys()
        return same and all(_equals(value[key], each) for key, each in sought.items())
    return _alike(value, sought, _equals)


def _alike(value: Any, sought: Any, compare: Callable[[Any, Any], bool]) -> bool:
    if isinstance(sought, list | tuple):
        alike = isinstance(value, list | tuple) and len(value) == len(sought)
        return alike and all(map(compare, value, sought))
    return isinstance(value, bool) == isinstance(sought, bool) and bool(value == sought)


def _compares(value: Any, name: str, bound: Any) -> bool:
    if name == "$eq":
        return _equals(value, bound)
    if name == "$ne":
        return not _equals(value, bound)
    if name not in _ORDERS:
        known = ", ".join(("$eq", "$ne", *_ORDERS))
        raise ValueError(f"unknown operator {name!r}: there are {known}.")
    sort = _sort(value)
    return sort is not None and sort == _sort(bound) and _ORDERS[name](value, bound)


def _sort(value: Any) -> str | None:
    if isinstance(value, str):
        return "text"
    if isinstance(value, int | float) and not isinstance(value, bool):
        return "number"
    return None


def is_at(namespace: Namespace, conditions: Sequence[MatchCondition]) -> bool:
    """Whether a namespace fits all conditions; `*` stands for any one label."""
    return all(_fits(namespace, condition) for condition in conditions)


def _fits(namespace: Namespace, condition: MatchCondition) -> bool:
    path = tuple(condition.path)
    if len(namespace) < len(path):
        return False
    if condition.match_type == "prefix":
        part = namespace[: len(path)]
    elif condition.match_type == "suffix":
        part = namespace[len(namespace) - len(path) :]
    else:
        raise ValueError(f"unknown kind of match: {condition.match_type!r}.")
    return all(wanted in ("*", label) for label, wanted in zip(part, path, strict=True))
