"""Delta channels: their history, and what removal and copies leave of it."""

import asyncio
from collections.abc import Sequence
from enum import StrEnum
from typing import Annotated, Any, TypedDict
from uuid import uuid4

import pytest
from langgraph.channels.delta import DeltaChannel
from langgraph.checkpoint.base import BaseCheckpointSaver
from langgraph.checkpoint.serde.types import _DeltaSnapshot
from langgraph.graph import START, StateGraph

from lastgood import CheckpointNotFoundError
from lastgood.adapters.langgraph import LastgoodSaver, reading
from tests.langgraph.test_saver import checkpoint, config, put


class Channel(StrEnum):
    D = "d"


def joined(state: list[str], writes: Sequence[list[str]]) -> list[str]:
    return [*(state or []), *(entry for added in writes for entry in added)]


def line(saver: LastgoodSaver, values: Sequence[dict[str, Any]], parent: Any = None) -> list[Any]:
    """Checkpoints in a row, each with one write for the channel `d`."""
    places = []
    for number, stored in enumerate(values):
        parent, _ = put(saver, stored, parent=parent)
        saver.put_writes(parent, [("d", [number]), ("other", number)], str(uuid4()), "~1")
        places.append(parent)
    return places


def history(saver: LastgoodSaver, place: Any, *channels: str) -> Any:
    """The override, which must agree with LangGraph's own walk."""
    found = saver.get_delta_channel_history(config=place, channels=list(channels))
    walked = BaseCheckpointSaver.get_delta_channel_history(
        saver, config=place, channels=list(channels)
    )
    assert found == walked
    again = asyncio.run(saver.aget_delta_channel_history(config=place, channels=list(channels)))
    assert again == found
    return {
        name: ([write[2] for write in entry["writes"]], entry.get("seed", "none"))
        for name, entry in found.items()
    }


class TestHistory:
    def test_oldest_first_without_the_targets_own(self, saver: LastgoodSaver) -> None:
        places = line(saver, [{}, {}, {}, {}])
        assert history(saver, places[-1], "d") == {"d": ([[0], [1], [2]], "none")}
        assert history(saver, places[0], "d") == {"d": ([], "none")}

    def test_from_the_nearest_stored_value_on(self, saver: LastgoodSaver) -> None:
        seed = _DeltaSnapshot(["s"])
        places = line(saver, [{"d": ["old"]}, {"d": seed}, {"x": "y" * 5000}, {}, {}])
        assert history(saver, places[-1], "d") == {"d": ([[1], [2], [3]], seed)}
        assert history(saver, places[1], "d") == {"d": ([[0]], ["old"])}

    def test_of_several_channels(self, saver: LastgoodSaver) -> None:
        places = line(saver, [{"other": 7}, {"d": _DeltaSnapshot([])}, {}])
        assert history(saver, places[-1], "d", "other", "none") == {
            "d": ([[1]], _DeltaSnapshot([])),
            "other": ([0, 1], 7),
            "none": ([], "none"),
        }
        assert saver.get_delta_channel_history(config=places[-1], channels=[]) == {}

    def test_only_along_its_own_line(self, saver: LastgoodSaver) -> None:
        places = line(saver, [{}, {}])
        left = line(saver, [{}, {}], parent=places[0])
        assert history(saver, left[-1], "d") == {"d": ([[0], [0]], "none")}
        assert history(saver, places[-1], "d") == {"d": ([[0]], "none")}

    def test_over_many_ancestors(self, saver: LastgoodSaver) -> None:
        places = line(saver, [{} for _ in range(130)])
        found = saver.get_delta_channel_history(config=places[-1], channels=["d"])
        assert [write[2] for write in found["d"]["writes"]] == [[n] for n in range(129)]

    def test_past_much_that_lies_between(self, saver: LastgoodSaver) -> None:
        places = line(saver, [{}, {}])
        aside, _ = put(saver, {}, parent=places[0])
        for number in range(7):
            saver.put_writes(aside, [("d", [n]) for n in range(100)], str(uuid4()), f"~{number}")
        last = line(saver, [{}, {}], parent=places[-1])
        assert history(saver, last[-1], "d") == {"d": ([[0], [1], [0]], "none")}

    def test_more_writes_than_are_read_at_once(self, saver: LastgoodSaver) -> None:
        parent = None
        for number in range(4):
            parent, _ = put(saver, {}, parent=parent)
            saver.put_writes(parent, [("d", number * 400 + n) for n in range(400)], "task")
        after, _ = put(saver, {}, parent=parent)
        assert history(saver, after, "d") == {"d": (list(range(1600)), "none")}

    def test_ids_of_any_length(self, saver: LastgoodSaver) -> None:
        parent = None
        for number, name in enumerate(("a", "bbb", str(uuid4()), "b", "\udcff")):
            parent, _ = put(saver, {}, checkpoint={**checkpoint({}), "id": name}, parent=parent)
            saver.put_writes(parent, [("d", [number])], "task")
        assert history(saver, parent, "d") == {"d": ([[0], [1], [2], [3]], "none")}

    def test_a_channel_of_any_name(self, saver: LastgoodSaver) -> None:
        names = ["d", "größe", "\udcff", "x" * 300, "d\x00"]
        many = {f"channel-{n}": "v" * 100 for n in range(100)}
        for others in ({}, {"big": ["y" * 900] * 20}, many):
            for name in names:
                parent, _ = put(saver, {**others, name: [7]})
                after, _ = put(saver, {**others, "also": name}, parent=parent)
                last, _ = put(saver, {}, parent=after)
                assert history(saver, last, name) == {name: ([], [7])}

    def test_a_channel_whose_name_is_a_member_of_an_enum(self, saver: LastgoodSaver) -> None:
        parent, _ = put(saver, {})
        saver.put_writes(parent, [("other", 1), (Channel.D, [2]), ("d", [3])], "task")
        last, _ = put(saver, {}, parent=parent)
        assert history(saver, last, "d") == {"d": ([[2], [3]], "none")}

    def test_a_revision_counts_once(self, saver: LastgoodSaver) -> None:
        first, made = put(saver, {"a": 1})
        saver.put_writes(first, [("d", [0])], "task")
        put(saver, {}, checkpoint={**made, "channel_values": {"a": 2}})
        after, _ = put(saver, {}, parent=first)
        assert history(saver, after, "d") == {"d": ([[0]], "none")}

    def test_a_revision_of_an_ancestor_is_what_counts(self, saver: LastgoodSaver) -> None:
        first, made = put(saver, {})
        places = line(saver, [{}, {}], parent=first)
        seed = _DeltaSnapshot(["stored"])
        put(saver, {}, checkpoint={**made, "channel_values": {"d": seed}})
        assert history(saver, places[-1], "d") == {"d": ([[0]], seed)}
        after, _ = put(saver, {}, parent=places[-1])
        assert history(saver, after, "d") == {"d": ([[0], [1]], seed)}

    def test_a_revision_may_follow_another(self, saver: LastgoodSaver) -> None:
        left, right = line(saver, [{"d": ["left"]}]), line(saver, [{"d": ["right"]}])
        middle, made = put(saver, {}, parent=left[0])
        after, _ = put(saver, {}, parent=middle)
        last, _ = put(saver, {}, parent=after)
        put(saver, {}, checkpoint=made, parent=right[0])
        assert history(saver, last, "d") == {"d": ([[0]], ["right"])}

    def test_ids_that_run_backwards(self, saver: LastgoodSaver) -> None:
        parent = None
        for number in (9, 5, 1):
            made = {**checkpoint({}), "id": f"00000000-0000-6000-8000-00000000000{number}"}
            parent, _ = put(saver, {}, checkpoint=made, parent=parent)
            saver.put_writes(parent, [("d", [number])], "task")
        assert history(saver, parent, "d") == {"d": ([[9], [5]], "none")}


def graph(saver: LastgoodSaver, frequency: int = 7) -> Any:
    class State(TypedDict, total=False):
        log: Annotated[list[str], DeltaChannel(joined, list, snapshot_frequency=frequency)]
        n: int

    def node(state: State) -> State:
        return {"log": [f"n{state.get('n', 0)}"], "n": state.get("n", 0) + 1}

    made = StateGraph(State)
    made.add_node("node", node)
    made.add_edge(START, "node")
    return made.compile(checkpointer=saver)


def talk(app: Any, turns: int, where: Any, run: str | None = None, first: int = 0) -> None:
    for number in range(first, first + turns):
        options = {**where, "metadata": {"run_id": run}} if run else where
        app.invoke({"log": [f"in{number}"]}, options, durability="sync")


@pytest.mark.scenario("S75")
class TestGraphs:
    def test_every_checkpoint_can_be_read(self, saver: LastgoodSaver) -> None:
        app = graph(saver)
        talk(app, 20, config())
        places = list(app.get_state_history(config()))
        longest = places[0].values["log"]
        assert len(longest) == 40
        for place in places:
            assert place.values["log"] == longest[: len(place.values["log"])]

    def test_a_fork_has_its_own_history(self, saver: LastgoodSaver) -> None:
        app = graph(saver)
        talk(app, 6, config())
        whole = app.get_state(config()).values["log"]
        middle = list(app.get_state_history(config()))[9]
        fork = app.update_state(middle.config, {"log": ["fork"]})
        assert app.get_state(fork).values["log"] == [*middle.values["log"], "fork"]
        talk(app, 2, config(), first=50)
        after = app.get_state(config()).values["log"]
        assert after[: len(middle.values["log"]) + 1] == [*middle.values["log"], "fork"]
        assert [entry for entry in after if entry.startswith("in")][-2:] == ["in50", "in51"]
        assert whole[: len(middle.values["log"])] == middle.values["log"]

    @pytest.mark.scenario("S35")
    @pytest.mark.parametrize("turns", [2, 3, 5, 11])
    def test_prune_keeps_what_the_head_needs(self, saver: LastgoodSaver, turns: int) -> None:
        app = graph(saver)
        talk(app, turns, config())
        before = app.get_state(config()).values
        saver.prune(["t"])
        assert len(list(saver.list(config()))) == 1
        other = graph(LastgoodSaver(saver.client))
        assert other.get_state(config()).values == before
        head = other.get_state(config()).config
        history(saver, head, "log")
        talk(other, 3, config(), first=100)
        after = other.get_state(config()).values["log"]
        assert after[: len(before["log"])] == before["log"]
        assert [entry for entry in after if entry.startswith("in")][-3:] == [
            "in100",
            "in101",
            "in102",
        ]
        saver.prune(["t"])
        saver.prune(["t"])
        assert graph(LastgoodSaver(saver.client)).get_state(config()).values["log"] == after
        assert saver.client.blocking.verify(data=True).clean  # type: ignore[union-attr]

    def test_a_run_that_is_deleted_leaves_the_others_whole(self, saver: LastgoodSaver) -> None:
        app = graph(saver, frequency=4)
        for number in range(6):
            talk(app, 1, config(), run=f"run {number}", first=number)
        before = {
            place.config["configurable"]["checkpoint_id"]: place.values
            for place in app.get_state_history(config())
        }
        saver.delete_for_runs(["run 1", "run 3", "run 4"])
        other = graph(LastgoodSaver(saver.client), frequency=4)
        after = {
            place.config["configurable"]["checkpoint_id"]: place.values
            for place in other.get_state_history(config())
        }
        assert 0 < len(after) < len(before)
        assert after == {id: before[id] for id in after}
        saver.prune(["t"])
        assert other.get_state(config()).values == next(iter(after.values()))
        assert saver.client.blocking.verify(data=True).clean  # type: ignore[union-attr]

    @pytest.mark.parametrize("page", [1, 2, 5])
    def test_a_stub_is_found_wherever_a_page_of_the_line_ends(
        self, saver: LastgoodSaver, page: int, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        monkeypatch.setattr(reading, "TOGETHER", page)
        app = graph(saver, frequency=100)
        for number in range(4):
            talk(app, 1, config(), run=f"run {number}", first=number)
        before = app.get_state(config()).values
        saver.delete_for_runs(["run 1"])
        assert app.get_state(config()).values == before

    @pytest.mark.parametrize("order", ["210", "012", "201", "120"])
    def test_one_removal_after_another_takes_nothing(
        self, saver: LastgoodSaver, order: str
    ) -> None:
        app = graph(saver, frequency=100)
        for number in range(4):
            talk(app, 1, config(), run=f"run {number}", first=number)
        before = app.get_state(config()).values
        for number in order:
            saver.delete_for_runs([f"run {number}"])
            place = app.get_state(config())
            assert place.values == before
            history(saver, place.config, "log")
            saver.copy_thread("t", f"after {number}")
            assert app.get_state(config(f"after {number}")).values == before
        saver.prune(["t"])
        assert app.get_state(config()).values == before
        assert saver.client.blocking.verify(data=True).clean  # type: ignore[union-attr]

    def test_a_prune_after_a_deleted_run_takes_nothing(self, saver: LastgoodSaver) -> None:
        app = graph(saver, frequency=100)
        for number in range(4):
            talk(app, 1, config(), run=f"run {number}", first=number)
        before = app.get_state(config()).values
        saver.delete_for_runs(["run 2"])
        saver.prune(["t"])
        assert app.get_state(config()).values == before

    def test_prunes_one_after_another_leave_one_stub(self, saver: LastgoodSaver) -> None:
        app = graph(saver, frequency=100)
        for number in range(4):
            talk(app, 1, config(), first=number)
            saver.prune(["t"])
        head = saver.get_tuple(config())
        assert head is not None
        assert head.parent_config is not None
        stub = saver.get_tuple(head.parent_config)
        assert stub is not None
        assert stub.parent_config is None
        assert len(app.get_state(config()).values["log"]) == 8

    def test_a_copy_can_be_read_and_goes_on(self, saver: LastgoodSaver) -> None:
        app = graph(saver)
        talk(app, 5, config())
        saver.prune(["t"])
        talk(app, 5, config(), first=5)
        saver.copy_thread("t", "copy")
        expected = [place.values for place in app.get_state_history(config())]
        saver.delete_thread("t")
        assert [place.values for place in app.get_state_history(config("copy"))] == expected
        talk(app, 1, config("copy"))
        assert len(app.get_state(config("copy")).values["log"]) == len(expected[0]["log"]) + 2

    def test_exit_mode(self, saver: LastgoodSaver) -> None:
        app = graph(saver)
        for number in range(5):
            app.invoke({"log": [f"in{number}"]}, config(), durability="exit")
        found = graph(LastgoodSaver(saver.client)).get_state(config()).values["log"]
        assert [entry for entry in found if entry.startswith("in")] == [f"in{n}" for n in range(5)]


@pytest.mark.scenario("S75")
class TestRunsThatComeTooLate:
    """What a run goes on from is removed while it runs."""

    def test_behind_a_prune_after_another_run(self, saver: LastgoodSaver, remover: Any) -> None:
        todo: list[Any] = []
        app, after = _interrupted(saver, todo), {}

        def meanwhile() -> None:
            app.invoke({"log": ["other run"]}, config(), durability="sync")
            remover.prune(["t"])
            after.update(app.get_state(config()).values)

        todo.append(meanwhile)
        with pytest.raises(CheckpointNotFoundError, match=r"of thread 't' was removed while"):
            app.invoke({"log": ["late"]}, config(), durability="sync")
        assert app.get_state(config()).values == after
        assert after["log"] == ["first", "node", "late", "other run", "node"]

    def test_behind_a_removal_of_itself(self, saver: LastgoodSaver, remover: Any) -> None:
        todo: list[Any] = []
        app, run = _interrupted(saver, todo), {**config(), "metadata": {"run_id": "one"}}
        todo.append(lambda: remover.delete_for_runs(["one"]))
        with pytest.raises(CheckpointNotFoundError):
            app.invoke({"log": ["late"]}, run, durability="sync")
        assert app.get_state(config()).values["log"] == ["first", "node"]
        app.invoke({"log": ["next"]}, config(), durability="sync")
        assert app.get_state(config()).values["log"] == ["first", "node", "next", "node"]

    def test_a_revision_needs_its_parent_no_more(self, saver: LastgoodSaver) -> None:
        first, _ = put(saver, {"a": 1})
        second, made = put(saver, {"a": 2}, parent=first)
        saver.prune(["t"])
        put(saver, {}, checkpoint={**made, "channel_values": {"a": 3}}, parent=first)
        [listed] = saver.list(config())
        assert listed.config == second
        assert listed.checkpoint["channel_values"] == {"a": 3}


@pytest.fixture(params=["the same saver", "another one"])
def remover(request: pytest.FixtureRequest, saver: LastgoodSaver) -> LastgoodSaver:
    return saver if request.param == "the same saver" else LastgoodSaver(saver.client)


def _interrupted(saver: LastgoodSaver, todo: list[Any]) -> Any:
    """A graph after its first turn, whose node does what there is to do."""

    class State(TypedDict, total=False):
        log: Annotated[list[str], DeltaChannel(joined, list, snapshot_frequency=100)]

    def node(state: State) -> State:
        while todo:
            todo.pop()()
        return {"log": ["node"]}

    made = StateGraph(State)
    made.add_node("node", node)
    made.add_edge(START, "node")
    app = made.compile(checkpointer=saver)
    app.invoke({"log": ["first"]}, config(), durability="sync")
    return app


class TestRevisionsThatGo:
    def test_one_that_follows_nothing_any_more(self, saver: LastgoodSaver) -> None:
        first, _ = put(saver, {"d": [1]}, metadata=_of("one"))
        second, made = put(saver, {}, parent=first, metadata=_of("two"))
        put(saver, {}, checkpoint=made, metadata=_of("two"))
        saver.delete_for_runs(["one"])
        assert saver.get_tuple(first) is None
        assert history(saver, second, "d") == {"d": ([], "none")}

    def test_all_of_a_checkpoint_go_with_the_run_of_the_newest(self, saver: LastgoodSaver) -> None:
        place, made = put(saver, {"a": 1}, metadata=_of("one"))
        put(saver, {}, checkpoint={**made, "channel_values": {"a": 2}}, metadata=_of("two"))
        saver.delete_for_runs(["two"])
        assert saver.get_tuple(place) is None
        assert saver.get_tuple(config()) is None

    def test_the_newest_stays_without_the_others(self, saver: LastgoodSaver) -> None:
        place, made = put(saver, {"a": 1}, metadata=_of("one"))
        put(saver, {}, checkpoint={**made, "channel_values": {"a": 2}}, metadata=_of("two"))
        saver.delete_for_runs(["one"])
        [listed] = saver.list(config())
        assert listed.checkpoint["channel_values"] == {"a": 2}
        assert saver.get_tuple(place) == listed


def _of(run: str) -> Any:
    counters = {"d": (1, 1)}
    return {"source": "loop", "step": 1, "run_id": run, "counters_since_delta_snapshot": counters}


class Told(TypedDict, total=False):
    log: Annotated[list[str], DeltaChannel(joined, list, snapshot_frequency=100)]


def _told(saver: LastgoodSaver, turns: int) -> Any:
    """A graph that was told something in each of some turns."""
    made = StateGraph(Told)
    made.add_node("node", lambda _: {"log": ["heard"]})
    made.add_edge(START, "node")
    app = made.compile(checkpointer=saver)
    for turn in range(turns):
        app.invoke({"log": [f"turn {turn}"]}, config(), durability="sync")
    return app


class TestAnAncestorThatIsGone:
    """Taken away by something else than the saver, with the writes that were made to it."""

    def test_what_needs_it_is_refused(self, saver: LastgoodSaver) -> None:
        app = _told(saver, 3)
        shown = list(app.get_state_history(config()))
        saver.client.blocking.expire("t@5")  # type: ignore[union-attr]
        for again in (saver, LastgoodSaver(saver.client)):
            app = _told(again, 0)
            for number, state in enumerate(reversed(shown), start=1):
                if number < 5:
                    assert app.get_state(state.config).values == state.values
                elif number > 5:
                    with pytest.raises(CheckpointNotFoundError, match="'log' of checkpoint"):
                        app.get_state(state.config)
            with pytest.raises(CheckpointNotFoundError, match="Go on from a checkpoint before"):
                app.invoke({"log": ["more"]}, config())

    def test_a_channel_that_is_new_needs_none(self, saver: LastgoodSaver) -> None:
        places = line(saver, [{"a": 1}, {}, {}])
        saver.client.blocking.expire("t@1")  # type: ignore[union-attr]
        found = saver.get_delta_channel_history(config=places[-1], channels=["d"])
        assert [write[2] for write in found["d"]["writes"]] == [[1]]

    def test_prune_does_not_hide_it(self, saver: LastgoodSaver) -> None:
        app = _told(saver, 3)
        saver.client.blocking.expire("t@5")  # type: ignore[union-attr]
        with pytest.raises(CheckpointNotFoundError, match="'log' of checkpoint"):
            saver.prune(["t"])
        with pytest.raises(CheckpointNotFoundError, match="'log' of checkpoint"):
            app.get_state(config())

    def test_it_keeps_no_other_thread_from_a_removal(self, saver: LastgoodSaver) -> None:
        """The first of them may be the damaged one, each time that all are pruned."""
        app = _told(saver, 0)
        for run in ("one", "two", "three"):
            told = {"configurable": {"thread_id": "t", "run_id": run}}
            app.invoke({"log": [run]}, told, durability="sync")
        saver.copy_thread("t", "u")
        saver.client.blocking.expire("t@5")  # type: ignore[union-attr]
        whole: Any = {"configurable": {"thread_id": "u"}}
        for remove in (lambda: saver.delete_for_runs(["two"]), lambda: saver.prune(["t", "u"])):
            before = len(list(saver.list(whole)))
            with pytest.raises(CheckpointNotFoundError, match="'log' of checkpoint"):
                remove()
            assert len(list(saver.list(whole))) < before
        heard = ["one", "heard", "two", "heard", "three", "heard"]
        assert app.get_state(whole).values["log"] == heard

    @pytest.mark.parametrize("again", [[], ["four"]])
    def test_a_stub_knows_what_it_goes_on_from(
        self, saver: LastgoodSaver, again: list[str]
    ) -> None:
        app = _told(saver, 0)
        for run in ("one", "two", "three", "four"):
            told = {"configurable": {"thread_id": "t", "run_id": run}}
            app.invoke({"log": [run]}, told, durability="sync")
        saver.delete_for_runs(["two"])
        saver.delete_for_runs(again)
        heard = app.get_state(config()).values["log"]
        assert heard[:2] == ["one", "heard"]
        assert heard[-2:] == ["three" if again else "four", "heard"]
        saver.client.blocking.expire("t@3")  # type: ignore[union-attr]
        with pytest.raises(CheckpointNotFoundError, match="'log' of checkpoint"):
            app.get_state(config())
