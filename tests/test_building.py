"""Trees to values: what is spelled and decoded in one call, and what must not be."""

from collections import Counter, OrderedDict, defaultdict, deque
from dataclasses import dataclass
from typing import Any

import pytest

from lastgood.building import build
from lastgood.codec import Codec, Dropped
from lastgood.splitting import split
from lastgood.tree import Fields

LONG = ["x" * 200] * 40


@dataclass
class Task:
    title: str
    notes: Any


VALUES: dict[str, Any] = {
    "dict": {"a": LONG, "n": 1},
    "dict in a dict": {"a": {"b": {"c": LONG}, "d": None}, "n": 1.5},
    "ordered dict": OrderedDict(z=LONG, a=1),
    "default dict": defaultdict(list, a=LONG, n=[1]),
    "counter": Counter({"a" * 3000: 1, "b" * 3000: 2}),
    "dict with numbers for keys": {1: LONG, "1": 2},
    "dict with a lone surrogate for a key": {"\ud800": LONG, "n": 2},
    "record": Task("t", LONG),
    "record in a dict": {"task": Task("t", LONG), "n": 1},
    "ordered dict in a dict": {"first": LONG, "inner": OrderedDict(z=LONG, a=1), "last": LONG},
    "tuple": {"a": tuple(LONG), "n": (1, 2)},
    "deque": {"a": deque(LONG, maxlen=50)},
    "text and bytes": {"a": "é" * 100_000, "b": b"\x00" * 100_000, "c": LONG},
    "a huge element": {"a": ["y" * 100_000, *LONG]},
    "a set": {"a": {f"{number:0200}" for number in range(40)}, "n": 1},
}


@pytest.mark.parametrize("value", VALUES.values(), ids=VALUES)
def test_a_value_that_was_taken_apart_comes_back_type_for_type(value: Any) -> None:
    codec = Codec()
    tree = split(codec.encoder(), value)
    assert not isinstance(tree, Dropped)
    assert isinstance(tree, Fields)
    found: Any = build(codec, tree)
    assert found == value
    assert repr(found) == repr(value)
    assert found is not value


def test_values_that_are_built_twice_share_nothing() -> None:
    codec = Codec()
    tree = split(codec.encoder(), {"a": [{"n": 1, "text": "x" * 200} for _ in range(40)]})
    assert not isinstance(tree, Dropped)
    one: Any = build(codec, tree)
    other: Any = build(codec, tree)
    one["a"][0]["n"] = 2
    one["a"].append("more")
    assert other["a"][0]["n"] == 1
    assert len(other["a"]) == 40
