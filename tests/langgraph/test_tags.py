"""The words of the adapter are there for its own classes: other values are stored as everywhere."""

from __future__ import annotations

import json
import operator
from functools import reduce
from ipaddress import IPv4Address, IPv6Network
from pathlib import Path
from typing import Annotated, Any, TypedDict

import pytest
from langchain_core.runnables import AddableDict, RunnableParallel
from langgraph.func import entrypoint, task
from langgraph.graph import START, StateGraph
from langgraph.store.base import SearchItem
from langgraph.types import Command, Overwrite, Send, interrupt

from lastgood import SerializationError
from lastgood.adapters.langgraph import LastgoodSaver, LastgoodStore
from lastgood.codec import Codec

GOLDEN = Path(__file__).parents[1] / "golden" / "codec-v1.json"


@pytest.fixture
def codec() -> Codec:
    LastgoodSaver.from_memory().close()
    return Codec()


@pytest.mark.parametrize(
    "name", ["IP addresses", "IP networks", "zone and fold", "uuid", "pure paths"]
)
def test_a_value_has_the_same_bytes_with_and_without_the_adapter(codec: Codec, name: str) -> None:
    stored = bytes.fromhex(json.loads(GOLDEN.read_text())[name]["hex"])
    assert codec.pack(codec.unpack(stored)) == stored


@pytest.mark.parametrize(
    ("stored", "value"),
    [
        ("c71a3592af6e65742e4950763441646472657373a831302e302e302e31", IPv4Address("10.0.0.1")),
        ("c7163592af6e65742e495076364e6574776f726ba43a3a2f30", IPv6Network("::/0")),
    ],
)
def test_addresses_that_the_adapter_once_tagged_are_read(
    codec: Codec, stored: str, value: object
) -> None:
    assert codec.unpack(bytes.fromhex(stored)) == value


def test_what_a_search_of_the_store_gives_is_kept_in_the_state(saver: LastgoodSaver) -> None:
    class State(TypedDict):
        found: list[SearchItem]

    store = LastgoodStore(saver.client)
    store.put(("users", "7"), "taste", {"likes": "tea"})
    graph = StateGraph(State)
    graph.add_node("recall", lambda _: {"found": store.search(("users",))})
    graph.add_edge(START, "recall")
    app = graph.compile(checkpointer=saver)
    at: Any = {"configurable": {"thread_id": "t"}}
    app.invoke({"found": []}, at)
    [found] = app.get_state(at).values["found"]
    assert type(found) is SearchItem
    assert found == store.get(("users", "7"), "taste")
    assert found.score is None
    scored = SearchItem(("n",), "k", {"v": (1, 2)}, found.created_at, found.updated_at, score=0.5)
    assert repr(Codec().unpack(Codec().pack(scored))) == repr(scored)


def test_what_a_streamed_chain_adds_up_to_is_kept_in_the_state(saver: LastgoodSaver) -> None:
    class State(TypedDict):
        answer: Any

    def answer(_: Any) -> Any:
        chain = RunnableParallel(text=lambda _: "tea", parts=lambda _: (1, 2))
        return {"answer": reduce(operator.add, chain.stream("?"))}

    graph = StateGraph(State)
    graph.add_node("answer", answer)
    graph.add_edge(START, "answer")
    app = graph.compile(checkpointer=saver)
    at: Any = {"configurable": {"thread_id": "t"}}
    app.invoke({"answer": None}, at)
    found = app.get_state(at).values["answer"]
    assert type(found) is AddableDict
    assert found == {"text": "tea", "parts": (1, 2)}
    assert found + AddableDict(text="!") == {"text": "tea!", "parts": (1, 2)}


class Log(TypedDict):
    log: Annotated[list[Any], operator.add]


def asking(_: Any) -> Any:
    return {"log": [interrupt(len)]}


def test_a_task_survives_what_it_was_sent_with() -> None:
    saver = LastgoodSaver.from_memory(on_unserializable="drop")
    graph = StateGraph(Log)
    graph.add_node("a", lambda _: Command(update={"log": ["a"]}, goto=Send("b", len)))
    graph.add_node("b", lambda sent: {"log": [sent]})
    graph.add_edge(START, "a")
    app = graph.compile(checkpointer=saver, interrupt_before=["b"])
    at: Any = {"configurable": {"thread_id": "t"}}
    app.invoke({"log": []}, at)
    assert app.get_state(at).next == ("b",)
    assert len(list(saver.list(at))) == 3
    [loss] = saver.client.blocking.resolve("t@").losses
    assert "a function cannot be stored (len)" in loss.reason
    assert app.invoke(None, at) == {"log": ["a", None]}


def test_a_question_survives_what_it_was_asked_with() -> None:
    saver = LastgoodSaver.from_memory(on_unserializable="drop")
    graph = StateGraph(Log)
    graph.add_node("ask", asking)
    graph.add_edge(START, "ask")
    app = graph.compile(checkpointer=saver)
    at: Any = {"configurable": {"thread_id": "t"}}
    app.invoke({"log": []}, at)
    [asked] = app.get_state(at).interrupts
    assert asked.value is None
    assert app.invoke(Command(resume="yes"), at) == {"log": ["yes"]}


def test_what_overwrites_a_channel_survives_what_it_would_be() -> None:
    lenient = Codec(on_unserializable="drop")
    stored = lenient.unpack(lenient.pack([Overwrite(len), Overwrite([1, len])]))
    assert stored == [Overwrite(None), Overwrite([1])]


class Paid(TypedDict):
    log: Annotated[list[str], operator.add]
    connection: Any


def without_connection(state: dict[str, Any]) -> dict[str, Any]:
    return {name: value for name, value in state.items() if name != "connection"}


@pytest.mark.parametrize(
    "options", [{"on_unserializable": "drop"}, {"before_save": without_connection}]
)
def test_a_node_of_which_nothing_could_be_kept_does_not_run_again(options: Any) -> None:
    paid: list[str] = []
    graph = StateGraph(Paid)
    graph.add_node("pay", lambda _: paid.append("once") or {"connection": object()})
    graph.add_node("ask", lambda _: {"log": [interrupt("sure?")]})
    graph.add_edge(START, "pay")
    graph.add_edge(START, "ask")
    app = graph.compile(checkpointer=LastgoodSaver.from_memory(**options))
    at: Any = {"configurable": {"thread_id": "t"}}
    app.invoke({"log": []}, at)
    assert app.get_state(at).next == ("ask",)
    app.invoke(Command(resume="yes"), at)
    assert paid == ["once"]
    assert app.get_state(at).values["log"] == ["yes"]


def test_a_task_whose_result_could_not_be_kept_runs_again() -> None:
    """Or the entrypoint would go on with another value."""
    saver, made = LastgoodSaver.from_memory(on_unserializable="drop"), list[object]()

    @task
    def connect() -> Any:
        made.append(object())
        return made[-1]

    @entrypoint(checkpointer=saver)
    def flow(_: str) -> bool:
        connection = connect().result()
        interrupt("sure?")
        return connection is made[-1]

    at: Any = {"configurable": {"thread_id": "t"}}
    flow.invoke("go", at)
    assert flow.invoke(Command(resume="yes"), at) is True
    assert len(made) == 2


def test_an_error_in_a_channel_is_refused_however_often_it_is_tried() -> None:
    graph = StateGraph(Paid)
    graph.add_node("fail", lambda _: {"connection": ValueError("x")})
    graph.add_edge(START, "fail")
    app = graph.compile(checkpointer=LastgoodSaver.from_memory())
    at: Any = {"configurable": {"thread_id": "t"}}
    for given in ({"log": []}, None, None):
        with pytest.raises(SerializationError, match="an exception cannot be stored"):
            app.invoke(given, at)
    assert app.get_state(at).next == ("fail",)


def test_the_first_step_of_a_thread_has_the_name_of_its_node() -> None:
    saver = LastgoodSaver.from_memory()
    graph = StateGraph(Log)
    graph.add_node("work", lambda _: {"log": ["done"]})
    graph.add_edge(START, "work")
    app = graph.compile(checkpointer=saver)
    at: Any = {"configurable": {"thread_id": "t"}}
    for _ in range(2):
        app.invoke({"log": []}, at, durability="exit")
    assert [header.step_name for header in saver.client.blocking.log("t")] == ["work", "work"]
