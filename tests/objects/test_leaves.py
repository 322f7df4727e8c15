"""Objects inside of what is not looked into: a clone has its own ones there, a state none."""

from __future__ import annotations

import functools
import threading
from dataclasses import dataclass
from typing import Any

import numpy as np
import pytest

from lastgood import Checkpointable, CheckpointManager, SerializationError, register


class Child(Checkpointable):
    def __init__(self) -> None:
        self.number = 0
        self._lock = threading.Lock()


class Row(list[Any]):
    """No list of ours."""


class Agent(Checkpointable):
    def __init__(self) -> None:
        self.child = Child()
        self.held: Any = None
        self.route: Any = None

    def act(self) -> int:
        return self.child.number


LEAVES = {
    "a list of its own class": (lambda agent: Row([agent.child]), lambda held: held[0]),
    "a set": (lambda agent: {agent.child}, lambda held: next(iter(held))),
    "a frozenset": (lambda agent: frozenset([agent.child]), lambda held: next(iter(held))),
    "a key": (lambda agent: {agent.child: 1}, lambda held: next(iter(held))),
    "a method": (lambda agent: agent.act, lambda held: held.__self__.child),
    "a method of another": (lambda agent: agent.child.clone, lambda held: held.__self__),
    "a partial": (
        lambda agent: functools.partial(agent.act),
        lambda held: held.func.__self__.child,
    ),
    "something in a list": (
        lambda agent: [(1, {agent.child})],
        lambda held: next(iter(held[0][1])),
    ),
}
each_leaf = pytest.mark.parametrize(("make", "child_in"), LEAVES.values(), ids=LEAVES)


@each_leaf
def test_a_clone_has_its_own_objects_there(make: Any, child_in: Any) -> None:
    agent = Agent()
    agent.held = make(agent)
    cloned = agent.clone()
    assert type(cloned.held) is type(agent.held)
    assert child_in(cloned.held) is cloned.child is not agent.child
    cloned.child.number = 5
    assert agent.child.number == 0


@each_leaf
def test_a_state_refuses_them_with_the_path(make: Any, child_in: Any) -> None:
    agent = Agent()
    agent.held = make(agent)
    with pytest.raises(SerializationError, match=r"Agent\.held") as error:
        agent.state_dict()
    assert "underscore" in str(error.value)


@pytest.mark.parametrize("name", ["a list of its own class", "a set", "a method"])
def test_the_reason_is_told(name: str) -> None:
    agent = Agent()
    agent.held = [LEAVES[name][0](agent)]  # type: ignore[no-untyped-call]
    with pytest.raises(SerializationError, match=r"held\[0\].*holds a (Child|Agent), which has a"):
        agent.state_dict()


def test_what_holds_no_object_is_copied_as_ever() -> None:
    agent, data = Agent(), [1]
    agent.held = [Row([data]), data, {2}, np.ones(2), {"__class__": {3}}]
    state, cloned = agent.state_dict()["held"], agent.clone().held
    for held in (state, cloned):
        assert (type(held[0]), held[0][0]) == (Row, [1])
        assert held[0][0] is held[1] is not data
        assert held[3] is not agent.held[3]
    agent.held[2].add(9)
    assert state[2] == cloned[2] == {2}


@dataclass
class Route:
    stops: Any


@dataclass
class Late(Route):
    """Registered after its objects were looked into."""


@pytest.mark.parametrize("cls", [Route, Late])
@pytest.mark.parametrize("stops", ["held", "child"])
def test_a_registered_function_gets_the_object_itself(cls: Any, stops: str) -> None:
    manager, agent = CheckpointManager(), Agent()
    agent.child.number = 3
    agent.held = ["Rome"]
    agent.route = cls(getattr(agent, stops))
    if cls is Late:
        manager.save("before", agent)
    register(cls, encode=lambda route: told(route.stops), decode=cls)
    manager.save("k", agent)
    assert manager.load("k", Agent()).route == cls(told(getattr(agent, stops)))


def told(stops: Any) -> Any:
    return list(stops) if isinstance(stops, list) else getattr(stops, "number", "something else")
