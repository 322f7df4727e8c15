"""Classes that bring their own `state_dict` and `load_state_dict`, wherever they stand."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from lastgood import Checkpointable, CheckpointManager


class Agent(Checkpointable):
    def __init__(self, memory: Any = None) -> None:
        self.memory = memory


class Memory(Checkpointable):
    """Has nothing of our methods, and takes nothing but what it gave."""

    def __init__(self, *facts: str) -> None:
        self.facts = list(facts)
        self._conn = "live"

    def state_dict(self) -> dict[str, Any]:
        return {"told": list(self.facts)}

    def load_state_dict(self, state: Any, *, strict: bool | None = None) -> None:
        assert type(state) is dict
        assert state.keys() == {"told"}
        self.facts = list(state["told"])


class Giving(Checkpointable):
    """Gives its state itself and lets us load it."""

    def __init__(self, *facts: str) -> None:
        self.facts = list(facts)
        self._conn = "live"

    def state_dict(self) -> dict[str, Any]:
        return {"facts": [*self.facts]}


class Taking(Checkpointable):
    """Lets us give its state and takes it itself."""

    def __init__(self, *facts: str) -> None:
        self.facts = list(facts)
        self._conn = "live"

    def load_state_dict(self, state: Any, *, strict: bool | None = None) -> None:
        assert state.keys() == {"facts", "__version__", "__class__"}
        self.facts = state["facts"]


Way = Callable[[Any], Any]


def through_a_store(agent: Any, target: Any = None) -> Any:
    manager = CheckpointManager()
    manager.save("k", agent)
    return manager.load("k", target or Agent())


def through_its_state(agent: Any) -> Any:
    found = Agent()
    found.load_state_dict(agent.state_dict())
    return found


def through_a_rollback(agent: Any) -> Any:
    manager, before = CheckpointManager(), agent.memory
    with pytest.raises(RuntimeError), manager.rollback_context("k", agent):  # noqa: PT012
        before[0].facts.append("forget this")
        agent.memory = None
        raise RuntimeError
    return agent


def through_a_rollback_of_two(agent: Any) -> Any:
    manager, other = CheckpointManager(), Agent(agent.memory)
    with pytest.raises(RuntimeError), manager.rollback_context("k", other, agent):  # noqa: PT012
        agent.memory = other.memory = None
        raise RuntimeError
    assert other.memory[0] is agent.memory[0]
    return agent


each_class = pytest.mark.parametrize("make", [Memory, Giving, Taking])


@each_class
@pytest.mark.parametrize(
    "way",
    [
        through_a_store,
        through_its_state,
        Agent.clone,
        through_a_rollback,
        through_a_rollback_of_two,
    ],
)
def test_an_inner_object_comes_back_as_an_object(make: Any, way: Way) -> None:
    memory = make("a")
    found = way(Agent([memory, {"same": memory}])).memory
    assert type(found[0]) is make
    assert found[0].facts == ["a"]
    assert vars(found[0]).keys() <= {"facts", "_conn"}
    assert found[1]["same"] is found[0]


@each_class
def test_an_inner_object_that_is_in_its_place_is_loaded_in_place(make: Any) -> None:
    there = make("b")
    found = through_a_store(Agent(make("a")), Agent(there))
    assert found.memory is there
    assert (there.facts, there._conn) == (["a"], "live")


@each_class
def test_a_rollback_gives_the_same_inner_object_back(make: Any) -> None:
    there = make("a")
    found = through_a_rollback(Agent([there]))
    assert found.memory[0] is there
    assert (there.facts, there._conn) == (["a"], "live")


@each_class
def test_a_snapshot_and_a_clone_share_nothing_with_the_object(make: Any) -> None:
    agent = Agent(make("a"))
    state, cloned = agent.state_dict(), agent.clone()
    agent.memory.facts.append("b")
    assert ["a"] in state["memory"].values()
    assert cloned.memory.facts == ["a"]


class Holder(Checkpointable):
    """Gives a state that leads to objects, to itself, and to the same thing twice."""

    def __init__(self, inner: Any = None) -> None:
        self.inner, self.twice = inner, []

    def state_dict(self) -> dict[str, Any]:
        return {"inner": self.inner, "twice": [self.twice, self.twice]}

    def load_state_dict(self, state: Any, *, strict: bool | None = None) -> None:
        super().load_state_dict(state, strict=strict)


def test_a_state_that_it_gives_may_hold_objects() -> None:
    holder = Holder(Memory("a"))
    holder.twice = [holder.inner]
    found = through_a_store(Agent(holder)).memory
    assert found.inner.facts == ["a"]
    assert found.twice[0] is found.twice[1]
    assert found.twice[0][0] is found.inner


def test_half_of_our_words_are_refused() -> None:
    class Half(Checkpointable):
        def state_dict(self) -> dict[str, Any]:
            return {"a": 1, "__version__": 3}

    with pytest.raises(TypeError, match=r"gave '__version__', and names that begin with two"):
        Agent(Half()).state_dict()


def test_a_state_that_it_gives_may_lead_back_to_the_object() -> None:
    holder = Holder()
    holder.inner = Agent([holder])
    found = through_a_store(holder, Holder())
    assert found.inner.memory[0] is found
    found = through_a_store(Agent(holder)).memory
    assert found.inner.memory[0] is found
