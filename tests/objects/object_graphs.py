"""Random graphs of objects, and whether two of them have the same shape, sharing included."""

from __future__ import annotations

from collections import deque
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

from hypothesis import strategies as st

from lastgood import Checkpointable
from lastgood.codec import Codec

CODEC = Codec()


class Agent(Checkpointable):
    """With a `__dict__`, and something that is no state."""

    def __init__(self) -> None:
        self._client = object()


class Slotted(Checkpointable):
    __slots__ = ("_lock", "a", "b", "c")

    def __init__(self) -> None:
        self._lock = object()


@dataclass(eq=False)
class Note:
    a: Any = None
    b: Any = None
    tags: dict[str, Any] = field(default_factory=dict)


@dataclass(eq=False, slots=True, frozen=True)
class Fixed:
    a: Any = None
    b: Any = None


NAMES = ("a", "b", "c")
ATOMS = st.one_of(
    st.none(),
    st.booleans(),
    st.integers(),
    st.floats(),
    st.text(max_size=5),
    st.binary(max_size=5),
    st.dates(),
    st.frozensets(st.integers(0, 9), max_size=3),
)


def _set(name: str) -> Callable[[Any, Any], None]:
    return lambda node, part: object.__setattr__(node, name, part)


def _put(key: object) -> Callable[[Any, Any], None]:
    return lambda node, part: node.__setitem__(key, part)


MAKERS: dict[str, Callable[[], Any]] = {
    "agent": Agent,
    "slotted": Slotted,
    "note": Note,
    "fixed": Fixed,
    "list": list,
    "deque": lambda: deque(maxlen=50),
    "dict": dict,
}
PLACES: dict[type, list[Callable[[Any, Any], None]]] = {
    Agent: [_set(name) for name in NAMES],
    Slotted: [_set(name) for name in NAMES],
    Note: [_set("a"), _set("b"), lambda node, part: node.tags.__setitem__("x", part)],
    Fixed: [_set("a"), _set("b")],
    list: [lambda node, part: node.append(part)],
    deque: [lambda node, part: node.append(part)],
    dict: [_put("k"), _put(7), _put(("t", 1)), _put("__class__")],
}
FIXED = (tuple, Fixed)
"""If nobody can change what is in one of these, it does not matter how many there are."""


@st.composite
def graphs(draw: st.DrawFn) -> Agent:
    """An agent from which anything may be reached, in any number of ways."""
    kinds = draw(st.lists(st.sampled_from(list(MAKERS)), max_size=8))
    nodes = [Agent(), *(MAKERS[kind]() for kind in kinds)]
    tuples: list[Any] = []
    for _ in range(draw(st.integers(0, 3))):
        tuples.append(draw(tuples_of([*nodes, *tuples])))
    # Tuples stand in several places too, and what is in them may lead back to them.
    for owner in nodes:
        for place in draw(st.lists(st.sampled_from(PLACES[type(owner)]), max_size=4)):
            place(owner, draw(parts([*nodes, *tuples])))
    # Most of what was made is to be seen from the top.
    nodes[0].rest = draw(st.lists(st.sampled_from([*nodes, *tuples]), max_size=6))
    return nodes[0]


def parts(nodes: list[Any]) -> st.SearchStrategy[Any]:
    """A node, an atom, or a tuple of both."""
    return st.one_of(st.sampled_from(nodes), ATOMS, tuples_of(nodes))


def tuples_of(nodes: list[Any]) -> st.SearchStrategy[Any]:
    return st.lists(st.one_of(st.sampled_from(nodes), ATOMS), max_size=3).map(tuple)


def state_of(value: Any) -> dict[Any, Any]:
    """What a node holds, by step; private attributes left out."""
    if isinstance(value, dict):
        return value
    if isinstance(value, list | tuple | deque):
        return dict(enumerate(value))
    slots = [name for cls in type(value).__mro__ for name in vars(cls).get("__slots__", ())]
    held = {name: getattr(value, name) for name in slots if hasattr(value, name)}
    held |= getattr(value, "__dict__", {})
    return {name: part for name, part in held.items() if not name.startswith("_")}


def is_fixed(value: Any, around: tuple[int, ...] = ()) -> bool:
    """Whether nobody can change a value, nor anything in it."""
    if type(value) not in FIXED:
        return type(value) not in PLACES
    inside = (*around, id(value))
    return id(value) not in around and all(is_fixed(e, inside) for e in state_of(value).values())


class Match:
    """Two graphs walked side by side: every node of the one has one partner in the other."""

    def __init__(self) -> None:
        self.forth: dict[int, Any] = {}
        self.back: dict[int, Any] = {}
        self.pairs: set[tuple[int, int]] = set()

    def same(self, one: Any, other: Any, path: str = "agent") -> None:
        todo = [(one, other, path)]
        while todo:
            one, other, path = todo.pop()
            assert type(one) is type(other), path
            if type(one) not in PLACES and type(one) is not tuple:
                assert CODEC.pack(one) == CODEC.pack(other), path
                continue
            if not self.is_new(one, other, path):
                continue
            mine, yours = state_of(one), state_of(other)
            assert mine.keys() == yours.keys(), path
            todo += [(part, yours[step], f"{path}.{step}") for step, part in mine.items()]

    def is_new(self, one: Any, other: Any, path: str) -> bool:
        if not is_fixed(one):
            partner = self.forth.setdefault(id(one), other)
            assert partner is other, f"{path}: it was one object, and is another one now"
            partner = self.back.setdefault(id(other), one)
            assert partner is one, f"{path}: it was two objects, and is one now"
        pair = id(one), id(other)
        is_new = pair not in self.pairs
        self.pairs.add(pair)
        return is_new


def assert_same_graph(one: Any, other: Any) -> None:
    Match().same(one, other)
