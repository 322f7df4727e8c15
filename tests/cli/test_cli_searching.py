"""blame and bisect: which step was it?"""

import json
from collections.abc import Callable
from pathlib import Path

import pytest
from cli_harness import FORBIDDEN, HOSTILE, Result

from lastgood import BlockingClient

Run = Callable[..., Result]

BAD = '"n": 1[3-9]'
GOOD_UNTIL_13 = ["sh", "-c", f"! grep -q '{BAD}'"]


@pytest.fixture
def counting(here: Path) -> Path:
    """A thread whose number goes from 1 to 19, one per step."""
    with BlockingClient.sqlite("lastgood.db") as client, client.run("c", initial={"n": 0}) as run:
        for n in range(1, 20):
            run.state["n"] = n
            run.save(step_name=f"count to {n}")
    return here


class TestBlame:
    def test_names_the_step(self, here: Path, lastgood: Run) -> None:
        shown = lastgood("blame", "run-001/clerk", "messages[1].text")
        assert shown.code == 0
        first, *rest = shown.out.splitlines()
        assert first.startswith("run-001@3  validate  (clerk, on branch main, ")
        assert rest == [
            "brought in messages[1].text:",
            '  "validate done"',
            "The step before, without it: run-001@2",
        ]

    def test_the_whole_state(self, here: Path, lastgood: Run) -> None:
        assert "brought in the state as a whole:\n" in lastgood("blame", "run-001@6", "").out

    def test_json(self, here: Path, lastgood: Run) -> None:
        document = json.loads(lastgood("blame", "run-001@6", "goal", "--json").out)
        assert list(document) == ["path", "value", "checkpoint", "before", "path_then"]
        assert (document["value"], document["checkpoint"]["name"]) == ("refund", "run-001@6")
        assert document["before"]["name"] == "run-001@3"
        first = json.loads(lastgood("blame", "run-001@3", "goal", "--json").out)
        assert first["before"] is None

    def test_a_path_that_is_not_there(self, here: Path, lastgood: Run) -> None:
        shown = lastgood("blame", "run-001@3", "nothing")
        assert (shown.code, shown.out, shown.err.count("\n")) == (3, "", 1)

    def test_hostile_content(self, here: Path, lastgood: Run) -> None:
        shown = lastgood("blame", HOSTILE, "list[0]")
        assert shown.code == 0
        assert FORBIDDEN.search(shown.out) is None
        assert r"\u202e" in shown.out


class TestBisect:
    def test_finds_the_first_bad_step(self, counting: Path, lastgood: Run) -> None:
        shown = lastgood("bisect", "c", "--", *GOOD_UNTIL_13)
        assert shown.code == 0
        first, second = shown.out.splitlines()
        assert first.startswith("First bad step: c@14  count to 13  (")
        assert second == "Last good one: c@13. To go on from it: lastgood rewind c 13"
        assert "c@20: bad\n" in shown.err

    def test_json(self, counting: Path, lastgood: Run) -> None:
        shown = lastgood("bisect", "c", "--json", "--", *GOOD_UNTIL_13)
        document = json.loads(shown.out)
        assert (document["first"]["name"], document["before"]["name"]) == ("c@14", "c@13")
        assert document["certain"] is True
        assert 4 < document["tested"] < 15
        assert shown.err == ""

    def test_no_bad_step(self, counting: Path, lastgood: Run) -> None:
        shown = lastgood("bisect", "c", "--", "true")
        assert shown.code == 1
        assert shown.out.startswith("No bad step: ")
        assert json.loads(lastgood("bisect", "c", "--json", "--", "true").out)["first"] is None

    def test_no_state_is_no_answer(self, counting: Path, lastgood: Run) -> None:
        with BlockingClient.sqlite("lastgood.db") as client:
            client.expire(client.save("a", session_id="gone", execution_state={}))
        shown = lastgood("bisect", "gone", "--", "true")
        assert (shown.code, shown.out) == (3, "")
        assert "gone has no state to look at. Nothing was saved yet, or all of it" in shown.err

    def test_bad_from_the_beginning(self, counting: Path, lastgood: Run) -> None:
        shown = lastgood("bisect", "c", "--", "false")
        assert (shown.code, shown.out.split()[3]) == (0, "c@1")

    def test_an_answer_that_flips_back_is_said(self, counting: Path, lastgood: Run) -> None:
        shown = lastgood("bisect", "c", "--", "sh", "-c", "! grep -qE '\"n\": ([3-9]|1.)}'")
        assert "First bad step: c@4" in shown.out
        flips = lastgood("bisect", "c", "--", "sh", "-c", "! grep -qE '\"n\": ([2-9]|19)}'")
        assert "It is not the only change" in flips.out

    def test_the_command_is_told_which_checkpoint_it_is(
        self, counting: Path, lastgood: Run
    ) -> None:
        shown = lastgood("bisect", "c", "--", "sh", "-c", 'echo "[$LASTGOOD_REF]"; false')
        assert "[c@20]" in shown.err
        assert "[c@20]" not in shown.out

    def test_dashes_of_the_command_are_its_own(self, counting: Path, lastgood: Run) -> None:
        shown = lastgood("bisect", "c", "--", "sh", "-c", 'test "$1$2" = --x', "sh", "--", "x")
        assert shown.out.startswith("No bad step")

    @pytest.mark.parametrize(
        ("command", "code", "error"),
        [
            ([], 2, "no command to judge a state by"),
            (["no-such-program"], 2, "no-such-program cannot be run: No such file or directory."),
            (["sh", "-c", "exit 125"], 4, "sh could not judge c@1: its exit code is 125."),
            (["sh", "-c", "exit 128"], 4, "sh could not judge c@1: its exit code is 128."),
            (["sh", "-c", "kill $$"], 4, "its exit code is -15."),
        ],
    )
    def test_what_stops_it(
        self, counting: Path, lastgood: Run, command: list[str], code: int, error: str
    ) -> None:
        shown = lastgood("bisect", "c", "--", *command)
        assert (shown.code, shown.out) == (code, "")
        assert error in shown.err.replace("c@20", "c@1")
