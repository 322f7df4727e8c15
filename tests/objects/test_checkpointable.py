"""What the state of an object is, for every way in which a class can keep its attributes."""

from __future__ import annotations

import asyncio
import io
import json
import logging
import math
import queue
import random
import threading
from abc import ABC
from collections import Counter, OrderedDict, UserDict, defaultdict, deque
from contextlib import ContextDecorator
from dataclasses import dataclass, field
from decimal import Decimal
from functools import cached_property
from types import SimpleNamespace, new_class
from typing import Any, Generic, Protocol, TypeVar

import attrs
import msgspec
import pydantic
import pytest

from lastgood import (
    Checkpointable,
    CheckpointManager,
    SchemaMigrationError,
    SerializationError,
    register_migration,
)
from lastgood.objects.fields import captured


class Agent(Checkpointable):
    shared_by_all = "a class attribute"

    def __init__(self) -> None:
        self.memory: list[Any] = []
        self._cache: dict[str, Any] = {}

    @property
    def length(self) -> int:
        return len(self.memory)

    @cached_property
    def costly(self) -> int:
        return 42


def fields(agent: Checkpointable) -> dict[str, Any]:
    return {name: v for name, v in agent.state_dict().items() if not name.startswith("__")}


def through_a_store(agent: Checkpointable, target: Any) -> Any:
    manager = CheckpointManager()
    manager.save("k", agent)
    return manager.load("k", target)


class TestFields:
    def test_public_attributes_alone(self) -> None:
        agent = Agent()
        assert agent.costly == 42
        assert fields(agent) == {"memory": []}

    def test_a_field_in_the_place_of_a_cached_property(self) -> None:
        class Stated(Agent):
            costly = None  # type: ignore[assignment]

        agent = Stated()
        agent.costly = 7  # type: ignore[misc]
        assert fields(agent) == {"memory": [], "costly": 7}

    def test_a_snapshot_is_a_copy(self) -> None:
        agent = Agent()
        state = agent.state_dict()
        agent.memory.append(1)
        assert state["memory"] == []
        agent.load_state_dict(state)
        agent.memory.append(2)
        assert state["memory"] == []

    def test_inheritance(self) -> None:
        class Base(Checkpointable):
            __slots__ = ("a",)

        class Derived(Base):
            def __init__(self) -> None:
                self.a, self.b = 1, 2

        assert fields(Derived()) == {"a": 1, "b": 2}
        assert through_a_store(Derived(), object.__new__(Derived)).a == 1

    def test_slots(self) -> None:
        class Slotted(Checkpointable):
            __slots__ = ("_lock", "a", "b")

        one = Slotted()
        one.a, one._lock = 1, threading.Lock()
        assert not hasattr(one, "__dict__")
        assert fields(one) == {"a": 1}
        two = Slotted()
        two.b = "added since"
        through_a_store(one, two)
        assert two.a == 1
        assert not hasattr(two, "b")

    def test_named_fields(self) -> None:
        class Pinned(Checkpointable):
            def __init__(self) -> None:
                self.a, self._b, self.c = 1, 2, 3

            def _checkpoint_fields(self) -> list[str]:
                return ["a", "_b"]

        one = Pinned()
        assert fields(one) == {"a": 1, "_b": 2}
        two = Pinned()
        two.a, two._b, two.c = 7, 8, 9
        through_a_store(one, two)
        assert (two.a, two._b, two.c) == (1, 2, 9)

    def test_more_than_the_public_ones(self) -> None:
        class More(Checkpointable):
            def __init__(self) -> None:
                self.a, self._b = 1, 2

            def _checkpoint_fields(self) -> list[str]:
                return [*super()._checkpoint_fields(), "_b"]

        assert fields(More()) == {"a": 1, "_b": 2}

    def test_a_name_that_is_not_there(self) -> None:
        class Wrong(Agent):
            def _checkpoint_fields(self) -> list[str]:
                return ["memroy"]

        with pytest.raises(AttributeError, match=r"names 'memroy'.*Did you mean 'memory'"):
            Wrong().state_dict()

    def test_a_name_that_is_ours(self) -> None:
        class Wrong(Agent):
            def _checkpoint_fields(self) -> list[str]:
                return ["__version__"]

        with pytest.raises(ValueError, match="two underscores are ours"):
            Wrong().state_dict()

    def test_a_property_that_is_named(self) -> None:
        class Temperature(Checkpointable):
            def __init__(self) -> None:
                self._kelvin = 300.0

            @property
            def celsius(self) -> float:
                return self._kelvin - 273

            @celsius.setter
            def celsius(self, value: float) -> None:
                self._kelvin = value + 273

            def _checkpoint_fields(self) -> list[str]:
                return ["celsius"]

        one, two = Temperature(), Temperature()
        one.celsius = 0
        through_a_store(one, two)
        assert two._kelvin == 273

    def test_names_to_leave_out(self) -> None:
        class Busy(Checkpointable):
            def __init__(self) -> None:
                self.count, self.lock = 1, threading.Lock()

            def _checkpoint_skip(self) -> list[str]:
                return ["lock"]

        one, two = Busy(), Busy()
        one.count = 5
        lock = two.lock
        assert fields(one) == {"count": 5}
        through_a_store(one, two)
        assert (two.count, two.lock) == (5, lock)
        assert one.clone().lock is not one.lock

    @pytest.mark.parametrize("fmt", ["json", "pickle"])
    def test_a_lock_is_refused_with_its_path(self, fmt: Any) -> None:
        agent = Agent()
        agent.lock = threading.Lock()
        manager = CheckpointManager(fmt=fmt, key=b"k" * 16 if fmt == "pickle" else None)
        with pytest.raises(SerializationError, match=r"state\.lock") as error:
            manager.save("k", agent)
        assert "underscore" in str(error.value)
        assert error.value.path == "state.lock"
        with pytest.raises(SerializationError, match=r"Agent\.lock"):
            agent.state_dict()


@dataclass
class Data(Checkpointable):
    a: int
    b: list[int] = field(default_factory=list)


@dataclass(frozen=True, slots=True)
class Frozen(Checkpointable):
    a: int


class Model(pydantic.BaseModel, Checkpointable):
    a: int = 0
    b: list[int] = []
    _private: str = pydantic.PrivateAttr("p")


class Open(Checkpointable, pydantic.BaseModel):
    model_config = pydantic.ConfigDict(extra="allow")
    a: int = 0


@attrs.define
class Attrs(Checkpointable):
    a: int


class Struct(msgspec.Struct, Checkpointable):  # type: ignore[misc]
    a: int


T = TypeVar("T")
LOCK = threading.Lock()


@dataclass
class Box(Generic[T]):
    content: T

    @cached_property
    def lock(self) -> Any:
        return LOCK


class TestDataClasses:
    def test_what_is_not_stored_of_them_is_not_looked_into(self) -> None:
        """What typing notes on two objects is one thing, and so may be what they have cached."""
        agent = Agent()
        agent.memory = [Box[int](1), Box[int](2)]
        assert agent.memory[0].lock is agent.memory[1].lock
        found = through_a_store(agent, Agent())
        assert found.memory == agent.memory
        assert [vars(box) for box in found.memory] == [{"content": 1}, {"content": 2}]

    def test_what_is_not_stored_of_them_makes_no_difference(self) -> None:
        agent, manager = Agent(), CheckpointManager()
        agent.memory = [Box(1)]
        manager.save("k", agent)
        agent.memory[0].__dict__["lock"] = "cached"
        assert not any(manager.diff("k", agent=agent).values())

    @pytest.mark.parametrize(
        ("one", "two"),
        [
            (Data(1, [2]), Data(3)),
            (Frozen(1), Frozen(2)),
            (Model(a=1, b=[2]), Model()),
            (Open(a=1, x=5), Open(y=6)),
            (Attrs(1), Attrs(2)),
            (Struct(1), Struct(2)),
        ],
        ids=lambda value: type(value).__name__,
    )
    def test_they_can_be_checkpointable(self, one: Any, two: Any) -> None:
        assert one != two
        assert through_a_store(one, two) == one
        assert one.clone() == one
        assert one.clone() is not one

    def test_a_model_is_restored_as_a_model(self) -> None:
        model = Open(a=1, x=5)
        model._checkpoint_fields()
        found = through_a_store(model, Open(y=6))
        assert found.model_dump() == {"a": 1, "x": 5}
        assert found.model_extra == {"x": 5}
        private = Model(a=3)
        private._private = "mine"
        through_a_store(Model(a=1), private)
        assert (private.a, private._private) == (1, "mine")

    @pytest.mark.parametrize("make", [dataclass, dataclass(slots=True), attrs.define])
    def test_private_fields_of_one_that_is_made_have_their_defaults(self, make: Any) -> None:
        names = {"__annotations__": {"a": int, "_seen": dict, "_limit": int}}
        fresh = attrs.Factory(dict) if make is attrs.define else field(default_factory=dict)
        private = make(type("Private", (Checkpointable,), {**names, "_seen": fresh, "_limit": 9}))
        agent = Agent()
        agent.memory = [private(1)]
        found = through_a_store(agent, Agent()).memory[0]
        assert (found.a, found._seen, found._limit) == (1, {}, 9)

    def test_they_can_be_held(self) -> None:
        agent, note = Agent(), Data(1)
        agent.memory = [note, Frozen(2), Model(a=3), Attrs(4), Struct(5), note]
        found = through_a_store(agent, Agent())
        assert found.memory == agent.memory
        assert found.memory[0] is found.memory[-1]
        assert [type(each) for each in found.memory] == [type(each) for each in agent.memory]


class Team(Checkpointable):
    def __init__(self, lead: Any = None) -> None:
        self.lead = lead
        self.members: list[Any] = []


class Member(Checkpointable):
    def __init__(self, name: str) -> None:
        self.name = name
        self._connection = object()


@dataclass(frozen=True, eq=False)
class Token:
    """Equal to nothing but itself."""

    name: str


class TestNesting:
    def test_what_equals_itself_alone_is_one_in_all_its_places(self) -> None:
        team = Team(Token("a"))
        team.members = [Token("a"), team.lead]
        found = through_a_store(team, Team())
        assert found.members.index(found.lead) == 1

    def test_the_dict_is_recursive(self) -> None:
        team = Team(Member("a"))
        assert team.state_dict() == {
            "lead": {"name": "a", "__version__": "1.0", "__class__": "Member"},
            "members": [],
            "__version__": "1.0",
            "__class__": "Team",
        }

    def test_it_survives_json(self) -> None:
        team = Team(Member("a"))
        team.members = [Member("b"), team.lead]
        found = Team()
        found.load_state_dict(json.loads(json.dumps(team.state_dict())))
        assert [member.name for member in found.members] == ["b", "a"]
        assert type(found.lead) is Member

    def test_a_dict_that_looks_like_an_object_is_data(self) -> None:
        agent = Agent()
        agent.memory = [
            {"__class__": "Member", "__version__": "1.0"},
            {"__class__": "dict", "__value__": {"__class__": "x"}},
            {"__class__": agent},
        ]
        found = Agent()
        found.load_state_dict(agent.state_dict())
        assert found.memory[:2] == agent.memory[:2]
        assert found.memory[2]["__class__"] is found
        assert through_a_store(agent, Agent()).memory[:2] == agent.memory[:2]

    def test_a_cycle_is_a_cycle_in_the_dict(self) -> None:
        team = Team()
        team.lead = team
        state = team.state_dict()
        assert state["lead"] is state
        found = Team()
        found.load_state_dict(state)
        assert found.lead is found

    def test_a_long_chain_that_leads_back(self) -> None:
        first = last = Team()
        for _ in range(2000):
            last.lead = Team()
            last.lead.members = [last]
            last = last.lead
        found = through_a_store(first, Team())
        length = 0
        while found.lead is not None:
            assert found.lead.members[0] is found
            found, length = found.lead, length + 1
        assert length == 2000

    def test_too_deep_is_an_error_not_a_crash(self) -> None:
        team: Any = Team()
        for _ in range(1500):
            team = Team(team)
        with pytest.raises(SerializationError, match="deep"):
            CheckpointManager().save("k", team)

    @pytest.mark.parametrize("row", [list, tuple, deque])
    def test_private_attributes_of_inner_objects_stay(self, row: Any) -> None:
        team = Team(Member("a"))
        team.members = row([Member("b")])
        state = team.state_dict()
        lead, member = team.lead, team.members[0]
        connection = member._connection
        lead.name = member.name = "changed"
        team.load_state_dict(state)
        assert team.lead is lead
        assert team.members[0] is member
        assert member._connection is connection
        assert (lead.name, member.name) == ("a", "b")

    def test_a_name_that_several_classes_have(self) -> None:
        other = type("Member", (Checkpointable,), {"__module__": "elsewhere"})
        state = Team(Member("a")).state_dict()
        found = Team()
        found.load_state_dict(state)
        assert type(found.lead) is Member  # the one beside Team

        foreign = type("Foreign", (Team,), {"__module__": "third"})()
        with pytest.raises(SchemaMigrationError, match="there are several"):
            foreign.load_state_dict(state)
        assert foreign.lead is None
        del other

    def test_a_class_that_is_not_there(self) -> None:
        state = Team(Member("a")).state_dict()
        state["lead"]["__class__"] = "Nobody"
        with pytest.raises(SchemaMigrationError, match="Import it before loading"):
            Team().load_state_dict(state)

    def test_no_constructor_runs_at_a_load(self) -> None:
        class Counted(Checkpointable):
            made = 0

            def __init__(self) -> None:
                Counted.made += 1

        team = Team(Counted())
        through_a_store(team, Team())
        assert Counted.made == 1


class TestLoading:
    def test_strict(self) -> None:
        agent = Agent()
        state = {**agent.state_dict(), "plan": 1}
        with pytest.raises(SchemaMigrationError, match="plan"):
            agent.load_state_dict(state, strict=True)
        agent.load_state_dict(state)
        agent.load_state_dict(state, strict=True)
        assert fields(agent) == {"memory": [], "plan": 1}

    def test_lenient(self) -> None:
        agent = Agent()
        agent.plan = 1
        agent.load_state_dict({"memory": [1], "__class__": "Renamed"}, strict=False)
        assert fields(agent) == {"memory": [1], "plan": 1}

    def test_a_derived_class_takes_the_state_of_its_base(self) -> None:
        class Derived(Agent):
            pass

        found = Derived()
        found.load_state_dict({**Agent().state_dict(), "memory": [1]})
        assert found.memory == [1]
        with pytest.raises(SchemaMigrationError):
            Agent().load_state_dict(Derived().state_dict())

    def test_a_failure_in_the_middle_is_undone(self) -> None:
        class Fussy(Checkpointable):
            def __init__(self) -> None:
                self.a, self._limit = 1, 10

            @property
            def limit(self) -> int:
                return self._limit

            @limit.setter
            def limit(self, value: int) -> None:
                if value > 10:
                    raise ValueError("too much")
                self._limit = value

            def _checkpoint_fields(self) -> list[str]:
                return ["a", "limit"]

        team = Team(Fussy())
        team.members = ["before"]
        state = team.state_dict()
        state["lead"] |= {"a": 2, "limit": 11}
        state["members"] = []
        with pytest.raises(ValueError, match="too much"):
            team.load_state_dict(state)
        assert (team.members, team.lead.a, team.lead.limit) == (["before"], 1, 10)

    def test_a_class_may_bring_its_own_methods(self) -> None:
        class Own(Checkpointable):
            def __init__(self) -> None:
                self.a = 1
                self.parts: list[Any] = []

            def state_dict(self) -> dict[str, Any]:
                return {**super().state_dict(), "saved_by": "me"}

            def load_state_dict(self, state: Any, *, strict: bool | None = None) -> None:
                super().load_state_dict(
                    {name: v for name, v in state.items() if name != "saved_by"}, strict=strict
                )
                self._loaded = state["saved_by"]

        one = Own()
        one.a = 5
        one.parts = [Member("a"), one.parts]
        one.parts.append(one.parts[0])
        found = through_a_store(one, Own())
        assert (found.a, found._loaded) == (5, "me")
        assert found.parts[0] is found.parts[2]
        team = Team(one)
        assert team.state_dict()["lead"]["saved_by"] == "me"
        held = through_a_store(team, Team())
        assert (held.lead.a, held.lead._loaded) == (5, "me")
        assert one.clone()._loaded == "me"


class TestCloning:
    def test_a_constructor_without_arguments_is_called(self) -> None:
        agent = Agent()
        agent._cache["x"] = 1
        agent.memory.append([1])
        cloned = agent.clone()
        cloned.memory[0].append(2)
        assert agent.memory == [[1]]
        assert cloned._cache == {}

    def test_otherwise_what_is_no_state_is_shared(self) -> None:
        member = Member("a")
        cloned = member.clone()
        cloned.name = "b"
        assert member.name == "a"
        assert cloned._connection is member._connection

    def test_what_a_cached_property_gave_is_not_shared(self) -> None:
        class Named(Checkpointable):
            def __init__(self, name: str) -> None:
                self.name = name

            @cached_property
            def letters(self) -> list[str]:
                return [*self.name]

        named = Named("ab")
        assert named.letters == ["a", "b"]
        cloned = named.clone()
        cloned.letters.append("c")
        assert named.letters == ["a", "b"]

    def test_objects_inside_are_cloned_too(self) -> None:
        team = Team(Member("a"))
        team.members = [team.lead, team]
        cloned = team.clone()
        assert cloned.lead is cloned.members[0] is not team.lead
        assert cloned.members[1] is cloned
        assert cloned.lead._connection is team.lead._connection
        assert cloned.state_dict().keys() == team.state_dict().keys()


class Row:
    """Compared part by part, as arrays are: the answer has no truth."""

    def __init__(self, *parts: int) -> None:
        self.parts = parts

    def __eq__(self, other: object) -> Any:
        return Undecided()

    __hash__ = None  # type: ignore[assignment]


class Undecided:
    def __bool__(self) -> bool:
        raise ValueError("ambiguous")


class TestDiff:
    def test_by_field(self) -> None:
        one, two = Agent(), Agent()
        one.a, two.memory, two.b = 1, [1], 2
        assert one.diff(two) == {
            "added": {"b": 2},
            "removed": {"a": 1},
            "changed": {"memory": ([], [1])},
        }
        assert one.diff(one.state_dict()) == {"added": {}, "removed": {}, "changed": {}}

    @pytest.mark.parametrize(
        ("old", "new", "same"),
        [
            (math.nan, math.nan, True),
            (1, 1.0, False),
            (1, True, False),
            ({"a": 1, "b": 2}, {"b": 2, "a": 1}, True),
            ([1, (2, 3)], [1, [2, 3]], False),
            (deque([1], 2), deque([1], 3), False),
            (defaultdict(list), defaultdict(int), False),
            (Counter("aab"), Counter("aba"), True),
            ({1, 2}, {2, 1}, True),
            (Data(1), Data(1), True),
            (Data(1), Data(2), False),
            (Member("a"), Member("a"), True),
            (Member("a"), Member("b"), False),
            (object, object, True),
            (Row(1), Row(1), False),
        ],
    )
    def test_the_same_or_not(self, old: Any, new: Any, same: bool) -> None:
        one, two = Agent(), Agent()
        one.memory, two.memory = [old], [new]
        assert one.diff(two)["changed"].keys() == (set() if same else {"memory"})

    def test_cycles(self) -> None:
        one, two = Agent(), Agent()
        one.memory.append(one.memory)
        two.memory.append(two.memory)
        assert one.diff(two)["changed"] == {}
        two.memory.append(1)
        assert one.diff(two)["changed"].keys() == {"memory"}


class Versioned(Checkpointable):
    def _checkpoint_version(self) -> str:
        return "1.10"


T = TypeVar("T")


class Talks(Protocol):
    def talk(self) -> str: ...


class Slotted:
    __slots__ = ("a", "b")


class Wrapped:
    """Something else stands where its slot was."""

    __slots__ = ("a",)


Wrapped.a = property(lambda _: 1)  # type: ignore[method-assign, assignment]


class TestMistakes:
    """What is easily written wrong is told in words of this door."""

    @pytest.mark.parametrize(
        ("hook", "told"),
        [
            ({"_checkpoint_version": "2.0"}, "is called as a method"),
            ({"_checkpoint_fields": ["memory"]}, "is called as a method"),
            ({"_checkpoint_version": lambda _: 2}, r"returned 2. Return text: '2'"),
            ({"_checkpoint_fields": lambda _: "memory"}, r"list of names: \['memory'\]"),
            ({"_checkpoint_skip": lambda _: "memory"}, r"list of names: \['memory'\]"),
        ],
    )
    def test_hooks(self, hook: Any, told: str) -> None:
        with pytest.raises(TypeError, match=told):
            type("Hooked", (Agent,), hook)().state_dict()

    @pytest.mark.parametrize(
        "base",
        [
            *(dict, OrderedDict, list, set, deque, str, int, float, tuple, bytes),
            *(Exception, OSError, random.Random, io.StringIO, io.BytesIO, Decimal),
        ],
    )
    def test_a_class_with_contents_that_are_no_attributes(self, base: Any) -> None:
        held = type("Held", (Checkpointable, base), {})()
        for act in (Team(held).state_dict, Team(held).clone, lambda: through_a_store(held, held)):
            told = f"Held is also a (Base)?{base.__name__}, whose contents .* be lost"
            with pytest.raises(TypeError, match=told):
                act()

    @pytest.mark.parametrize(
        "base",
        [
            *(ABC, Talks, Generic[T], threading.Thread, queue.Queue, UserDict, SimpleNamespace),
            *(io.RawIOBase, asyncio.Event, logging.Handler, ContextDecorator, Slotted, Wrapped),
        ],
    )
    def test_a_base_whose_contents_are_attributes(self, base: Any) -> None:
        held = new_class("Held", (Checkpointable, base))()
        held.mine = 7
        assert captured(held)["mine"] == 7

    def test_a_class_may_keep_such_contents_itself(self) -> None:
        class Memory(Checkpointable, dict):  # type: ignore[type-arg]
            def state_dict(self) -> dict[str, Any]:
                return {**super().state_dict(), "facts": dict(self)}

            def load_state_dict(self, state: Any, *, strict: bool | None = None) -> None:
                self.update(state["facts"])

        assert through_a_store(Team(Memory(a=1)), Team()).lead == {"a": 1}
        assert Team(Memory(a=1)).clone().lead == {"a": 1}

    @pytest.mark.parametrize("state", [None, [1], "state"])
    def test_a_state_that_is_none(self, state: Any) -> None:
        with pytest.raises(TypeError, match="a state is a dict"):
            Agent().load_state_dict(state)
        with pytest.raises(TypeError, match="a state is a dict"):
            Agent().diff(state)

    def test_a_chain_that_is_too_long_to_be_copied(self) -> None:
        one, two = Team(), Team()
        for team in (one, two):
            last = team
            for _ in range(2000):
                last.lead = Team()
                last = last.lead
        assert one.diff(two)["changed"] == {}
        last.lead = 1
        assert one.diff(two)["changed"].keys() == {"lead"}
        with pytest.raises(SerializationError, match="nests too deeply to be copied"):
            Team().load_state_dict(one.state_dict())

    def test_a_version_that_is_no_text(self) -> None:
        with pytest.raises(SchemaMigrationError, match="__version__, which is no text"):
            Agent().load_state_dict({"__version__": 1, "__class__": "Agent"})

    def test_only_what_is_missing_is_told(self) -> None:
        agent = Agent()
        with pytest.raises(SchemaMigrationError, match=r"Agent: the state has no memory \("):
            agent.load_state_dict({}, strict=True)

    def test_the_path_of_what_cannot_be_copied(self) -> None:
        agent: Any = Agent()
        agent.memory = [{"tools": (1, threading.Lock())}, agent]
        with pytest.raises(SerializationError, match=r"Agent\.memory\[0\]\.tools\[1\]: it cannot"):
            agent.state_dict()


class TestMigrations:
    def loaded(self, name: str, version: str, **state: Any) -> Any:
        cls = type(name, (Versioned,), {})
        found = cls()
        found.load_state_dict({**state, "__version__": version, "__class__": name})
        return found

    def test_steps_without_a_target_follow_each_other(self) -> None:
        for version in ("1.9", "1.2", "1.1"):
            register_migration(
                "Chained",
                from_version=version,
                fn=lambda state, v=version: {**state, "seen": [*state["seen"], v]},
            )
        assert self.loaded("Chained", "1.1", seen=[]).seen == ["1.1", "1.2", "1.9"]
        assert self.loaded("Chained", "1.9", seen=[]).seen == ["1.9"]

    def test_a_target_may_be_named(self) -> None:
        register_migration("Named", from_version="a", to_version="b", fn=lambda s: {**s, "x": 1})
        register_migration("Named", from_version="b", to_version="1.10", fn=lambda s: s)
        assert self.loaded("Named", "a").x == 1
        register_migration("Named", from_version="2.0", to_version="1.10", fn=lambda s: s)
        assert self.loaded("Named", "2.0", y=2).y == 2

    def test_what_is_missing_is_named(self) -> None:
        register_migration("Gappy", from_version="1.1", to_version="1.2", fn=lambda s: s)
        with pytest.raises(SchemaMigrationError, match=r"the step from 1\.2 is missing.*1\.1"):
            self.loaded("Gappy", "1.1")
        with pytest.raises(SchemaMigrationError, match="newer than the class"):
            self.loaded("Gappy", "2.0")

    def test_a_class_that_is_behind_takes_no_step_that_leads_on(self) -> None:
        register_migration("Behind", from_version="2.0", fn=lambda s: {**s, "x": 1})
        with pytest.raises(SchemaMigrationError, match=r"version 2\.0, newer than the class"):
            self.loaded("Behind", "2.0")

    def test_versions_may_be_names(self) -> None:
        class Newest(Checkpointable):
            def _checkpoint_version(self) -> str:
                return "v2"

        register_migration("Newest", from_version="1.0", fn=lambda s: {**s, "x": 1})
        found: Any = Newest()
        found.load_state_dict({"__version__": "1.0", "__class__": "Newest"})
        assert found.x == 1

    @pytest.mark.parametrize(
        ("wrong", "told"),
        [
            ({"name": Versioned}, "the name of its class: 'Versioned'"),
            ({"from_version": 1.0}, "from_version must be a str, not float"),
            ({"to_version": 2}, "to_version must be a str, not int"),
            ({"fn": None}, "fn must be a function"),
        ],
    )
    def test_what_could_never_be_found_is_refused(self, wrong: Any, told: str) -> None:
        right: Any = {"name": "Refused", "from_version": "1.0", "fn": dict}
        with pytest.raises(TypeError, match=told):
            register_migration(**(right | wrong))

    def test_circles(self) -> None:
        register_migration("Circle", from_version="a", to_version="b", fn=lambda s: s)
        register_migration("Circle", from_version="b", to_version="a", fn=lambda s: s)
        with pytest.raises(SchemaMigrationError, match="in circles"):
            self.loaded("Circle", "a")
        with pytest.raises(ValueError, match="to itself"):
            register_migration("Circle", from_version="a", to_version="a", fn=lambda s: s)

    @pytest.mark.parametrize(
        "fn", [lambda _: None, lambda state: state["missing"]], ids=["nothing", "an error"]
    )
    def test_a_function_that_fails(self, fn: Any) -> None:
        register_migration("Failing", from_version="1.0", fn=fn)
        with pytest.raises(SchemaMigrationError, match=r"migration of Failing from version 1\.0"):
            self.loaded("Failing", "1.0")

    def test_the_callers_state_stays_as_it_is(self) -> None:
        register_migration("Kept", from_version="1.0", fn=lambda s: s.pop("a") and s)
        state = {"a": 1, "b": 2, "__version__": "1.0", "__class__": "Kept"}
        found = type("Kept", (Versioned,), {})()
        found.load_state_dict(state)
        assert state["a"] == 1
        assert fields(found) == {"b": 2}
