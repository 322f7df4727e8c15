"""verify and du: whether a store is whole, and what takes the space."""

import json
import sqlite3
from collections.abc import Callable
from contextlib import closing
from pathlib import Path

import pytest
from cli_harness import FORBIDDEN, HOSTILE, Result, screen

from lastgood import BlockingClient

Run = Callable[..., Result]


def change(statement: str) -> None:
    with closing(sqlite3.connect("lastgood.db")) as store, store:
        assert store.execute(statement).rowcount > 0


@pytest.fixture
def large(here: Path) -> Path:
    """A thread whose state is stored in parts."""
    with BlockingClient.sqlite("lastgood.db") as client, client.run("l", initial={"m": []}) as run:
        for number in range(30):
            run.append("m", f"message {number} " * 40)
    return here


class TestVerify:
    def test_a_whole_store(self, here: Path, lastgood: Run) -> None:
        shown = lastgood("verify")
        assert (shown.code, shown.err) == (0, "")
        assert shown.out.startswith("clean: 3 threads, 10 checkpoints, ")
        assert "lastgood verify --data" in shown.out
        assert "(every byte)" in lastgood("verify", "--data").out
        assert "1 thread, 2 checkpoints" in lastgood("verify", "single").out

    def test_json(self, here: Path, lastgood: Run) -> None:
        document = json.loads(lastgood("verify", "run-001", "--json").out)
        assert (document["clean"], document["data_lost"]) == (True, False)
        assert (document["threads"], document["checkpoints"], document["problems"]) == (1, 7, [])

    def test_lost_data(self, large: Path, lastgood: Run) -> None:
        change("UPDATE lastgood_part SET data = zeroblob(length(data)) WHERE born = 20")
        shown = lastgood("verify", "--data")
        assert shown.code == 2
        assert "data lost" in shown.out
        document = json.loads(lastgood("verify", "--data", "--json").out)
        assert document["data_lost"] is True
        (problem,) = document["problems"]
        assert (problem["kind"], problem["repairable"]) == ("part", False)
        assert "l@31" in problem["checkpoints"]

    def test_the_way_out(self, large: Path, lastgood: Run) -> None:
        change("UPDATE lastgood_part SET data = zeroblob(length(data)) WHERE born = 20")
        command = lastgood("verify", "--data").out.splitlines()[-1].partition(": ")[2]
        assert command == "lastgood copy lastgood.db copy.db --salvage"
        copied = lastgood(*command.split()[1:])
        assert (copied.code, "l: without l@" in copied.out) == (1, True)
        assert lastgood("verify", "--data", "--store", "copy.db").out.startswith("clean: 4 threads")

    def test_what_can_be_repaired(self, large: Path, lastgood: Run) -> None:
        change("UPDATE lastgood_part SET digest = zeroblob(16) WHERE born = 20")
        assert lastgood("verify", "--data").code == 1

    @pytest.mark.parametrize("table", ["thread", "branch", "lane"])
    def test_a_damaged_thread_by_its_name(self, large: Path, lastgood: Run, table: str) -> None:
        change(
            f"UPDATE lastgood_{table} SET seal = zeroblob(8) WHERE thread IN"
            " (SELECT thread FROM lastgood_thread WHERE name = 'l')"
        )
        shown = lastgood("verify", "l")
        assert (shown.code, shown.err) == (1, "")
        assert "1 problem: 1 thread, 31 checkpoints" in shown.out

    def test_a_damaged_thread_in_the_list(self, here: Path, lastgood: Run) -> None:
        change("UPDATE lastgood_thread SET seal = zeroblob(8) WHERE name = 'single'")
        (shown,) = [
            line.split()
            for line in lastgood("threads").out.splitlines()
            if line.startswith("single  ")
        ]
        assert shown == ["single", "damaged", *["-"] * 6]

    def test_what_cannot_be_opened(self, empty: Path, lastgood: Run) -> None:
        Path("lastgood.db").write_text("this is not a database, whatever its name says")
        Path("directory").mkdir()
        for words in ([], ["x"], ["--store", "directory"], ["--store", "nowhere.db"]):
            shown = lastgood("verify", *words)
            assert (shown.code, shown.out) == (3, "")

    @pytest.mark.parametrize("thread", [[], ["single"]])
    def test_a_store_of_another_version_is_not_damaged(
        self, here: Path, lastgood: Run, thread: list[str]
    ) -> None:
        """As after a deployment that was taken back."""
        lastgood("copy", "lastgood.db", "files:plain")
        change("UPDATE lastgood_meta SET value = '99' WHERE name = 'format'")
        about = Path("plain", "lastgood.json")
        about.write_text(about.read_text().replace('"format": 1', '"format": 99'))
        for store in ("lastgood.db", "files:plain"):
            shown = lastgood("verify", *thread, "--store", store)
            assert (shown.code, shown.out) == (3, "")
            assert "format 99" in shown.err
            assert "Upgrade lastgood" in shown.err

    def test_hostile_names_in_problems(self, here: Path, lastgood: Run) -> None:
        change("UPDATE lastgood_checkpoint SET step_name = 'forged' WHERE step_name LIKE 'step%'")
        shown = lastgood("verify")
        assert shown.code == 2
        assert FORBIDDEN.search(shown.out) is None
        assert r"evil\u202ename" in shown.out

    @pytest.mark.slow
    def test_progress_on_a_terminal(self, here: Path) -> None:
        code, shown = screen("verify", "--data", cwd=here)
        assert code == 0
        assert "\r\x1b[K10 of 10 checkpoints" in shown


class TestDu:
    def test_threads(self, large: Path, lastgood: Run) -> None:
        lines = lastgood("du").out.splitlines()
        assert lines[0].split() == ["stored", "as", "states", "ratio", "steps", "thread"]
        assert lines[1].split()[-2:] == ["31", "l"]
        assert lines[-1].startswith("41 checkpoints: ")
        assert "on disk" in lines[-1]

    def test_paths_of_one_thread(self, here: Path, lastgood: Run) -> None:
        lines = lastgood("du", "run-001").out.splitlines()
        assert [line.split()[-1] for line in lines[1:3]] == ["messages", "goal"]

    def test_json(self, large: Path, lastgood: Run) -> None:
        document = json.loads(lastgood("du", "--json").out)
        assert list(document) == ["threads", "total", "file_bytes", "by_thread", "by_path"]
        largest = document["by_thread"][0]
        assert list(largest) == ["name", "checkpoints", "logical", "physical"]
        assert largest["logical"] > 5 * largest["physical"]
        assert HOSTILE in [each["name"] for each in document["by_thread"]]

    def test_a_state_without_paths(self, here: Path, lastgood: Run) -> None:
        assert lastgood("du", HOSTILE).out.startswith("1 checkpoint: ")

    def test_limits_are_said(self, here: Path, lastgood: Run) -> None:
        shown = lastgood("du", "--limit", "1")
        assert len(shown.out.splitlines()) == 3
        assert "There are 2 more: --limit 3" in shown.err
