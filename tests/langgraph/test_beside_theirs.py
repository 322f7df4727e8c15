"""The same random acts on a graph with LangGraph's own saver and with ours: all results are equal.

Two savers of ours take turns on one store, as two processes would. Ids, versions and times are
replaced by the order in which they turn up, and tuples by lists, which is what theirs gives back.
"""

import operator
import random
import re
from collections.abc import Callable, Sequence
from typing import Annotated, Any, TypedDict

import pytest
from langchain_core.messages import AIMessage, BaseMessage, HumanMessage
from langgraph.channels import DeltaChannel
from langgraph.checkpoint.memory import InMemorySaver
from langgraph.graph import END, START, StateGraph
from langgraph.graph.message import add_messages
from langgraph.types import Command, Interrupt, Send, interrupt

from lastgood.adapters.langgraph import LastgoodSaver
from lastgood.client import Client
from lastgood.testing.harness import BackendHarness

AT: Any = {"configurable": {"thread_id": "t"}}
ACTS = 12
_IDS = re.compile(r"[0-9a-f]{8}(?:-[0-9a-f]{4}){3}-[0-9a-f]{12}|\b[0-9a-f]{32}\b")
_VERSION = re.compile(r"\b0{20,}(\d+)\.[0-9.e-]+")
_TIME = re.compile(r"\d{4}-\d\d-\d\dT[0-9:.]+(\+00:00)?")


def merged(state: list[Any] | None, writes: Sequence[Any]) -> list[Any]:
    found: Any = list(state or [])
    for write in writes:
        found = add_messages(found, write)
    return list(found)


class State(TypedDict, total=False):
    log: Annotated[list[Any], operator.add]
    messages: Annotated[list[Any], add_messages]
    told: Annotated[list[Any], DeltaChannel(merged, snapshot_frequency=3)]
    n: int


def count(state: State) -> Any:
    n = state.get("n", 0)
    return {"n": n + 1, "messages": [AIMessage("x" * 200, id=f"n{n}")]}


def work(state: Any) -> Any:
    name = f"{state['n']}-{state['of']}"
    return {"log": [("work", name)], "told": [AIMessage("done", id=name)]}


def one(state: State) -> Any:
    return {
        "log": [("one", interrupt("first"), interrupt("second"))] if state["n"] % 2 else ["one"]
    }


def two(state: State) -> Any:
    return {"log": [("two", interrupt({"at": state["n"]}))] if state["n"] % 3 else ["two"]}


def end(state: State) -> Any:
    return {"log": ["end"], "told": [HumanMessage("end", id=f"end{len(state.get('told') or [])}")]}


def chosen(state: State) -> Any:
    ways: list[Any] = [
        [Send("work", {"n": state["n"], "of": number}) for number in range(3)],
        ["one", "two"],
        "inner",
        ["inner", "one"],
        END,
    ]
    return ways[state["n"] % len(ways)]


def app(saver: Any, inner: bool | None) -> Any:
    below = StateGraph(State)
    below.add_node("work", lambda state: work({**state, "of": "inner"}))
    below.add_node("two", two)
    below.add_edge(START, "work")
    below.add_edge("work", "two")
    graph = StateGraph(State)
    for node in (count, work, one, two):
        graph.add_node(node.__name__, node)
    graph.add_node("inner", below.compile(checkpointer=inner))
    graph.add_node("end", end, defer=True)
    graph.add_edge(START, "count")
    graph.add_conditional_edges("count", chosen, ["work", "one", "two", "inner", END])
    for name in ("work", "one", "two", "inner"):
        graph.add_edge(name, "end")
    graph.add_conditional_edges("end", lambda state: "count" if state["n"] % 2 else END)
    return graph.compile(checkpointer=saver)


def answered(graph: Any, x: float, number: int) -> Any:
    asked = sorted(graph.get_state(AT).interrupts, key=lambda each: repr(each.value))
    if not asked:
        return None
    answer = Command(resume={asked[int(x * len(asked))].id: number})
    return graph.invoke(answer, AT, durability="sync")


def changed(graph: Any, past: Any, x: float, number: int) -> Any:
    node = ("count", "end", "one", "__copy__")[int(x * 4)]
    values = {"log": [number], "told": [HumanMessage("edit", id=f"e{number}")]}
    return graph.update_state(past, values, as_node=node)


DOES: dict[str, Callable[[Any, Any, float, int], Any]] = {
    "input": lambda graph, _past, _x, n: graph.invoke({"log": [n]}, AT, durability="sync"),
    "exit": lambda graph, _past, _x, n: graph.invoke({"log": [n]}, AT, durability="exit"),
    "resume": lambda graph, _past, _x, n: graph.invoke(Command(resume=n), AT, durability="sync"),
    "answer": lambda graph, _past, x, n: answered(graph, x, n),
    "go on": lambda graph, _past, _x, _n: graph.invoke(None, AT, durability="sync"),
    "change": changed,
    "replay": lambda graph, past, _x, _n: graph.invoke(None, past, durability="sync"),
    "fork": lambda graph, past, _x, n: graph.invoke({"log": [n]}, past, durability="sync"),
}


def acts(graphs: Sequence[Any], seed: int) -> list[Any]:
    """What comes of random acts, each on the next of the graphs."""
    dice, found = random.Random(seed), []
    for number in range(ACTS):
        graph = graphs[number % len(graphs)]
        act, x = dice.choice(sorted(DOES)) if number else "input", dice.random()
        history = list(graph.get_state_history(AT))
        past = history[int(x * len(history))].config if history else AT
        found.append((act, tried(lambda: DOES[act](graph, past, x, number))))  # noqa: B023
        found.append(tried(lambda: graph.get_state(AT, subgraphs=True)))  # noqa: B023
    found.append(tried(lambda: list(graphs[0].get_state_history(AT))))
    return plain(found, {})


def tried(act: Callable[[], Any]) -> Any:
    """What it gives; an act that makes no sense here must be refused in the same words."""
    try:
        return act()
    except Exception as error:
        return repr(error)


def plain(value: Any, names: dict[str, str]) -> Any:
    if isinstance(value, str):
        short = _TIME.sub("time", _VERSION.sub(r"v\1", value))
        return _IDS.sub(lambda id: names.setdefault(id[0], f"#{len(names)}"), short)
    if isinstance(value, BaseMessage | Interrupt):
        return [type(value).__name__, plain(value.id, names), repr(getattr(value, "value", ""))]
    if isinstance(value, dict):
        return {plain(k, names): plain(v, names) for k, v in value.items() if k[:9] != "__pregel_"}
    if isinstance(value, list | tuple):
        if value and all(isinstance(each, Interrupt) for each in value):
            value = sorted(value, key=lambda each: repr(each.value))
        return [plain(each, names) for each in value]
    return value


@pytest.mark.parametrize("inner", [None, True])
@pytest.mark.parametrize("seed", [1, 5])
def test_random_acts(harness: BackendHarness, seed: int, inner: bool | None) -> None:
    clients = [Client.on(harness.backend()) for _ in range(2)]
    ours = acts([app(LastgoodSaver(client), inner) for client in clients], seed)
    theirs = acts([app(InMemorySaver(), inner)], seed)
    for number, (mine, own) in enumerate(zip(ours, theirs, strict=True)):
        assert mine == own, f"act {number // 2} of seed {seed}"
    for client in clients:
        client.blocking.close()
