"""A full disk: the save that found no room raises StorageFullError, and only that one; everything
older stays readable, and the next save works as soon as there is room again.
"""

import asyncio
import os
import shutil
import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import apsw
import pytest

from lastgood import BlockingClient, Client, StorageError, StorageFullError
from lastgood.backends.sqlite.backend import SqliteBackend
from lastgood.backends.sqlite.connection import plain_connect
from lastgood.testing.faults.disk import Disk
from lastgood.testing.faults.store import view

SMALL = "1m"
STORES = {"sqlite": BlockingClient.sqlite, "files": BlockingClient.files}


def noise(size: int) -> str:
    return os.urandom(size // 2).hex()


def fill(client: BlockingClient) -> list[str]:
    """Save until there is no room; gives what was acknowledged."""
    acked: list[str] = []
    for number in range(10_000):
        state = {"n": number, "pad": noise(8_000)}
        try:
            acked.append(client.save("solo", session_id="work", execution_state=state))
        except StorageFullError:
            return acked
    pytest.fail("the disk has no end")


def check_readable(client: BlockingClient, acked: list[str]) -> None:
    assert client.latest(agent_id="solo", session_id="work").checkpoint_id == acked[-1]
    assert [header.checkpoint_id for header in client.log("work", limit=10_000)] == acked[::-1]
    for id in acked:
        assert client.restore(id).verify_integrity()


@pytest.fixture
def small_disk(tmp_path: Path) -> Iterator[Path]:
    """A real file system of one megabyte."""
    directory = tmp_path / "small"
    directory.mkdir()
    mount = ["mount", "-t", "tmpfs", "-o", f"size={SMALL}", "tmpfs", str(directory)]
    if os.geteuid() or subprocess.run(mount, capture_output=True, check=False).returncode:
        pytest.skip("cannot mount a small file system here")
    yield directory
    subprocess.run(["umount", str(directory)], check=True)


@pytest.mark.parametrize("kind", ["sqlite", "files"])
def test_a_full_file_system_is_told_and_survived(kind: str, small_disk: Path) -> None:
    ballast = small_disk / "ballast"
    ballast.write_bytes(bytes(200_000))
    client = STORES[kind](small_disk / "store.db")
    acked = fill(client)
    check_readable(client, acked)
    ballast.unlink()
    acked.append(client.save("solo", session_id="work", execution_state={"n": "next"}))
    check_readable(client, acked)
    client.close()
    again = STORES[kind](small_disk / "store.db")
    check_readable(again, acked)
    again.close()


@pytest.mark.parametrize(("kind", "room"), [("sqlite", 40_000), ("files", 0), ("files", 5_000)])
def test_a_first_open_without_room_is_told_and_survived(
    kind: str, room: int, small_disk: Path
) -> None:
    ballast = small_disk / "ballast"
    ballast.write_bytes(bytes((1 << 20) - room))
    client = STORES[kind](small_disk / "store.db")
    with pytest.raises(StorageFullError):
        client.save("solo", session_id="work", execution_state={"n": 1})
    ballast.unlink()
    acked = [client.save("solo", session_id="work", execution_state={"n": 2})]
    check_readable(client, acked)
    client.close()


IN_A_NAMESPACE = """
mount -t tmpfs -o size=1m tmpfs "$1" && exec "$2" "$3" "$1"
"""


def test_the_same_without_root(tmp_path: Path) -> None:
    """In a user namespace of its own, where those are allowed."""
    if shutil.which("unshare") is None:
        pytest.skip("unshare is not installed")
    command = ["unshare", "-Urm", "sh", "-c", IN_A_NAMESPACE, "sh", str(tmp_path), sys.executable]
    done = subprocess.run([*command, __file__], capture_output=True, text=True, check=False)
    if "unshare" in done.stderr or "mount:" in done.stderr:
        pytest.skip(f"no user namespaces here: {done.stderr.strip()}")
    assert done.returncode == 0, done.stderr
    assert int(done.stdout) > 10


def quota(pages: int) -> Callable[[str], Any]:
    """Connections that may not let the file grow beyond so many pages."""

    def connect(path: str) -> Any:
        connection = plain_connect(path)
        connection.execute(f"PRAGMA max_page_count = {pages}")
        return connection

    return connect


def test_a_file_at_its_limit_is_told_and_survived(place: Path) -> None:
    client = BlockingClient.on(SqliteBackend(place / "store.db", connect=quota(120)))
    acked = fill(client)
    check_readable(client, acked)
    client.close()
    roomy = BlockingClient.sqlite(place / "store.db")
    acked.append(roomy.save("solo", session_id="work", execution_state={"n": "next"}))
    check_readable(roomy, acked)
    roomy.close()


def test_room_that_was_freed_inside_the_file_is_used(place: Path) -> None:
    client = BlockingClient.on(SqliteBackend(place / "store.db", connect=quota(120)))
    client.save("solo", session_id="old", execution_state={"pad": noise(200_000)})
    acked = fill(client)
    client.delete("old")
    acked.append(client.save("solo", session_id="work", execution_state={"pad": noise(60_000)}))
    check_readable(client, acked)
    client.close()


@pytest.mark.parametrize("position", range(6))
def test_one_save_too_large_in_a_group_hurts_only_itself(place: Path, position: int) -> None:
    """Several tasks commit together; SQLite undoes neighbours of the one that fails (S16)."""
    path = place / "store.db"

    async def play() -> list[Any]:
        client = Client.on(SqliteBackend(path, connect=quota(100)))
        await client.save("solo", session_id="t", execution_state={"n": 0})
        states = [{"n": number} for number in range(6)]
        states[position]["pad"] = noise(2_000_000)
        saves = [
            client.save("solo", session_id=f"t{number}", execution_state=state)
            for number, state in enumerate(states)
        ]
        outcomes = await asyncio.gather(*saves, return_exceptions=True)
        await client.close()
        return outcomes

    outcomes = asyncio.run(play())
    assert isinstance(outcomes[position], StorageFullError)
    others = [outcome for number, outcome in enumerate(outcomes) if number != position]
    assert all(isinstance(outcome, str) for outcome in others), outcomes
    with BlockingClient.sqlite(path) as reader:
        found = view(reader)
    assert {id for thread in found.values() for id in thread.states} > set(others)
    assert f"t{position}" not in found


@pytest.mark.parametrize("nth", range(1, 25))
def test_a_group_on_a_disk_that_fills_up_acknowledges_only_what_is_there(
    place: Path, nth: int
) -> None:
    """The disk refuses from its nth write on, in the middle of a group commit, then has room."""
    disk = Disk()
    written = 0

    def full(kind: str, file: str) -> None:
        nonlocal written
        written += kind == "write"
        if kind == "write" and nth <= written < nth + 12:
            raise apsw.FullError("injected: no space left")

    async def play() -> list[Any]:
        nonlocal written
        client = Client.on(SqliteBackend(place / "store.db", connect=disk.connect))
        await client.save("solo", session_id="t", execution_state={"n": 0})
        written, disk.fault = 0, full
        saves = [
            client.save("solo", session_id=f"t{n}", execution_state={"n": n, "pad": noise(20_000)})
            for n in range(8)
        ]
        outcomes = await asyncio.gather(*saves, return_exceptions=True)
        written = 1_000
        outcomes.append(await client.save("solo", session_id="t", execution_state={"n": "next"}))
        await client.close()
        return outcomes

    outcomes = asyncio.run(play())
    disk.unregister()
    acked = {outcome for outcome in outcomes if isinstance(outcome, str)}
    failed = [outcome for outcome in outcomes if not isinstance(outcome, str)]
    assert all(isinstance(error, StorageError) for error in failed), failed
    with BlockingClient.sqlite(place / "store.db") as reader:
        found = view(reader)
    present = {id for thread in found.values() for id in thread.states}
    assert acked <= present
    assert len(present) == len(acked) + 1, "nothing that failed is there"


if __name__ == "__main__":
    there = BlockingClient.sqlite(Path(sys.argv[1]) / "store.db")
    kept = fill(there)
    check_readable(there, kept)
    there.close()
    print(len(kept))
