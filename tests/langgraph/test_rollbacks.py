"""Rollbacks of runs that answered questions: the next answer is for the question that is shown."""

import operator
from collections.abc import Callable, Sequence
from typing import Annotated, Any, TypedDict

import pytest
from langgraph.channels.delta import DeltaChannel
from langgraph.func import entrypoint, task
from langgraph.graph import START, StateGraph
from langgraph.types import Command, interrupt

from lastgood.adapters.langgraph import LastgoodSaver
from tests.langgraph.test_moves import client_of, joined
from tests.langgraph.test_saver import config

QUESTIONS = ("Pay?", "Delete?", "Sure?")
Make = Callable[[Any], Any]


class State(TypedDict):
    log: Annotated[list[str], operator.add]


class Deltas(State, total=False):
    told: Annotated[list[str], DeltaChannel(joined, list, snapshot_frequency=100)]
    other: Annotated[list[str], DeltaChannel(joined, list, snapshot_frequency=100)]


def _graph(nodes: dict[str, Any], saver: Any) -> Any:
    made, before = StateGraph(State), START
    for name, node in nodes.items():
        made.add_node(name, node)
        made.add_edge(before, name)
        before = name
    return made.compile(checkpointer=saver)


def one_node(saver: Any) -> Any:
    """A node that asks all."""
    return _graph({"ask": lambda _: {"log": [interrupt(each) for each in QUESTIONS]}}, saver)


def several_nodes(saver: Any) -> Any:
    def asks(question: str) -> Any:
        return lambda _: {"log": [interrupt(question)]}

    return _graph({each: asks(each) for each in QUESTIONS}, saver)


def inside(made: Make, own: Any = None) -> Make:
    """The same in a subgraph, with or without checkpoints that go on from call to call."""
    return lambda saver: _graph({"inner": made(own)}, saver)


def function(saver: Any) -> Any:
    @task
    def ask() -> list[str]:
        return [interrupt(each) for each in QUESTIONS]

    @entrypoint(checkpointer=saver)
    def flow(_: Any) -> Any:
        return {"log": ask().result()}

    return flow


def several_tasks(saver: Any) -> Any:
    """Each asks behind the answer to the one before."""

    @task
    def ask(question: str) -> Any:
        return interrupt(question)

    @entrypoint(checkpointer=saver)
    def flow(_: Any) -> Any:
        return {"log": [ask(each).result() for each in QUESTIONS]}

    return flow


def tasks_in_a_node(saver: Any) -> Any:
    """What the node itself asks is between what its tasks ask, one of them in another."""

    @task
    def ask(question: str) -> Any:
        return interrupt(question)

    @task
    def around(question: str) -> Any:
        return ask(question).result()

    def node(_: Any) -> Any:
        first, own = around(QUESTIONS[0]).result(), interrupt(QUESTIONS[1])
        return {"log": [first, own, ask(QUESTIONS[2]).result()]}

    return _graph({"node": node}, saver)


def before_a_task(own: Any = None) -> Make:
    """A task that calls a subgraph which asks twice, and one that asks behind it."""

    def made(saver: Any) -> Any:
        asks = one_of(QUESTIONS[:2], own)

        @task
        def call() -> list[str]:
            return list(asks.invoke({"log": []})["log"])

        @task
        def ask() -> Any:
            return interrupt(QUESTIONS[2])

        @entrypoint(checkpointer=saver)
        def flow(_: Any) -> Any:
            return {"log": [*call().result(), ask().result()]}

        return flow

    return made


def one_of(questions: Sequence[str], own: Any) -> Any:
    return _graph({"ask": lambda _: {"log": [interrupt(each) for each in questions]}}, own)


def for_run(run: str) -> Any:
    return {"configurable": {"thread_id": "t"}, "metadata": {"run_id": run}}


def shown(app: Any) -> list[str]:
    return [each.value for each in app.get_state(config()).interrupts]


def begun(app: Any, runs: Sequence[str]) -> None:
    """A run that asks, and some that answer what is shown."""
    app.invoke({"log": []}, for_run("one"))
    for run in runs:
        app.invoke(Command(resume=shown(app)[0]), for_run(run))


def ended(app: Any) -> Any:
    """What a graph has when all that it shows was answered."""
    while app.get_state(config()).next:
        waiting = shown(app)
        app.invoke(Command(resume=waiting[0]) if waiting else None, for_run("later"))
    return app.get_state(config()).values["log"]


MADE = {
    "one node": one_node,
    "a subgraph": inside(one_node),
    "a subgraph that goes on": inside(one_node, own=True),
    "a subgraph of several nodes": inside(several_nodes),
    "several that go on": inside(several_nodes, own=True),
    "a subgraph in one": inside(inside(one_node)),
    "a function": function,
    "several tasks": several_tasks,
    "tasks in a node": tasks_in_a_node,
    "a subgraph before a task": before_a_task(),
    "one that goes on": before_a_task(own=True),
}
RUNS = ("two", "three", "four")
GONE = [["four"], ["three"], ["two"], ["three", "four"], [*RUNS]]


@pytest.mark.parametrize("gone", GONE)
@pytest.mark.parametrize("made", MADE.values(), ids=MADE.keys())
def test_no_answer_goes_to_another_question(made: Make, gone: list[str]) -> None:
    saver = LastgoodSaver.from_memory()
    app = made(saver)
    begun(app, RUNS[: RUNS.index(gone[-1]) + 1])
    saver.delete_for_runs(gone)
    assert ended(app) == [*QUESTIONS]


@pytest.mark.parametrize("made", MADE.values(), ids=MADE.keys())
@pytest.mark.parametrize("gone", RUNS[:2])
def test_nor_to_one_that_a_later_run_has_asked(made: Make, gone: str) -> None:
    saver = LastgoodSaver.from_memory()
    app = made(saver)
    begun(app, RUNS[: RUNS.index(gone) + 2])
    saver.delete_for_runs([gone])
    assert ended(app) == [*QUESTIONS]


@pytest.mark.parametrize("own", [None, True])
def test_no_graph_around_shows_what_is_asked_no_more(own: Any) -> None:
    """A subgraph that goes on from call to call is named without the calls that lead to it."""
    saver = LastgoodSaver.from_memory()
    begun(inside(inside(one_node, own=own))(saver), ["two", "three"])
    saver.delete_for_runs(["three"])
    everywhere = saver.list({"configurable": {"thread_id": "t"}})
    writes = [write for found in everywhere for write in found.pending_writes or ()]
    assert writes
    assert [value for _, channel, value in writes if channel == "__interrupt__"] == []


@pytest.mark.parametrize("made", [one_node, inside(one_node)])
def test_what_others_have_answered_stays(saver: LastgoodSaver, made: Make) -> None:
    app = made(saver)
    begun(app, RUNS)
    saver.delete_for_runs(["four"])
    assert shown(app) == ["Sure?"]
    saver.delete_for_runs(["three"])
    assert shown(app) == []
    assert ended(app) == [*QUESTIONS]


@pytest.mark.parametrize("made", [one_node, inside(one_node)])
def test_who_only_looked_has_answered_nothing(saver: LastgoodSaver, made: Make) -> None:
    app = made(saver)
    begun(app, [])
    [question] = app.get_state(config()).interrupts
    # An answer that names no question would be taken once more, by who looks.
    app.invoke(Command(resume={question.id: "Pay?"}), for_run("two"))
    app.invoke(None, for_run("look"))
    saver.delete_for_runs(["look"])
    assert shown(app) == ["Delete?"]
    app.invoke(None, for_run("look"))
    saver.delete_for_runs(["two"])
    assert shown(app) == []
    assert ended(app) == [*QUESTIONS]


@pytest.mark.parametrize("made", [one_node, inside(one_node)])
def test_nothing_is_answered_by_an_answer_that_went(saver: LastgoodSaver, made: Make) -> None:
    """Though the run before gave the same."""
    app = made(saver)
    begun(app, [])
    for run in ("two", "three"):
        app.invoke(Command(resume="yes"), for_run(run))
    saver.delete_for_runs(["three"])
    app.invoke(None, for_run("four"))
    assert shown(app) == ["Pay?"]


@pytest.mark.parametrize("other", [{}, {"other": ["o"]}])
def test_what_a_fork_needs_of_other_channels_keeps_no_answer(
    saver: LastgoodSaver, other: Any
) -> None:
    """The fork has a value of its own for what the run wrote, but not for all delta channels."""

    def ask(_: Any) -> Any:
        entries = [interrupt("Pay?")]
        return {"log": entries, "told": entries}

    made = StateGraph(Deltas)
    made.add_node("ask", ask)
    made.add_edge(START, "ask")
    app = made.compile(checkpointer=saver)
    app.invoke({"log": ["q"], "told": ["q"], **other}, for_run("one"))
    waits = app.get_state(config()).config
    app.invoke(Command(resume="yes"), for_run("two"))
    app.update_state(waits, {"log": ["f"], "told": ["f"]}, as_node="ask")
    fork = app.get_state(config())
    client_of(saver).switch("t", "main")
    saver.delete_for_runs(["two"])
    assert shown(app) == ["Pay?"]
    assert app.invoke(Command(resume="no"), config())["told"] == ["q", "no"]
    assert app.get_state(fork.config).values == fork.values


def side_by_side(saver: Any) -> Any:
    made = StateGraph(State)
    for name in "ab":
        made.add_node(name, lambda _, name=name: {"log": [interrupt(name + n) for n in "12"]})
        made.add_edge(START, name)
    return made.compile(checkpointer=saver)


@pytest.mark.parametrize("made", [side_by_side, inside(side_by_side)])
def test_no_question_is_shown_alone_beside_one_that_waits_to_be_asked_again(
    saver: LastgoodSaver, made: Make
) -> None:
    """An answer that names no question would be taken for that one, too."""
    app = made(saver)
    begun(app, [])
    asked = {each.value: each.id for each in app.get_state(config()).interrupts}
    app.invoke(Command(resume={asked["b1"]: "b1"}), for_run("two"))
    saver.delete_for_runs(["two"])
    assert shown(app) == []
    app.invoke(None, for_run("three"))
    assert sorted(shown(app)) == ["a1", "b1"]
