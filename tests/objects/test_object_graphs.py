"""Whatever the graph of objects: it comes back in its shape, and a rollback leaves no trace."""

from __future__ import annotations

import copy
import functools
import itertools
import json
import sys
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any, NamedTuple

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from object_graphs import (
    ATOMS,
    MAKERS,
    NAMES,
    PLACES,
    Agent,
    Note,
    Slotted,
    assert_same_graph,
    graphs,
    parts,
    state_of,
)

from lastgood import BlockingClient, Checkpointable, CheckpointManager
from lastgood.codec import Codec
from lastgood.objects import forms, walking
from lastgood.objects.forms import Forms
from lastgood.objects.unweaving import graph_of
from lastgood.objects.walking import survey
from lastgood.objects.weaving import woven

MANAGERS = {
    "json": CheckpointManager(),
    "pickle": CheckpointManager(fmt="pickle", key=b"0123456789abcdef"),
    "uncached": CheckpointManager(BlockingClient.memory(cache_bytes=0)),
}


@pytest.fixture(autouse=True, scope="module")
def quickly() -> Iterator[None]:
    """As in a process that has not imported numpy: containers of atoms are not looked into.

    And as if the states were large: something is remembered of each level.
    """
    before = walking.UNTRACKED, forms.MANY
    walking.UNTRACKED, forms.MANY = frozenset(), 1
    yield
    walking.UNTRACKED, forms.MANY = before


quick = settings(max_examples=settings.default.max_examples * 4 // 10, deadline=None)
slow = pytest.mark.slow
with_each_manager = pytest.mark.parametrize(
    "name", ["json", pytest.param("pickle", marks=slow), pytest.param("uncached", marks=slow)]
)


@with_each_manager
@quick
@given(agent=graphs())
def test_a_graph_comes_back_in_a_new_object(name: str, agent: Agent) -> None:
    manager = MANAGERS[name]
    manager.save("graph", agent)
    assert_same_graph(agent, manager.load("graph", Agent()))


@quick
@given(agent=graphs(), other=graphs())
def test_a_graph_comes_back_in_an_object_that_holds_another(agent: Agent, other: Agent) -> None:
    manager = MANAGERS["json"]
    manager.save("graph", agent)
    assert_same_graph(agent, manager.load("graph", other))


@quick
@given(agent=graphs())
def test_a_state_dict_is_a_copy_of_that_shape(agent: Agent) -> None:
    state = agent.state_dict()
    before = copy.deepcopy(agent)
    fresh = Agent()
    fresh.load_state_dict(state)
    assert_same_graph(agent, fresh)
    assert_same_graph(before, agent)


@quick
@given(agent=graphs())
def test_a_clone_has_that_shape_and_shares_nothing(agent: Agent) -> None:
    cloned = agent.clone()
    assert_same_graph(agent, cloned)
    assert nodes_in(agent).keys().isdisjoint(nodes_in(cloned))


@quick
@given(agent=graphs())
def test_the_text_spelling_keeps_it_too(agent: Agent) -> None:
    codec = Codec()
    text = codec.dumps_text(woven(agent))
    fresh = Agent()
    state: Any = codec.loads_text(text)
    MANAGERS["json"].client.save("object", session_id="text", execution_state=state)
    assert_same_graph(agent, MANAGERS["json"].load("text", fresh))
    assert graph_of(state).state["__class__"] == "Agent"


def nodes_in(value: Any) -> dict[int, Any]:
    found: dict[int, Any] = {}
    todo = [value]
    while todo:
        node = todo.pop()
        if type(node) in PLACES and id(node) not in found:
            found[id(node)] = node
        elif type(node) is not tuple:
            continue
        todo += state_of(node).values()
    return found


def test_plain_values_alone_are_looked_into_quickly() -> None:
    """The way that the other tests go where no other library is loaded; see `quickly`."""
    agent, inner = Agent(), {"plain": 1}
    agent.a, agent.b = {"x": "y"}, [inner, ("t", inner)]
    assert survey([agent]).shared == [inner]


def test_of_what_is_held_once_nothing_is_noted(monkeypatch: pytest.MonkeyPatch) -> None:
    """The interpreter counts holders as we think it does: too many would make each look slow."""
    reached = walking._Reached([])
    monkeypatch.setattr(walking, "_Reached", lambda roots: reached)
    agent = Agent()
    agent.a = json.loads('{"messages": [{"role": "user", "parts": [{"text": "hello"}, [[1]]]}]}')
    assert survey([agent]).shared == []
    assert reached._seen <= {id(agent)}


class Bare(Checkpointable):
    __slots__ = ()


@dataclass(slots=True, eq=False)
class Mark:
    """It has no field."""


@pytest.mark.parametrize("cls", [Bare, Mark])
def test_what_has_no_attributes_is_found_where_all_others_are_atoms(cls: type) -> None:
    """The collector knows of it, so it knows of what holds it."""
    agent, held = Agent(), cls()
    agent.a, agent.b = {"x": "y", "held": held}, (1, held)
    assert survey([agent]).shared == [held]


@pytest.mark.parametrize("holders", range(4))
@pytest.mark.parametrize("depth", [0, 1, 5])
def test_what_is_reached_twice_is_shared_whoever_else_holds_it(holders: int, depth: int) -> None:
    agent = Agent()
    agent.a = [["first"], ["then"], ["alone"]]
    agent.b = functools.reduce(lambda below, _: [below], range(depth), [agent.a[0]])
    agent.c = functools.reduce(lambda below, _: [below], range(depth + 2), [agent.a[1]])
    elsewhere = [[*agent.a] for _ in range(holders)]
    assert list(map(id, survey([agent]).shared)) == list(map(id, agent.a[:2]))
    assert len(elsewhere) == holders


def test_an_object_that_leads_back_to_itself_is_shared_if_nobody_else_holds_it() -> None:
    def roots() -> Iterator[Agent]:
        agent = Agent()
        agent.a = [agent]
        yield agent

    (agent,) = survey(roots()).shared
    assert agent.a == [agent]


class Failed(Exception):
    """What ends a block."""


def edit(draw: Any, agent: Agent) -> None:
    """Change something somewhere in the graph."""
    nodes = [*nodes_in(agent).values(), MAKERS[draw(st.sampled_from(list(MAKERS)))]()]
    node = draw(st.sampled_from(nodes))
    held = list(state_of(node))
    if held and draw(st.booleans()):
        step = draw(st.sampled_from(held))
        del_ = node.__delitem__ if isinstance(node, dict) or isinstance(step, int) else None
        if del_ is not None:
            del_(step)
        elif not isinstance(node, Note) and type(node) in (Agent, Slotted):
            delattr(node, step)
    else:
        draw(st.sampled_from(PLACES[type(node)]))(node, draw(parts(nodes)))


@quick
@given(agent=graphs(), data=st.data())
def test_what_is_remembered_of_a_state_makes_no_difference(
    agent: Agent, data: st.DataObject
) -> None:
    codec, remembered = Codec(), Forms()
    for _ in range(data.draw(st.integers(1, 4))):
        tree = codec.dumps_text(woven(agent))
        assert codec.dumps_text(woven(agent, remembered)) == tree
        assert codec.dumps_text(woven(agent, remembered)) == tree
        edit(data.draw, agent)


CHANGES: dict[str, Callable[[list[dict[str, Any]]], object]] = {
    "shared in place of another": lambda notes: notes[7].update(tags=notes[8]["tags"]),
    "shared in place of text": lambda notes: notes[7].update(text=notes[8]["tags"]),
    "shared at the end": lambda notes: notes.append(notes[8]),
    "shared within the end": lambda notes: notes.append({"text": "", "tags": notes[8]["tags"]}),
    "shared in between": lambda notes: notes.insert(7, notes[8]),
    "an object at the end": lambda notes: notes.append({"text": Agent(), "tags": []}),
    "an object deep inside": lambda notes: notes[7]["tags"].append(Agent()),
    "leading back": lambda notes: notes[7]["tags"].append(notes),
    "shorter": lambda notes: notes.__setitem__(7, notes.pop()),
}


@pytest.mark.parametrize("change", CHANGES)
def test_a_change_that_follows_equal_saves_is_noticed(change: str) -> None:
    agent, manager = Agent(), MANAGERS["json"]
    agent.notes = [{"text": str(number), "tags": [number]} for number in range(20)]
    for _ in range(3):
        manager.save("notes", agent)
    CHANGES[change](agent.notes)
    manager.save("notes", agent)
    assert_same_graph(agent, manager.load("notes", Agent()))


@with_each_manager
@quick
@given(agent=graphs(), data=st.data())
def test_edits_of_any_kind_are_rolled_back(name: str, agent: Agent, data: st.DataObject) -> None:
    before = copy.deepcopy(agent)
    objects = {
        id(node): (node, getattr(node, "_client", None) or getattr(node, "_lock", None))
        for node in nodes_in(agent).values()
        if isinstance(node, Agent | Slotted)
    }
    with pytest.raises(Failed), MANAGERS[name].rollback_context("edits", agent):  # noqa: PT012
        for _ in range(data.draw(st.integers(1, 6))):
            edit(data.draw, agent)
        raise Failed
    assert_same_graph(before, agent)
    found = nodes_in(agent).items()
    assert {key for key, node in found if isinstance(node, Agent | Slotted)} == objects.keys()
    for node, private in objects.values():
        assert (getattr(node, "_client", None) or getattr(node, "_lock", None)) is private


@slow
@quick
@given(agents=st.lists(graphs(), min_size=2, max_size=3), data=st.data())
def test_several_agents_are_rolled_back_together(agents: list[Agent], data: st.DataObject) -> None:
    for agent in agents:
        agent.partner = data.draw(parts(agents))
    before = copy.deepcopy(agents)
    with pytest.raises(Failed), MANAGERS["json"].rollback_context("team", *agents):  # noqa: PT012
        for agent in agents:
            edit(data.draw, agent)
            setattr(agent, data.draw(st.sampled_from(NAMES)), data.draw(ATOMS))
        raise Failed
    assert_same_graph(before, agents)


class Row(NamedTuple):
    first: Any
    second: Any


class Chatty(Row):
    """Gives what it makes up when somebody iterates."""

    __slots__ = ()

    def __iter__(self) -> Iterator[Any]:
        return iter([[], []])


def test_a_tuple_is_looked_into_past_its_class() -> None:
    part: list[Any] = [[]]
    found = survey([[Chatty(part, 1), part]])
    assert len(found.shared) == 1
    assert found.shared[0] is part


class Chained(Checkpointable):
    def __init__(self) -> None:
        self.next: object = None
        self.last: object = None


class Named(Chained):
    def _checkpoint_fields(self) -> list[str]:
        return ["next", "last"]


def test_a_chain_of_objects_that_name_their_fields_is_walked_through_once(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    length, asked = 300, []

    def counted(value: object) -> int:
        asked.append(1)
        return sys.getrefcount(value)

    links = [Named() for _ in range(length)]
    for one, other in itertools.pairwise(links):
        one.next, other.last = other, one
    monkeypatch.setattr(walking, "getrefcount", counted)
    woven(links[0])
    assert len(asked) < 10 * length
