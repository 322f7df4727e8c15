"""Finding the store: where it is looked for, and what happens when there is none."""

import json
import os
import sqlite3
from collections.abc import Callable
from contextlib import closing
from pathlib import Path

import pytest
from cli_harness import Result, piped

from lastgood import BlockingClient
from lastgood.cli import COMMANDS, parser
from lastgood.cli.completion import commands

Run = Callable[..., Result]

MINIMAL = {
    "threads": [],
    "tenants": [],
    "log": [],
    "show": [],
    "diff": ["x"],
    "blame": ["x", "goal"],
    "bisect": ["x", "--", "true"],
    "fork": ["x"],
    "rewind": ["x", "1"],
    "undo": ["x"],
    "switch": ["x", "main"],
    "tag": ["x"],
    "delete": ["x", "--yes"],
    "verify": [],
    "du": [],
    "sweep": ["--yes"],
}
"""The shortest way to call each command that opens a store."""
WITH_A_STORE = [
    [command.name, *MINIMAL[command.name]] for command in COMMANDS if command.name in MINIMAL
]
NEED_A_THREAD = [arguments for arguments in WITH_A_STORE if "x" in arguments]

each_command = pytest.mark.parametrize("arguments", WITH_A_STORE, ids=lambda a: a[0])


def test_the_table_above_is_complete() -> None:
    others = {"copy", "db", "doctor", "completion", "demo", "import"}
    assert {command.name for command in COMMANDS} == {a[0] for a in WITH_A_STORE} | others


@pytest.mark.parametrize("store", ["plain", "files:plain"])
def test_a_directory_of_plain_files_is_a_store(store: str, empty: Path, lastgood: Run) -> None:
    BlockingClient.files(empty / "plain").save("a", execution_state={"n": 1}, session_id="o-42")
    assert "o-42" in lastgood("threads", "--store", store).out
    shown = json.loads(lastgood("show", "o-42@1", "--json", "--store", store).out)
    assert shown["state"] == {"n": 1}
    assert lastgood("verify", "--data", "--store", store).code == 0


@pytest.mark.parametrize("option", ["--store", "--tenant"])
@pytest.mark.parametrize("value", ["", " "])
def test_a_variable_that_is_not_set_is_not_the_default(
    option: str, value: str, empty: Path, lastgood: Run
) -> None:
    with BlockingClient.sqlite() as client:
        client.save("a", execution_state={}, session_id="kept")
        for arguments in (["delete", "kept", "--yes", option, value], [option, value, "threads"]):
            shown = lastgood(*arguments)
            assert (shown.code, shown.out) == (2, "")
            assert f"argument {option}: it is empty. Is a variable not set?" in shown.err
        assert len(client.threads()) == 1


def test_a_copy_needs_both_stores(empty: Path, lastgood: Run) -> None:
    BlockingClient.sqlite().save("a", execution_state={}, session_id="kept")
    assert "argument SOURCE: it is empty." in lastgood("copy", "", "b.db").err
    assert "argument TARGET: it is empty." in lastgood("copy", "lastgood.db", "").err
    assert not Path("b.db").exists()


def test_every_command_speaks_json() -> None:
    silent = {name for name, sub in commands(parser()).items() if "--json" not in sub.format_help()}
    assert silent == {"completion", "demo"}


@each_command
def test_looking_makes_no_file(empty: Path, lastgood: Run, arguments: list[str]) -> None:
    shown = lastgood(*arguments)
    assert (shown.code, shown.out) == (3, "")
    assert "No store here yet: lastgood.db does not exist." in shown.err
    assert "lastgood demo" in shown.err
    assert "client.run(" in shown.err
    assert list(empty.iterdir()) == []


@each_command
def test_a_directory_that_is_not_there_is_no_store(
    empty: Path, lastgood: Run, arguments: list[str]
) -> None:
    shown = lastgood("--store", "files:typo", *arguments)
    assert (shown.code, shown.out) == (3, "")
    assert "No store here yet: typo does not exist." in shown.err
    assert list(empty.iterdir()) == []


def test_a_directory_of_others_is_no_store(empty: Path, lastgood: Run) -> None:
    shown = lastgood("verify", "--store", "files:.")
    assert (shown.code, shown.out) == (3, "")
    assert "No store here yet: . holds no threads of Lastgood." in shown.err


def test_a_directory_that_lost_its_first_file_is_still_looked_at(
    empty: Path, lastgood: Run
) -> None:
    BlockingClient.files("plain").save("a", session_id="o-42", execution_state={})
    Path("plain/lastgood.json").unlink()
    assert "o-42" in lastgood("threads", "--store", "files:plain").out


@each_command
def test_a_file_of_others_is_left_alone(empty: Path, lastgood: Run, arguments: list[str]) -> None:
    with closing(sqlite3.connect("app.db")) as app, app:
        app.execute("CREATE TABLE invoices (n)")
    before = Path("app.db").read_bytes()
    shown = lastgood(*arguments, *([] if "--" in arguments else ["--store", "app.db"]))
    assert (shown.code, shown.out) == (3, "")
    assert Path("app.db").read_bytes() == before


@each_command
def test_a_table_that_is_called_as_one_of_another_library(
    empty: Path, lastgood: Run, arguments: list[str]
) -> None:
    with closing(sqlite3.connect("app.db")) as app, app:
        app.execute("CREATE TABLE checkpoints (epoch, loss)")
    before = Path("app.db").read_bytes()
    shown = lastgood("--store", "app.db", *arguments)
    assert (shown.code, shown.out) == (3, "")
    assert "app.db holds no threads of Lastgood." in shown.err
    assert Path("app.db").read_bytes() == before


@pytest.mark.parametrize("arguments", NEED_A_THREAD, ids=lambda a: a[0])
def test_a_thread_that_is_not_there(here: Path, lastgood: Run, arguments: list[str]) -> None:
    shown = lastgood(*arguments)
    assert (shown.code, shown.out) == (3, "")
    assert shown.err.startswith(f"lastgood {arguments[0]}: no thread 'x' in sqlite:///lastgood.db.")
    assert shown.err.count("\n") == 1


@each_command
def test_an_empty_store(empty: Path, lastgood: Run, arguments: list[str]) -> None:
    with BlockingClient.sqlite("lastgood.db") as client:
        client.threads()
    shown = lastgood(*arguments)
    if arguments[0] in ("threads", "tenants", "verify", "du", "sweep"):
        assert shown.code == 0
    else:
        assert (shown.code, shown.out) == (3, "")
        assert "no threads yet" in shown.err


def test_what_a_program_gets_of_an_empty_store(empty: Path, lastgood: Run) -> None:
    with BlockingClient.sqlite("lastgood.db") as client:
        client.threads()
    assert json.loads(lastgood("threads", "--json").out) == {"threads": [], "next": None}
    assert "No threads yet." in lastgood("threads").out


class TestWhereItIsLookedFor:
    @pytest.mark.parametrize("address", ["{}/a.db", "sqlite:///{}/a.db"])
    def test_the_option_in_both_places(self, here: Path, lastgood: Run, address: str) -> None:
        Path("lastgood.db").rename("a.db")
        place = address.format(here)
        assert "run-001" in lastgood("threads", "--store", place).out
        assert "run-001" in lastgood("--store", place, "threads").out

    def test_the_variable(self, here: Path, lastgood: Run, monkeypatch: pytest.MonkeyPatch) -> None:
        Path("lastgood.db").rename("a.db")
        monkeypatch.setenv("LASTGOOD_URL", f"sqlite:///{here}/a.db")
        assert "run-001" in lastgood("threads").out
        assert lastgood("threads", "--store", "none.db").code == 3

    def test_a_tenant_of_its_own(self, here: Path, lastgood: Run) -> None:
        shown = lastgood("threads", "--tenant", "other").out
        assert "No threads yet. " in shown
        assert shown.endswith("Another tenant's: --tenant NAME.\n")
        assert "run-001" not in shown
        absent = lastgood("show", "run-001", "--tenant", "other")
        assert absent.code == 3
        assert "no threads yet of this tenant (--tenant NAME looks at another's)." in absent.err

    @pytest.mark.parametrize("since", ["9", "-1"])
    def test_a_format_that_does_not_exist(self, empty: Path, lastgood: Run, since: str) -> None:
        shown = lastgood("db", "sql", f"--since={since}")
        assert (shown.code, shown.out) == (2, "")
        assert f"there is no format {since}. --since takes 0 to " in shown.err

    def test_an_address_that_nobody_serves(self, empty: Path, lastgood: Run) -> None:
        for command in ("threads", "doctor"):
            shown = lastgood(command, "--store", "mongodb://x")
            assert (shown.code, shown.out, shown.err.count("\n")) == (2, "", 1)
            assert "is not an address that Lastgood knows" in shown.err

    def test_what_is_no_store_says_what_it_is(self, empty: Path, lastgood: Run) -> None:
        Path("a.txt").write_text("not a database, and long enough to look at")
        assert "is not a SQLite database" in lastgood("threads", "--store", "a.txt").err
        assert lastgood("threads", "--store", "a.txt").code == 4
        assert "is a directory" in lastgood("threads", "--store", ".").err

    def test_the_file_of_another_library(self, empty: Path, lastgood: Run) -> None:
        with closing(sqlite3.connect("agent.db")) as other, other:
            other.execute("CREATE TABLE checkpoints (thread_id)")
            other.execute("CREATE TABLE writes (thread_id)")
        shown = lastgood("threads", "--store", "agent.db")
        assert shown.code == 4
        assert "belongs to LangGraph's SqliteSaver" in shown.err
        doctor = lastgood("doctor", "--store", "agent.db")
        assert doctor.code == 1
        assert "problem  format       it belongs to LangGraph's SqliteSaver (0 thr" in doctor.out
        assert "Bring it over: lastgood import langgraph-sqlite agent.db" in doctor.out

    def test_a_pipe_is_refused_and_not_waited_for(self, empty: Path) -> None:
        os.mkfifo("pipe")
        shown = piped("threads", "--store", "pipe", cwd=empty)
        assert (shown.code, shown.out) == (4, "")
        assert "pipe is a pipe, a socket or a device. Pass the path of a file." in shown.err
        brought = piped("import", "checkpnt", "pipe", cwd=empty)
        assert (brought.code, "pipe is a pipe, a socket or a device." in brought.err) == (4, True)
        found = piped("doctor", "--store", "pipe", cwd=empty)
        assert (found.code, "pipe is a pipe, a socket or a device" in found.out) == (1, True)

    def test_a_directory_is_not_imported(self, empty: Path, lastgood: Run) -> None:
        shown = lastgood("import", "checkpnt", ".")
        assert (shown.code, shown.out) == (4, "")
        assert ". is a directory. Give the path of the file." in shown.err

    @pytest.mark.parametrize("path", ["ann@example.db", "k=v.db"])
    def test_the_next_command_names_the_same_store(
        self, here: Path, lastgood: Run, path: str
    ) -> None:
        with BlockingClient.sqlite(path, tenant="ann@example") as client:
            for number in range(2):
                client.save("a", session_id="t", execution_state={"n": number})
        same = ["--store", path, "--tenant", "ann@example"]
        words = f"lastgood undo t --store {path} --tenant ann@example\n"
        assert lastgood("rewind", "t", "1", *same).out.endswith(words)
        assert json.loads(lastgood("doctor", "--json", *same).out)["store"] == path
