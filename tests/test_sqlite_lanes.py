"""Threads of many lanes in a SQLite file: what a look costs, and what is noticed."""

import sqlite3
from collections.abc import Callable, Iterator
from contextlib import closing
from pathlib import Path
from typing import Any

import pytest

from lastgood import BlockingClient, CheckpointIntegrityError
from lastgood.backends.sqlite.backend import SqliteBackend
from lastgood.backends.sqlite.connection import plain_connect
from lastgood.backends.tables import COUNTED


class Steps:
    """Counts what SQLite's machine does on the connections that it opens."""

    def __init__(self) -> None:
        self.count = 0

    def connect(self, *arguments: Any) -> sqlite3.Connection:
        connection: sqlite3.Connection = plain_connect(*arguments)
        connection.set_progress_handler(self._step, 10)
        return connection

    def _step(self) -> int:
        self.count += 1
        return 0

    def of(self, work: Callable[[], object]) -> int:
        """Tens of instructions that a piece of work takes."""
        before = self.count
        work()
        return self.count - before


def fill(client: BlockingClient, lanes: range) -> None:
    for number in lanes:
        client.save(f"agent {number}", session_id="s", execution_state={"n": number})


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return tmp_path / "s.db"


@pytest.fixture
def counted(path: Path) -> Iterator[tuple[BlockingClient, Steps]]:
    steps = Steps()
    backend = SqliteBackend(path, durability="relaxed", connect=steps.connect)
    with BlockingClient.on(backend) as client:
        yield client, steps


def test_a_new_lane_costs_the_same_however_many_there_are(
    counted: tuple[BlockingClient, Steps],
) -> None:
    client, steps = counted

    def costs(name: str) -> list[int]:
        works: list[Callable[[], object]] = [
            lambda: client.latest(agent_id=name, session_id="s"),
            lambda: client.save(name, session_id="s", execution_state={}),
            lambda: client.restore(f"s/{name}@"),
            lambda: client.log("s", limit=5),
        ]
        return [steps.of(work) for work in works]

    fill(client, range(COUNTED + 50))
    few = costs("few")
    fill(client, range(COUNTED + 50, 4 * COUNTED))
    for before, after in zip(few, costs("many"), strict=True):
        assert after <= before * 1.5 + 10


def without(path: Path, agent: str) -> None:
    """Lose a lane from its table, but not from the second index."""
    with closing(sqlite3.connect(path)) as connection:
        (entry,) = connection.execute(
            "SELECT * FROM sqlite_master WHERE name = 'lastgood_lane_again'"
        ).fetchall()
        connection.execute("PRAGMA writable_schema = ON")
        connection.execute("DELETE FROM sqlite_master WHERE name = 'lastgood_lane_again'")
        connection.commit()
    with closing(sqlite3.connect(path)) as connection:
        lost = connection.execute("DELETE FROM lastgood_lane WHERE agent = ?", (agent,))
        assert lost.rowcount == 1
        connection.execute("PRAGMA writable_schema = ON")
        connection.execute("INSERT INTO sqlite_master VALUES (?, ?, ?, ?, ?)", entry)
        connection.commit()


def test_one_of_many_lanes_that_is_lost_is_not_taken_for_a_new_one(path: Path) -> None:
    with BlockingClient.sqlite(path, durability="relaxed") as client:
        fill(client, range(COUNTED + 50))
    without(path, "agent 7")
    with BlockingClient.sqlite(path) as client:
        with pytest.raises(CheckpointIntegrityError, match="lane"):
            client.latest(agent_id="agent 7", session_id="s")
        with pytest.raises(CheckpointIntegrityError, match="lane"):
            client.save("agent 7", session_id="s", execution_state={})
        assert client.latest(agent_id="agent 8", session_id="s") is not None
        assert client.latest(agent_id="nobody", session_id="s") is None


def test_a_file_that_was_written_without_the_second_index_is_counted(path: Path) -> None:
    with BlockingClient.sqlite(path, durability="relaxed") as client:
        fill(client, range(COUNTED + 50))
    with closing(sqlite3.connect(path)) as connection:
        connection.execute("DROP INDEX lastgood_lane_again")
        connection.execute("DROP INDEX lastgood_lane_number")
        connection.commit()
    with BlockingClient.sqlite(path) as client:
        assert client.latest(agent_id="nobody", session_id="s") is None
    with closing(sqlite3.connect(path)) as connection:
        connection.execute("DELETE FROM lastgood_lane WHERE agent = 'agent 7'")
        connection.commit()
    with (
        BlockingClient.sqlite(path) as client,
        pytest.raises(CheckpointIntegrityError, match="lane"),
    ):
        client.latest(agent_id="agent 7", session_id="s")
