"""Real graphs on our saver, with nodes that need no model: crashes, interrupts, forks."""

import asyncio
import operator
import os
import subprocess
import sys
import time
from collections import Counter
from typing import Annotated, Any, TypedDict

import pytest
from langchain_core.messages import AIMessage, HumanMessage
from langgraph.graph import END, START, StateGraph
from langgraph.graph.message import add_messages
from langgraph.types import Command, Send, interrupt

from lastgood.adapters.langgraph import LastgoodSaver
from lastgood.refs import Address

DURABILITY = ["sync", "async", "exit"]


class State(TypedDict, total=False):
    log: Annotated[list[str], operator.add]
    n: int


def config(thread: str = "t", **options: Any) -> Any:
    return {"configurable": {"thread_id": thread, **options}}


def chain(*names: str, ran: Counter[str] | None = None) -> StateGraph[Any, Any, Any, Any]:
    """Nodes in a row, each of which notes its name."""
    graph = StateGraph(State)
    before = START
    for name in names:

        def node(state: State, name: str = name) -> State:
            if ran is not None:
                ran[name] += 1
            return {"log": [name], "n": state.get("n", 0) + 1}

        graph.add_node(name, node)
        graph.add_edge(before, name)
        before = name
    graph.add_edge(before, END)
    return graph


@pytest.mark.parametrize("durability", DURABILITY)
def test_a_conversation_goes_on_in_another_process(saver: LastgoodSaver, durability: Any) -> None:
    app = chain("a", "b").compile(checkpointer=saver)
    app.invoke({"log": ["in"]}, config(), durability=durability)
    other = chain("a", "b").compile(checkpointer=LastgoodSaver(saver.client))
    found = other.invoke({"log": ["again"]}, config(), durability=durability)
    assert found == {"log": ["in", "a", "b", "again", "a", "b"], "n": 4}
    history = list(other.get_state_history(config()))
    assert len(history) == {"sync": 8, "async": 8, "exit": 2}[durability]
    assert other.get_state(config()).next == ()


@pytest.mark.parametrize("durability", DURABILITY)
def test_async_graphs(saver: LastgoodSaver, durability: Any) -> None:
    async def play() -> Any:
        app = chain("a", "b").compile(checkpointer=saver)
        await app.ainvoke({"log": ["in"]}, config(), durability=durability)
        return [found.values async for found in app.aget_state_history(config())]

    found = asyncio.run(play())
    assert found[0] == {"log": ["in", "a", "b"], "n": 2}


def _wait_for_write(saver: LastgoodSaver, channel: str) -> None:
    for _ in range(400):
        found = saver.get_tuple(config())
        if found and any(name == channel for _, name, _ in found.pending_writes or []):
            return
        time.sleep(0.01)
    raise TimeoutError(channel)


@pytest.mark.scenario("S52")
def test_a_finished_branch_does_not_run_again(saver: LastgoodSaver) -> None:
    ran: Counter[str] = Counter()

    def good(_: State) -> State:
        ran["good"] += 1
        return {"log": ["good"]}

    def bad(_: State) -> State:
        ran["bad"] += 1
        if ran["bad"] == 1:
            _wait_for_write(saver, "log")  # LangGraph drops what ends after the first error
            raise RuntimeError("the tool broke")
        return {"log": ["bad"]}

    graph = StateGraph(State)
    graph.add_node("good", good)
    graph.add_node("bad", bad)
    graph.add_edge(START, "good")
    graph.add_edge(START, "bad")
    app = graph.compile(checkpointer=saver)
    with pytest.raises(RuntimeError):
        app.invoke({"log": []}, config(), durability="sync")
    assert app.get_state(config()).next == ("bad",)
    found = app.invoke(None, config())
    assert sorted(found["log"]) == ["bad", "good"]
    assert ran == {"good": 1, "bad": 2}


def test_two_interrupts_in_one_node(saver: LastgoodSaver) -> None:
    def ask(_: State) -> State:
        return {"log": [interrupt("first?"), interrupt("second?")]}

    graph = StateGraph(State)
    graph.add_node("ask", ask)
    graph.add_edge(START, "ask")
    app = graph.compile(checkpointer=saver)
    app.invoke({"log": []}, config())
    assert [i.value for i in app.get_state(config()).interrupts] == ["first?"]
    app.invoke(Command(resume="one"), config())
    assert [i.value for i in app.get_state(config()).interrupts] == ["second?"]
    assert app.invoke(Command(resume="two"), config())["log"] == ["one", "two"]
    assert app.get_state(config()).interrupts == ()


@pytest.mark.scenario("S53")
def test_an_interrupt_in_a_loop(saver: LastgoodSaver) -> None:
    asked: list[int] = []

    def ask(_: State) -> State:
        tries = 0
        while not interrupt({"try": tries}):
            tries += 1
        asked.append(tries)
        return {"log": [f"after {tries}"]}

    graph = chain("effect")
    graph.add_node("ask", ask)
    graph.add_edge("effect", "ask")
    app = graph.compile(checkpointer=saver)
    app.invoke({"log": []}, config())
    for number, answer in enumerate([False, False, False, True]):
        assert app.get_state(config()).interrupts[0].value == {"try": number}
        app.invoke(Command(resume=answer), config())
    assert app.get_state(config()).values["log"] == ["effect", "after 3"]
    assert asked == [3]


def _nested(saver: LastgoodSaver, ran: Counter[str]) -> Any:
    def ask(_: State) -> State:
        ran["ask"] += 1
        return {"log": [interrupt("sure?")]}

    def before(_: State) -> State:
        ran["before"] += 1
        return {"log": ["before"]}

    inner = StateGraph(State)
    inner.add_node("before", before)
    inner.add_node("ask", ask)
    inner.add_edge(START, "before")
    inner.add_edge("before", "ask")
    outer = StateGraph(State)
    outer.add_node("inner", inner.compile())
    outer.add_edge(START, "inner")
    return outer.compile(checkpointer=saver)


def test_an_interrupt_inside_a_subgraph(saver: LastgoodSaver) -> None:
    ran: Counter[str] = Counter()
    _nested(saver, ran).invoke({"log": []}, config())
    app = _nested(LastgoodSaver(saver.client), ran)
    state = app.get_state(config(), subgraphs=True)
    assert state.tasks[0].state.values["log"] == ["before"]
    assert app.invoke(Command(resume="yes"), config())["log"] == ["before", "yes"]
    assert ran == {"before": 1, "ask": 2}


@pytest.mark.scenario("S46")
def test_a_subgraph_eight_levels_down_is_found_by_its_agent(saver: LastgoodSaver) -> None:
    """Its name is the way to it, and longer than a name that users may choose."""
    inner: Any = chain("leaf").compile()
    for level in range(8):
        outer = StateGraph(State)
        outer.add_node(f"level {level}", inner)
        outer.add_edge(START, f"level {level}")
        inner = outer.compile(checkpointer=saver if level == 7 else None)
    inner.invoke({"log": ["in"]}, config())
    client = saver.client.blocking
    (info,) = client.threads()
    deepest = max(info.agents, key=len)
    assert len(deepest) > 300
    found = client.latest(agent_id=deepest, session_id="t")
    assert found is not None
    assert found.state["log"][-1] == "leaf"
    assert client.timeline(deepest, "t")[0] == found
    assert client.log("t", agent_id=deepest)[0].checkpoint_id == found.checkpoint_id
    address = str(Address("t", deepest, "head"))
    assert client.restore(address).checkpoint_id == found.checkpoint_id
    assert client.fork(address) is not None


def test_time_travel_into_a_subgraph(saver: LastgoodSaver) -> None:
    ran: Counter[str] = Counter()
    app = _nested(saver, ran)
    app.invoke({"log": []}, config())
    inside = app.get_state(config(), subgraphs=True).tasks[0].state
    assert inside.next == ("ask",)
    app.invoke(Command(resume="yes"), config())
    found = saver.get_tuple(inside.config)
    assert found is not None
    assert found.config["configurable"]["checkpoint_ns"].startswith("inner:")
    assert found.checkpoint["id"] == inside.config["configurable"]["checkpoint_id"]


@pytest.mark.scenario("S12")
def test_fan_out_by_send(saver: LastgoodSaver) -> None:
    def spread(_: State) -> list[Send]:
        return [Send("work", {"n": number}) for number in range(10)]

    def work(state: State) -> State:
        return {"log": [f"work {state['n']}"]}

    graph = StateGraph(State)
    graph.add_node("work", work)
    graph.add_conditional_edges(START, spread, ["work"])
    app = graph.compile(checkpointer=saver, interrupt_before=["work"])
    app.invoke({"log": []}, config())
    other = graph.compile(checkpointer=LastgoodSaver(saver.client))
    found = other.invoke(None, config())
    assert found["log"] == [f"work {number}" for number in range(10)]


def test_time_travel_from_every_checkpoint(saver: LastgoodSaver) -> None:
    app = chain("a", "b", "c").compile(checkpointer=saver)
    app.invoke({"log": ["in"]}, config())
    history = list(app.get_state_history(config()))
    for place in history:
        again = app.get_state(place.config)
        assert (again.values, again.next) == (place.values, place.next)
        app.invoke(None, place.config)
        assert app.get_state(config()).values["log"] == ["in", "a", "b", "c"]
    for place in history:
        again = app.get_state(place.config)
        assert (again.values, again.next) == (place.values, place.next)


def test_update_state_forks(saver: LastgoodSaver) -> None:
    app = chain("a", "b").compile(checkpointer=saver)
    app.invoke({"log": ["in"]}, config())
    history = list(app.get_state_history(config()))
    after_a = next(place for place in history if place.next == ("b",))
    ends = []
    for name in ("x", "y"):
        fork = app.update_state(after_a.config, {"log": [name]})
        ends.append(app.invoke(None, fork)["log"])
        assert app.get_state(config()).values["log"] == ["in", "a", name, "b"]
    assert ends == [["in", "a", "x", "b"], ["in", "a", "y", "b"]]
    assert app.get_state(history[0].config).values["log"] == ["in", "a", "b"]


@pytest.mark.scenario("S45")
def test_replay_asks_again(saver: LastgoodSaver) -> None:
    graph = chain("a")
    graph.add_node("ask", lambda _: {"log": [interrupt("sure?")]})
    graph.add_edge("a", "ask")
    app = graph.compile(checkpointer=saver)
    app.invoke({"log": []}, config())
    app.invoke(Command(resume="yes"), config())
    before = next(p for p in app.get_state_history(config()) if p.next == ("a",))
    app.invoke(None, before.config)
    assert [i.value for i in app.get_state(config()).interrupts] == ["sure?"]
    assert app.invoke(Command(resume="no"), config())["log"] == ["a", "no"]


def test_messages_cost_what_is_new(saver: LastgoodSaver) -> None:
    class Chat(TypedDict):
        messages: Annotated[list[Any], add_messages]

    def answer(state: Chat) -> Any:
        return {"messages": [AIMessage(f"{len(state['messages'])} " + "x" * 1000)]}

    graph = StateGraph(Chat)
    graph.add_node("answer", answer)
    graph.add_edge(START, "answer")
    app = graph.compile(checkpointer=saver)
    blocking = saver.client.blocking  # type: ignore[union-attr]
    sizes = []
    for turn in range(40):
        app.invoke({"messages": [HumanMessage("y" * 1000)]}, config(), durability="sync")
        if turn in (19, 39):
            sizes.append(blocking.stats("t").total.physical)
    assert sizes[1] < 2.2 * sizes[0]
    assert sizes[1] < 40 * 12_000
    found = app.get_state(config()).values["messages"]
    assert [type(message) for message in found] == [HumanMessage, AIMessage] * 40


def test_with_an_allowlist(saver: LastgoodSaver) -> None:
    from tests.langgraph.states import Order

    class Typed(TypedDict):
        order: Order

    graph = StateGraph(Typed)
    graph.add_node("a", lambda state: {"order": Order(state["order"].name + "!")})
    graph.add_edge(START, "a")
    app = graph.compile(checkpointer=saver.with_allowlist([Order]))
    app.invoke({"order": Order("x")}, config())
    assert app.get_state(config()).values["order"] == Order("x!")


STRICT = """
from typing import Any, TypedDict

from langgraph.graph import START, StateGraph

from lastgood.adapters.langgraph import LastgoodSaver
from lastgood.errors import SerializationError
from tests.langgraph.states import Order, Other


class Typed(TypedDict):
    order: Order
    anything: Any


graph = StateGraph(Typed)
graph.add_node("a", lambda state: {"order": Order(state["order"].name + "!")})
graph.add_edge(START, "a")
saver, config = LastgoodSaver.from_memory(), {"configurable": {"thread_id": "t"}}
app = graph.compile(checkpointer=saver)
app.invoke({"order": Order("x")}, config)
assert app.get_state(config).values["order"] == Order("x!")
try:
    app.invoke({"anything": Other("y")}, config)
except SerializationError as error:
    print(error)
app = graph.compile(checkpointer=saver.with_allowlist([Other]))
assert app.invoke({"anything": Other("y")}, config)["order"] == Order("x!!")
"""


def test_strict_mode_of_langgraph() -> None:
    """The classes of the schema, and those that are named. Read when LangGraph is imported."""
    settings = {**os.environ, "LANGGRAPH_STRICT_MSGPACK": "true"}
    found = subprocess.run(
        [sys.executable, "-c", STRICT], env=settings, check=True, capture_output=True, text=True
    )
    assert found.stdout.endswith("Register the class, or add it to the allowlist.\n")


@pytest.mark.parametrize("stateful", [None, True])
def test_a_subgraph_does_not_store_its_input_again(saver: LastgoodSaver, stateful: Any) -> None:
    class Chat(TypedDict):
        messages: Annotated[list[Any], add_messages]

    inner = StateGraph(Chat)
    inner.add_node("answer", lambda state: {"messages": [AIMessage(str(len(state["messages"])))]})
    inner.add_edge(START, "answer")
    graph = StateGraph(Chat)
    graph.add_node("inner", inner.compile(checkpointer=stateful))
    graph.add_edge(START, "inner")
    app = graph.compile(checkpointer=saver)
    long = [HumanMessage("y" * 1000, id=f"long {number}") for number in range(100)]
    app.invoke({"messages": long}, config(), durability="sync")
    blocking = saver.client.blocking  # type: ignore[union-attr]
    before = _without_writes(saver)
    for turn in range(5):
        app.invoke({"messages": [HumanMessage(f"question {turn}")]}, config(), durability="sync")
    assert _without_writes(saver) - before < 60_000
    history = list(app.get_state_history(config()))
    assert [len(place.values["messages"]) for place in history if not place.next] == [
        111, 109, 107, 105, 103, 101,
    ]  # fmt: skip
    inside = [t for t in saver.list(config()) if t.config["configurable"]["checkpoint_ns"]]
    assert {
        len(found.checkpoint["channel_values"]["__start__"]["messages"])
        for found in inside
        if "__start__" in found.checkpoint["channel_values"]
    } == {100, 102, 104, 106, 108, 110}
    assert blocking.verify("t", data=True).clean


def _without_writes(saver: LastgoodSaver) -> int:
    """Bytes of the states of a thread: a write of a whole list is stored as it is."""
    blocking = saver.client.blocking  # type: ignore[union-attr]
    writes = sum(
        len(saver._core.codec.pack(value))
        for found in saver.list(config())
        for _, _, value in found.pending_writes or []
    )
    return int(blocking.stats("t").total.physical) - writes
