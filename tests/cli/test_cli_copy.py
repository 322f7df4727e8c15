"""copy: what it says, how it ends, what it leaves alone."""

import json
import os
import signal
import sqlite3
from collections.abc import Callable
from contextlib import closing
from pathlib import Path

import pytest
from cli_harness import HOSTILE, Result, on_terminal

from lastgood import BlockingClient

Run = Callable[..., Result]


def test_everything_and_again(here: Path, lastgood: Run) -> None:
    shown = lastgood("copy", "lastgood.db", "sqlite:///b.db")
    assert shown.out.startswith("copied: 3 threads, 10 checkpoints, ")
    again = json.loads(lastgood("copy", "lastgood.db", "b.db", "--json").out)
    assert (again["complete"], again["threads"], again["same"]) == (True, 0, 3)
    with BlockingClient.sqlite("b.db") as client:
        assert client.resolve("run-001@tag:checked").seq == 3


def test_a_dry_run_makes_no_file(here: Path, lastgood: Run) -> None:
    shown = lastgood("copy", "lastgood.db", "b.db", "--thread", "single", "--dry-run")
    assert (shown.code, shown.out.partition(",")[0]) == (0, "to copy: 1 thread")
    assert not (here / "b.db").exists()


def test_a_directory_that_is_not_there_is_no_source_and_not_made_by_a_dry_run(
    here: Path, lastgood: Run
) -> None:
    assert lastgood("copy", "files:typo", "b.db").code == 3
    assert not (here / "b.db").exists()
    assert lastgood("copy", "lastgood.db", "files:plain", "--dry-run").code == 0
    assert not (here / "plain").exists()


SPELLINGS = ["./lastgood.db", "sqlite:///lastgood.db", "link.db", "plain/../lastgood.db"]


@pytest.mark.parametrize("target", SPELLINGS)
def test_the_source_is_no_target_however_it_is_spelled(
    here: Path, lastgood: Run, target: str
) -> None:
    """Of a damaged store it was said how to make room in it for the salvaged: by a delete."""
    Path("link.db").symlink_to("lastgood.db")
    with BlockingClient.files("plain") as client:
        client.save("a", session_id="mine", execution_state={})
    shown = lastgood("copy", "lastgood.db", target, "--salvage")
    assert (shown.code, "source and target are the same store" in shown.err) == (2, True)
    for same in ("files:plain", "plain/", "./plain"):
        assert lastgood("copy", "plain", same).code == 2


@pytest.mark.parametrize("name", ["plain", "100%25 #1?"])
def test_a_directory_of_plain_files_is_a_target_by_its_name(
    here: Path, lastgood: Run, name: str
) -> None:
    with BlockingClient.files(name) as client:
        client.save("a", session_id="mine", execution_state={})
    assert lastgood("threads", "--store", name).code == 0
    assert lastgood("copy", "lastgood.db", name, "--dry-run").code == 0
    assert lastgood("copy", "lastgood.db", name).code == 0
    with BlockingClient.files(name) as client:
        assert len(client.threads()) == 4
    assert "to copy: 1 thread" in lastgood("copy", name, "lastgood.db", "--dry-run").out


def test_what_is_left_alone_is_named(here: Path, lastgood: Run) -> None:
    with BlockingClient.sqlite("b.db") as client:
        client.save("solo", session_id="single", execution_state={})
        client.save("solo", session_id="run-001", execution_state={})
        client.delete("run-001")
    shown = lastgood("copy", "lastgood.db", "b.db")
    assert shown.code == 1
    assert "single: it is there already with other content: it is at @2 in the source" in shown.out
    assert "run-001: it was deleted in the target." in shown.out
    assert "there: lastgood delete THREAD --store b.db, and this again with --revive" in shown.out
    assert "deleted there: --revive" in shown.out
    assert lastgood("delete", "single", "--store", "b.db", "--yes").code == 0
    assert lastgood("copy", "lastgood.db", "b.db", "--thread", "single", "--revive").code == 0
    assert lastgood("copy", "lastgood.db", "b.db", "--thread", "run-001", "--revive").code == 0


def test_wrong_words(here: Path, lastgood: Run) -> None:
    assert lastgood("copy", "lastgood.db", "lastgood.db").code == 2
    assert lastgood("copy", "nothing.db", "b.db").code == 3
    assert lastgood("copy", "lastgood.db", "b.db", "--thread", "nobody").code == 3
    wrong = lastgood("copy", "lastgood.db", "b.db", "--since", "yesterday")
    assert (wrong.code, "2026-01-31" in wrong.err) == (2, True)
    wrong = lastgood("copy", "lastgood.db", "new/")
    assert (wrong.code, "files:new/" in wrong.err) == (2, True)
    assert not (here / "new").exists()


def test_times_and_names(here: Path, lastgood: Run) -> None:
    assert "0 threads" in lastgood("copy", "lastgood.db", "b.db", "--since", "2999-01-01").out
    shown = lastgood("copy", "lastgood.db", "b.db", "--thread", HOSTILE, "--since", "2020-01-01")
    assert "copied: 1 thread" in shown.out


def test_killed_at_the_bar_and_again(here: Path, lastgood: Run) -> None:
    with BlockingClient.sqlite("lastgood.db") as client, client.run("long", initial=[]) as run:
        for number in range(600):
            run.append("", f"{number} " * 20)
    with on_terminal("copy", "lastgood.db", "b.db", "--thread", "long", cwd=here) as screen:
        assert "of 601 checkpoints" in screen.until("256 of 601")
        os.kill(screen.process.pid, signal.SIGKILL)
        assert screen.process.wait() == -signal.SIGKILL
    assert lastgood("copy", "lastgood.db", "b.db").code == 0
    with BlockingClient.sqlite("b.db") as client:
        assert client.verify(data=True).clean
        assert [info.checkpoints for info in client.threads(search="long")] == [601]


def test_what_is_left_of_a_damaged_thread(here: Path, lastgood: Run) -> None:
    with closing(sqlite3.connect("lastgood.db")) as db:
        db.execute("UPDATE lastgood_thread SET title = 'forged' WHERE name = 'run-001'")
        db.commit()
    shown = lastgood("copy", "lastgood.db", "b.db")
    assert (shown.code, "--salvage" in shown.out) == (1, True)
    assert "lastgood copy lastgood.db copy.db --salvage" in lastgood("verify").out
    shown = lastgood("copy", "lastgood.db", "b.db", "--salvage")
    assert (shown.code, "run-001: its own row was changed" in shown.out) == (1, True)
    assert lastgood("verify", "--data", "--store", "b.db").code == 0
    told = json.loads(lastgood("copy", "lastgood.db", "c.db", "--salvage", "--json").out)
    assert [each["thread"] for each in told["salvaged"]] == ["run-001"]
    assert (told["threads"], told["problems"], told["complete"]) == (3, [], False)
