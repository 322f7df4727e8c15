"""Errors about values that cannot be kept name the place in the user's objects."""

from __future__ import annotations

import threading
from collections import deque
from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from typing import Any

import pytest

from lastgood import Checkpointable, CheckpointManager, SerializationError, checkpoint


class Agent(Checkpointable):
    def __init__(self, **fields: Any) -> None:
        vars(self).update(fields)


@dataclass
class Note:
    text: Any


def beside(lock: Any) -> Agent:
    return Agent(n=1, lock=lock, inner=Agent(lock=lock))


def in_a_list(lock: Any) -> Agent:
    return Agent(parts=[1, {"a b": lock}], rest=(lock,))


def in_a_shared_part(lock: Any) -> Agent:
    part = {"lock": lock}
    return Agent(first=[part, part])


def in_shared_parts_alone(lock: Any) -> Agent:
    one, other = [lock], {"lock": lock}
    return Agent(a=[one, one], b=[other, other])


def in_a_record(lock: Any) -> Agent:
    return Agent(queue=deque([Note(lock), lock]))


def in_a_cycle(lock: Any) -> Agent:
    agent = Agent(lock=[lock, lock])
    agent.me = agent  # type: ignore[attr-defined]
    return agent


PLACES: list[tuple[Callable[[Any], Agent], str]] = [
    (beside, "state.lock"),
    (in_a_list, "state.rest[0]"),
    (in_a_shared_part, "state.first[0].lock"),
    (in_shared_parts_alone, "state.a[0][0]"),
    (in_a_record, "state.queue[1]"),
    (in_a_cycle, "state.lock[0]"),
]


FORMATS: dict[str, CheckpointManager] = {
    "a lock cannot be stored": CheckpointManager(),
    "it cannot be pickled": CheckpointManager(fmt="pickle", key=b"0123456789abcdef"),
}
in_each_format = pytest.mark.parametrize("told", FORMATS)


@in_each_format
@pytest.mark.parametrize(("made", "path"), PLACES)
def test_a_value_that_several_places_share(
    told: str, made: Callable[[Any], Agent], path: str
) -> None:
    with pytest.raises(SerializationError, match=told) as raised:
        FORMATS[told].save("k", made(threading.Lock()))
    assert raised.value.path == path
    assert str(raised.value).startswith(f"{path}: ")


@in_each_format
def test_the_second_of_several_agents(told: str) -> None:
    manager, lock = FORMATS[told], threading.Lock()
    with (
        pytest.raises(SerializationError) as raised,
        manager.rollback_context("k", Agent(), Agent(parts=[lock])),
    ):
        pytest.fail("the block was entered")
    assert raised.value.path == "agents[1].parts[0]"


@in_each_format
def test_a_part_that_is_named_like_our_words(told: str) -> None:
    with pytest.raises(SerializationError) as raised:
        FORMATS[told].save("k", Agent(deep={"__shared__": {"1": threading.Lock()}}))
    assert raised.value.path == 'state.deep.__shared__["1"]'


class ReadOnly(Checkpointable):
    def __init__(self) -> None:
        self.x = 1

    @property
    def double(self) -> int:
        return self.x * 2

    def _checkpoint_fields(self) -> list[str]:
        return ["x", "double"]


class Restored(ReadOnly):
    def load_state_dict(self, state: Any, *, strict: bool | None = None) -> None:
        self.x = state["double"] // 2


def test_a_property_that_no_load_could_give_back_is_not_saved() -> None:
    manager, agent = CheckpointManager(), ReadOnly()
    with pytest.raises(TypeError, match="'double', a property without a setter"):
        manager.save("k", agent)
    with (
        pytest.raises(TypeError, match="no load could give it back"),
        manager.rollback_context("k", agent),
    ):
        pytest.fail("the block was entered")
    assert manager.list_keys() == []


def test_a_class_that_loads_itself_may_have_such_a_property() -> None:
    manager, agent = CheckpointManager(), Restored()
    manager.save("k", agent)
    agent.x = 5
    assert manager.load("k", agent).x == 1


class TestWhatADecoratorIsGiven:
    """It is refused before the function runs: what that returned would be lost."""

    def test_another_manager(self) -> None:
        with pytest.raises(TypeError, match="saves with a CheckpointManager, not with a str"):
            checkpoint("here", key="k")  # type: ignore[arg-type]

    @pytest.mark.parametrize("key", [None, 3, "", "a\nb"])
    def test_what_is_no_key(self, key: Any) -> None:
        with pytest.raises((TypeError, ValueError), match="key"):
            checkpoint(CheckpointManager(), key=key)

    def test_a_key_that_is_awaited(self) -> None:
        async def key(agent: Agent) -> str:
            return "k"

        with pytest.raises(TypeError, match="make it a def"):
            checkpoint(CheckpointManager(), key=key)  # type: ignore[arg-type]

    def test_a_key_that_is_awaited_when_its_object_is_called(self) -> None:
        class Key:
            async def __call__(self, agent: Agent) -> str:
                return "k"

        for key in (Key(), Key().__call__, partial(Key()), partial(partial(Key().__call__))):
            with pytest.raises(TypeError, match="make it a def"):
                checkpoint(CheckpointManager(), key=key)  # type: ignore[arg-type]

    def test_a_key_that_turns_out_to_be_awaited(self) -> None:
        async def key(agent: Agent) -> str:
            return "k"

        step = checkpoint(CheckpointManager(), key=lambda agent: key(agent))(lambda agent: None)  # type: ignore[arg-type, return-value]
        with pytest.raises(TypeError, match="make it a def"):
            step(Agent())

    def test_a_key_that_an_object_gives_when_it_is_called(self) -> None:
        class Key:
            def __call__(self, agent: Agent) -> str:
                return "k"

        manager = CheckpointManager()
        checkpoint(manager, key=partial(Key()))(lambda agent: None)(Agent())
        assert manager.list_keys() == ["k"]

    @pytest.mark.parametrize("key", [None, 3, ""])
    def test_a_key_that_turns_out_to_be_none(self, key: Any) -> None:
        ran = []

        @checkpoint(CheckpointManager(), key=lambda _: key)
        def step(agent: Agent) -> None:
            ran.append(agent)

        with pytest.raises((TypeError, ValueError), match="key"):
            step(Agent())
        assert ran == []


@pytest.mark.parametrize("method", ["save", "load"])
def test_a_class_in_the_place_of_an_object(method: str) -> None:
    with pytest.raises(TypeError, match=r"Agent is a class. Pass an object of it: Agent\(...\)"):
        getattr(CheckpointManager(), method)("k", Agent)
