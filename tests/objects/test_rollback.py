"""What a rollback leaves as it was beside the fields that it gives back."""

from __future__ import annotations

import threading
from collections import deque
from dataclasses import dataclass
from pathlib import Path
from typing import Any, NamedTuple

import msgspec
import pydantic
import pytest

from lastgood import BlockingClient, Checkpointable, CheckpointManager, register_migration


class Failed(Exception):
    pass


class Agent(Checkpointable):
    def __init__(self, inner: Any = None) -> None:
        self.inner = inner
        self.count = 1


class Empty(Checkpointable):
    """Has nothing in it, and is false for that."""

    def __init__(self) -> None:
        self.facts: list[str] = []
        self._client = object()

    def __len__(self) -> int:
        return len(self.facts)


class Undecided(Empty):
    def __bool__(self) -> bool:
        raise ValueError("ambiguous")


@pytest.mark.parametrize("make", [Empty, Undecided])
def test_the_truth_of_an_inner_object_does_not_matter(make: type[Empty]) -> None:
    inner = make()
    agent, client = Agent([inner]), inner._client
    with pytest.raises(Failed), CheckpointManager().rollback_context("k", agent):  # noqa: PT012
        agent.inner, agent.count = None, 2
        raise Failed
    assert agent.inner[0] is inner
    assert (inner._client, agent.count) == (client, 1)


class Pair(NamedTuple):
    """Cannot be without one of its parts."""

    left: Any
    right: Any


@dataclass
class Note:
    lock: Any
    text: str = "n"


@dataclass(frozen=True, slots=True)
class SlottedNote:
    lock: Any
    text: str = "n"


class StructNote(msgspec.Struct):
    lock: Any
    text: str = "n"


class Busy(Checkpointable):
    def __init__(self, inner: Any = None) -> None:
        self.inner = inner
        self.count = 1
        self.lock = threading.Lock()
        self.pair = Pair(1, threading.Lock())


class Asking(Busy):
    """Takes its state itself, with our help."""

    def load_state_dict(self, state: Any, *, strict: bool | None = None) -> None:
        super().load_state_dict(state, strict=strict)


class TestWhatWasLeftOut:
    @pytest.fixture
    def manager(self) -> CheckpointManager:
        return CheckpointManager(BlockingClient.memory(on_unserializable="drop"))

    def agents(self) -> list[Busy]:
        inner = Busy()
        odd = Busy({("a", "key"): inner})
        return [Busy([odd, inner]), odd, inner, Asking(inner), Asking()]

    @pytest.mark.parametrize("at", range(5))
    def test_a_rollback_leaves_it_alone(self, manager: CheckpointManager, at: int) -> None:
        agents = self.agents()
        locks = [(agent.lock, agent.pair) for agent in agents]
        with pytest.raises(Failed), manager.rollback_context("k", agents[at]):  # noqa: PT012
            for agent in agents:
                agent.count, agent.added = 2, "since"
            raise Failed
        assert agents[at].count == 1
        assert not hasattr(agents[at], "added")
        assert [(agent.lock, agent.pair) for agent in agents] == locks

    @pytest.mark.parametrize("strict", [None, True, False])
    def test_a_load_leaves_what_the_object_has(
        self, manager: CheckpointManager, strict: bool | None
    ) -> None:
        manager.save("k", Busy(Busy()))
        target = Busy(Busy())
        target.count = target.inner.count = 5
        locks = [target.lock, target.inner.lock]
        manager.load("k", target, strict=strict)
        assert [target.lock, target.inner.lock] == locks
        assert (target.count, target.inner.count) == (1, 1)

    def test_what_several_places_share(self, manager: CheckpointManager) -> None:
        lock = threading.Lock()
        agent: Any = Agent(Agent())
        agent.lock = agent.inner.lock = lock
        agent.pair = agent.inner.pair = Pair(1, lock)
        agent.parts = [lock, (1, lock), deque([lock, 2]), {"x": lock, "y": 3}, Pair(4, lock)]
        agent.notes = [Note(lock), SlottedNote(lock), StructNote(lock)]
        with pytest.raises(Failed), manager.rollback_context("k", agent):  # noqa: PT012
            agent.count = agent.inner.count = 2
            raise Failed
        for each in (agent, agent.inner):
            assert (each.count, each.lock, each.pair) == (1, lock, Pair(1, lock))
        for found in (agent, manager.load("k", Agent())):
            assert found.parts == [(1,), deque([2]), {"y": 3}]
            assert [note.text for note in found.notes] == ["n", "n", "n"]
            assert not any(hasattr(note, "lock") for note in found.notes)

    def test_a_load_makes_nothing_up(self, manager: CheckpointManager) -> None:
        manager.save("k", Busy(Busy()))
        target = Busy()
        del target.lock
        manager.load("k", target)
        assert not hasattr(target, "lock")
        assert vars(target.inner).keys() == {"inner", "count"}


class Model(pydantic.BaseModel, Checkpointable):
    a: int = 1
    b: int = 2
    inner: Any = None


class TestWhatCountsAsSet:
    def test_a_rollback_gives_it_back(self) -> None:
        inner = Model(b=3)
        agent = Agent([Model(a=5, inner=inner)])
        with pytest.raises(Failed), CheckpointManager().rollback_context("k", agent):  # noqa: PT012
            agent.inner[0].b = inner.a = 7
            raise Failed
        assert agent.inner[0].model_fields_set == {"a", "inner"}
        assert inner.model_dump(exclude_unset=True) == {"b": 3}

    def test_a_clone_has_the_same(self) -> None:
        cloned = Model(a=5, inner=Model(b=3)).clone()
        assert cloned.model_fields_set == {"a", "inner"}
        assert cloned.inner.model_dump(exclude_unset=True) == {"b": 3}
        cloned.b = 7
        assert cloned.model_fields_set == {"a", "b", "inner"}

    @pytest.mark.parametrize("key", [None, b"k" * 32])
    def test_a_load_gives_it_back(self, key: bytes | None, tmp_path: Path) -> None:
        agent = Agent([Model(a=5, inner=Model(b=3)), Model(a=1, b=2, inner=None)])
        manager = CheckpointManager("file", tmp_path, "pickle" if key else "json", key=key)
        manager.save("k", agent)
        found = manager.load("k", Agent([])).inner
        assert [each.model_fields_set for each in found] == [{"a", "inner"}, {"a", "b", "inner"}]
        manager.save("m", agent.inner[0])
        target = manager.load("m", Model(a=1, b=1, inner=1))
        assert target.model_dump(exclude_unset=True) == {"a": 5, "inner": {"b": 3}}

    def test_what_a_user_gives_counts_as_set(self) -> None:
        state = Model(a=5).state_dict()
        assert state.keys() == {"a", "b", "inner", "__version__", "__class__"}
        target = Model()
        target.load_state_dict(state | {"b": 7})
        assert target.model_dump(exclude_unset=True) == {"a": 5, "b": 7, "inner": None}

    def test_a_class_that_loads_itself_is_given_what_it_gave(self) -> None:
        manager = CheckpointManager()
        manager.save("k", Closed(a=5))
        assert manager.load("k", Closed(a=1)).a == 5

    @pytest.mark.parametrize("unset", [None, 5, "b", [[]], ["b", {}, 3, "none of its fields"]])
    def test_what_is_no_list_of_names_is_harmless(self, unset: object) -> None:
        target = Model()
        target.load_state_dict(Model(a=5).state_dict() | {"__unset__": unset})
        assert target.a == 5
        assert "a" in target.model_fields_set

    def test_it_is_no_difference(self) -> None:
        manager, agent = CheckpointManager(), Agent([Model(a=5)])
        manager.save("k", agent)
        agent.inner[0].b = 2
        assert agent.inner[0].model_fields_set == {"a", "b"}
        assert manager.diff("k", agent=agent) == {"added": {}, "removed": {}, "changed": {}}
        assert not any(agent.inner[0].diff(Model(a=5)).values())

    def test_what_a_migration_gives_counts_as_set(self) -> None:
        def renamed(state: dict[str, Any]) -> dict[str, Any]:
            state["b"] = 7
            state["items"].append(1)
            return state

        register_migration("Migrated", from_version="0.9", fn=renamed)
        unset = {"__version__": "0.9", "__unset__": ["b", "c", "items"]}
        state = Migrated(a=5).state_dict() | unset
        target = Migrated()
        target.load_state_dict(state)
        assert target.model_dump(exclude_unset=True) == {"a": 5, "b": 7, "items": [1]}

    def test_what_is_not_loaded_counts_as_before(self) -> None:
        state = Migrated().state_dict() | {"__unset__": ["a", "b", "c", "items"]}
        target = Skipping(a=5, b=3)
        target.load_state_dict(state | {"__class__": "Skipping"})
        assert target.model_fields_set == {"b"}
        del state["b"]
        kept = Migrated(b=3)
        kept.load_state_dict(state, strict=False)
        assert kept.model_fields_set == {"b"}

    def test_a_model_that_is_being_made_has_a_state(self) -> None:
        assert BeingMade().seen == {"__version__": "1.0", "__class__": "BeingMade"}


class Migrated(Checkpointable, pydantic.BaseModel):
    a: int = 1
    b: int = 1
    c: int = 1
    items: list[int] = []


class Closed(Checkpointable, pydantic.BaseModel):
    model_config = pydantic.ConfigDict(extra="forbid")
    a: int
    b: int = 1

    def load_state_dict(self, state: Any, *, strict: bool | None = None) -> None:
        words = ("__version__", "__class__")
        self.__init__(**{k: v for k, v in state.items() if k not in words})  # type: ignore[misc]


class Skipping(Migrated):
    def _checkpoint_skip(self) -> list[str]:
        return ["b"]


class BeingMade(Checkpointable, pydantic.BaseModel):
    seen: dict[str, Any] = {}

    def __init__(self) -> None:
        super().__init__(seen=self.state_dict())
