"""Threads of graphs on the command line: messages, next nodes, open questions."""

import json
import sqlite3
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
from langchain_core.messages import HumanMessage
from langgraph.graph import START, StateGraph
from langgraph.types import Command, Send, interrupt

from lastgood.adapters.langgraph import LastgoodSaver
from lastgood.cli import main
from tests.langgraph.test_import import config, graph


@pytest.fixture
def store(tmp_path: Path) -> str:
    path = str(tmp_path / "lastgood.db")
    with LastgoodSaver.from_sqlite(path) as saver:
        app = graph().compile(checkpointer=saver)
        app.invoke({"messages": [HumanMessage("hello")]}, config("chat"))
        app.invoke(Command(resume="yes"), config("chat"))
        app.invoke({"messages": [HumanMessage("again")]}, config("chat"))
    return path


def told(capsys: Any, *words: str) -> str:
    assert main(list(words)) in (0, 1)
    out: str = capsys.readouterr().out
    return out


def test_threads(store: str, capsys: Any) -> None:
    assert "graph, 2 subgraphs" in told(capsys, "threads", "--store", store)


def test_a_graph_that_waits_for_an_answer_is_told_in_every_list(store: str, capsys: Any) -> None:
    out = told(capsys, "threads", "--store", store)
    assert out.splitlines()[1].split()[:2] == ["chat", "waiting"]
    assert 'chat waits for "sure?"' in out
    for way in ([], ["--graph"]):
        lines = told(capsys, "log", "chat", "--agent", "graph", *way, "--store", store).splitlines()
        asking = [line for line in lines if line.endswith('(-> main) waits for "sure?"')]
        assert asking == lines[1:2], "the head alone: what was asked before has its answer"
    with LastgoodSaver.from_sqlite(store) as saver:
        graph().compile(checkpointer=saver).invoke(Command(resume="yes"), config("chat"))
    for words in (["threads"], ["log", "chat"]):
        assert "wait" not in told(capsys, *words, "--store", store)


def test_what_was_asked_and_answered_is_not_waited_for(store: str, capsys: Any) -> None:
    lines = told(capsys, "log", "chat", "--agent", "graph", "--store", store).splitlines()
    first = next(line for line in lines[2:] if line.split()[1] == "answer")
    out = told(capsys, "show", f"chat{first.split()[0]}", "--store", store)
    assert 'asked     "sure?"' in out
    assert "waits for" not in out


def test_of_two_that_ask_only_the_one_without_an_answer_is_waited_for(
    tmp_path: Path, capsys: Any
) -> None:
    path = str(tmp_path / "two.db")
    both = StateGraph(dict)
    for name in ("left", "right"):
        both.add_node(name, lambda _, name=name: interrupt(f"{name}?") and {})
        both.add_edge(START, name)
    with LastgoodSaver.from_sqlite(path) as saver:
        app = both.compile(checkpointer=saver)
        app.invoke({}, config("two"))
        out = told(capsys, "threads", "--store", path)
        assert 'two waits for "left?"' in out
        assert 'two waits for "right?"' in out
        asked = [task.interrupts[0] for task in app.get_state(config("two")).tasks]
        left = next(each.id for each in asked if each.value == "left?")
        app.invoke(Command(resume={left: True}), config("two"))
    for words in (["threads"], ["log", "two"], ["show", "two"]):
        out = told(capsys, *words, "--store", path)
        assert '"right?"' in out
        assert '"left?"' not in out.partition("state\n")[0]


def test_lists_of_those_that_wait(store: str, capsys: Any) -> None:
    with LastgoodSaver.from_sqlite(store) as saver:
        app = graph().compile(checkpointer=saver)
        for name in "abcdef":
            app.invoke({"messages": [HumanMessage("hello")]}, config(name))
            if name in "bde":
                app.invoke(Command(resume="yes"), config(name))

    def listed(status: str, *options: str) -> list[str]:
        found: list[str] = []
        after: list[str] = []
        while True:
            words = ("threads", "--status", status, "--sort", "name", "--json", *options, *after)
            page = json.loads(told(capsys, *words, "--store", store))
            assert {thread["status"] for thread in page["threads"]} <= {status}
            found += [thread["thread_id"] for thread in page["threads"]]
            if page["next"] is None:
                return found
            after = ["--after", page["next"]]

    for limit in "1", "2", "3", "50":
        assert listed("waiting", "--limit", limit) == ["a", "c", "chat", "f"]
        assert listed("idle", "--limit", limit) == ["b", "d", "e"]
    found = json.loads(told(capsys, "threads", "--json", "--sort", "name", "--store", store))
    asked = {thread["thread_id"]: thread["waits_for"] for thread in found["threads"]}
    assert asked["a"] == ['"sure?"']
    assert asked["b"] == []
    found = json.loads(told(capsys, "log", "a", "--json", "--agent", "graph", "--store", store))
    assert found["waits_for"] == {found["checkpoints"][0]["checkpoint_id"]: ['"sure?"']}


def test_a_damaged_question_does_not_take_the_lists_away(store: str, capsys: Any) -> None:
    with sqlite3.connect(store) as connection:
        connection.execute("UPDATE lastgood_item SET value = x'c1' WHERE shelf = 'writes'")
    connection.close()
    out = told(capsys, "threads", "--store", store)
    assert out.splitlines()[1].split()[:2] == ["chat", "idle"]
    assert "answer" in told(capsys, "log", "chat", "--store", store)


def test_log_names_the_nodes(store: str, capsys: Any) -> None:
    out = told(capsys, "log", "chat", "--agent", "graph", "--store", store)
    assert [line.split()[1] for line in out.splitlines()[1:]] == [
        "answer", "start", "input", "inner", "answer", "start", "input",
    ]  # fmt: skip


def test_show(store: str, capsys: Any) -> None:
    out = told(capsys, "show", "chat/graph@", "--store", store)
    assert "next      inner" in out
    assert 'content: "again"' in out
    assert "additional_kwargs" not in out
    lines = told(capsys, "log", "chat", "--store", store).splitlines()
    inside = next(line for line in lines if "graph|inner" in line)
    out = told(capsys, "show", f"chat{inside.split()[0]}", "--store", store)
    assert "next      ask" in out
    assert 'waits for "sure?"' in out


def test_a_thread_with_subgraphs_is_about_the_graph(store: str, capsys: Any) -> None:
    named = told(capsys, "show", "chat/graph@", "--store", store)
    assert told(capsys, "show", "chat", "--store", store) == named
    assert "1 message added" in told(capsys, "diff", "chat@~1", "chat", "--store", store)


def test_show_names_what_was_sent_and_what_failed(tmp_path: Path, capsys: Any) -> None:
    path = str(tmp_path / "sent.db")

    def work(state: Any) -> Any:
        if state["n"] == 1:
            raise RuntimeError("boom")

    fan = StateGraph(dict)
    fan.add_node("fan", lambda _: {})
    fan.add_node("work", work)
    fan.add_edge(START, "fan")
    fan.add_conditional_edges("fan", lambda _: [Send("work", {"n": n}) for n in range(3)])
    with LastgoodSaver.from_sqlite(path) as saver, pytest.raises(RuntimeError):
        fan.compile(checkpointer=saver).invoke({}, config("fan"))
    out = told(capsys, "show", "fan", "--store", path)
    assert "next      work (3)" in out
    assert "failed    RuntimeError('boom')" in out


def test_metadata_of_a_subgraph_is_one_line(store: str, capsys: Any) -> None:
    lines = told(capsys, "log", "chat", "--store", store).splitlines()
    inside = next(line for line in lines if "graph|inner" in line)
    out = told(capsys, "show", f"chat{inside.split()[0]}", "--store", store)
    assert 'parents: ([""]: "' in out


def test_show_full_leaves_nothing_out(store: str, capsys: Any) -> None:
    assert "additional_kwargs" in told(capsys, "show", "chat/graph@", "--full", "--store", store)


def test_diff(store: str, capsys: Any) -> None:
    out = told(capsys, "diff", "chat/graph@~1", "chat/graph@", "--store", store)
    assert "1 message added" in out


def test_without_langgraph(store: str) -> None:
    """The command reads a graph's threads where LangGraph is not imported."""
    program = (
        "import sys; sys.modules['langgraph'] = sys.modules['langchain_core'] = None;"
        "from lastgood.cli import main;"
        f"sys.exit(main(['show', 'chat/graph@', '--store', {store!r}]))"
    )
    done = subprocess.run(
        [sys.executable, "-c", program], capture_output=True, text=True, check=True
    )
    assert 'content: "again"' in done.stdout
    assert "next      inner" in done.stdout


def test_rewind_by_hand_is_where_the_graph_goes_on(store: str, capsys: Any) -> None:
    saver = LastgoodSaver.from_sqlite(store)
    app = graph().compile(checkpointer=saver)
    history = list(app.get_state_history(config("chat")))
    after = next(place for place in history if len(place.values.get("messages", ())) == 2)
    told(capsys, "rewind", "chat", "@~3", "--agent", "graph", "--store", store)
    found = app.get_state(config("chat"))
    assert found.values == after.values
    app.invoke({"messages": [HumanMessage("other")]}, config("chat"))
    texts = [message.content for message in app.get_state(config("chat")).values["messages"]]
    assert texts[:1] == ["hello"]
    assert texts[2] == "other"
