"""threads, log and show: what people and programs see of a store."""

import json
import re
from collections.abc import Callable
from dataclasses import fields, make_dataclass
from pathlib import Path
from typing import Any

import pytest
from cli_harness import FORBIDDEN, HOSTILE, Result

from lastgood import BlockingClient, Checkpointable, CheckpointManager, Header, ThreadInfo
from lastgood.paths import EXAMPLE

Run = Callable[..., Result]


class TestThreads:
    def test_lists_what_is_there_the_last_touched_first(self, here: Path, lastgood: Run) -> None:
        shown = lastgood("threads")
        assert (shown.code, shown.err) == (0, "")
        assert [line.split()[0] for line in shown.out.splitlines()[1:]] == [
            r"evil\u202ename\u200b",
            "single",
            "run-001",
        ]
        assert re.search(r"run-001 +idle +7 +handoff_to_approver +clerk, approver +3 ", shown.out)

    def test_json_has_the_fields_of_the_library(self, here: Path, lastgood: Run) -> None:
        document = json.loads(lastgood("threads", "--json").out)
        assert document["next"] is None
        names = [*(field.name for field in fields(ThreadInfo)), "waits_for"]
        assert list(document["threads"][0]) == names
        assert document["threads"][0]["thread_id"] == HOSTILE

    def test_filters_and_pages(self, here: Path, lastgood: Run) -> None:
        found = json.loads(lastgood("threads", "--search", "SING", "--json").out)
        assert [info["thread_id"] for info in found["threads"]] == ["single"]
        first = lastgood("threads", "--limit", "1", "--sort", "name")
        (cursor,) = re.findall(r"--after (\S+)", first.err)
        rest = lastgood("threads", "--sort", "name", "--after", cursor)
        assert "run-001" in rest.out
        assert HOSTILE not in rest.out

    def test_says_when_there_are_no_more(self, here: Path, lastgood: Run) -> None:
        shown = lastgood("threads", "--sort", "name", "--after", "z")
        assert (shown.code, "No more threads." in shown.out) == (0, True)

    @pytest.mark.parametrize("sort", ["updated", "created", "name"])
    def test_offers_no_more_where_there_are_none(
        self, here: Path, lastgood: Run, sort: str
    ) -> None:
        assert "There are more" in lastgood("threads", "--limit", "2", "--sort", sort).err
        assert lastgood("threads", "--limit", "3", "--sort", sort).err == ""

    def test_says_when_nothing_is_like_that(self, here: Path, lastgood: Run) -> None:
        shown = lastgood("threads", "--status", "failed")
        assert shown.code == 0
        assert "None of its threads is like that." in shown.out

    def test_tells_how_a_thread_failed(self, here: Path, lastgood: Run) -> None:
        with (
            BlockingClient.sqlite("lastgood.db") as client,
            pytest.raises(RuntimeError),
            client.run("broken", initial={}),
        ):
            raise RuntimeError("no \x1b[31mmodel")
        shown = lastgood("threads")
        assert r"broken failed: RuntimeError: no \x1b[31mmodel" in shown.out

    def test_who_was_interrupted_did_not_fail(self, here: Path, lastgood: Run) -> None:
        with (
            BlockingClient.sqlite("lastgood.db") as client,
            pytest.raises(KeyboardInterrupt),
            client.run("cut", initial={}),
        ):
            raise KeyboardInterrupt
        shown = lastgood("threads").out
        assert "cut stale: KeyboardInterrupt\n" in shown
        assert "failed" not in shown


class TestTheThreadTouchedLast:
    """It is the one that is meant where none is named."""

    @pytest.mark.parametrize("between", [1, 60])
    def test_is_the_first_of_the_list(self, empty: Path, lastgood: Run, between: int) -> None:
        others = [f"other-{number}" for number in range(between)]
        with BlockingClient.sqlite("lastgood.db") as client:
            for thread in ("order-1", *others, "order-1"):
                client.save("a", session_id=thread, execution_state={})
        assert lastgood("threads", "--limit", "100").out.splitlines()[1].startswith("order-1 ")
        assert json.loads(lastgood("show", "--json").out)["name"] == "order-1@2"
        assert json.loads(lastgood("log", "--json").out)["thread"] == "order-1"


class TestLog:
    def test_newest_first_with_marks(self, here: Path, lastgood: Run) -> None:
        lines = lastgood("log", "run-001").out.splitlines()[1:]
        assert [line.split()[0] for line in lines] == [f"@{seq}" for seq in range(7, 0, -1)]
        assert re.search(r"@6 +fork_of_3 +refund +clerk .*\(refund\)$", lines[1])
        assert re.search(r"@5 +pay +main +clerk .*\(-> main\)$", lines[2])
        assert lines[4].endswith("(tag:checked)")

    def test_the_thread_touched_last_is_the_default(self, here: Path, lastgood: Run) -> None:
        shown = lastgood("log").out
        assert r"step\u202e" in shown
        assert FORBIDDEN.search(shown) is None

    def test_says_whose_it_is_where_nobody_did(self, here: Path, lastgood: Run) -> None:
        with BlockingClient.sqlite("lastgood.db") as client:
            client.save("solo", session_id="single", execution_state={}, step_name="three")
        for words in ([], ["--graph"]):
            first, columns, newest, *_ = lastgood("log", *words).out.splitlines()
            assert first == "single  the thread that was touched last"
            assert columns.split() == ["step", "age", "state"]
            assert re.search(r"@3 +three ", newest)
        assert json.loads(lastgood("log", "--json").out)["thread"] == "single"

    def test_older_ones_are_those_of_the_same_list(self, here: Path, lastgood: Run) -> None:
        words = ["log", "run-001", "--agent", "clerk", "--branch", "main", "--graph"]
        shown = lastgood(*words, "--limit", "1")
        assert f"Older ones: lastgood {' '.join(words)} --limit 10, or --before" in shown.err

    @pytest.mark.parametrize("how", [[], ["--graph"]])
    def test_offers_no_older_ones_where_there_are_none(
        self, here: Path, lastgood: Run, how: list[str]
    ) -> None:
        assert "Older ones" in lastgood("log", "run-001", "--limit", "6", *how).err
        assert lastgood("log", "run-001", "--limit", "7", *how).err == ""

    def test_graph(self, here: Path, lastgood: Run) -> None:
        lines = lastgood("log", "run-001", "--graph").out.splitlines()[1:]
        assert [line[:4].rstrip() for line in lines] == [
            "●",
            "│ ○",
            "● │",
            "○ │",
            "├─╯",
            "○",
            "○",
            "○",
        ]
        assert "refund" in lines[1]

    def test_json_has_the_fields_of_the_library(self, here: Path, lastgood: Run) -> None:
        document = json.loads(lastgood("log", "run-001", "--json").out)
        assert list(document) == ["thread", "checkpoints", "branches", "tags", "waits_for", "next"]
        newest = document["checkpoints"][0]
        assert list(newest) == ["name", *(field.name for field in fields(Header))]
        assert newest["name"] == "run-001@7"
        assert document["tags"] == {"checked": document["checkpoints"][4]["checkpoint_id"]}
        current = [b["name"] for b in document["branches"] if b["current"]]
        assert current == ["main", "main"]

    def test_limits_say_how_to_see_more(self, here: Path, lastgood: Run) -> None:
        shown = lastgood("log", "run-001", "--limit", "2")
        assert len(shown.out.splitlines()) == 3
        assert "lastgood log run-001 --limit 20, or --before 6" in shown.err
        older = lastgood("log", "run-001", "--before", "@6")
        assert older.out.splitlines()[1].startswith("@5")

    def test_filters(self, here: Path, lastgood: Run) -> None:
        assert len(lastgood("log", "run-001", "--step", "pay").out.splitlines()) == 2
        assert len(lastgood("log", "run-001", "--branch", "refund").out.splitlines()) == 2
        torn = lastgood("log", "run-001", "--agent", "approver", "--graph").out
        assert "its parent is not shown" in torn
        nothing = lastgood("log", "run-001", "--step", "dance")
        assert (nothing.code, nothing.err) == (0, "run-001: no checkpoints like that\n")

    @pytest.mark.parametrize(
        ("words", "told"),
        [
            (["--branch", "mian"], "run-001 has no branch 'mian'. Did you mean 'main'?"),
            (["--branch", "x"], "run-001 has no branch 'x'. It has main, refund."),
            (["--agent", "clrk"], "run-001 has no agent 'clrk'. Did you mean 'clerk'?"),
            (
                ["--agent", "approver", "--branch", "refund"],
                "run-001 has no branch 'refund'. It has main.",
            ),
        ],
    )
    def test_an_agent_or_branch_that_is_not_there(
        self, here: Path, lastgood: Run, words: list[str], told: str
    ) -> None:
        shown = lastgood("log", "run-001", *words)
        assert (shown.code, shown.out, shown.err) == (3, "", f"lastgood log: {told}\n")

    def test_nothing_older_is_not_nothing_at_all(self, here: Path, lastgood: Run) -> None:
        shown = lastgood("log", "run-001", "--before", "@1")
        assert (shown.code, shown.err) == (0, "run-001: no checkpoints like that\n")

    def test_what_is_over_its_time_was_there_once(self, here: Path, lastgood: Run) -> None:
        with BlockingClient.sqlite("lastgood.db") as client:
            client.save("a", session_id="brief", execution_state={}, ttl_seconds=1e-6)
            with client.run("begun"):
                pass
        gone = "all its checkpoints were removed or are over their time"
        assert lastgood("log", "brief").err == f"brief: {gone}\n"
        assert lastgood("log", "begun").err == "begun: no checkpoints yet\n"

    def test_a_number_must_be_one(self, here: Path, lastgood: Run) -> None:
        assert lastgood("log", "run-001", "--limit", "0").code == 2
        assert lastgood("log", "run-001", "--before", "x").code == 2
        assert lastgood("log", "run-001", "--graph", "--follow").code == 2


class TestShow:
    def test_a_thread_that_got_an_id_for_a_name(self, here: Path, lastgood: Run) -> None:
        with BlockingClient.sqlite("lastgood.db") as client:
            thread = client.restore(client.save("a", execution_state={"n": 1})).session_id
        shown = lastgood("show", thread)
        assert shown.code == 0
        assert shown.out.startswith(f"{thread}@1  step 0")

    def test_header_and_state(self, here: Path, lastgood: Run) -> None:
        shown = lastgood("show", "run-001@3").out
        assert shown.startswith("run-001@3  step 2, validate\n  agent     clerk, on branch main")
        assert '  metadata  model: "m-1"\n' in shown
        assert '  goal: "pay"\n  messages: list of 2\n    [0]:\n      role: "assistant"\n' in shown

    def test_what_was_left_out_is_told_once(self, here: Path, lastgood: Run) -> None:
        with BlockingClient.sqlite("lastgood.db", on_unserializable="drop") as client:
            client.save("a", execution_state={"tools": [len], "n": 1}, session_id="lossy")
        shown = lastgood("show", "lossy").out
        assert "  left out  state.tools[0]: a function cannot be stored (len).\n" in shown

    @pytest.mark.parametrize(
        ("ref", "name"),
        [
            ("single", "single@2"),
            ("single@", "single@2"),
            ("single@~1", "single@1"),
            ("single/solo", "single@2"),
            ("run-001/clerk", "run-001@5"),
            ("run-001@tag:checked", "run-001@3"),
            ("run-001/clerk@branch:refund", "run-001@6"),
        ],
    )
    def test_refs(self, here: Path, lastgood: Run, ref: str, name: str) -> None:
        assert json.loads(lastgood("show", ref, "--json").out)["name"] == name

    @pytest.mark.parametrize(
        ("ref", "name"),
        [
            ("ann@x.com", "ann%40x.com@1"),
            ("ann%40x.com", "ann%40x.com@1"),
            ("ann%40x.com@", "ann%40x.com@1"),
            ("ann@x.com/me@x.com", "ann%40x.com@1"),
            ("ann%40x.com/me%40x.com", "ann%40x.com@1"),
            ("x%2Fy", "x%2Fy@1"),
            ("x/y", "x%2Fy@1"),
            ("x/y@1", "x%2Fy@1"),
            ("x/y@~0", "x%2Fy@1"),
            ("ann@x.com@1", "ann%40x.com@1"),
            ("/x@1", "%2Fx@1"),
            ("100%", "100%25@1"),
            ("100%25", "100%25@1"),
            ("ann@7", "ann%407@1"),
            ("single@1", "single@1"),
            ("50%25", "50%2525@1"),
        ],
    )
    def test_names_are_typed_as_they_are_or_as_in_an_address(
        self, here: Path, lastgood: Run, ref: str, name: str
    ) -> None:
        with BlockingClient.sqlite("lastgood.db") as client:
            names = ("ann@x.com", "x/y", "/x", "100%", "ann@7", "single@1", "50%", "50%25")
            for thread in names:
                client.save("me@x.com", session_id=thread, execution_state={})
        assert json.loads(lastgood("show", ref, "--json").out)["name"] == name

    @pytest.mark.parametrize("name", ["ann@x.com", "ann%40x.com"])
    def test_so_are_those_of_threads(self, here: Path, lastgood: Run, name: str) -> None:
        with BlockingClient.sqlite("lastgood.db") as client:
            client.save("a", session_id="ann@x.com", execution_state={})
        assert json.loads(lastgood("log", name, "--json").out)["thread"] == "ann@x.com"
        assert json.loads(lastgood("rewind", name, "1", "--json").out)["session_id"] == "ann@x.com"
        assert "is now ann%40x.com@tag:good." in lastgood("tag", f"{name}", "good").out

    @pytest.mark.parametrize("ref", ["singel", "singel@1", "singel/solo@"])
    def test_the_nearest_name_is_suggested(self, here: Path, lastgood: Run, ref: str) -> None:
        shown = lastgood("show", ref)
        assert (shown.code, shown.err.endswith("Did you mean 'single'?\n")) == (3, True)

    def test_a_name_that_begins_with_a_dash(self, here: Path, lastgood: Run) -> None:
        with BlockingClient.sqlite("lastgood.db") as client:
            client.save("a", session_id="-dash", execution_state={"n": 1})
        refused = lastgood("show", "-dash")
        assert (refused.code, "dash stands behind `--`" in refused.err) == (2, True)
        assert lastgood("show", "--", "-dash").code == 0

    def test_an_id_or_its_first_digits(self, here: Path, lastgood: Run) -> None:
        log = json.loads(lastgood("log", "single", "--json").out)["checkpoints"]
        id = log[1]["checkpoint_id"]
        for text in (id, id.upper(), id.replace("-", ""), id[:30]):
            assert json.loads(lastgood("show", text, "--json").out)["name"] == "single@1"
        several = lastgood("show", id[:6])
        assert several.code == 2
        assert "begins 10 checkpoint ids: " in several.err
        assert "(run-001@5)" in several.err

    def test_a_part_of_the_state(self, here: Path, lastgood: Run) -> None:
        path = "messages[-1].text"
        assert lastgood("show", "run-001@3", "--path", path).out == '"validate done"\n'
        assert lastgood("show", "run-001@3", "--path", path, "--full").out == "validate done\n"
        document = json.loads(lastgood("show", "run-001@3", "--path", path, "--json").out)
        assert document == {"name": "run-001@3", "path": path, "value": "validate done"}

    def test_members_of_a_set_are_named_as_in_a_diff(self, here: Path, lastgood: Run) -> None:
        with BlockingClient.sqlite("lastgood.db") as client:
            client.save("a", session_id="tags", execution_state={"tags": set()})
            tags = {"z", "two words", 3, ("a", 1)}
            client.save("a", session_id="tags", execution_state={"tags": tags})
        changes = json.loads(lastgood("diff", "tags", "--json").out)["changes"]
        typed = {"tags.z": '"z"', 'tags["two words"]': '"two words"', "tags[3]": "3"}
        assert {change["path"] for change in changes} == {*typed, "tags[('a', 1)]"}
        for path, value in typed.items():
            assert lastgood("show", "tags", "--path", path).out == f"{value}\n"
        shown = lastgood("show", "tags").out
        for line in ('    z: "z"', '    ["two words"]: "two words"', "    [3]: 3"):
            assert line in shown.splitlines()
        missing = lastgood("show", "tags", "--path", "tags[0]")
        assert (missing.code, "there is no tags[0] in the state: tags has" in missing.err) == (3, 1)

    @pytest.mark.parametrize(
        ("path", "code", "error"),
        [
            ("nothing", 3, "there is no nothing in the state: the state has goal, messages."),
            ("messages[9]", 3, "there is no messages[9] in the state: messages is a list of 2."),
            ("goal.x", 3, "there is no goal.x in the state: goal has nothing inside."),
            ("a..b", 2, f"not a path: 'a..b' (at character 1). Write it as {EXAMPLE}"),
        ],
    )
    def test_a_path_that_leads_nowhere(
        self, here: Path, lastgood: Run, path: str, code: int, error: str
    ) -> None:
        shown = lastgood("show", "run-001@3", "--path", path)
        assert (shown.code, shown.out, shown.err) == (code, "", f"lastgood show: {error}\n")

    def test_long_values_are_cut_unless_everything_is_asked_for(
        self, here: Path, lastgood: Run
    ) -> None:
        with BlockingClient.sqlite("lastgood.db") as client:
            state = {"text": "word " * 100, "many": list(range(100))}
            client.save("a", session_id="long", execution_state=state)
        cut, full = lastgood("show", "long").out, lastgood("show", "long", "--full").out
        assert "... (502 characters)" in cut
        assert "... 88 more items" in cut
        assert "[50]: 50" in full
        assert "word " * 100 in full

    def test_a_record_of_many_fields_is_shown_by_those_that_are_not_empty(
        self, here: Path, lastgood: Run
    ) -> None:
        with BlockingClient.sqlite("lastgood.db") as client:
            for number, part in enumerate((Part(), Part(f07="all paid"))):
                state = {"parts": [part][:number]}
                client.save("a", session_id="wide", execution_state=state)
        for shown in (lastgood("show", "wide"), lastgood("diff", "wide@")):
            assert 'f07: "all paid"' in shown.out
            assert "f03" not in shown.out
            assert "... 19 empty fields" in shown.out
        full = lastgood("show", "wide", "--full").out
        assert "f03: null" in full
        assert "empty" not in full

    def test_what_places_of_an_object_share_is_named_in_each_and_shown_once(
        self, here: Path, lastgood: Run
    ) -> None:
        agent = Shelf()
        with CheckpointManager("sqlite", path="lastgood.db") as manager:
            for number in range(3):
                note = {"text": f"note {number}"}
                agent.notes.append(note)
                agent.log.append(note)
                manager.save("shelf", agent)
        assert '    [1]: __shared__["2"]\n' in lastgood("show", "shelf").out
        assert "    [0]: the object itself\n" in lastgood("show", "shelf").out
        assert lastgood("show", "shelf", "--path", "log[2].text").out == '"note 1"\n'
        assert lastgood("show", "shelf", "--path", "log[0].notes[0].text").out == '"note 0"\n'
        nowhere = lastgood("show", "shelf", "--path", "notes[1].nothing").err
        assert "there is no notes[1].nothing in the state: notes[1] has text." in nowhere
        changed = lastgood("diff", "shelf@2", "shelf@3").out.splitlines()[1:]
        assert changed == [
            '+ notes[2]: __shared__["3"]',
            '+ log[3]: __shared__["3"]',
            '+ __shared__["3"]: text: "note 2"',
        ]


class Shelf(Checkpointable):
    def __init__(self) -> None:
        self.notes: list[dict[str, str]] = []
        self.log: list[Any] = [self]


Part = make_dataclass("Part", [(f"f{n:02}", object, None) for n in range(20)])
Part.__module__ = __name__


class TestHostileContent:
    """Nothing from a store reaches a terminal or a pipe as it is."""

    @pytest.mark.parametrize(
        "arguments",
        [
            ["threads"],
            ["log", HOSTILE],
            ["log", HOSTILE, "--graph"],
            ["show", HOSTILE],
            ["show", HOSTILE, "--full"],
            ["show", HOSTILE, "--path", "list[0]", "--full"],
            ["diff", HOSTILE, "single"],
            ["diff", "single", HOSTILE, "--full"],
            ["du"],
            ["tag", HOSTILE],
            ["tag", HOSTILE, "x\u202e"],
            ["fork", HOSTILE],
            ["fork", HOSTILE, "--switch"],
            ["rewind", HOSTILE, "1"],
            ["delete", HOSTILE],
            ["delete", HOSTILE, "--yes"],
            ["log", f"{HOSTILE}x"],
            ["switch", HOSTILE, "no\u202esuch"],
            ["show", f"{HOSTILE}@99"],
        ],
    )
    def test_is_shown_as_escapes(self, here: Path, lastgood: Run, arguments: list[str]) -> None:
        shown = lastgood(*arguments)
        assert FORBIDDEN.search(shown.out + shown.err) is None
        assert r"\u202e" in shown.out + shown.err

    @pytest.mark.parametrize("arguments", [["threads"], ["log", HOSTILE], ["show", HOSTILE]])
    def test_json_is_ascii(self, here: Path, lastgood: Run, arguments: list[str]) -> None:
        shown = lastgood(*arguments, "--json").out
        assert shown.isascii()
        assert FORBIDDEN.search(shown) is None
        json.loads(shown)
