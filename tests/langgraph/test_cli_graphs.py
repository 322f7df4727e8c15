"""Threads of graphs on the command line: messages, next nodes, open questions."""

import json
import operator
import re
import sqlite3
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Annotated, Any, TypedDict

import pytest
from langchain_core.messages import HumanMessage
from langgraph.func import entrypoint, task
from langgraph.graph import START, StateGraph
from langgraph.graph.state import CompiledStateGraph
from langgraph.types import Command, Send, interrupt

from lastgood import BlockingClient
from lastgood.adapters.langgraph import LastgoodSaver
from lastgood.cli import graphs, main
from lastgood.codec import Codec
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
        for name in "fedcba":  # touched in another order than made, within one minute
            app.update_state(config(name), {"messages": [HumanMessage("more")]}, as_node="answer")
            app.invoke(None, config(name))
        for name in "bde":
            app.invoke(Command(resume="yes"), config(name))

    def listed(status: str, *options: str) -> list[str]:
        found: list[str] = []
        after: list[str] = []
        while True:
            words = ("threads", "--status", status, "--json", *options, *after)
            page = json.loads(told(capsys, *words, "--store", store))
            assert {thread["status"] for thread in page["threads"]} <= {status}
            assert len(page["threads"]) <= int(options[1])
            found += [thread["thread_id"] for thread in page["threads"]]
            if page["next"] is None:
                return found
            after = ["--after", page["next"]]

    for limit in "1", "2", "3", "4", "50":
        for sort in "name", "created", "updated":
            options = ("--limit", limit, "--sort", sort)
            assert sorted(listed("waiting", *options)) == ["a", "c", "chat", "f"]
            assert sorted(listed("idle", *options)) == ["b", "d", "e"]
    assert listed("waiting", "--limit", "50") == ["a", "c", "f", "chat"], "the last touched first"
    found = json.loads(told(capsys, "threads", "--json", "--sort", "name", "--store", store))
    asked = {thread["thread_id"]: thread["waits_for"] for thread in found["threads"]}
    assert asked["a"] == ["sure?"]
    assert asked["b"] == []
    found = json.loads(told(capsys, "log", "a", "--json", "--agent", "graph", "--store", store))
    assert found["waits_for"] == {found["checkpoints"][0]["checkpoint_id"]: ["sure?"]}


def asker(path: str, node: Callable[[Any], Any], thread: str = "t") -> CompiledStateGraph:
    """A graph of one node, run once."""
    one = StateGraph(dict)
    one.add_node("node", node)
    one.add_edge(START, "node")
    app = one.compile(checkpointer=LastgoodSaver.from_sqlite(path))
    app.invoke({}, config(thread))
    return app


def test_a_question_that_was_answered_before_its_node_failed(tmp_path: Path, capsys: Any) -> None:
    path = str(tmp_path / "failed.db")

    def node(_: Any) -> Any:
        assert interrupt("pay?") == "yes"
        raise RuntimeError("boom")

    app = asker(path, node)
    assert 't waits for "pay?"' in told(capsys, "threads", "--store", path)
    with pytest.raises(RuntimeError):
        app.invoke(Command(resume="yes"), config("t"))
    for words in (["threads"], ["log", "t"]):
        assert "wait" not in told(capsys, *words, "--store", path)


def test_the_second_question_of_a_node(tmp_path: Path, capsys: Any) -> None:
    path = str(tmp_path / "twice.db")
    app = asker(path, lambda _: {"answers": [interrupt("pay?"), interrupt("sure?")]})
    app.invoke(Command(resume="yes"), config("t"))
    out = told(capsys, "threads", "--store", path)
    assert 't waits for "sure?"' in out
    assert "pay?" not in out
    app.invoke(Command(resume="yes"), config("t"))
    assert "wait" not in told(capsys, "threads", "--store", path)


def test_what_a_task_of_an_entrypoint_asks_is_told_once(tmp_path: Path, capsys: Any) -> None:
    path = str(tmp_path / "functional.db")

    @task
    def ask(question: str) -> Any:
        return interrupt(question)

    with LastgoodSaver.from_sqlite(path) as saver:

        @entrypoint(checkpointer=saver)
        def work(_: Any) -> Any:
            return ask("sure?").result(), interrupt("really?")

        for answer, question in ((1, "sure?"), (Command(resume="yes"), "really?")):
            work.invoke(answer, config("t"))
            assert [asked.value for asked in work.get_state(config("t")).interrupts] == [question]
            for words in (["threads"], ["log", "t"], ["show", "t"]):
                out = told(capsys, *words, "--store", path)
                assert out.count(f'waits for "{question}"') == out.count("waits for") == 1
            assert re.search(r"next +work\n", out)


def test_a_subgraph_that_nobody_goes_on_with_waits_for_nobody(tmp_path: Path, capsys: Any) -> None:
    path = str(tmp_path / "left.db")
    inner = StateGraph(dict)
    inner.add_node("ask", lambda _: {"answer": interrupt("sub?")})
    inner.add_edge(START, "ask")
    asks = True
    outer = StateGraph(dict)
    outer.add_node("outer", lambda state: inner_app.invoke(state) if asks else {})
    outer.add_edge(START, "outer")
    inner_app = inner.compile()
    with LastgoodSaver.from_sqlite(path) as saver:
        app = outer.compile(checkpointer=saver)
        app.invoke({"n": 1}, config("t"))
        log = told(capsys, "log", "t", "--store", path).splitlines()
        (asking,) = (line for line in log if 'waits for "sub?"' in line)
        assert "graph|outer" not in asking
        around = asking.split()[0]
        inside = next(line.split()[0] for line in log if "graph|outer" in line)
        assert 'waits for "sub?"' in told(capsys, "show", f"t{inside}", "--store", path)
        asks = False
        app.invoke({"n": 2}, config("t"))
    for words in (["threads"], ["log", "t"], ["show", f"t{inside}"], ["show", f"t{around}"]):
        assert "waits for" not in told(capsys, *words, "--store", path)
    assert 'asked     "sub?"' in told(capsys, "show", f"t{inside}", "--store", path)


def test_one_question_among_many_writes_is_found(tmp_path: Path, capsys: Any) -> None:
    path = str(tmp_path / "many.db")
    many = StateGraph(dict)
    many.add_node("fan", lambda _: {})
    many.add_node("work", lambda state: interrupt("which?") if state["n"] == 7 else None)
    many.add_edge(START, "fan")
    many.add_conditional_edges("fan", lambda _: [Send("work", {"n": n}) for n in range(1100)])
    with LastgoodSaver.from_sqlite(path) as saver:
        for thread in "abc":
            many.compile(checkpointer=saver).invoke({}, config(thread))
    out = told(capsys, "threads", "--store", path)
    assert [line.split()[1] for line in out.splitlines()[1:4]] == ["waiting"] * 3


@pytest.mark.parametrize(
    "question",
    [10**5000, "x" * 10_000, {f"{n}": ["y" * 200] * 12 for n in range(12)}, "\x1b[2Ja\nb", None],
    ids=["a large number", "a long text", "much", "escapes", "nothing"],
)
def test_whatever_is_asked_is_one_line(tmp_path: Path, capsys: Any, question: Any) -> None:
    path = str(tmp_path / "q.db")
    asker(path, lambda _: interrupt(question))
    lines = told(capsys, "threads", "--store", path).splitlines()
    assert len(lines) == 3
    assert lines[2].startswith("t waits for ")
    assert len(lines[2]) < 230
    assert lines[2].isprintable()
    found = json.loads(told(capsys, "threads", "--json", "--store", path))
    assert "..." not in json.dumps(found), "programs get all of it"
    assert len(told(capsys, "log", "t", "--store", path).splitlines()) == 3


def test_a_checkpoint_that_only_says_it_is_of_a_graph(tmp_path: Path, capsys: Any) -> None:
    path = str(tmp_path / "other.db")
    with BlockingClient.sqlite(path) as client:
        about = {"framework": "langgraph", "context": {"parent_id": None}}
        client.save("graph", session_id="t", execution_state={}, **about)
    for words in (["threads"], ["log", "t"], ["show", "t"]):
        assert "wait" not in told(capsys, *words, "--store", path)


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

    def work(_: Any) -> Any:
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


def next_line(capsys: Any, path: str, ref: str) -> str:
    lines = told(capsys, "show", ref, "--store", path).splitlines()
    return next(line.removeprefix("  next").strip() for line in lines if "  next" in line)


def test_show_tells_the_next_nodes_as_the_graph_does(tmp_path: Path, capsys: Any) -> None:
    """Nodes that wait for several others, and deferred ones, before and at their time."""
    path = str(tmp_path / "joined.db")
    joined = StateGraph(dict)
    for name in ("a", "b", "c+", "join"):
        joined.add_node(name, lambda _: None)
    for name in ("late", "late join"):
        joined.add_node(name, lambda _: None, defer=True)
    joined.add_edge(START, "a")
    joined.add_edge(START, "b")
    joined.add_edge("b", "c+")
    joined.add_edge(["a", "c+"], "join")
    joined.add_edge("a", "late")
    joined.add_edge(["a", "b"], "late join")
    with LastgoodSaver.from_sqlite(path) as saver:
        app = joined.compile(checkpointer=saver)
        app.invoke({}, config("t"), durability="sync")
        history = list(app.get_state_history(config("t")))[::-1]
    shown = [next_line(capsys, path, f"t@{number + 1}") for number in range(len(history))]
    assert [sorted(line.split(", ")) for line in shown[:-1]] == [
        sorted(place.next) for place in history[:-1]
    ]
    assert shown[-1] == "nothing: the graph is through"
    assert ("join",) in [place.next for place in history]


def test_what_has_run_at_the_head_is_not_next(tmp_path: Path, capsys: Any) -> None:
    path = str(tmp_path / "parallel.db")
    graph = StateGraph(dict)
    graph.add_node("ask", lambda _: interrupt("sure?"))
    graph.add_node("work", lambda state: interrupt("which?") if state["n"] == 1 else None)
    graph.add_node("done", lambda _: None)
    for name in ("ask", "done"):
        graph.add_edge(START, name)
    graph.add_conditional_edges(START, lambda _: [Send("work", {"n": n}) for n in range(3)])
    with LastgoodSaver.from_sqlite(path) as saver:
        app = graph.compile(checkpointer=saver)
        app.invoke({}, config("t"), durability="sync")
        assert sorted(app.get_state(config("t")).next) == ["ask", "work"]
        assert next_line(capsys, path, "t") == "ask, work"
        here = app.get_state(config("t"))
        paths = {"ask": "~__pregel_pull, ask", "work": "~__pregel_push, 0000000001, 0000000000"}
        for task in here.tasks:  # as if it died before the next checkpoint
            if task.interrupts:
                nothing = [("__no_writes__", None)]
                saver.put_writes(here.config, nothing, task.id, paths[task.name])
    assert next_line(capsys, path, "t") == "what follows ask, done, work (3)"


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


def test_a_rewind_to_a_question_waits_for_its_answer_again(tmp_path: Path, capsys: Any) -> None:
    path = str(tmp_path / "again.db")
    app = asker(path, lambda _: interrupt("sure?") and {})
    app.invoke(Command(resume="yes"), config("t"))
    assert "waits for" not in told(capsys, "threads", "--store", path)
    told(capsys, "rewind", "t", "@2", "--store", path)
    for words in (["threads", "--status", "waiting"], ["log", "t"], ["show", "t"]):
        assert '"sure?"' in told(capsys, *words, "--store", path)
    app.invoke(None, config("t"))
    assert told(capsys, "threads", "--store", path).count('"sure?"') == 1
    app.invoke(Command(resume="yes"), config("t"))
    assert "waits for" not in told(capsys, "threads", "--store", path)


class Once(TypedDict):
    log: Annotated[list[str], operator.add]


def test_a_graph_of_which_a_node_failed_is_failed_until_it_has_run_again(
    tmp_path: Path, capsys: Any
) -> None:
    path, broken = str(tmp_path / "lastgood.db"), [True]

    def pay(_: Once) -> dict[str, list[str]]:
        if broken:
            raise ValueError("no such account")
        return {"log": ["paid"]}

    made = StateGraph(Once)
    made.add_node("pay", pay)
    made.add_edge(START, "pay")
    with LastgoodSaver.from_sqlite(path) as saver:
        app = made.compile(checkpointer=saver)
        with pytest.raises(ValueError, match="no such account"):
            app.invoke({"log": []}, config("bill"))
        listed = told(capsys, "threads", "--status", "failed", "--store", path)
        assert listed.splitlines()[1].split()[:2] == ["bill", "failed"]
        assert "bill failed: ValueError('no such account')" in listed
        [thread] = json.loads(told(capsys, "threads", "--json", "--store", path))["threads"]
        assert (thread["status"], thread["error"]) == ("failed", "ValueError('no such account')")
        assert "bill" not in told(capsys, "threads", "--status", "idle", "--store", path)
        broken.clear()
        app.invoke(None, config("bill"))
    assert "None of its threads" in told(capsys, "threads", "--status", "failed", "--store", path)
    assert "idle" in told(capsys, "threads", "--store", path)


def test_a_question_with_parts_is_readable_in_one_line() -> None:
    asked = {"action_requests": [{"name": "pay", "args": {"amount": 5}}]}
    shown = graphs.readable(json.loads(Codec().dumps_text(asked)))
    assert shown == 'action_requests: list of 1, [0]: name: "pay", args: amount: 5'
