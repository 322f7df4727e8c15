"""Names that begin with a dash: what is printed to be typed next can be typed."""

import re
import shlex
import sqlite3
from collections.abc import Callable
from contextlib import closing
from pathlib import Path

import pytest
from cli_harness import Result

from lastgood import BlockingClient
from lastgood.cli import parser

Run = Callable[..., Result]
STORE = ("--store", "d.db", "--tenant=-t")
OFFERED = re.compile(r"lastgood ([^\n`]*?)(?:, or --before.*|` lists.*)?$", re.MULTILINE)


@pytest.fixture
def dashed(here: Path) -> Path:
    """A tenant, a thread and an agent, and steps, that begin with a dash."""
    with BlockingClient.sqlite("d.db", tenant="-t") as client:
        for agent in ("-a", "b"):
            with client.run("-x", agent_id=agent, initial={"n": 0}) as run:
                for number in range(1, 5):
                    run.state["n"] = number
                    run.save(step_name="-s")
    return here


OFFERING: dict[str, list[str]] = {
    "log": ["log", *STORE, "--agent=-a", "--step=-s", "--limit", "2", "--", "-x"],
    "fork": ["fork", *STORE, "--", "-x@3"],
    "fork and switch": ["fork", *STORE, "--switch", "--", "-x@3"],
    "rewind": ["rewind", *STORE, "--agent=-a", "--", "-x", "3"],
    "rewind to nothing": ["rewind", *STORE, "--agent=-a", "--", "-x", "nothing"],
    "tag": ["tag", *STORE, "--", "-x@3", "-tag"],
    "no tags": ["tag", *STORE, "--", "-x"],
    "no such tag": ["tag", *STORE, "--delete", "--", "-x", "none"],
    "verify": ["verify", *STORE, "--", "-x"],
    "bisect": ["bisect", *STORE, "--agent=-a", "--", "-x", "--", "grep", "-q", '"n": [012]'],
}


@pytest.mark.parametrize("words", OFFERING.values(), ids=OFFERING)
def test_what_is_offered_can_be_typed(dashed: Path, lastgood: Run, words: list[str]) -> None:
    said = lastgood(*words)
    offered = OFFERED.findall(said.out + said.err)
    assert offered, said
    for command in offered:
        done = lastgood(*shlex.split(command))
        assert done.code in (0, 1), (command, done)  # 1: a diff that finds something
        assert "no thread" not in done.err


def test_a_name_that_was_taken_for_an_option_is_told(dashed: Path, lastgood: Run) -> None:
    for words in (["blame", "-x", "n"], ["bisect", "-x", "--", "true"], ["rewind", "-x", "3"]):
        refused = lastgood(*words, *STORE) if "--" not in words else lastgood(*words)
        assert (refused.code, "dash stands behind `--`" in refused.err) == (2, True)
    plain = lastgood("blame", "x")
    assert (plain.code, "dash" in plain.err) == (2, False)


def test_a_command_of_bisect_keeps_its_own_dashes(dashed: Path, lastgood: Run) -> None:
    judge = ["sh", "-c", 'test "$1" = -- && ! grep -q \'"n": [34]\'', "judge", "--"]
    found = lastgood("bisect", *STORE, "--agent=-a", "--", "-x", "--", *judge)
    assert "First bad step: -x@4" in found.out


def test_any_name_may_stand_between_two_dashes(here: Path, lastgood: Run) -> None:
    """As a script writes it that does not know the name: bisect -- "$THREAD" -- CMD."""
    with BlockingClient.sqlite() as client:
        for name in ("a b", "true"):
            client.save("a", session_id=name, execution_state={"n": 0})
            found = lastgood("bisect", "--", name, "--", "true")
            assert (found.code, found.out.split(":")[0]) == (1, "No bad step"), found.err
        judge = ["sh", "-c", 'test "$1" = --', "judge", "--"]
        assert lastgood("bisect", "a b", "--", *judge).out.startswith("No bad step")
        assert lastgood("bisect", "true", "--", "true", "--").out.startswith("No bad step")


def test_an_agent_is_named_as_an_option_takes_it(dashed: Path, lastgood: Run) -> None:
    which = lastgood("undo", *STORE, "--", "-x")
    assert (which.code, "Name one: --agent=-a." in which.err) == (2, True)
    inside = lastgood("log", *STORE, "--", "-x/-a")
    assert (inside.code, "(--agent=-a, where" in inside.err) == (3, True)


def test_what_a_copy_left_alone_is_replaced_for_the_same_tenant(
    dashed: Path, lastgood: Run
) -> None:
    with BlockingClient.sqlite("b@d.db", tenant="-t") as client:
        client.save("b", session_id="-x", execution_state={"other": True})
    said = lastgood("copy", "d.db", "b@d.db", "--tenant=-t")
    assert said.code == 1
    assert "lastgood delete THREAD --store b@d.db --tenant=-t, and this again" in said.out


@pytest.mark.parametrize("name", ["-x", "--x", "x; touch y", "it's"])
def test_a_place_to_go_on_from_is_named_as_a_shell_takes_it(
    empty: Path, lastgood: Run, name: str
) -> None:
    with BlockingClient.sqlite("lastgood.db") as client:
        for thread in (name, "z"):
            client.save("a", session_id=thread, execution_state={})
    said = lastgood("threads", "--sort", "name", "--limit", "1")
    words = shlex.split(said.err.partition(", or ")[2])
    more = lastgood("threads", "--sort", "name", *words)
    assert more.out.splitlines()[1].split()[0] == "z"


@pytest.mark.parametrize("file", ["-x.db", "my agent.db"])
def test_the_file_of_another_library_is_named_as_a_shell_takes_it(
    empty: Path, lastgood: Run, file: str
) -> None:
    with closing(sqlite3.connect(file)) as other, other:
        other.execute("CREATE TABLE checkpoints (session_id, payload)")
    for looking in ("threads", "doctor"):
        said = lastgood(looking, f"--store={file}")
        offered = (said.out + said.err).partition("Bring it over: lastgood ")[2]
        command = shlex.split(offered.partition("\n")[0])
        assert parser().parse_args(command).where == file
