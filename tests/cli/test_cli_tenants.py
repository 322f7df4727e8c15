"""Stores of several tenants: none is left out in silence, and none is mistyped in silence."""

import json
import sqlite3
from collections.abc import Callable
from contextlib import closing
from pathlib import Path
from typing import Any
from uuid import uuid4

import pytest
from cli_harness import Result, on_terminal

from lastgood import BlockingClient

Run = Callable[..., Result]
TENANTS = ("acme", "beta & co", "default")
NOTE = "2 other tenants are in "


def fill(url: str, *tenants: str, **options: Any) -> str:
    for tenant in tenants or TENANTS:
        with BlockingClient.open(url, tenant=tenant) as client:
            client.save("a", session_id=f"of {tenant}", execution_state={"n": 1})
            large = {"text": "x" * 50_000}
            client.save("a", session_id="brief", execution_state=large, ttl_seconds=0.001)
    return url


def threads(url: str, tenant: str) -> list[str]:
    with BlockingClient.open(url, tenant=tenant) as client:
        return sorted(info.thread_id for info in client.threads())


@pytest.fixture(
    params=[
        "sqlite",
        "files",
        pytest.param("postgres", marks=pytest.mark.server("postgres")),
        pytest.param("valkey", marks=pytest.mark.server("valkey")),
    ]
)
def url(request: pytest.FixtureRequest, empty: Path) -> str:
    """The address of a store of three tenants."""
    if request.param in ("sqlite", "files"):
        return fill({"sqlite": "sqlite:///s.db", "files": "files:plain"}[request.param])
    server = request.getfixturevalue(f"{request.param}_url")
    option = {"postgres": "schema", "valkey": "prefix"}[request.param]
    joint = "&" if "?" in server else "?"
    return fill(f"{server}{joint}{option}=t_{uuid4().hex[:16]}")


@pytest.fixture
def store(empty: Path) -> str:
    """The same in one file."""
    return fill("sqlite:///s.db")


def test_tenants_are_listed(url: str, lastgood: Run) -> None:
    found = json.loads(lastgood("tenants", "--store", url, "--json").out)["tenants"]
    assert found == [{"tenant": name, "threads": 2} for name in TENANTS]
    shown = lastgood("tenants", "--store", url)
    assert [line.split()[0] for line in shown.out.splitlines()] == [
        "tenant",
        "acme",
        "beta",
        "default",
    ]
    assert (shown.code, shown.err) == (0, "")


def test_a_store_without_any(empty: Path, lastgood: Run) -> None:
    with BlockingClient.sqlite("s.db") as client:
        client.save("a", session_id="s", execution_state={})
        client.delete("s")
    assert "No threads yet, of anybody." in lastgood("tenants", "--store", "s.db").out
    for command in (["verify"], ["sweep", "--yes"], ["du"]):
        for which in ([], ["--all-tenants"], ["--tenant", "acme"]):
            shown = lastgood(*command, *which, "--store", "s.db")
            assert (shown.code, shown.err) == (0, ""), "nobody else is there whom one may mean"
            assert "tenant" not in shown.out.replace("--all-tenants", "").replace("--tenant", "")
    assert lastgood("copy", "s.db", "b.db", "--all-tenants").out.startswith("copied: 0 threads")


COMMANDS = [["verify"], ["sweep", "--yes"], ["sweep", "--dry-run"], ["du"]]


@pytest.mark.parametrize("command", COMMANDS, ids=" ".join)
def test_all_tenants_in_turn(url: str, command: list[str], lastgood: Run) -> None:
    shown = lastgood(*command, "--store", url, "--all-tenants")
    assert (shown.code, shown.err) == (0, "")
    heads = [line for line in shown.out.splitlines() if line.startswith("tenant ")]
    assert heads == [f"tenant {name}" for name in TENANTS]
    found = json.loads(lastgood(*command, "--store", url, "--all-tenants", "--json").out)
    assert [each.pop("tenant") for each in found] == list(TENANTS)
    assert found[0] == json.loads(
        lastgood(*command, "--store", url, "--tenant", "acme", "--json").out
    )


def test_a_sweep_frees_them_all(url: str, lastgood: Run) -> None:
    words = ("sweep", "--store", url, "--grace", "0")
    refused = lastgood(*words, "--all-tenants")
    assert (refused.code, "3 checkpoints (3 whole threads)" in refused.err) == (1, True)
    swept = json.loads(lastgood(*words, "--all-tenants", "--yes", "--json").out)
    assert [each["threads"] for each in swept] == [1, 1, 1]
    assert lastgood(*words, "--all-tenants").code == 0, "nothing is left to ask for"


def test_a_sweep_of_all_asks_once(store: str, empty: Path) -> None:
    words = ("sweep", "--store", "s.db", "--all-tenants", "--grace", "0")
    with on_terminal(*words, cwd=empty) as asked:
        asked.until("Go on? [y/N]")
        asked.type("y\n")
        code, shown = asked.end()
    assert (code, shown.count("Go on?"), shown.count("Removed 1 checkpoint")) == (0, 1, 3)


def test_damage_of_any_tenant_is_found(store: str, lastgood: Run) -> None:
    with closing(sqlite3.connect("s.db")) as connection:
        own = "SELECT thread FROM lastgood_thread WHERE tenant = 'acme'"
        connection.execute(f"UPDATE lastgood_lane SET moves = 7 WHERE thread IN ({own})")
        connection.commit()
    assert lastgood("verify", "--store", "s.db").code == 0
    shown = lastgood("verify", "--store", "s.db", "--all-tenants")
    alone = lastgood("verify", "--store", "s.db", "--tenant", "acme").code
    assert shown.code == alone > 0
    assert "lastgood copy s.db copy.db --tenant acme --salvage" in shown.out
    found = json.loads(lastgood("verify", "--store", "s.db", "--all-tenants", "--json").out)
    assert [each["clean"] for each in found] == [False, True, True]


def test_what_is_wrong_with_the_store_is_told_once(store: str, lastgood: Run) -> None:
    with closing(sqlite3.connect("s.db")) as connection:
        connection.execute("UPDATE lastgood_meta SET value = 'x' WHERE name = 'newest'")
        connection.commit()
    shown = lastgood("verify", "--store", "s.db", "--all-tenants")
    assert (shown.code, shown.out.count("newest")) == (1, 1)


@pytest.mark.parametrize("command", [*COMMANDS, ["copy"]], ids=" ".join)
@pytest.mark.parametrize("output", [[], ["--json"]])
def test_others_are_not_left_out_in_silence(
    url: str, command: list[str], output: list[str], lastgood: Run
) -> None:
    where = [url, "b.db"] if command == ["copy"] else ["--store", url]
    shown = lastgood(*command, *where, *output)
    assert shown.code == 0
    assert shown.err.startswith(NOTE)
    assert shown.err.endswith("; --all-tenants takes them too.\n")
    assert NOTE not in shown.out
    named = lastgood(*command, *where, *output, "--tenant", "default")
    assert (named.code, named.err) == (0, ""), "who names one means it"


def test_one_other(empty: Path, lastgood: Run) -> None:
    fill("sqlite:///s.db", "acme")
    shown = lastgood("verify", "--store", "s.db")
    assert shown.err == "1 other tenant is in sqlite:///s.db; --all-tenants takes it too.\n"
    assert shown.out.startswith("clean: 0 threads")


def test_a_thread_is_of_one_tenant(store: str, lastgood: Run) -> None:
    for command in ("verify", "du", "sweep"):
        asked = [command, "of default", "--store", "s.db", *(["--yes"] * (command == "sweep"))]
        assert lastgood(*asked).err == "", "nobody is left out"
        both = lastgood(*asked, "--all-tenants")
        assert (both.code, "a thread cannot be named" in both.err) == (2, True)
    both = lastgood("copy", "s.db", "b.db", "--thread", "of default", "--all-tenants")
    assert both.code == 2
    assert not Path("b.db").exists()


@pytest.mark.parametrize("command", [*COMMANDS, ["copy"]], ids=" ".join)
def test_one_tenant_or_all(store: str, command: list[str], lastgood: Run) -> None:
    where = ["s.db", "b.db"] if command == ["copy"] else ["--store", "s.db"]
    shown = lastgood(*command, *where, "--all-tenants", "--tenant", "acme")
    assert (shown.code, "give one" in shown.err) == (2, True)
    assert lastgood("--tenant", "acme", *command, *where, "--all-tenants").code == 2


@pytest.mark.parametrize("command", [*COMMANDS, ["copy"]], ids=" ".join)
def test_a_tenant_that_is_mistyped(url: str, command: list[str], lastgood: Run) -> None:
    where = [url, "b.db"] if command == ["copy"] else ["--store", url]
    shown = lastgood(*command, *where, "--json", "--tenant", "acmee")
    assert (shown.code, shown.out) == (3, "")
    assert "nothing of tenant 'acmee' is in " in shown.err
    assert shown.err.endswith("Did you mean 'acme'?\n")
    assert not Path("b.db").exists()
    far = lastgood(*command, *where, "--tenant", "qqq")
    assert (far.code, far.err.endswith("`lastgood tenants` lists all.\n")) == (3, True)


def test_a_copy_takes_them_all(url: str, lastgood: Run) -> None:
    dry = json.loads(lastgood("copy", url, "b.db", "--all-tenants", "--dry-run", "--json").out)
    assert [(each["tenant"], each["threads"]) for each in dry] == [(name, 2) for name in TENANTS]
    assert not Path("b.db").exists()
    assert lastgood("copy", url, "b.db", "--all-tenants").code == 0
    for name in TENANTS:
        assert threads("sqlite:///b.db", name) == threads(url, name)
    shown = lastgood("copy", url, "b.db", "--all-tenants", "--json")
    again = json.loads(shown.out)
    assert (shown.code, [each["complete"] for each in again]) == (0, [True] * 3)
    assert [each["threads"] for each in again] == [0] * 3


def test_a_copy_goes_on_with_the_tenant_at_which_it_stopped(
    store: str, lastgood: Run, monkeypatch: pytest.MonkeyPatch
) -> None:
    whole, seen = BlockingClient.copy_to, list[str]()

    def stopped(self: BlockingClient, *args: Any, **options: Any) -> Any:
        seen.append(self._core.tenant)
        if len(seen) == 2:
            raise KeyboardInterrupt
        return whole(self, *args, **options)

    with monkeypatch.context() as patch:
        patch.setattr(BlockingClient, "copy_to", stopped)
        assert lastgood("copy", "s.db", "b.db", "--all-tenants").code == 130
    rest = json.loads(lastgood("copy", "s.db", "b.db", "--all-tenants", "--json").out)
    assert [each["threads"] > 0 for each in rest] == [False, True, True]
    assert all(each["complete"] for each in rest)


def test_a_tenant_that_was_deleted_since_it_was_copied(store: str, lastgood: Run) -> None:
    """The copy removes nothing, and does not hide that it is there still."""
    lastgood("copy", "s.db", "b.db", "--all-tenants")
    with BlockingClient.sqlite("s.db", tenant="acme") as client:
        assert client.delete("of acme")
        assert client.delete("brief")
    fill("sqlite:///b.db", "of the target alone")
    shown = lastgood("copy", "s.db", "b.db", "--all-tenants")
    assert shown.code == 1
    assert "tenant acme\n" in shown.out
    assert "of acme: it was deleted in the source, and is there still." in shown.out
    assert "lastgood delete THREAD --store b.db --tenant acme, and this again" in shown.out
    assert "of the target alone" not in shown.out


def test_a_store_too_damaged_to_tell_is_verified_all_the_same(store: str, lastgood: Run) -> None:
    with closing(sqlite3.connect("s.db")) as connection:
        connection.execute("PRAGMA wal_checkpoint(TRUNCATE)")
        (size,) = connection.execute("PRAGMA page_size").fetchone()
        found = connection.execute(
            "SELECT rootpage FROM sqlite_master"
            " WHERE name IN ('lastgood_thread', 'lastgood_thread_name')"
        ).fetchall()
    with Path("s.db").open("r+b") as file:
        for (page,) in found:
            file.seek((page - 1) * size)
            file.write(bytes(size))
    for which in ([], ["--tenant", "acmee"]):
        assert lastgood("verify", "--store", "s.db", *which).code == 2
