"""Rewinds, forks, undos and copies of a graph's thread: where it goes on, and with what."""

import operator
from collections.abc import Sequence
from typing import Annotated, Any, TypedDict
from uuid import uuid4

import pytest
from langgraph.channels.delta import DeltaChannel
from langgraph.graph import START, StateGraph
from langgraph.types import Command, interrupt

from lastgood.adapters.langgraph import LangGraphAdapter, LastgoodSaver
from lastgood.client import BlockingClient
from tests.langgraph.test_deltas import history
from tests.langgraph.test_saver import config, put


def joined(state: list[str], writes: Sequence[list[str]]) -> list[str]:
    return [*(state or []), *(entry for added in writes for entry in added)]


class State(TypedDict):
    log: Annotated[list[str], operator.add]
    same: Annotated[list[str], DeltaChannel(joined, list, snapshot_frequency=100)]


def graph(saver: LastgoodSaver, ran: list[str] | None = None) -> Any:
    """Two nodes; both channels always have the same entries."""

    def node(name: str) -> Any:
        def run(state: State) -> State:
            assert state["log"] == state["same"]
            (ran if ran is not None else []).append(name)
            entries = [f"{name}{len(state['log'])}"]
            return {"log": entries, "same": entries}

        return run

    made = StateGraph(State)
    made.add_node("a", node("a"))
    made.add_node("b", node("b"))
    made.add_edge(START, "a")
    made.add_edge("a", "b")
    return made.compile(checkpointer=saver)


def talk(app: Any, text: str, run: str | None = None, where: Any = None) -> list[str]:
    options = {**(where or config()), "metadata": {"run_id": run or str(uuid4())}}
    found: list[str] = app.invoke({"log": [text], "same": [text]}, options)["log"]
    return found


def log_of(app: Any, thread: str = "t") -> list[str]:
    values = app.get_state(config(thread)).values
    assert values["log"] == values["same"]
    found: list[str] = values["log"]
    return found


def client_of(saver: LastgoodSaver) -> BlockingClient:
    return saver.client.blocking  # type: ignore[union-attr, no-any-return]


@pytest.mark.parametrize("how", ["rewind", "fork"])
class TestGoingBack:
    def go(self, saver: LastgoodSaver, how: str, seq: int) -> None:
        if how == "rewind":
            client_of(saver).rewind("t", seq)
        else:
            client_of(saver).fork(f"t/graph@{seq}", switch=True)

    def test_nodes_that_had_run_run_again(self, saver: LastgoodSaver, how: str) -> None:
        ran: list[str] = []
        app = graph(saver, ran)
        talk(app, "q")
        self.go(saver, how, 2)
        found = app.get_state(config())
        assert (found.values["log"], found.next) == (["q"], ("a",))
        assert next(app.get_state_history(config())) == found
        ran.clear()
        app.invoke(None, config())
        assert ran == ["a", "b"]
        assert log_of(app) == ["q", "a1", "b2"]

    def test_an_undo_leads_to_what_was_there(self, saver: LastgoodSaver, how: str) -> None:
        app = graph(saver)
        talk(app, "q")
        before = app.get_state(config())
        self.go(saver, how, 2)
        talk(app, "other")
        client_of(saver).undo("t")
        assert app.get_state(config()) == before
        assert talk(app, "more")[:4] == ["q", "a1", "b2", "more"]

    def test_what_was_left_stays_as_it_was(self, saver: LastgoodSaver, how: str) -> None:
        app = graph(saver)
        talk(app, "q")
        places = [place.config for place in app.get_state_history(config())]
        before = [app.get_state(place) for place in places]
        self.go(saver, how, 2)
        app.invoke(None, config())
        assert [app.get_state(place) for place in places] == before

    @pytest.mark.parametrize("seq", [1, 2, 4, 6, 7])
    def test_a_prune_keeps_it(self, saver: LastgoodSaver, how: str, seq: int) -> None:
        app = graph(saver)
        for text in ("one", "two", "three"):
            talk(app, text)
        self.go(saver, how, seq)
        before = app.get_state(config())
        saver.prune(["t"])
        found = app.get_state(config())
        assert (found.values, found.next) == (before.values, before.next)
        assert app.get_state(found.config).values == before.values
        assert [place.config for place in app.get_state_history(config())] == [found.config]
        history(saver, found.config, "same")
        app.update_state(found.config, {"log": ["u"], "same": ["u"]}, as_node="b")
        assert log_of(app) == [*before.values["log"], "u"]
        assert talk(app, "more")[-3] == "more"
        assert client_of(saver).verify(data=True).clean

    def test_deleted_runs_leave_it_whole(self, saver: LastgoodSaver, how: str) -> None:
        app = graph(saver)
        for text in ("one", "two", "three"):
            talk(app, text, run=text)
        self.go(saver, how, 8)
        before = log_of(app)
        saver.delete_for_runs(["three"])
        saver.delete_for_runs(["one"])
        assert log_of(app) == before
        saver.delete_for_runs(["two"])
        assert list(saver.list(config())) == []

    def test_a_copy_goes_on_there(self, saver: LastgoodSaver, how: str) -> None:
        app = graph(saver)
        for text in ("one", "two"):
            talk(app, text)
        self.go(saver, how, 2)
        saver.copy_thread("t", "copy")
        found = app.get_state(config("copy"))
        assert (found.values["log"], found.next) == (["one"], ("a",))
        assert _told(saver, "copy") == _told(saver, "t")
        client_of(saver).undo("t")
        saver.copy_thread("t", "undone")
        assert log_of(app, "undone") == log_of(app)
        assert len(talk(app, "more", where=config("undone"))) == len(log_of(app)) + 3

    def test_it_waits_again_for_an_answer(self, saver: LastgoodSaver, how: str) -> None:
        app = asking(saver)
        app.invoke({"log": ["q"]}, config())
        app.invoke(Command(resume="no"), config())
        assert app.get_state(config()).values["log"] == ["q", "no"]
        self.go(saver, how, 2)
        assert app.get_state(config()).next == ("ask",)
        [asked] = app.invoke(None, config())["__interrupt__"]
        assert asked.value == "Pay?"
        assert [one.value for one in app.get_state(config()).interrupts] == ["Pay?"]
        assert app.invoke(Command(resume="yes"), config())["log"] == ["q", "yes"]

    def test_the_answer_can_be_given_at_once(self, saver: LastgoodSaver, how: str) -> None:
        app = asking(saver)
        app.invoke({"log": ["q"]}, config())
        app.invoke(Command(resume="no"), config())
        self.go(saver, how, 2)
        assert app.invoke(Command(resume="yes"), config())["log"] == ["q", "yes"]


def asking(saver: LastgoodSaver, *questions: str) -> Any:
    class Asking(TypedDict):
        log: Annotated[list[str], operator.add]

    made = StateGraph(Asking)
    made.add_node("ask", lambda _: {"log": [interrupt(each) for each in questions or ("Pay?",)]})
    made.add_edge(START, "ask")
    return made.compile(checkpointer=saver)


def _told(saver: LastgoodSaver, thread: str) -> list[Any]:
    """All that a list tells of a thread, but its name."""
    return [
        (
            found.checkpoint,
            found.metadata,
            found.pending_writes,
            found.parent_config and found.parent_config["configurable"]["checkpoint_id"],
        )
        for found in saver.list(config(thread))
    ]


class TestForksBeside:
    def test_the_thread_stays_where_it_is(self, saver: LastgoodSaver) -> None:
        app = graph(saver)
        talk(app, "q")
        before = app.get_state(config())
        client_of(saver).fork("t/graph@2", branch="aside")
        assert app.get_state(config()) == before
        saver.copy_thread("t", "copy")
        assert app.get_state(config("copy")).values == before.values
        client_of(saver).switch("copy", "aside")
        assert app.get_state(config("copy")).next == ("a",)

    def test_an_edit_is_where_the_graph_goes_on(self, saver: LastgoodSaver) -> None:
        app = asking(saver)
        app.invoke({"log": ["q"]}, config())
        client_of(saver).fork("t/graph@2", edits={"log[0]": "edited"}, switch=True)
        assert app.invoke(Command(resume="yes"), config())["log"] == ["edited", "yes"]
        assert app.get_state(config()).values["log"] == ["edited", "yes"]


class TestCopies:
    def test_a_backup_brings_a_pruned_thread_back(self, saver: LastgoodSaver) -> None:
        app = graph(saver)
        for text in ("one", "two"):
            talk(app, text)
        saver.prune(["t"])
        before = log_of(app)
        saver.copy_thread("t", "backup")
        saver.delete_thread("t")
        saver.copy_thread("backup", "t")
        assert log_of(app) == before
        assert _told(saver, "t") == _told(saver, "backup")
        saver.copy_thread("backup", "t")
        assert _told(saver, "t") == _told(saver, "backup")
        assert talk(app, "more")[: len(before)] == before

    def test_a_copy_to_a_thread_that_is_there_is_one_line_beside(
        self, saver: LastgoodSaver
    ) -> None:
        app = graph(saver)
        talk(app, "there", where=config("copy"))
        for text in ("one", "two"):
            talk(app, text)
        saver.copy_thread("t", "copy")
        assert log_of(app, "copy") == log_of(app)
        assert len(client_of(saver).branches("copy")) == 2
        assert len(list(saver.list(config("copy")))) == len(list(saver.list(config()))) + 4

    def test_a_copy_has_the_parents_that_its_source_has(self, saver: LastgoodSaver) -> None:
        app = asking(saver)
        for number in range(3):
            options = {**config(), "metadata": {"run_id": f"run {number}"}}
            app.invoke({"log": ["q"]}, options)
            app.invoke(Command(resume="yes"), options)
        saver.delete_for_runs(["run 1"])
        saver.copy_thread("t", "copy")
        assert _told(saver, "copy") == _told(saver, "t")
        assert app.get_state(config("copy")).values == app.get_state(config()).values
        listed = {found[0]["id"] for found in _told(saver, "copy")}
        assert {found[3] for found in _told(saver, "copy")} <= listed | {None}


def for_run(run: str, **more: Any) -> Any:
    """A config of the thread that names a run, as a server's does."""
    return {"configurable": {"thread_id": "t", "run_id": run, **more}}


class TestDeletedRuns:
    """What a server does to roll a run back: as if it had never been."""

    @pytest.mark.parametrize("others", [[], ["one"]])
    def test_a_fork_that_goes_leaves_the_newest(
        self, saver: LastgoodSaver, others: list[str]
    ) -> None:
        """The head was on another branch than what is the latest now."""
        app = graph(saver)
        talk(app, "one", run="one")
        first = app.get_state(config()).config["configurable"]["checkpoint_id"]
        before = talk(app, "two", run="two")
        talk(app, "again", run="three", where=config(id=first))
        saver.delete_for_runs(["three", *others])
        assert log_of(app) == before
        assert talk(app, "more")[: len(before)] == before
        saver.prune(["t"])
        assert log_of(app)[: len(before)] == before
        assert client_of(saver).verify(data=True).clean

    @pytest.mark.parametrize("how", ["fork", "undo"])
    def test_a_line_that_nobody_follows_is_not_gone_on_with(
        self, saver: LastgoodSaver, how: str
    ) -> None:
        """A fork without a switch, and a rewind that was undone, are newer and not the latest."""
        app, client = graph(saver), client_of(saver)
        for text in ("one", "two"):
            talk(app, text, run=text)
        before = log_of(app)
        if how == "undo":
            client.rewind("t", 2)
            client.undo("t")
        talk(app, "three", run="three")
        if how == "fork":
            client.fork("t/graph@2", branch="try")
        saver.delete_for_runs(["three"])
        assert log_of(app) == before
        assert client.verify(data=True).clean

    def test_every_branch_keeps_its_own(self, saver: LastgoodSaver) -> None:
        app = graph(saver)
        talk(app, "one", run="one")
        first = app.get_state(config()).config
        before = talk(app, "two", run="two")
        tip = app.get_state(config()).config
        talk(app, "fork", run="three", where=first)
        talk(app, "more", run="four", where=tip)
        saver.delete_for_runs(["four"])
        assert log_of(app) == before
        assert client_of(saver).verify(data=True).clean

    def test_what_others_have_asked_stays(self, saver: LastgoodSaver) -> None:
        """A run that looks at it again writes it again."""
        app = asking(saver)
        app.invoke({"log": ["q"]}, for_run("one"))
        before = app.get_state(config())
        app.invoke(None, for_run("two"))
        saver.delete_for_runs(["two"])
        assert app.get_state(config()).interrupts == before.interrupts

    def test_a_run_of_any_name(self, saver: LastgoodSaver) -> None:
        app = asking(saver)
        app.invoke({"log": ["q"]}, for_run("one"))
        for run in ("\udc80x", "a\x00b", "on", "one two"):
            app.invoke(Command(resume="yes"), for_run(run))
            saver.delete_for_runs([run.replace("\x00", "")])
            assert app.get_state(config()).next == ("ask",)
            found = saver.get_tuple(config())
            assert found is not None
            assert "yes" not in str(found.pending_writes)

    def test_an_answer_goes_with_its_run(self, saver: LastgoodSaver) -> None:
        app = asking(saver)
        app.invoke({"log": ["q"]}, for_run("one"))
        before = app.get_state(config())
        app.invoke(Command(resume="yes"), for_run("two"))
        saver.delete_for_runs(["two"])
        found = app.get_state(config())
        assert (found.values, found.next) == (before.values, before.next)
        assert found.interrupts == before.interrupts
        app.invoke(Command(resume="no"), for_run("three"))
        assert "no" in app.get_state(config()).values["log"]
        assert "yes" not in app.get_state(config()).values["log"]

    @pytest.mark.parametrize("gone", [["two"], ["three"], ["two", "three"]])
    def test_no_answer_goes_to_another_question(
        self, saver: LastgoodSaver, gone: list[str]
    ) -> None:
        """A node that has asked several begins with the first, once the answers to it are gone."""
        questions = ["Pay?", "Delete?", "Sure?"]
        app = asking(saver, *questions)
        app.invoke({"log": []}, for_run("one"))
        for run in ("two", "three"):
            asked = app.get_state(config()).interrupts[0].value
            app.invoke(Command(resume=asked), for_run(run))
        saver.delete_for_runs(gone)
        while app.get_state(config()).next:
            waiting = app.get_state(config()).interrupts
            app.invoke(Command(resume=waiting[0].value) if waiting else None, for_run("four"))
        assert app.get_state(config()).values["log"] == questions

    def test_an_update_of_a_run_that_failed(self, saver: LastgoodSaver) -> None:
        """It put writes, and no checkpoint."""

        def failing(_: State) -> State:
            raise OSError("the disk is full")

        made = StateGraph(State)
        made.add_node("a", failing)
        made.add_edge(START, "a")
        app = made.compile(checkpointer=saver)
        with pytest.raises(OSError, match="full"):
            app.invoke({"log": ["q"], "same": ["q"]}, for_run("one"))
        with pytest.raises(OSError, match="full"):
            app.invoke(Command(update={"log": ["x"], "same": ["x"]}), for_run("two"))
        saver.delete_for_runs(["two"])
        assert log_of(app) == ["q"]
        found = saver.get_tuple(config())
        assert found is not None
        assert "x" not in str(found.pending_writes)

    def test_what_later_runs_are_made_of_stays(self, saver: LastgoodSaver) -> None:
        """A delta channel of theirs is computed from the writes of a run that goes."""
        app = graph(saver)
        for text in ("one", "two", "three"):
            app.invoke({"log": [text], "same": [text]}, for_run(text))
        before = log_of(app)
        for run in ("two", "one"):
            saver.delete_for_runs([run])
            assert log_of(app) == before

    @pytest.mark.parametrize("later", ["a fork", "a turn"])
    def test_what_a_node_wrote_goes_or_stays_as_a_whole(
        self, saver: LastgoodSaver, later: str
    ) -> None:
        """Half of it, what delta channels are made of, would be taken for all that it did."""

        def ask(_: State) -> State:
            entries = [interrupt("Pay?")]
            return {"log": entries, "same": entries}

        made = StateGraph(State)
        made.add_node("ask", ask)
        made.add_node("end", lambda _: {"log": ["end"], "same": ["end"]})
        made.add_edge(START, "ask")
        made.add_edge("ask", "end")
        app = made.compile(checkpointer=saver)
        app.invoke({"log": ["q"], "same": ["q"]}, for_run("one"))
        waits = app.get_state(config()).config
        app.invoke(Command(resume="yes"), for_run("two"))
        if later == "a fork":
            app.update_state(waits, {"log": ["f"], "same": ["f"]}, as_node="ask")
            client_of(saver).switch("t", "main")
        else:
            app.invoke({"log": ["more"], "same": ["more"]}, for_run("three"))
        saver.delete_for_runs(["two"])
        assert log_of(app)
        found = saver.get_tuple(waits)
        assert found is not None
        channels = {channel for _, channel, _ in found.pending_writes or ()}
        assert ("same" in channels) == ("log" in channels) == (later == "a turn")
        again = app.invoke(Command(resume="no"), config())
        assert again["log"] == again["same"]
        assert again["log"][-1] == "end"

    def test_so_it_is_in_a_copy(self, saver: LastgoodSaver) -> None:
        app = asking(saver)
        app.invoke({"log": ["q"]}, for_run("one"))
        app.invoke(Command(resume="yes"), for_run("two"))
        saver.copy_thread("t", "copy")
        saver.delete_for_runs(["two"])
        for thread in ("copy", "t"):
            found = saver.get_tuple(config(thread))
            assert found is not None
            assert "yes" not in str(found.pending_writes)
            app.invoke(Command(resume="no"), config(thread))
            assert app.get_state(config(thread)).values["log"] == ["q", "no"]


class TestOtherLanes:
    """A thread of a graph may have states of other agents: they are not LangGraph's."""

    def test_a_state_that_was_handed_over(self, saver: LastgoodSaver) -> None:
        app = graph(saver)
        for text in ("one", "two"):
            talk(app, text)
        given = client_of(saver).handoff("t/graph@2", "reviewer")
        self.check(saver, app, given)

    def test_a_state_that_was_saved_by_hand(self, saver: LastgoodSaver) -> None:
        app = graph(saver)
        for text in ("one", "two"):
            talk(app, text)
        made = LangGraphAdapter().extract(app.get_state(config()), agent_id="my-agent")
        self.check(saver, app, client_of(saver).put(made))

    def test_a_state_that_was_saved_by_hand_in_the_lane_of_the_graph(
        self, saver: LastgoodSaver
    ) -> None:
        """By the name that pages tell; the graph goes on from its own."""
        app = graph(saver)
        for text in ("one", "two"):
            talk(app, text)
        made = LangGraphAdapter().extract(app.get_state(config()), agent_id="graph")
        self.check(saver, app, client_of(saver).put(made))
        self.check_it_goes_on(app)

    def test_a_state_of_another_agent_that_was_handed_to_the_graph(
        self, saver: LastgoodSaver
    ) -> None:
        app, client = graph(saver), client_of(saver)
        for text in ("one", "two"):
            talk(app, text)
        other = client.save("other", session_id="t", execution_state={"x": 1})
        self.check(saver, app, client.handoff(other, "graph"))
        self.check_it_goes_on(app)

    def test_it_goes_on_where_it_was(self, saver: LastgoodSaver) -> None:
        """And not on a fork that is newer."""
        app, client = graph(saver), client_of(saver)
        for text in ("one", "two"):
            talk(app, text)
        before = log_of(app)
        client.fork("t/graph@2", branch="try")
        client.save("graph", session_id="t", execution_state={"note": 1})
        assert log_of(app) == before

    def check_it_goes_on(self, app: Any) -> None:
        before = log_of(app)
        talk(app, "three")
        assert log_of(app)[: len(before)] == before
        assert len(log_of(app)) > len(before)

    def check(self, saver: LastgoodSaver, app: Any, other: str) -> None:
        before, listed = log_of(app), list(saver.list(config()))
        everywhere: Any = {"configurable": {"thread_id": "t"}}
        assert list(saver.list(everywhere)) == listed
        saver.copy_thread("t", "copy")
        assert log_of(app, "copy") == before
        saver.prune(["t"])
        assert len(list(saver.list(everywhere))) == 1
        assert log_of(app) == before
        assert client_of(saver).restore(other).session_id == "t"
        assert saver.get_tuple(listed[-2].config) is None


def test_one_id_is_no_row_of_letters(saver: LastgoodSaver) -> None:
    for thread in ("ab", "a", "b"):
        put(saver, {"n": 1}, thread=thread, metadata={"source": "loop", "step": 1, "run_id": "xy"})
    saver.prune("ab", strategy="delete")
    assert saver.get_tuple(config("ab")) is None
    assert saver.get_tuple(config("a")) is not None
    assert saver.get_tuple(config("b")) is not None
    saver.delete_for_runs("xy")
    assert saver.get_tuple(config("a")) is None
