"""The parts under the commands: cleaning, trees of values, graphs, completion, doctor."""

import json
import os
import re
import shutil
import sqlite3
import subprocess
import sys
from collections.abc import Callable
from contextlib import closing
from datetime import UTC, datetime, timedelta
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
from cli_harness import ESCAPES, FORBIDDEN, Result, environment
from hypothesis import given
from hypothesis import strategies as st

from lastgood import BlockingClient
from lastgood.backends.sqlite.schema import stamp
from lastgood.cli import printing, values
from lastgood.cli.cleaning import clean, clean_lines, columns, shortened
from lastgood.cli.doctor_checks import clock_finding, sqlite_finding
from lastgood.cli.doctor_files import rights_finding
from lastgood.cli.doctor_store import (
    file_system_finding,
    format_finding,
    free_finding,
    journal_finding,
    name_findings,
    time_finding,
)
from lastgood.cli.graph import Graph
from lastgood.cli.terminal import ASCII, BOXES, Terminal

Run = Callable[..., Result]


class TestCleaning:
    @given(st.text(st.characters(codec=None)))
    def test_what_is_left_is_visible_and_encodable(self, text: str) -> None:
        cleaned = clean(text)
        assert FORBIDDEN.search(cleaned) is None
        assert "\n" not in cleaned
        cleaned.encode()
        assert clean(cleaned) == cleaned

    def test_each_kind_is_shown_by_its_code(self) -> None:
        assert clean(ESCAPES).startswith(r"\x1b]0;owned\x07\x1b[2J\x9b31m\x0d\x00\u202e\u2066")
        assert clean("\U000e0041\ufe01\u3164") == r"\U000e0041\ufe01\u3164"

    def test_ordinary_text_stays(self) -> None:
        text = "größe 大 é e\u0301 ❤\ufe0f \u00a0 \u2013 “x”"
        assert clean(text) == text

    def test_lines_stay_lines_where_they_may(self) -> None:
        assert clean_lines("a\n\tb\r\x1b") == "a\n\tb\\x0d\\x1b"

    def test_columns_of_wide_and_combining_characters(self) -> None:
        assert [columns(text) for text in ("abc", "大大", "e\u0301")] == [3, 4, 1]
        assert shortened("大大大大", 7) == "大大..."
        assert shortened("short", 5) == "short"


class TestValues:
    def spelled(self, text: str) -> Any:
        return json.loads(text)

    @pytest.mark.parametrize(
        ("value", "lines"),
        [
            ({}, ["{}"]),
            ([], ["[]"]),
            ({"a": {}, "b": []}, ["a: {}", "b: []"]),
            ({"$x": 1, "a.b": None}, ['["$x"]: 1', '["a.b"]: null']),
            ({"t": (1,), "s": {2}}, ["t: tuple of 1", "  [0]: 1", "s: set of 1", "  [2]: 2"]),
            ({1: "one", (1, 2): "x"}, ['[1]: "one"', '[tuple [1, 2]]: "x"']),
            ({"n": 2**70, "f": float("nan")}, [f"n: {2**70}", "f: float nan"]),
            ({"b": b"abc"}, ["b: bytes YWJj"]),
        ],
    )
    def test_trees(self, value: object, lines: list[str]) -> None:
        assert list(values.tree(printing.spelled(value), values.Limits())) == lines

    def test_records_of_classes_that_are_not_imported(self) -> None:
        spelled = {"$lg": "record", "v": [["shop:Order"], {"id": 3, "lines": [1]}]}
        lines = list(values.tree({"order": spelled}, values.Limits()))
        assert lines == ["order: shop.Order", "  id: 3", "  lines: list of 1", "    [0]: 1"]
        assert values.at({"order": spelled}, "order.lines[0]") == 1

    def test_depth_is_limited(self) -> None:
        deep: Any = 1
        for _ in range(30):
            deep = {"x": deep}
        lines = list(values.tree(deep, values.Limits()))
        assert len(lines) == 12
        assert lines[-1].strip() == "x: ... 1 item"


def headers(*links: tuple[str, str | None]) -> list[Any]:
    return [SimpleNamespace(checkpoint_id=id, parent_id=parent) for id, parent in links]


def drawing(*links: tuple[str, str | None], complete: bool = True, room: int = 9) -> list[str]:
    plain = Terminal(None, colour=False, live=False, glyphs=BOXES, width=80)  # type: ignore[arg-type]
    lines = Graph(BOXES, frozenset()).lines(headers(*links), complete=complete)
    return [line.cell(plain, room).text for line in lines]


class TestGraph:
    def test_a_line(self) -> None:
        assert drawing(("b", "a"), ("a", None)) == ["○", "○"]

    def test_a_fork(self) -> None:
        assert drawing(("c", "a"), ("b", "a"), ("a", None)) == ["○", "│ ○", "├─╯", "○"]

    def test_three_at_one_place_and_a_line_between(self) -> None:
        shown = drawing(("e", "a"), ("d", "b"), ("c", "a"), ("a2", "a"), ("b", None), ("a", None))
        assert shown == ["○", "│ ○", "│ │ ○", "│ │ │ ○", "│ ○ │ │", "├───┴─╯", "○"]
        crossed = drawing(("e", "a"), ("d", "z"), ("c", "a"), ("a", None), ("z", None))
        assert crossed == ["○", "│ ○", "│ │ ○", "├─┼─╯", "○ │", "  ○"]

    def test_a_parent_that_is_gone(self) -> None:
        assert drawing(("b", "gone"), ("x", None)) == ["○", "╵", "○"]

    def test_what_stands_below_a_root_is_not_its_parent(self) -> None:
        links = [("d", "c"), ("c", None), ("b", "a"), ("a", None), ("z", None)]
        assert drawing(*links) == ["○", "○", "  ○", "  ○", "○"]
        shown = drawing(("e", "a"), ("y", None), ("b", "a"), ("x", None), ("a", None))
        assert shown == ["○", "│ ○", "│   ○", "│ ○ │", "├───╯", "○"]

    def test_a_parent_further_down(self) -> None:
        assert drawing(("b", "older"), ("x", None), complete=False) == ["○", "│ ○"]

    def test_many_lines_are_cut(self) -> None:
        links = [(f"tip{i}", "root") for i in range(20)]
        shown = drawing(*links, ("root", None), room=3)
        assert shown[19] == "│ │ │ +○"
        assert max(map(len, shown)) <= 8
        assert len(shown) == 22

    def test_ascii(self) -> None:
        lines = Graph(ASCII, frozenset({"b"})).lines(
            headers(("c", "a"), ("b", "a"), ("a", None)), complete=True
        )
        assert ["".join(line.glyphs) for line in lines] == ["o", "|*", "|'", "o "]


class TestSizesAndAges:
    def test_sizes(self) -> None:
        assert [printing.size(n) for n in (0, 999, 1000, 1_234_567)] == [
            "0 B",
            "999 B",
            "1.0 kB",
            "1.2 MB",
        ]

    @pytest.mark.parametrize(
        ("seconds", "text"),
        [
            (0, "now"),
            (30, "30 s ago"),
            (120, "2 min ago"),
            (7200, "2 h ago"),
            (3 * 86400, "3 d ago"),
        ],
    )
    def test_ages(self, seconds: int, text: str) -> None:
        assert printing.age(datetime.now(UTC) - timedelta(seconds=seconds)) == text

    def test_dates_for_what_is_long_ago_and_word_of_what_is_to_come(self) -> None:
        assert printing.age(datetime(2026, 1, 2, 12, tzinfo=UTC)).startswith("2026-01-0")
        assert printing.age(datetime.now(UTC) + timedelta(hours=1)) == "in the future"


class TestDoctor:
    def test_a_sound_environment(self, here: Path, lastgood: Run) -> None:
        document = json.loads(lastgood("doctor", "--json").out)
        assert document["ok"] is True
        found = {each["what"]: each["level"] for each in document["findings"]}
        assert found.keys() >= {"python", "sqlite", "ormsgpack", "format", "journal", "wal", "disk"}
        assert set(found.values()) == {"ok"}

    def test_people_see_the_same(self, here: Path, lastgood: Run) -> None:
        shown = lastgood("doctor")
        assert shown.code == 0
        assert "ok       journal" in shown.out
        assert shown.out.endswith("0 warnings and 0 problems.\n")

    def test_without_a_store(self, empty: Path, lastgood: Run) -> None:
        shown = lastgood("doctor")
        assert shown.code == 0
        assert "does not exist yet" in shown.out
        assert list(empty.iterdir()) == []

    def test_problems_say_what_to_do(self, empty: Path, lastgood: Run) -> None:
        Path("a bad.db").write_bytes(b"not a database at all" * 100)
        shown = lastgood("doctor", "--store", "a bad.db")
        assert shown.code == 1
        assert "it cannot be read" in shown.out
        assert "Copy the file and its -wal away" in shown.out
        assert "then try `lastgood verify --store 'a bad.db'`." in shown.out
        assert lastgood("doctor", "--store", ".").code == 1
        assert lastgood("doctor", "--store", "none/a.db").code == 1
        Path("link.db").symlink_to("gone/a.db")
        for place, found in (("a bad.db/a.db", "is no directory"), ("link.db", "does not exist")):
            nowhere = lastgood("doctor", "--store", place)
            assert nowhere.code == 1
            assert re.search(rf"problem  directory  .*/(a bad\.db|gone) {found}", nowhere.out)

    @pytest.mark.slow  # it is waited for
    def test_a_file_that_another_program_has_to_itself(self, here: Path, lastgood: Run) -> None:
        with closing(sqlite3.connect("lastgood.db", isolation_level=None)) as other:
            other.execute("PRAGMA locking_mode = EXCLUSIVE")
            other.execute("BEGIN EXCLUSIVE")
            shown = lastgood("doctor")
        assert shown.code == 1
        assert "problem  lock         another program has it to itself" in shown.out
        assert "Copy the file" not in shown.out

    def test_a_store_of_plain_files(self, empty: Path, lastgood: Run) -> None:
        BlockingClient.files("plain").save("a", execution_state={})
        shown = lastgood("doctor", "--store", "files:plain")
        assert shown.code == 0
        for line in ("store      plain, plain files", "format     1", "rights ", "disk "):
            assert f"ok       {line}" in shown.out

    @pytest.mark.parametrize(
        ("place", "code", "told"),
        [
            ("files:typo", 0, "typo does not exist yet"),
            ("files:.", 0, "it holds nothing of Lastgood"),
            ("files:a.txt", 1, "a.txt is a file"),
            ("files:plain", 1, "lastgood.json is damaged"),
        ],
    )
    def test_a_directory_that_is_no_sound_store(
        self, empty: Path, lastgood: Run, place: str, code: int, told: str
    ) -> None:
        Path("a.txt").write_text("text")
        Path("plain").mkdir()
        Path("plain/lastgood.json").write_text("{")
        shown = lastgood("doctor", "--store", place)
        assert (shown.code, told in shown.out) == (code, True)
        assert sorted(path.name for path in empty.iterdir()) == ["a.txt", "plain"]

    def test_a_file_of_two_names_has_two_logs(self, here: Path, lastgood: Run) -> None:
        names = [Path("lastgood.db"), Path("linked.db")]
        assert "names" not in lastgood("doctor").out
        names[1].hardlink_to(names[0])
        for name in names:
            shown = lastgood("doctor", "--store", str(name))
            assert "warning  names        it has 2 of them, as hard links" in shown.out

    def test_a_file_that_is_mounted_without_its_directory_has_its_log_elsewhere(self) -> None:
        assert [each.what for each in name_findings(1, is_mounted=True)] == ["mount"]
        assert list(name_findings(1, is_mounted=False)) == []

    def test_each_check_can_fail(self) -> None:
        future = stamp(int(datetime(2999, 1, 1, tzinfo=UTC).timestamp()) * 1_000_000)
        findings = [
            sqlite_finding((3, 30, 1), "3.30.1"),
            clock_finding(datetime(1970, 1, 1, tzinfo=UTC)),
            format_finding("999"),
            journal_finding("delete"),
            time_finding(future),
            time_finding("123 forged"),
            free_finding(1000),
            file_system_finding("nfs4"),
            rights_finding(Path("plain"), may_write=False),
        ]
        assert [f.level for f in findings if f.level == "ok" or not f.advice] == []


class TestCompletion:
    @pytest.mark.parametrize("shell", ["bash", "fish", "zsh"])
    def test_scripts_know_every_command_and_option(self, lastgood: Run, shell: str) -> None:
        script = lastgood("completion", shell).out
        assert "log" in script
        assert "graph" in script
        assert "__complete --" in script
        program = shutil.which(shell)
        if program is not None:
            subprocess.run([program, "-n", "-c", script], check=True)

    @pytest.mark.slow
    def test_bash_completes(self, here: Path, lastgood: Run, tmp_path: Path) -> None:
        script = tmp_path / "completion.bash"
        script.write_text(lastgood("completion", "bash").out)
        assert offered(script, "lastgood", "lo") == ["log"]
        assert "--graph" in offered(script, "lastgood", "log", "--g")
        assert offered(script, "lastgood", "log", "ru") == ["run-001"]
        assert offered(script, "lastgood", "switch", "run-001", "re") == ["refund"]
        assert offered(script, "lastgood", "--store", "none.db", "log", "ru") == []

    @pytest.mark.parametrize(
        ("words", "names"),
        [
            (["log"], ["single", "run-001"]),
            (["--store", "lastgood.db", "show"], ["single", "run-001"]),
            (["log", "--limit"], []),
            (["log", "--limit", "3"], ["single", "run-001"]),
            (["log", "run-001"], []),
            (["switch", "run-001"], ["main", "refund"]),
            (["log", "run-001", "--branch"], ["main", "refund"]),
            (["threads", "--sort"], ["updated", "created", "name"]),
            (["completion"], ["bash", "fish", "zsh"]),
            (["undo", "none", "x"], []),
            ([], []),
        ],
    )
    def test_names(self, here: Path, lastgood: Run, words: list[str], names: list[str]) -> None:
        assert lastgood("__complete", "--", *words).out.split() == names

    def test_names_that_a_shell_would_run_are_never_offered(
        self, here: Path, lastgood: Run
    ) -> None:
        with BlockingClient.sqlite("lastgood.db") as client:
            for name in ("$(touch owned)", "`x`", "a;b", "a b", "-rf", "x'y", 'x"y', "a|b", "a&b"):
                client.save("a", session_id=name, execution_state={})
        assert lastgood("__complete", "--", "log").out.split() == ["single", "run-001"]

    def test_is_silent_when_there_is_nothing(self, empty: Path, lastgood: Run) -> None:
        shown = lastgood("__complete", "--", "log")
        assert (shown.code, shown.out, shown.err) == (1, "", "")
        assert list(empty.iterdir()) == []


def offered(script: Path, *words: str) -> list[str]:
    """What bash offers for a line that ends with the last word."""
    program = (
        f"source {script}; COMP_WORDS=({' '.join(words)}); COMP_CWORD={len(words) - 1}; _lastgood;"
        'printf "%s\\n" "${COMPREPLY[@]}"'
    )
    path = f"{Path(sys.executable).parent}:{os.environ['PATH']}"
    shown = subprocess.run(
        ["bash", "-c", program],
        capture_output=True,
        text=True,
        check=True,
        env=environment(PATH=path),
    )
    return shown.stdout.split()
