"""diff: what differs, for people, for programs, and as an exit code."""

import datetime as dt
import json
from collections.abc import Callable
from pathlib import Path

import pytest
from cli_harness import Result, screen

from lastgood import BlockingClient

Run = Callable[..., Result]


def saved(*states: dict[str, object]) -> None:
    with BlockingClient.sqlite("lastgood.db") as client:
        for state in states:
            client.save("a", session_id="d", execution_state=state)


class TestForPeople:
    def test_with_the_step_before(self, here: Path, lastgood: Run) -> None:
        shown = lastgood("diff", "run-001@3")
        assert (shown.code, shown.err) == (1, "")
        assert shown.out.splitlines() == [
            "run-001@2 -> run-001@3  1 message added",
            "+ messages[1]:",
            '  + role: "assistant"',
            '  + text: "validate done"',
        ]

    def test_of_two(self, here: Path, lastgood: Run) -> None:
        shown = lastgood("diff", "run-001@tag:checked", "run-001@6")
        assert shown.code == 1
        assert '~ goal: "pay" -> "refund"\n' in shown.out

    def test_equal_states(self, here: Path, lastgood: Run) -> None:
        shown = lastgood("diff", "single", "single@2")
        assert (shown.code, shown.out) == (0, "single@2 -> single@2  no changes\n")

    def test_every_kind_of_change(self, here: Path, lastgood: Run) -> None:
        old = {"gone": 1, "list": ["a" * 50, "b" * 50, "c" * 50], "same": {}, "deep": {"x": [1, 2]}}
        new = {
            "list": ["b" * 50, "c" * 50, "a" * 50],
            "same": {},
            "deep": {"x": {"y": 3}},
            "new": None,
        }
        saved(old, new)
        lines = lastgood("diff", "d").out.splitlines()
        assert "- gone: 1" in lines
        assert "+ new: null" in lines
        assert "> list[2] (was list[0])" in lines
        at = lines.index("~ deep.x:")
        assert lines[at + 1 : at + 4] == ["  - [0]: 1", "  - [1]: 2", "  + y: 3"]

    def test_long_texts_are_shown_where_they_differ(self, here: Path, lastgood: Run) -> None:
        saved({"t": "x" * 500 + " old end"}, {"t": "x" * 500 + " new end"})
        assert 'old end" -> "...xxx' in lastgood("diff", "d").out
        assert "x" * 400 not in lastgood("diff", "d").out

    @pytest.mark.slow
    def test_colours(self, here: Path) -> None:
        code, shown = screen("diff", "run-001@3", "run-001@6", cwd=here)
        assert code == 1
        assert '\x1b[31m"pay"\x1b[0m -> \x1b[32m"refund"\x1b[0m' in shown

    def test_the_first_has_nothing_before_it(self, here: Path, lastgood: Run) -> None:
        shown = lastgood("diff", "single@1")
        assert (shown.code, shown.out, shown.err.count("\n")) == (3, "", 1)


class TestForPrograms:
    def test_json(self, here: Path, lastgood: Run) -> None:
        shown = lastgood("diff", "run-001@3", "run-001@6", "--json")
        assert shown.code == 1
        assert json.loads(shown.out) == {
            "a": "run-001@3",
            "b": "run-001@6",
            "equal": False,
            "summary": "goal changed",
            "changes": [
                {"op": "replace", "path": "goal", "old": "pay", "new": "refund", "source": None}
            ],
            "json_patch": [{"op": "replace", "path": "/goal", "value": "refund"}],
        }

    def test_values_that_json_has_no_word_for(self, here: Path, lastgood: Run) -> None:
        saved({}, {"when": dt.date(2026, 1, 2)})
        document = json.loads(lastgood("diff", "d", "--json").out)
        assert document["changes"][0]["new"] == {"$lg": "date", "v": "2026-01-02"}
        assert document["json_patch"] is None

    def test_equal(self, here: Path, lastgood: Run) -> None:
        shown = lastgood("diff", "single", "single", "--json")
        assert shown.code == 0
        assert json.loads(shown.out)["equal"] is True
