"""How often a graph goes to its server and back."""

import asyncio
from typing import Annotated, Any, TypedDict

import pytest
from langgraph.checkpoint.base import empty_checkpoint
from langgraph.graph import START, StateGraph
from langgraph.graph.message import add_messages

from lastgood import CheckpointIntegrityError
from lastgood.adapters.langgraph import LastgoodSaver
from lastgood.backends.remote.backend import RemoteBackend
from lastgood.client import Client
from lastgood.testing.suite import server_marks


class State(TypedDict):
    messages: Annotated[list[Any], add_messages]


def talking(saver: LastgoodSaver) -> Any:
    graph = StateGraph(State)
    graph.add_node("answer", lambda state: {"messages": [("ai", "an answer " * 50)]})
    graph.add_edge(START, "answer")
    return graph.compile(checkpointer=saver)


@pytest.fixture(params=[pytest.param(n, marks=server_marks(n)) for n in ("postgresql", "redis")])
def scheme(request: pytest.FixtureRequest) -> str:
    return request.param


@pytest.fixture
def trips(saver: LastgoodSaver, monkeypatch: pytest.MonkeyPatch) -> dict[str, int]:
    """Questions and changes that were sent."""
    backend = saver._core.backend
    assert isinstance(backend, RemoteBackend)
    counts = {"ask": 0, "apply": 0}

    def counted(name: str) -> None:
        method = getattr(backend, name)

        async def call(*args: Any) -> Any:
            counts[name] += 1
            return await method(*args)

        monkeypatch.setattr(backend, name, call)

    counted("ask")
    counted("apply")
    return counts


def test_a_turn_is_a_question_and_a_change_for_each_checkpoint(
    saver: LastgoodSaver, trips: dict[str, int]
) -> None:
    """The writes of a task go with the checkpoint behind them; those that are pending come with
    the head.
    """
    app, config = talking(saver), {"configurable": {"thread_id": "t"}}

    async def talk() -> Any:
        for turn in range(4):
            trips.update(ask=0, apply=0)
            said = {"messages": [("human", f"question {turn}")]}
            await app.ainvoke(said, config, durability="sync")
        counted = dict(trips)
        found = await app.aget_state(config)
        await saver.aclose()
        return counted, len(found.values["messages"])

    assert asyncio.run(talk()) == ({"ask": 1, "apply": 3}, 8)


def test_the_first_that_fits_is_not_looked_for_one_by_one(
    saver: LastgoodSaver, trips: dict[str, int]
) -> None:
    config: Any = {"configurable": {"thread_id": "t", "checkpoint_ns": ""}}
    first = last = saver.put(config, empty_checkpoint(), {"source": "input", "step": -1}, {})
    for step in range(20):
        last = saver.put(last, empty_checkpoint(), {"source": "loop", "step": step}, {})
    trips.update(ask=0)
    found = [each.config for each in saver.list(config, filter={"source": "input"}, limit=1)]
    assert found == [first]
    assert trips["ask"] <= 4


def test_all_that_another_process_put_is_seen(saver: LastgoodSaver, harness: Any) -> None:
    """Also writes behind the head that was seen last, and a head that was not."""
    with LastgoodSaver(Client.on(harness.backend())) as other:
        config: Any = {"configurable": {"thread_id": "t", "checkpoint_ns": ""}}
        talking(saver).invoke({"messages": [("human", "question")]}, config)
        head = saver.get_tuple(config)
        assert head is not None
        assert not head.pending_writes
        other.put_writes(head.config, [("messages", "late")], "task")
        seen = saver.get_tuple(config)
        assert seen is not None
        assert seen.pending_writes == [("task", "messages", "late")]
        talking(other).invoke({"messages": [("human", "another")]}, config)
        newest = saver.get_tuple(config)
        assert newest is not None
        assert newest == other.get_tuple(config)
        assert len(newest.checkpoint["channel_values"]["messages"]) == 4


def test_damage_behind_what_was_read_last_is_none_of_the_head(
    saver: LastgoodSaver, harness: Any
) -> None:
    with LastgoodSaver(Client.on(harness.backend())) as other:
        config: Any = {"configurable": {"thread_id": "t", "checkpoint_ns": ""}}
        former = saver.put(config, empty_checkpoint(), {}, {})
        other.put(former, empty_checkpoint(), {}, {})
        harness.time.shift += 1
        other.put_writes(former, [("messages", "late")], "task")
        harness.edit_row("item", "t", "value", b"forged")
        assert saver.get_tuple(config) == other.get_tuple(config)
        with pytest.raises(CheckpointIntegrityError, match="in thread 't'"):
            saver.get_tuple(former)
