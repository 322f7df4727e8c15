"""The words of the adapter are there for its own classes: other values are stored as everywhere."""

from __future__ import annotations

import json
import operator
from functools import reduce
from ipaddress import IPv4Address, IPv6Network
from pathlib import Path
from typing import Any, TypedDict

import pytest
from langchain_core.runnables import AddableDict, RunnableParallel
from langgraph.graph import START, StateGraph
from langgraph.store.base import SearchItem

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
