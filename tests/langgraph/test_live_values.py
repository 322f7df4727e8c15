"""Values that a graph goes on changing while a checkpoint is put: LangGraph gives the very objects.

A channel that has no new version is what was stored for its version, as in LangGraph's savers that
keep values by their versions. Of what is new in a step, all savers store what it is when they are
called.
"""

import threading
from typing import Annotated, Any, TypedDict

import pytest
from langgraph.channels import Topic
from langgraph.checkpoint.base import empty_checkpoint
from langgraph.checkpoint.memory import InMemorySaver
from langgraph.graph import START, StateGraph

from lastgood.adapters.langgraph import LastgoodSaver, memory
from lastgood.client import Client

AT: Any = {"configurable": {"thread_id": "t", "checkpoint_ns": ""}}
LONG = "x" * 6000


def put(saver: Any, at: Any, id: str, values: dict[str, Any], new: dict[str, Any], old: Any) -> Any:
    """Put a checkpoint of which some channels are new."""
    made = {**empty_checkpoint(), "id": id, "channel_values": values}
    made["channel_versions"] = {**old, **new}
    return saver.put(at, made, {"source": "loop", "step": int(id)}, new)


def changed_in_place(savers: list[Any], filler: Any, extra: int = 0) -> list[Any]:
    """What is stored where the values of channels change after they were stored."""
    topic, named = ["a"], {"seen": {"one"}, "filler": filler}
    wide: dict[str, Any] = {f"channel {number}": number for number in range(extra)}
    values = {"topic": topic, "named": named, "n": 1, **wide}
    old = dict.fromkeys(values, "1.1")
    at = put(savers[0], AT, "1", dict(values), old, {})
    topic.append("b")
    named["seen"] = {"one", "two"}
    at = put(savers[-1], at, "2", {**values, "n": 2}, {"n": "2.1"}, old)
    put(savers[-1], at, "3", {**values, "n": 3}, {"n": "3.1", "topic": "3.1"}, old)
    return [each.checkpoint["channel_values"] for each in savers[0].list(AT)]


@pytest.mark.parametrize("filler", ["small", LONG, [LONG, LONG]])
@pytest.mark.parametrize("extra", [0, 61, 62, 100])
@pytest.mark.parametrize("cache_bytes", [0, 1 << 20])
def test_what_is_not_new_is_what_was_stored(cache_bytes: int, extra: int, filler: Any) -> None:
    expected = changed_in_place([InMemorySaver()], filler, extra)
    assert [each["topic"] for each in expected] == [["a", "b"], ["a"], ["a"]]
    saver = LastgoodSaver.from_memory(cache_bytes=cache_bytes)
    assert changed_in_place([saver], filler, extra) == expected


@pytest.mark.parametrize("filler", ["small", LONG])
def test_also_what_another_saver_stored(client: Client, filler: Any) -> None:
    found = changed_in_place([LastgoodSaver(client), LastgoodSaver(client)], filler)
    assert found == changed_in_place([InMemorySaver()], filler)


@pytest.mark.parametrize("filler", ["small", LONG])
def test_also_what_nobody_remembers(filler: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(memory, "LIMIT", 0)
    found = changed_in_place([LastgoodSaver.from_memory(cache_bytes=0)], filler)
    assert found == changed_in_place([InMemorySaver()], filler)


def revised(savers: list[Any]) -> list[Any]:
    """What is stored behind a checkpoint that was put again, and that somebody had read before."""
    values: dict[str, Any] = {"topic": ["a"], "other": 1}
    old = {"topic": "1.1", "other": "1.1"}
    at = put(savers[0], AT, "1", dict(values), old, {})
    assert savers[-1].get_tuple(at) is not None
    new = {"topic": "2.1", "other": "2.1"}
    put(savers[0], AT, "1", {"topic": ["a", "b"], "other": 2}, new, {})
    late = {"topic": ["a", "b", "c"], "n": 1}
    put(savers[-1], at, "2", late, {"n": "3.1"}, new)
    return [each.checkpoint["channel_values"] for each in savers[0].list(AT)]


def test_also_what_somebody_put_anew(client: Client) -> None:
    expected = revised([InMemorySaver()])
    assert expected[0] == {"topic": ["a", "b"], "other": 2, "n": 1}
    assert revised([LastgoodSaver(client), LastgoodSaver(client)]) == expected


class State(TypedDict, total=False):
    told: Annotated[list[str], Topic(str, True)]
    n: int


def run(saver: Any, late: threading.Event) -> list[Any]:
    """What a graph has after each step, if the step after the second one is over before its put."""
    kept = saver.put

    def put(config: Any, checkpoint: Any, metadata: Any, new_versions: Any) -> Any:
        if metadata["step"] == 2:
            assert late.wait(20)
        return kept(config, checkpoint, metadata, new_versions)

    saver.put = put
    graph = StateGraph(State)
    graph.add_node("tell", lambda _: {"told": ["first"]})
    graph.add_node("count", lambda _: {"n": 1})
    graph.add_node("again", lambda _: {"told": ["second"]})
    graph.add_node("end", lambda _: late.set())
    graph.add_edge(START, "tell")
    graph.add_edge("tell", "count")
    graph.add_edge("count", "again")
    graph.add_edge("again", "end")
    app = graph.compile(checkpointer=saver)
    app.invoke({"n": 0}, AT, durability="async")
    return [each.values for each in app.get_state_history(AT)]


@pytest.mark.parametrize("cache_bytes", [0, 1 << 20])
def test_a_put_that_comes_after_the_next_step(cache_bytes: int) -> None:
    saver = LastgoodSaver.from_memory(cache_bytes=cache_bytes)
    found = run(saver, threading.Event())
    assert [each.get("told") for each in found[2:4]] == [["first"], ["first"]]
    assert found == run(InMemorySaver(), threading.Event())
