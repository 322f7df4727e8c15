"""fork, rewind, undo, switch, tag, delete: what they do, what they say, how to get back."""

import json
import re
import shlex
from collections.abc import Callable
from pathlib import Path

import pytest
from cli_harness import Result

from lastgood import BlockingClient

Run = Callable[..., Result]


def client() -> BlockingClient:
    return BlockingClient.sqlite("lastgood.db")


def undo_of(shown: str) -> list[str]:
    """The command that the output offers, as a shell would read it."""
    (command,) = re.findall(r"To undo: lastgood (.*)", shown)
    return shlex.split(command)


class TestFork:
    def test_edits_removes_and_stays_beside(self, here: Path, lastgood: Run) -> None:
        shown = lastgood(
            "fork", "run-001@3", "--set", 'goal="a=b"', "--set", 'messages[2]={"text": null}',
            "--remove", "messages[0]", "--branch", "try",
        )  # fmt: skip
        assert shown.out.startswith("Forked run-001@3 as run-001@8, on branch try.\n")
        with client() as store:
            state = store.restore("run-001@8").state
            assert state["goal"] == "a=b"
            assert state["messages"] == [
                {"role": "assistant", "text": "validate done"},
                {"text": None},
            ]
            assert store.resolve("run-001/clerk@").seq == 5

    def test_switch_says_how_to_undo(self, here: Path, lastgood: Run) -> None:
        shown = lastgood("fork", "single@1", "--switch", "--branch", "b")
        with client() as store:
            assert store.resolve("single@").seq == 3
            assert lastgood(*undo_of(shown.out)).code == 0
            assert store.resolve("single@").seq == 2

    def test_json(self, here: Path, lastgood: Run) -> None:
        document = json.loads(lastgood("fork", "single@1", "--json").out)
        assert (document["name"], document["source"]) == ("single@3", "single@1")
        assert document["current"] is False

    def test_values_in_the_codecs_spelling(self, here: Path, lastgood: Run) -> None:
        lastgood("fork", "single", "--set", 'when={"$lg": "date", "v": "2026-01-02"}')
        with client() as store:
            assert store.restore("single@3").state["when"].isoformat() == "2026-01-02"

    def test_a_key_with_an_equals_sign(self, here: Path, lastgood: Run) -> None:
        lastgood("fork", "single", "--set", '["a=b"]="c=d"')
        with client() as store:
            assert store.restore("single@3").state["a=b"] == "c=d"

    @pytest.mark.parametrize(
        ("edit", "code", "error"),
        [
            ("goal", 2, "--set 'goal' is not PATH=JSON."),
            ("goal=x", 2, """'x' is not JSON. A text needs quotes of its own: --set 'goal="x"'."""),
            ("goal=NaN", 2, "'NaN' is not JSON."),
            (
                'goal={"$lg": 5}',
                2,
                """--set goal: {"$lg": 5} is not in the spelling of the codec""",
            ),
            ("a.b=1", 3, "there is no a in the state."),
            ("a..b=1", 2, "not a path: 'a..b' (at character 1)"),
        ],
    )
    def test_what_is_wrong_is_one_line(
        self, here: Path, lastgood: Run, edit: str, code: int, error: str
    ) -> None:
        shown = lastgood("fork", "run-001@3", "--set", edit)
        assert (shown.code, shown.out, shown.err.count("\n")) == (code, "", 1)
        assert error in shown.err

    def test_a_path_that_is_set_twice_is_told(self, here: Path, lastgood: Run) -> None:
        shown = lastgood("fork", "run-001@3", "--set", "n=1", "--set", "n=2")
        assert (shown.code, shown.out) == (2, "")
        assert "--set n is there twice." in shown.err


class TestMoves:
    def test_rewind_undo_and_back_again(self, here: Path, lastgood: Run) -> None:
        shown = lastgood("rewind", "single", "1")
        assert shown.out.startswith("single/solo goes on from main-")
        with client() as store:
            assert store.resolve("single@").step_name == "rewind_to_1"
            again = lastgood(*undo_of(shown.out))
            assert store.resolve("single@").seq == 2
            assert lastgood(*undo_of(again.out)).code == 0
            assert store.resolve("single@").step_name == "rewind_to_1"

    @pytest.mark.parametrize("to", ["@~1", "single@1", "@1", "single@step:0"])
    def test_rewind_takes_refs(self, here: Path, lastgood: Run, to: str) -> None:
        document = json.loads(lastgood("rewind", "single", to, "--json").out)
        assert list(document) == ["kind", "session_id", "agent_id", "left", "branch", "head"]
        assert document["head"]["step_name"] == "rewind_to_1"
        assert (document["kind"], document["left"]) == ("rewind", "main")

    def test_the_undo_of_a_thread_with_several_agents_names_one(
        self, here: Path, lastgood: Run
    ) -> None:
        shown = lastgood("switch", "run-001", "refund", "--agent", "clerk")
        assert undo_of(shown.out) == ["undo", "run-001", "--agent", "clerk"]
        assert lastgood(*undo_of(shown.out)).code == 0

    def test_the_undo_is_for_the_same_store(self, here: Path, lastgood: Run) -> None:
        Path("lastgood.db").rename("other file.db")
        shown = lastgood("rewind", "single", "1", "--store", "other file.db")
        assert lastgood(*undo_of(shown.out)).code == 0

    def test_a_step_without_a_name_is_called_by_its_number(self, here: Path, lastgood: Run) -> None:
        with client() as store:
            for number in range(2):
                store.save("solo", session_id="plain", execution_state={"n": number})
        lastgood("rewind", "plain", "1")
        shown = lastgood("undo", "plain")
        assert shown.out.startswith("plain/solo goes on from main at @2 (step 1).\n")

    def test_staying_is_said(self, here: Path, lastgood: Run) -> None:
        shown = lastgood("switch", "single", "main")
        assert shown.out == "single/solo stays on main at @2 (two).\n"

    @pytest.mark.parametrize(
        ("arguments", "code", "error"),
        [
            (["undo", "single"], 3, "nothing to undo"),
            (["undo", "run-001"], 2, "has 2 agents: clerk, approver. Name one: --agent clerk."),
            (["bisect", "run-001", "--", "true"], 2, "Name one: --agent clerk."),
            (["fork", "run-001@~1"], 2, "Name one: 'run-001/clerk@~1'."),
            (["switch", "single", "none"], 3, "has no branch 'none'"),
            (["switch", "single", "mian"], 3, "no branch 'mian'. Did you mean 'main'?"),
            (["undo", "run-001", "--agent", "clrk"], 3, "no agent 'clrk'. Did you mean 'clerk'?"),
            (["bisect", "single", "--agent", "sol", "--", "true"], 3, "Did you mean 'solo'?"),
            (["rewind", "single", "x"], 3, "'x' is no checkpoint of single. Write SEQ, "),
            (["rewind", "single", "99"], 3, "The newest checkpoint of the thread is @2."),
            (["rewind", "single", "run-001@1"], 2, "is in run-001/clerk, not in single"),
            (["rewind", "singel", "1"], 3, "Did you mean 'single'?"),
            (["undo", "run-001/clerk"], 3, "an agent (--agent clerk, where a command takes one); "),
            (["undo", "run-001/clerk"], 3, "; the thread is 'run-001'."),
            (["delete", "single@1", "--yes"], 3, "a checkpoint; the thread is 'single'."),
        ],
    )
    def test_what_is_wrong_is_one_line(
        self, here: Path, lastgood: Run, arguments: list[str], code: int, error: str
    ) -> None:
        shown = lastgood(*arguments)
        assert (shown.code, shown.out, shown.err.count("\n")) == (code, "", 1)
        assert error in shown.err


class TestTag:
    def test_set_move_delete_and_undo_each(self, here: Path, lastgood: Run) -> None:
        with client() as store:
            first = lastgood("tag", "single@1", "mine")
            assert store.resolve("single@tag:mine").seq == 1
            moved = lastgood("tag", "single", "mine")
            assert store.resolve("single@tag:mine").seq == 2
            lastgood(*undo_of(moved.out))
            assert store.resolve("single@tag:mine").seq == 1
            deleted = lastgood("tag", "--delete", "single", "mine")
            assert store.tags("single") == {}
            lastgood(*undo_of(deleted.out))
            assert store.resolve("single@tag:mine").seq == 1
            lastgood(*undo_of(first.out))
            assert store.tags("single") == {}

    def test_list(self, here: Path, lastgood: Run) -> None:
        assert re.search(r"checked +run-001@3 +validate", lastgood("tag", "run-001").out)
        none = lastgood("tag", "single")
        assert (none.code, none.out) == (0, "")
        assert "single has no tags." in none.err

    def test_json(self, here: Path, lastgood: Run) -> None:
        listed = json.loads(lastgood("tag", "run-001", "--json").out)
        id = listed["tags"]["checked"]
        assert listed["thread"] == "run-001"
        changed = json.loads(lastgood("tag", "run-001@4", "checked", "--json").out)
        assert list(changed) == ["thread", "name", "checkpoint_id", "before"]
        assert changed["before"] == id
        gone = json.loads(lastgood("tag", "--delete", "run-001", "checked", "--json").out)
        assert (gone["checkpoint_id"], gone["before"]) == (None, changed["checkpoint_id"])

    def test_what_is_not_there(self, here: Path, lastgood: Run) -> None:
        assert lastgood("tag", "--delete", "single", "none").code == 3
        assert lastgood("tag", "--delete", "single").code == 2
        assert lastgood("tag", "single@9", "x").code == 3


class TestDelete:
    def test_without_a_terminal_it_needs_yes(self, here: Path, lastgood: Run) -> None:
        shown = lastgood("delete", "single")
        assert (shown.code, shown.out) == (1, "")
        assert "cannot be undone. Say so: --yes." in shown.err
        assert lastgood("delete", "single", "--yes").out == "Deleted single with 2 checkpoints.\n"
        assert lastgood("show", "single").code == 3

    def test_json(self, here: Path, lastgood: Run) -> None:
        document = json.loads(lastgood("delete", "single", "--yes", "--json").out)
        assert document == {"thread": "single", "deleted": True}

    def test_a_thread_that_is_not_there(self, here: Path, lastgood: Run) -> None:
        assert lastgood("delete", "none", "--yes").code == 3


class TestSweep:
    @pytest.fixture(autouse=True)
    def over(self, here: Path) -> None:
        with client() as store:
            for number in range(3):
                state = {"text": f"{number} " * 9000}
                store.save("a", session_id="brief", execution_state=state, ttl_seconds=1e-6)
            store.save("a", session_id="brief", execution_state={"n": 1})

    def test_nothing_is_over_its_time_for_long_enough(self, here: Path, lastgood: Run) -> None:
        shown = lastgood("sweep")
        assert shown.code == 0
        assert shown.out.splitlines() == [
            "Removed 0 checkpoints and 0 pages of 0 B.",
            "3 checkpoints more over their time, not for long enough: --grace SECONDS",
        ]

    def test_one_is_over_its_time(self, here: Path, lastgood: Run) -> None:
        with client() as store:
            store.save("a", session_id="one", execution_state={}, ttl_seconds=1e-6)
        assert "1 checkpoint more over its time, not for" in lastgood("sweep", "one").out

    def test_without_a_terminal_it_needs_yes(self, here: Path, lastgood: Run) -> None:
        shown = lastgood("sweep", "--grace", "0")
        assert (shown.code, shown.out) == (1, "")
        assert "removing 3 checkpoints and 3 pages" in shown.err
        assert "cannot be undone. Say so: --yes, or --dry-run." in shown.err
        would = lastgood("sweep", "--grace", "0", "--dry-run").out
        done = lastgood("sweep", "--grace", "0", "--yes").out
        assert would.replace("Would remove", "Removed") == done
        assert "and 0 pages" in lastgood("sweep", "--grace", "0", "--yes").out

    def test_json(self, here: Path, lastgood: Run) -> None:
        document = json.loads(lastgood("sweep", "brief", "--grace=0", "--yes", "--json").out)
        assert (document["checkpoints"], document["threads"], document["skipped"]) == (3, 0, [])

    def test_a_thread_that_is_not_there(self, here: Path, lastgood: Run) -> None:
        assert lastgood("sweep", "none", "--yes").code == 3
