"""Tuples cannot be filled in place: what leads back to one, and what stands where one was."""

from __future__ import annotations

from collections import deque
from dataclasses import dataclass
from typing import Any, NamedTuple

import attrs
import msgspec
import pytest

from lastgood import Checkpointable, CheckpointManager, register_migration


class Agent(Checkpointable):
    def __init__(self, tree: Any = None) -> None:
        self.tree = tree


class Node(NamedTuple):
    name: str
    kids: Any


@dataclass(frozen=True, slots=True, eq=False)
class Frozen:
    name: str
    kids: Any


@attrs.frozen(eq=False)
class Attrs:
    name: str
    kids: Any


class Struct(msgspec.Struct, frozen=True, eq=False):  # type: ignore[call-arg]
    name: str
    kids: Any


def row(kind: type) -> Any:
    """A list or deque that is held once, in what it leads back to."""
    return lambda make: leading_back(make, kind(), lambda kids, kid: kids.append(kid))


def mapping(make: Any) -> Any:
    return leading_back(make, {}, lambda kids, kid: kids.__setitem__(0, kid))


def inner_object(make: Any) -> Any:
    return leading_back(make, Agent(), lambda kids, kid: setattr(kids, "tree", [kid]))


def leading_back(make: Any, kids: Any, put: Any) -> Any:
    root = make("root", kids)
    put(kids, make("kid", root))
    return root


def first_kid(root: Any) -> Any:
    kids = root[1] if isinstance(root, tuple) else root.kids
    return kids.tree[0] if isinstance(kids, Agent) else kids[0]


def parent(kid: Any) -> Any:
    return kid[1] if isinstance(kid, tuple) else kid.kids


MAKERS = {
    "tuple": lambda *parts: parts,
    "named tuple": Node,
    "frozen dataclass": Frozen,
    "frozen attrs class": Attrs,
    "frozen struct": Struct,
}
WAYS = {"list": row(list), "deque": row(deque), "dict": mapping, "agent": inner_object}


@pytest.mark.parametrize("make", MAKERS.values(), ids=MAKERS)
@pytest.mark.parametrize("through", WAYS.values(), ids=WAYS)
class TestWhatLeadsBackToItself:
    def test_is_loaded(self, make: Any, through: Any) -> None:
        manager, agent = CheckpointManager(), Agent(through(make))
        manager.save("k", agent)
        found = manager.load("k", Agent()).tree
        assert type(found) is type(agent.tree)
        assert parent(first_kid(found)) is found

    def test_is_rolled_back(self, make: Any, through: Any) -> None:
        manager, agent = CheckpointManager(), Agent(through(make))
        with pytest.raises(RuntimeError), manager.rollback_context("k", agent):  # noqa: PT012
            agent.tree = None
            raise RuntimeError
        assert parent(first_kid(agent.tree)) is agent.tree


class Kid(Checkpointable):
    def __init__(self, number: int = 0) -> None:
        self.number = number


class Parent(Checkpointable):
    version = "1.0"

    def __init__(self, number: int = 0) -> None:
        self.kids: list[Any] = [Kid(number)]

    def _checkpoint_version(self) -> str:
        return self.version


def test_tuples_that_a_migration_makes_are_not_taken_for_ones_that_are_gone(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    manager = CheckpointManager()
    manager.save("k", Agent([(number, Parent(number)) for number in range(50)]))
    monkeypatch.setattr(Parent, "version", "2.0")
    register_migration(
        "Parent", from_version="1.0", fn=lambda s: {**s, "kids": [("kid", k) for k in s["kids"]]}
    )
    for number, parent in manager.load("k", Agent()).tree:
        assert [(word, kid.number) for word, kid in parent.kids] == [("kid", number)]


@pytest.mark.parametrize(
    "hold", [lambda part: [part], lambda part: {"part": part}], ids=["list", "dict"]
)
def test_a_tuple_that_is_shared_is_one_though_what_it_holds_is_filled_in_place(hold: Any) -> None:
    agent, manager = Agent(), CheckpointManager()
    agent.tree = agent.again = (hold(agent),)
    agent.inside = ("within", agent.tree)
    manager.save("k", agent)
    found, copied = manager.load("k", Agent()), Agent()
    copied.load_state_dict(agent.state_dict())
    for each in (found, copied):
        assert each.tree is each.again is each.inside[1]
        assert each.tree[0] == hold(each)


def test_a_tuple_that_is_held_by_what_it_holds_is_one_while_it_is_made() -> None:
    agent, manager = Agent(), CheckpointManager()
    held: dict[str, Any] = {"object": Kid()}
    agent.tree = (held,)
    held["around"] = (agent.tree,)
    manager.save("k", agent)
    copied = Agent()
    copied.load_state_dict(agent.state_dict())
    with pytest.raises(RuntimeError), manager.rollback_context("both", agent, Agent()):
        raise RuntimeError
    for each in (manager.load("k", Agent()), copied, agent):
        assert each.tree[0]["around"][0] is each.tree
