"""The log of a SQLite store has room ahead: as large as it is of use, and of no other effect."""

import errno
import os
import shutil
import sqlite3
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Literal

import pytest

from lastgood import BlockingClient
from lastgood.backends.sqlite import log as sqlite_log
from lastgood.backends.sqlite.backend import SqliteBackend
from lastgood.backends.sqlite.connection import plain_connect

KILLED = """
import os, signal, sys
from lastgood import BlockingClient
client = BlockingClient.sqlite(sys.argv[1])
for number in range(40):
    client.save("a", session_id="t", execution_state={"n": number})
os.kill(os.getpid(), signal.SIGKILL)
"""


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return tmp_path / "store.db"


def log_of(path: Path) -> Path:
    return path.with_name(path.name + "-wal")


def saved(client: BlockingClient, count: int, first: int = 0) -> None:
    for number in range(first, first + count):
        client.save("a", session_id="t", execution_state={"n": number})


def numbers(path: Path) -> list[int]:
    with BlockingClient.sqlite(path) as client:
        assert client.verify(data=True).clean
        found = client.timeline("a", "t", limit=200)
        return sorted(each.state["n"] for each in found)


def room(path: Path) -> int:
    """The zeros at the end of the log."""
    data = log_of(path).read_bytes()
    return len(data) - len(data.rstrip(b"\0"))


def test_a_log_that_grows_has_room_for_the_next_commits(path: Path) -> None:
    with BlockingClient.sqlite(path) as client:
        saved(client, 40)
        size = log_of(path).stat().st_size
        assert room(path) > 8192
        saved(client, 2)
        assert log_of(path).stat().st_size == size


def test_the_room_is_used_up_and_made_again(path: Path) -> None:
    sizes = set()
    with BlockingClient.sqlite(path) as client:
        for number in range(120):
            saved(client, 1, number)
            sizes.add(log_of(path).stat().st_size)
            assert room(path) <= 2 * sqlite_log.MOST
    assert 10 < len(sizes) < 60, "most commits are within the log"
    assert numbers(path) == list(range(120))


def test_what_was_saved_is_found_by_who_reads_the_log_from_its_start(
    path: Path, tmp_path: Path
) -> None:
    copy = tmp_path / "copy.db"
    with BlockingClient.sqlite(path) as client:
        saved(client, 40)
        assert room(path)
        shutil.copy(path, copy)
        shutil.copy(log_of(path), log_of(copy))
    assert numbers(copy) == list(range(40))


def test_what_was_saved_is_there_after_a_kill(path: Path) -> None:
    killed = subprocess.run([sys.executable, "-c", KILLED, path], check=False, timeout=60)
    assert killed.returncode < 0
    assert room(path)
    assert numbers(path) == list(range(40))


def test_clients_that_take_turns_do_not_make_room_on_top_of_each_other(path: Path) -> None:
    with BlockingClient.sqlite(path) as one, BlockingClient.sqlite(path) as other:
        for number in range(0, 120, 2):
            saved(one, 1, number)
            saved(other, 1, number + 1)
            assert not log_of(path).exists() or room(path) <= 2 * sqlite_log.MOST
    assert numbers(path) == list(range(120))


def test_a_store_that_does_not_wait_for_the_disk_needs_no_room(path: Path) -> None:
    with BlockingClient.sqlite(path, durability="relaxed") as client:
        saved(client, 40)
        assert room(path) < 8192


def test_a_store_behind_a_link_has_room_where_its_log_is(path: Path, tmp_path: Path) -> None:
    link = tmp_path / "link.db"
    link.symlink_to(path)
    with BlockingClient.sqlite(link) as client:
        saved(client, 40)
        assert room(path) > 8192
        assert not log_of(link).exists()


@pytest.mark.parametrize("error", [PermissionError, FileNotFoundError, OSError])
def test_a_commit_does_not_fail_for_want_of_room(
    error: type[OSError], path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def failing(path: str, ahead: int) -> int:
        raise error(28, "no room")

    monkeypatch.setattr(sqlite_log, "extended", failing)
    with BlockingClient.sqlite(path) as client:
        saved(client, 40)
        assert room(path) < 8192
    assert numbers(path) == list(range(40))


def test_room_is_made_by_who_holds_the_write_lock(
    path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Whatever a file system does when two append at once: nobody else writes to the log then."""
    extended: Callable[[str, int], int] = sqlite_log.extended
    refused = []

    def met(log: str, ahead: int) -> int:
        other = sqlite3.connect(path, timeout=0)
        try:
            other.execute("BEGIN IMMEDIATE")
        except sqlite3.OperationalError as error:
            refused.append(str(error))
        finally:
            other.close()
        return extended(log, ahead)

    with BlockingClient.sqlite(path) as client:
        monkeypatch.setattr(sqlite_log, "extended", met)
        saved(client, 40)
    assert refused
    assert set(refused) == {"database is locked"}
    assert numbers(path) == list(range(40))


@pytest.mark.parametrize("number", [(), (errno.ETIMEDOUT,)])
def test_what_a_signal_raises_meanwhile_comes_out_and_nothing_is_saved(
    number: tuple[int, ...], path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def interrupted(path: str, ahead: int) -> int:
        raise TimeoutError(*number, "of the user's own")

    with BlockingClient.sqlite(path) as client:
        saved(client, 5)
        monkeypatch.setattr(sqlite_log, "extended", interrupted)
        monkeypatch.setattr(sqlite_log, "EVERY", 1)
        with pytest.raises(TimeoutError, match="of the user's own"):
            saved(client, 1, 5)
        monkeypatch.undo()
        saved(client, 1, 5)
    assert numbers(path) == list(range(6))


@pytest.mark.parametrize("sort", ["link", "fifo", "directory"])
def test_what_stands_in_the_place_of_the_log_is_left_alone(
    sort: str, path: Path, tmp_path: Path
) -> None:
    other = tmp_path / "other"
    other.write_bytes(b"x" * 10_000)
    place = log_of(path)
    if sort == "link":
        place.symlink_to(other)
    elif sort == "fifo":
        os.mkfifo(place)
    else:
        place.mkdir()
    log = sqlite_log.LogAhead(str(path))
    for _ in range(20):
        log.committing()
        if sort == "link":
            other.write_bytes(other.read_bytes() + b"x" * 10_000)
    assert b"\0" not in other.read_bytes()


@pytest.mark.parametrize(("durability", "synchronous"), [("strict", 2), ("relaxed", 1)])
def test_every_connection_syncs_as_its_durability_says_and_through_the_cache_of_the_drive(
    path: Path, durability: Literal["strict", "relaxed"], synchronous: int
) -> None:
    opened: list[sqlite3.Connection] = []

    def connect(place: str) -> sqlite3.Connection:
        opened.append(plain_connect(place))
        return opened[-1]

    backend = SqliteBackend(path, durability=durability, connect=connect)
    with BlockingClient.on(backend) as client:
        saved(client, 1)
        assert client.latest(session_id="t") is not None
        assert len(opened) == 2
        for connection in opened:
            assert connection.execute("PRAGMA synchronous").fetchone() == (synchronous,)
            assert connection.execute("PRAGMA fullfsync").fetchone() == (1,)
