"""Containers of the standard library that msgpack would flatten into lists and maps.

Owns how each is taken apart, one level, and closed again. Must not know bytes or the classes
of users. Invariant: order, `maxlen` and default factory survive, and no factory outside the
closed table is ever stored or called. Sets come unordered; the encoder sorts them.
"""

from __future__ import annotations

from collections import Counter, OrderedDict, defaultdict, deque
from collections.abc import Callable
from typing import Any

from lastgood.codec.kinds import Family, Kind, Number, Refused
from lastgood.codec.members import NOTE

FACTORIES: dict[str, Callable[[], object] | None] = {
    "none": None,
    "list": list,
    "dict": dict,
    "int": int,
    "set": set,
    "str": str,
    "float": float,
    "tuple": tuple,
    "bool": bool,
    "frozenset": frozenset,
    "bytes": bytes,
    "deque": deque,
    "Counter": Counter,
    "OrderedDict": OrderedDict,
}
_FACTORY_NAMES = {factory: name for name, factory in FACTORIES.items()}


def _factory_name(value: defaultdict[object, object]) -> str:
    try:
        return _FACTORY_NAMES[value.default_factory]
    except (KeyError, TypeError):
        shown = getattr(value.default_factory, "__qualname__", repr(value.default_factory))
        raise Refused(
            f"a defaultdict with the factory {shown} cannot be stored, "
            f"only one of {', '.join(sorted(FACTORIES))}"
        ) from None


def _pairs(flat: Any) -> dict[object, object]:
    """A dict from keys and values in turn; a key that occurs twice is damage."""
    found = dict(zip(flat[::2], flat[1::2], strict=True))
    if 2 * len(found) != len(flat):
        raise ValueError("a key occurs twice")
    return found


def _distinct(make: Callable[[Any], Any]) -> Callable[[Any], object]:
    def checked(body: Any) -> object:
        made = make(body)
        if len(made) != len(body):
            raise ValueError("an element occurs twice")
        return made

    return checked


def _counter(items: dict[object, object]) -> Counter[object]:
    made: Counter[object] = Counter()
    dict.update(made, items)  # type: ignore[misc]
    return made


def _default_dict(name: Any, items: Any) -> defaultdict[object, object]:
    return defaultdict(FACTORIES[name], items)


def _take_default(value: Any) -> object:
    return [_factory_name(value), dict(value)]


def _take_plain(value: Any) -> dict[object, object]:
    """The items; a class of the standard library whose objects may have attributes, too."""
    beside = value.__dict__.keys() - {NOTE}
    if beside:
        listed = ", ".join(sorted(map(str, beside)))
        name = type(value).__name__
        raise Refused(f"{name} with attributes beside its items ({listed}) cannot be stored")
    return dict(value)


def flat(items: Any) -> list[object]:
    """Keys and values in turn."""
    return [part for item in items.items() for part in item]


_MAP, _ARRAY = Family.MAP, Family.ARRAY

CONTAINERS: dict[type, Kind] = {
    OrderedDict: Kind(Number.ORDERED_DICT, "odict", _take_plain, OrderedDict, _MAP),  # type: ignore[arg-type]
    Counter: Kind(Number.COUNTER, "counter", _take_plain, _counter, _MAP),  # type: ignore[arg-type]
    defaultdict: Kind(
        Number.DEFAULT_DICT,
        "defaultdict",
        _take_default,
        lambda body: _default_dict(*body),  # type: ignore[misc]
        _MAP,
        headed=True,
    ),
    tuple: Kind(Number.TUPLE, "tuple", list, tuple, _ARRAY),  # type: ignore[arg-type]
    set: Kind(Number.SET, "set", list, _distinct(set), _ARRAY),  # type: ignore[arg-type]
    frozenset: Kind(Number.FROZENSET, "frozenset", list, _distinct(frozenset), _ARRAY),  # type: ignore[arg-type]
    deque: Kind(
        Number.DEQUE,
        "deque",
        lambda v: [v.maxlen, list(v)],  # type: ignore[attr-defined,call-overload]
        lambda body: deque(body[1], body[0]),  # type: ignore[index]
        _ARRAY,
        headed=True,
    ),
}

PAIRS: dict[int, Kind] = {
    Number.PAIRS: Kind(Number.PAIRS, "pairs", flat, _pairs, _MAP),
    Number.ORDERED_PAIRS: Kind(
        Number.ORDERED_PAIRS, "odict-pairs", flat, lambda b: OrderedDict(_pairs(b)), _MAP
    ),
    Number.COUNTER_PAIRS: Kind(
        Number.COUNTER_PAIRS, "counter-pairs", flat, lambda b: _counter(_pairs(b)), _MAP
    ),
    Number.DEFAULT_PAIRS: Kind(
        Number.DEFAULT_PAIRS,
        "defaultdict-pairs",
        lambda v: [_factory_name(v), flat(v)],  # type: ignore[arg-type]
        lambda b: _default_dict(b[0], _pairs(b[1])),  # type: ignore[index]
        _MAP,
        headed=True,
    ),
}
SETS = frozenset({Number.SET, Number.FROZENSET})
