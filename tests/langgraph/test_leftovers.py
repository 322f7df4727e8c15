"""Several graphs on one thread, or two versions of one: what one of them lacks stays for the other.

LangGraph's InMemorySaver and PostgresSaver keep it; its SqliteSaver loses it.
"""

import operator
from pathlib import Path
from typing import Annotated, Any, TypedDict

import pytest
from langgraph.channels import DeltaChannel
from langgraph.checkpoint.base import empty_checkpoint, uuid6
from langgraph.checkpoint.memory import InMemorySaver
from langgraph.checkpoint.sqlite import SqliteSaver
from langgraph.graph import START, StateGraph

from lastgood.adapters.langgraph import LastgoodSaver, memory
from lastgood.cli import main
from tests.langgraph.test_import import contents

AT: Any = {"configurable": {"thread_id": "t"}}
LONG = "x" * 6000


def joined(state: list[Any] | None, writes: Any) -> list[Any]:
    return [*(state or []), *(each for write in writes for each in write)]


class Old(TypedDict, total=False):
    log: Annotated[list[str], operator.add]


class New(Old, total=False):
    order: Any
    told: Annotated[list[str], DeltaChannel(joined, snapshot_frequency=3)]


def app(saver: Any, schema: Any, extra: int = 0) -> Any:
    fields = {f"field {number}": int for number in range(extra)}
    graph = StateGraph(TypedDict("Wide", {**schema.__annotations__, **fields}, total=False))  # type: ignore[misc]
    told = {"told": ["ran"]} if schema is New else {}
    graph.add_node("run", lambda _: {"log": ["ran"], **told, **dict.fromkeys(fields, 1)})
    graph.add_edge(START, "run")
    return graph.compile(checkpointer=saver)


def turns(saver: Any, order: Any, durability: Any, extra: int = 0) -> list[Any]:
    """What a new graph has after each turn of an old one."""
    new, old = app(saver, New, extra), app(saver, Old, extra)
    found = [new.invoke({"order": order, "told": ["in"]}, AT, durability=durability)]
    for turn in range(4):
        old.invoke({"log": [f"turn {turn}"]}, AT, durability=durability)
        found.append(new.get_state(AT).values)
    found.append(new.invoke({"log": ["again"]}, AT, durability=durability))
    found.append(new.invoke({"order": None}, AT, durability=durability))
    return [*found, [each.values for each in new.get_state_history(AT)]]


@pytest.mark.parametrize("order", ["small", {"lines": [LONG, LONG]}])
@pytest.mark.parametrize("durability", ["sync", "exit"])
def test_what_a_graph_does_not_have_stays(
    saver: LastgoodSaver, order: Any, durability: Any
) -> None:
    found = turns(saver, order, durability)
    assert found[1]["order"] == order
    assert found == turns(InMemorySaver(), order, durability)


def forked(saver: Any) -> list[Any]:
    """What a delta channel has where a graph without it has gone on from the middle of a run."""
    new, old = app(saver, New), app(saver, Old)
    for turn in range(3):
        new.invoke({"told": [f"in {turn}"]}, AT, durability="sync")
    found = []
    for place in list(new.get_state_history(AT)):
        before = new.get_state(place.config).values.get("told")
        old.invoke(None, place.config, durability="sync")
        found.append((before, new.get_state(AT).values.get("told")))
    return found


def test_a_delta_channel_has_no_writes_of_another_branch(saver: LastgoodSaver) -> None:
    found = forked(saver)
    assert found == forked(InMemorySaver())


@pytest.mark.parametrize("extra", [0, 80])
@pytest.mark.parametrize("cache_bytes", [0, 1 << 20])
def test_whatever_is_cached_and_however_many_channels(cache_bytes: int, extra: int) -> None:
    saver = LastgoodSaver.from_memory(cache_bytes=cache_bytes)
    expected = turns(InMemorySaver(), [LONG], "sync", extra)
    assert turns(saver, [LONG], "sync", extra) == expected


def test_what_is_not_remembered_is_looked_up(
    saver: LastgoodSaver, monkeypatch: pytest.MonkeyPatch
) -> None:
    """As if thousands of other checkpoints had been put since this one was read."""
    monkeypatch.setattr(memory, "LIMIT", 0)
    assert turns(saver, [LONG], "sync") == turns(InMemorySaver(), [LONG], "sync")


def test_what_the_source_of_an_import_has_lost_stays_lost(tmp_path: Path) -> None:
    stock, target = str(tmp_path / "stock.db"), str(tmp_path / "ours.db")
    with SqliteSaver.from_conn_string(stock) as theirs:
        turns(theirs, "small", "sync")
        assert main(["import", "langgraph-sqlite", stock, "--store", target]) == 0
        with LastgoodSaver.from_sqlite(target) as ours:
            assert contents(ours) == contents(theirs)


def test_the_same_put_once_more_adds_nothing(tmp_path: Path) -> None:
    """Also in a process that has to look up what stays."""

    def put(saver: Any, parent: Any, id: str, values: dict[str, Any], new: dict[str, str]) -> Any:
        same = {"id": id, "ts": "2026-01-01T00:00:00+00:00"}
        checkpoint: Any = {**empty_checkpoint(), **same, "channel_values": values}
        checkpoint["channel_versions"] = {"other": "1"} | new
        return saver.put(parent, checkpoint, {"step": 1}, new)

    first: Any = {"configurable": {"thread_id": "t", "checkpoint_ns": ""}}
    ids = sorted(str(uuid6()) for _ in range(2))
    for _ in range(3):
        with LastgoodSaver.from_sqlite(str(tmp_path / "ours.db")) as saver:
            root = put(saver, first, ids[0], {"a": 1, "other": LONG}, {"a": "1", "other": "1"})
            put(saver, root, ids[1], {"a": 2}, {"a": "2"})
            assert saver.get_tuple(AT).checkpoint["channel_values"] == {"a": 2, "other": LONG}
            assert saver.client.blocking.stats("t").checkpoints == 2
