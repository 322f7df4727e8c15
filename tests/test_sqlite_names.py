"""Threads of many branches and tags in a SQLite file: what is noticed, and what a save writes."""

import sqlite3
from collections.abc import Callable
from contextlib import closing
from pathlib import Path

import pytest

from lastgood import BlockingClient, CheckpointIntegrityError
from lastgood.backends.tables import COUNTED


@pytest.fixture(scope="module")
def filled(tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("names") / "s.db"
    with BlockingClient.sqlite(path, durability="relaxed") as client:
        id = client.save("a", session_id="s", execution_state={})
        for number in range(COUNTED + 20):
            client.fork(id, branch=f"b {number}")
            client.tag(id, f"t {number}")
    return path


@pytest.fixture
def path(filled: Path, tmp_path: Path) -> Path:
    copy = tmp_path / "s.db"
    with closing(sqlite3.connect(filled)) as source, closing(sqlite3.connect(copy)) as target:
        source.backup(target)
    return copy


def lose(path: Path, table: str, name: str) -> None:
    """Lose a row from its table, but not from the second index."""
    with closing(sqlite3.connect(path)) as connection:
        (entry,) = connection.execute(
            "SELECT * FROM sqlite_master WHERE name = ?", (f"lastgood_{table}_again",)
        ).fetchall()
        connection.execute("PRAGMA writable_schema = ON")
        connection.execute("DELETE FROM sqlite_master WHERE name = ?", (entry[1],))
        connection.commit()
    with closing(sqlite3.connect(path)) as connection:
        lost = connection.execute(f"DELETE FROM lastgood_{table} WHERE name = ?", (name,))
        assert lost.rowcount == 1
        connection.execute("PRAGMA writable_schema = ON")
        connection.execute("INSERT INTO sqlite_master VALUES (?, ?, ?, ?, ?)", entry)
        connection.commit()


def fork(client: BlockingClient, name: str) -> object:
    return client.fork("s@1", branch=name)


def tag(client: BlockingClient, name: str) -> object:
    return client.tag("s@1", name)


NAMED: dict[str, tuple[str, Callable[[BlockingClient, str], object]]] = {
    "branch": ("b", fork),
    "tag": ("t", tag),
}


@pytest.mark.parametrize("table", NAMED)
def test_one_of_many_that_is_lost_is_not_taken_for_a_new_one(path: Path, table: str) -> None:
    letter, name_it = NAMED[table]
    lose(path, table, f"{letter} 7")
    with BlockingClient.sqlite(path) as client:
        with pytest.raises(CheckpointIntegrityError, match=table):
            name_it(client, f"{letter} 7")
        name_it(client, "another")


@pytest.mark.parametrize("table", NAMED)
def test_names_in_a_file_without_the_second_index_are_counted(path: Path, table: str) -> None:
    letter, name_it = NAMED[table]
    with closing(sqlite3.connect(path)) as connection:
        connection.execute(f"DROP INDEX lastgood_{table}_again")
        connection.execute(f"DELETE FROM lastgood_{table} WHERE name = ?", (f"{letter} 7",))
        connection.commit()
    with (
        BlockingClient.sqlite(path) as client,
        pytest.raises(CheckpointIntegrityError, match=table),
    ):
        name_it(client, f"{letter} 7")


def test_a_head_that_moves_is_not_written_to_the_second_index(path: Path) -> None:
    """Each save would write one page more."""
    with closing(sqlite3.connect(path)) as connection:
        (root,) = connection.execute(
            "SELECT rootpage FROM sqlite_master WHERE name = 'lastgood_branch_again'"
        ).fetchone()
    with BlockingClient.sqlite(path) as client:
        client.save("a", session_id="s", execution_state={})
        before = pages_of_the_log(path)
        for number in range(5):
            client.save("a", session_id="s", execution_state={"n": number})
        assert before[root] == pages_of_the_log(path)[root] == 0


def pages_of_the_log(path: Path) -> dict[int, int]:
    """How often each page is in the WAL."""
    data = path.with_name(f"{path.name}-wal").read_bytes()
    size = int.from_bytes(data[8:12], "big")
    salt = data[16:24]
    counts: dict[int, int] = dict.fromkeys(range(1, 10_000), 0)
    for at in range(32, len(data), 24 + size):
        if data[at + 8 : at + 16] == salt:
            counts[int.from_bytes(data[at : at + 4], "big")] += 1
    return counts
