"""Runs that save late: what was deleted stays so, and who looks sees what is under way."""

import asyncio
import operator
from collections.abc import Callable
from pathlib import Path
from typing import Annotated, Any, TypedDict

import pytest
from langgraph.checkpoint.base import empty_checkpoint
from langgraph.graph import START, StateGraph
from langgraph.types import interrupt

from lastgood import ThreadDeletedError
from lastgood.adapters.langgraph import LastgoodSaver
from tests.langgraph.test_saver import config


class State(TypedDict):
    log: Annotated[list[str], operator.add]


class Graph:
    """A graph with a subgraph in a subgraph; before it enters them, it does what it was told."""

    def __init__(self, saver: LastgoodSaver) -> None:
        self.todo: list[Callable[[], object]] = []
        self.asks = False
        inmost = StateGraph(State).add_node("node", self._node)
        inner = StateGraph(State).add_node("inmost", inmost.add_edge(START, "node").compile())
        self._inner = inner.add_edge(START, "inmost").compile()
        outer = StateGraph(State).add_node("call", self._call).add_edge(START, "call")
        self.app = outer.compile(checkpointer=saver)

    def _call(self, state: State) -> State:
        while self.todo:
            self.todo.pop()()
        return {"log": self._inner.invoke(state)["log"][-1:]}

    def _node(self, _: State) -> State:
        return {"log": [interrupt("sure?") if self.asks else "in"]}

    def run(self, durability: Any = "sync") -> Any:
        return self.app.invoke({"log": ["hello"]}, config(), durability=durability)["log"]


@pytest.fixture(params=["the same saver", "another one"])
def remover(request: pytest.FixtureRequest, saver: LastgoodSaver) -> LastgoodSaver:
    return saver if request.param == "the same saver" else LastgoodSaver(saver.client)


@pytest.mark.parametrize("durability", ["sync", "async", "exit"])
def test_a_subgraph_does_not_begin_a_deleted_thread(
    saver: LastgoodSaver, remover: LastgoodSaver, durability: Any
) -> None:
    graph = Graph(saver)
    graph.run()
    graph.asks = durability == "exit"  # or its subgraphs would save nothing at all
    graph.todo.append(lambda: remover.delete_thread("t"))
    with pytest.raises(ThreadDeletedError):
        graph.run(durability)
    assert list(saver.list(None)) == []
    assert list(saver.client.blocking.threads()) == []  # type: ignore[union-attr]


def test_a_subgraph_does_not_write_into_the_next_thread_of_that_name(
    saver: LastgoodSaver, remover: LastgoodSaver
) -> None:
    graph = Graph(saver)

    def meanwhile() -> None:
        remover.delete_thread("t")
        graph.app.invoke({"log": ["another"]}, config(), durability="sync")

    graph.todo.append(meanwhile)
    with pytest.raises(ThreadDeletedError):
        graph.run()
    assert graph.app.get_state(config()).values["log"][0] == "another"
    assert all("hello" not in str(each.checkpoint) for each in saver.list(None))


@pytest.mark.parametrize("durability", ["sync", "async", "exit"])
def test_a_run_that_begins_afterwards_begins_anew(
    saver: LastgoodSaver, remover: LastgoodSaver, durability: Any
) -> None:
    graph = Graph(saver)
    for _ in range(2):
        assert graph.run(durability) == ["hello", "in"]
        assert graph.app.get_state(config()).values["log"] == ["hello", "in"]
        remover.delete_thread("t")
    assert list(saver.list(None)) == []


def test_what_a_run_that_was_cancelled_still_writes_is_seen(tmp_path: Path) -> None:
    """LangGraph does not wait for it, and who looks or begins again is in the same loop."""

    async def play(saver: LastgoodSaver) -> Any:
        at: Any = {"configurable": {"thread_id": "t", "checkpoint_ns": ""}}
        at = await saver.aput(at, empty_checkpoint(), {"source": "input", "step": -1}, {})
        write = asyncio.create_task(saver.aput_writes(at, [("log", "done")], "task"))
        await asyncio.sleep(0)
        found = await saver.aget_tuple(at)
        await write
        await saver.aclose()
        return found and found.pending_writes

    saver = LastgoodSaver.from_sqlite(str(tmp_path / "agent.db"))
    assert asyncio.run(play(saver)) == [("task", "log", "done")]


@pytest.mark.parametrize("at_older", [True, False])
def test_what_a_run_that_was_cancelled_still_writes_is_rolled_back(
    tmp_path: Path, at_older: bool
) -> None:
    """It would be there after the rollback, and a node of the run be taken for one that ended."""

    def of_run(at: Any) -> Any:
        return {**at, "metadata": {"run_id": "r"}}

    async def play(saver: LastgoodSaver) -> Any:
        at: Any = {"configurable": {"thread_id": "t", "checkpoint_ns": ""}}
        at = await saver.aput(at, empty_checkpoint(), {"source": "input", "step": -1}, {})
        if at_older:
            await saver.aput(of_run(at), empty_checkpoint(), {"source": "loop", "step": 0}, {})
        writing = saver.aput_writes(of_run(at), [("log", "done")], "task")
        write = asyncio.create_task(writing)
        await asyncio.sleep(0)
        await saver.adelete_for_runs(["r"])
        await write
        found = [each async for each in saver.alist(None)]
        await saver.aclose()
        return [each.pending_writes for each in found]

    saver = LastgoodSaver.from_sqlite(str(tmp_path / "agent.db"))
    assert asyncio.run(play(saver)) == [[]]
