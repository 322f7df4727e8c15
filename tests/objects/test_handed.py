"""Classes whose `state_dict` adds to what ours gives: what they took over means the objects."""

from __future__ import annotations

import threading
from collections.abc import Callable
from typing import Any, ClassVar

import pytest

from lastgood import Checkpointable, CheckpointManager, SerializationError


class Adding(Checkpointable):
    """Adds to what we give, in a dict of its own."""

    calls: ClassVar[list[object]] = []

    def __init__(self, leader: Any = None) -> None:
        self.leader: Any = leader
        self.notes: list[Any] = []
        self.others: list[Any] = []

    def state_dict(self) -> dict[str, Any]:
        self.calls.append(self)
        return {**super().state_dict(), "stamp": 1}

    def load_state_dict(self, state: Any, *, strict: bool | None = None) -> None:
        del state["stamp"]
        super().load_state_dict(state, strict=strict)


class AddingInPlace(Adding):
    def state_dict(self) -> dict[str, Any]:
        state = Checkpointable.state_dict(self)
        state["stamp"] = 1
        return state


class Nesting(Adding):
    """Puts what we give into dicts and lists of its own."""

    def state_dict(self) -> dict[str, Any]:
        return {"ours": Checkpointable.state_dict(self), "stamp": [self.notes]}

    def load_state_dict(self, state: Any, *, strict: bool | None = None) -> None:
        Checkpointable.load_state_dict(self, state["ours"], strict=strict)


class Team(Checkpointable):
    def __init__(self, make: type[Adding] = Adding, size: int = 0) -> None:
        self.members: list[Any] = [make(self) for _ in range(size)]
        self.notes: list[Any] = ["a"]
        for each in self.members:
            each.notes = self.notes


class AddingTeam(Team):
    def state_dict(self) -> dict[str, Any]:
        return {**super().state_dict(), "stamp": 1}

    def load_state_dict(self, state: Any, *, strict: bool | None = None) -> None:
        del state["stamp"]
        super().load_state_dict(state, strict=strict)


def loaded(agent: Any) -> Any:
    manager = CheckpointManager()
    manager.save("k", agent)
    return manager.load("k", type(agent)())


def rolled_back(agent: Any) -> Any:
    with pytest.raises(RuntimeError), CheckpointManager().rollback_context("k", agent):  # noqa: PT012
        vars(agent).clear()
        raise RuntimeError
    return agent


Way = Callable[[Any], Any]
WAYS = pytest.mark.parametrize("way", [loaded, rolled_back, Checkpointable.clone])


@WAYS
@pytest.mark.parametrize("make", [Adding, AddingInPlace, Nesting])
@pytest.mark.parametrize("team", [Team, AddingTeam])
@pytest.mark.parametrize("size", [1, 2, 20])
def test_what_leads_back_does_so_again(way: Way, make: Any, team: Any, size: int) -> None:
    found = way(team(make, size))
    assert len(found.members) == size
    for each in found.members:
        assert type(each) is make
        assert each.leader is found
        assert each.notes is found.notes == ["a"]


@WAYS
@pytest.mark.parametrize("make", [Adding, AddingInPlace])
def test_one_that_holds_itself_and_others_of_its_class(way: Way, make: Any) -> None:
    agent = make()
    agent.leader, agent.others = agent, [agent, make(agent)]
    agent.others[1].others = [agent.others]
    found = way(agent)
    assert found.leader is found.others[0] is found.others[1].leader is found
    assert found.others[1].others[0] is found.others


@WAYS
@pytest.mark.parametrize("make", [Adding, AddingInPlace])
def test_one_that_holds_nothing_but_itself(way: Way, make: Any) -> None:
    agent = make()
    agent.leader, agent.notes = agent, [agent, [1]]
    found = way(agent)
    assert found.leader is found.notes[0] is found
    assert found.notes[1] == [1]


def test_each_is_asked_a_few_times_however_many_there_are() -> None:
    Adding.calls.clear()
    loaded(Team(Adding, 20))
    assert len(Adding.calls) == 20


class Memory(Checkpointable):
    def __init__(self, *facts: str) -> None:
        self.facts = list(facts)
        self.key = "secret"


class Hiding(Adding):
    """Changes the copies that it got."""

    def state_dict(self) -> dict[str, Any]:
        state = super().state_dict()
        state["leader"]["key"] = "hidden"
        state["notes"].append("more")
        state["others"] = state["others"][-1:]
        return state


def test_what_it_changes_in_its_copies_is_saved_so() -> None:
    agent = Hiding(Memory("b"))
    agent.others = [agent.leader, agent.notes]
    found = loaded(agent)
    assert (found.leader.key, found.leader.facts) == ("hidden", ["b"])
    assert found.notes == ["more"]
    assert found.others[0] is found.notes
    assert (agent.leader.key, agent.notes) == ("secret", [])


class Trimming(Adding):
    """Takes over a part."""

    def state_dict(self) -> dict[str, Any]:
        state = super().state_dict()
        return {**state, "others": [each for each in state["others"] if "old" not in each["facts"]]}


def test_of_what_it_takes_over_in_part_the_rest_is_not_saved() -> None:
    agent = Trimming()
    agent.others = [Memory("old"), Memory("new")]
    agent.leader = agent.others[1]
    found = loaded(agent)
    assert found.others == [found.leader]
    assert found.leader.facts == ["new"]
    assert len(agent.others) == 2


class Locked(Memory):
    def __init__(self) -> None:
        super().__init__()
        self._lock = threading.Lock()


def test_no_object_gets_into_the_dict_that_the_class_made() -> None:
    kept: list[Any] = []

    class Keeping(Adding):
        def state_dict(self) -> dict[str, Any]:
            kept.append({**super().state_dict(), "more": [1]})
            return kept[-1]  # type: ignore[no-any-return]

    agent = Keeping(Locked())
    CheckpointManager().save("k", agent)
    assert kept[0]["leader"]["__class__"] == "Locked"


@pytest.mark.parametrize("way", [loaded, lambda agent: agent.state_dict()])
def test_two_that_change_copies_of_each_other(way: Way) -> None:
    one, two = Hiding(), Hiding()
    one.leader, two.leader = two, one
    with pytest.raises(SerializationError, match=r"Hiding.state_dict\(\) changes, or spells out"):
        way(one)
