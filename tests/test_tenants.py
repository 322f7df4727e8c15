"""Who has something in a store: what it costs to find out, and what damage leaves of it."""

import asyncio
import sqlite3
from contextlib import closing
from pathlib import Path

import pytest

from lastgood import BlockingClient, Client
from lastgood.backends.null import NullBackend
from lastgood.backends.sqlite.backend import SqliteBackend

MANY = 300


def saved(path: Path, *tenants: str, threads: int = 1) -> None:
    for tenant in tenants:
        with BlockingClient.on(SqliteBackend(path, durability="relaxed"), tenant=tenant) as client:
            for number in range(threads):
                client.save("a", session_id=f"s{number}", execution_state={})


def test_on_sqlite_no_thread_is_read(tmp_path: Path) -> None:
    path = tmp_path / "s.db"
    saved(path, "a", "b", threads=MANY)
    seen: list[str] = []

    def connect(file: str) -> sqlite3.Connection:
        made = sqlite3.connect(file, isolation_level=None, check_same_thread=False)
        made.set_trace_callback(seen.append)
        return made

    with BlockingClient.on(SqliteBackend(path, connect=connect)) as client:
        assert client.tenants() == ["a", "b"]
    (query,) = [each for each in seen if "each.tenant" in each]
    with closing(sqlite3.connect(path)) as connection:
        plan = [step for *_, step in connection.execute(f"EXPLAIN QUERY PLAN {query}")]
    of_threads = [step for step in plan if "thread" in step]
    assert len(of_threads) == 4
    for step in of_threads:
        assert step.startswith("SEARCH")
        assert "COVERING INDEX" in step


@pytest.mark.parametrize("index", ["name", "again", "active"])
def test_a_page_of_an_index_that_cannot_be_read_hides_nobody(tmp_path: Path, index: str) -> None:
    path = tmp_path / "s.db"
    saved(path, "a", "b", "c", threads=MANY)
    with closing(sqlite3.connect(path)) as connection:
        connection.execute("PRAGMA wal_checkpoint(TRUNCATE)")
        (size,) = connection.execute("PRAGMA page_size").fetchone()
        found = "SELECT rootpage FROM sqlite_master WHERE name = ?"
        (root,) = connection.execute(found, (f"lastgood_thread_{index}",)).fetchone()
    with path.open("r+b") as file:
        file.seek((root - 1) * size)
        file.write(bytes(size))
    with BlockingClient.sqlite(path) as client:
        assert client.tenants() == ["a", "b", "c"]


def test_of_plain_files_a_directory_tells_whose_it_is(tmp_path: Path) -> None:
    """What it is called is the name, unless that has characters that not every disk takes."""
    for tenant in ("plain", "Not plain", "both"):
        with BlockingClient.files(tmp_path, tenant=tenant) as client:
            for thread in ("r", "s"):
                client.save("a", session_id=thread, execution_state={})
    client = BlockingClient.files(tmp_path)
    everybody = ["Not plain", "both", "plain"]
    assert client.tenants() == everybody
    for file in tmp_path.glob("threads/*/r/thread.json"):
        file.write_text("{}")
    assert client.tenants() == everybody
    for file in tmp_path.glob("threads/*/s/thread.json"):
        file.write_text("{}")
    assert client.tenants() == ["both", "plain"]
    assert not client.verify().clean, "whoever looks hears of the others"
    client.close()


def test_a_store_that_keeps_nothing_has_nobody() -> None:
    async def main() -> None:
        async with Client.on(NullBackend()) as client, client.run("s", initial={}) as run:
            await run.save()
            assert await client.tenants() == []

    asyncio.run(main())
