"""Classes and states that are not quite like others."""

from __future__ import annotations

import threading
from collections import OrderedDict
from types import MappingProxyType
from typing import Any, Self

import pydantic
import pytest

from lastgood import Checkpointable, CheckpointManager, SerializationError


class Agent(Checkpointable):
    def __init__(self, **fields: Any) -> None:
        vars(self).update(fields)


class Rows(Checkpointable, pydantic.RootModel[list[int]]):
    """Has no place for extra fields, and no default for its root."""


class TestRootModels:
    def test_are_loaded_in_place_and_as_new_ones(self) -> None:
        manager, rows = CheckpointManager(), Rows([1, 2])
        manager.save("k", rows)
        assert manager.load("k", Rows([])) == rows
        manager.save("k", Agent(rows=rows))
        assert manager.load("k", Agent()).rows == rows

    def test_are_rolled_back(self) -> None:
        rows = Rows([1])
        with pytest.raises(ValueError), CheckpointManager().rollback_context("k", rows):  # noqa: PT012
            rows.root.append(2)
            raise ValueError
        assert rows == Rows([1])

    def test_are_cloned(self) -> None:
        rows = Rows([1])
        cloned = rows.clone()
        cloned.root.append(2)
        assert (rows, cloned) == (Rows([1]), Rows([1, 2]))


class Single(Checkpointable):
    """There is one object of it."""

    one: Any = None

    def __new__(cls) -> Self:
        cls.one = cls.one or object.__new__(cls)
        found: Self = cls.one
        return found

    def __init__(self) -> None:
        vars(self).setdefault("facts", [])


def test_a_clone_is_another_object_though_its_class_makes_one_alone() -> None:
    single = Single()
    cloned = single.clone()
    cloned.facts.append("new")
    assert single.facts == []
    assert type(cloned) is Single


class TestAStateThatSomebodyWrote:
    def test_may_be_one_that_nobody_can_change(self) -> None:
        given, agent = {"facts": [1]}, Agent()
        agent.load_state_dict(MappingProxyType(given))
        agent.facts.append(2)
        assert given == {"facts": [1]}

    @pytest.mark.parametrize("wrap", [dict, MappingProxyType])
    @pytest.mark.parametrize("make", [threading.Lock, lambda: Bound()])
    def test_is_refused_with_the_place_of_what_cannot_be_copied(self, wrap: Any, make: Any) -> None:
        agent = Agent(x=1)
        with pytest.raises(SerializationError, match="cannot be copied") as raised:
            agent.load_state_dict(wrap({"x": 2, "parts": [1, {"lock": make()}]}))
        assert raised.value.path == "state.parts[1].lock"
        assert agent.x == 1

    def test_is_compared_by_its_fields(self) -> None:
        differs = {"added": {}, "removed": {}, "changed": {"x": (1, 2)}}
        assert Agent(x=1).diff({"x": 2}) == differs
        assert Agent(x=1).diff({"x": 2, "__version__": "1.0"}) == differs

    @pytest.mark.parametrize(
        ("old", "new"),
        [
            ({1: "one"}, {True: "one"}),
            ({True: "one"}, {1: "one"}),
            ({(1, "a"): 2}, {(1.0, "a"): 2}),
            (OrderedDict(a=1, b=2), OrderedDict(b=2, a=1)),
        ],
    )
    def test_is_compared_by_the_types_of_keys_and_by_an_order_that_counts(
        self, old: Any, new: Any
    ) -> None:
        assert Agent(x=old).diff({"x": new})["changed"] == {"x": (old, new)}
        assert Agent(x=old).diff({"x": old})["changed"] == {}

    def test_is_compared_by_its_version_if_it_has_one(self) -> None:
        state = Agent(x=1).state_dict() | {"__version__": "2.0"}
        assert Agent(x=1).diff(state)["changed"] == {"__version__": ("1.0", "2.0")}


class Asked(Agent):
    answer: Any = None

    def _checkpoint_skip(self) -> Any:
        return self.answer


class Awaited(Agent):
    async def _checkpoint_fields(self) -> list[str]:  # type: ignore[override]
        return ["x"]


class Late(Agent):
    async def load_state_dict(self, state: Any, *, strict: bool | None = None) -> None:  # type: ignore[override]
        vars(self).update(state)


class TestWhatAClassGetsWrong:
    @pytest.mark.parametrize("answer", [None, 3, "x", ["x", 3], [None]])
    def test_names_that_are_none(self, answer: object, monkeypatch: pytest.MonkeyPatch) -> None:
        monkeypatch.setattr(Asked, "answer", answer)
        with pytest.raises(
            TypeError, match=r"Asked\._checkpoint_skip\(\) returned .*list of names"
        ):
            Asked(x=1).state_dict()

    @pytest.mark.filterwarnings("ignore:coroutine")
    def test_a_hook_that_is_awaited(self) -> None:
        with pytest.raises(TypeError, match=r"Awaited\._checkpoint_fields\(\) returned <corout"):
            Awaited(x=1).state_dict()

    def test_a_load_that_is_awaited(self) -> None:
        manager, late = CheckpointManager(), Late(x=1)
        manager.save("k", Agent(late=late, x=1))
        agent = Agent(late=late, x=2)
        with pytest.raises(TypeError, match=r"Late\.load_state_dict\(\) is a coroutine"):
            manager.load("k", agent)
        assert agent.x == 2


class Bound:
    """As a tensor of a graph, or a lock between processes: it says so itself, in its own words."""

    def __reduce_ex__(self, protocol: Any) -> Any:
        raise RuntimeError("only through inheritance")


@pytest.mark.parametrize(
    ("work", "root"),
    [
        (lambda agent: agent.state_dict(), "Agent"),
        (lambda agent: agent.clone(), "Agent"),
        (CheckpointManager(fmt="pickle", key=b"0123456789abcdef").save, "state"),
    ],
    ids=["state_dict", "clone", "pickle"],
)
def test_the_place_of_what_refuses_to_be_copied_is_named(work: Any, root: str) -> None:
    agent = Agent(parts=[1, {"bound": Bound()}])
    with pytest.raises(SerializationError, match="only through inheritance") as raised:
        work("k", agent) if root == "state" else work(agent)
    assert raised.value.path == f"{root}.parts[1].bound"
