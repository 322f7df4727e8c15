"""A page of a SQLite file that is gone, each in turn: what is not on it is brought out of it."""

import sqlite3
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path
from typing import Any

import pytest

from lastgood import BlockingClient, CheckpointIntegrityError, LastgoodError
from lastgood.cli.doctor_store import store_findings
from lastgood.reports import CopyReport

THREADS, SAVES = 24, 3
SPARE = {
    *("lastgood_thread", "lastgood_thread_name", "lastgood_thread_again", "lastgood_thread_active"),
    *("lastgood_branch", "lastgood_run", "lastgood_checkpoint_id", "lastgood_stream"),
    "lastgood_large",
}
"""Tables and indexes that say nothing of a state which is not said elsewhere."""


@pytest.fixture
def store(tmp_path: Path) -> tuple[Path, dict[str, Any]]:
    """A file, and what is saved in it, by id."""
    path, states = tmp_path / "store.db", dict[str, Any]()
    with BlockingClient.sqlite(path, durability="relaxed") as client:
        for thread in range(THREADS):
            notes: list[str] = []
            for number in range(SAVES):
                notes = [*notes, f"{thread}.{number} " * 200]
                state = {"notes": notes, "number": number}
                saved = client.save("agent", session_id=f"t{thread}", execution_state=state)
                states[saved] = state
    with closing(sqlite3.connect(path)) as connection:
        connection.execute("PRAGMA wal_checkpoint(TRUNCATE)")
    return path, states


def roots(path: Path) -> dict[int, str]:
    with closing(sqlite3.connect(path)) as connection:
        rows = connection.execute("SELECT rootpage, name FROM sqlite_master").fetchall()
    return dict(rows)


def without_each_page(path: Path) -> Iterator[int]:
    """The numbers of pages, while each is gone from the file."""
    with closing(sqlite3.connect(path)) as connection:
        (size,) = connection.execute("PRAGMA page_size").fetchone()
    whole = path.read_bytes()
    for at in range(0, len(whole), size):
        path.write_bytes(whole[:at] + bytes(size) + whole[at + size :])
        yield at // size + 1


def salvaged(path: Path) -> tuple[CopyReport, dict[str, Any]]:
    """What came out of a file, by id."""
    with BlockingClient.sqlite(path) as client, BlockingClient.memory() as target:
        report = client.copy_to(target, salvage=True)
        assert target.verify(data=True).clean
        found = {
            header.checkpoint_id: target.restore(header.checkpoint_id).state
            for info in target.threads(limit=2 * THREADS)
            for header in target.log(info.thread_id, limit=2 * SAVES)
        }
        assert report.checkpoints == len(found)
        return report, found


@pytest.mark.slow
def test_every_page_in_turn(store: tuple[Path, dict[str, Any]]) -> None:
    path, states = store
    names, spared, counts = roots(path), set(), []
    for page in without_each_page(path):
        try:
            report, found = salvaged(path)
        except LastgoodError:
            assert page == 1, "SQLite's own description of the file"
            continue
        assert found.items() <= states.items()
        assert len(found) == len(states) or report.salvaged or report.problems
        if names.get(page) in SPARE:
            spared.add(names[page])
            assert found == states, names[page]
        elif page not in names:
            counts.append(len(found))
    assert spared >= SPARE - {"lastgood_run"}
    assert min(counts) > len(states) // 2, "what is on a page, and no more"


def test_a_file_that_is_cut_short(store: tuple[Path, dict[str, Any]]) -> None:
    """As by a copy that was interrupted: SQLite itself reads nothing of it."""
    path, states = store
    whole, counts = path.read_bytes(), []
    for share in (5, 8):
        path.write_bytes(whole[: len(whole) * share // 10 + 1])
        left = path.read_bytes()
        report, found = salvaged(path)
        assert found.items() <= states.items()
        assert report.salvaged
        counts.append(len(found))
        with BlockingClient.sqlite(path) as client:
            for ref in states.keys() - found.keys():
                with pytest.raises(CheckpointIntegrityError):
                    client.restore(ref)
            with pytest.raises(CheckpointIntegrityError, match=f"cut short: {len(left):,} of its"):
                client.save("agent", session_id="t0", execution_state={})
            assert not client.verify().clean
        assert path.read_bytes() == left
        doctor = {each.what: each for each in store_findings(str(path), path)}
        assert (
            doctor["format"].found
            == f"its end is missing: {len(left):,} of {len(whole):,} bytes are there"
        )
    assert 0 < counts[0] < counts[1] < len(states)


def test_the_agents_of_other_threads_are_tried(store: tuple[Path, dict[str, Any]]) -> None:
    path, states = store
    with closing(sqlite3.connect(path)) as connection:
        connection.execute("DELETE FROM lastgood_lane WHERE thread > 3")
        connection.commit()
    report, found = salvaged(path)
    assert (found, len(report.salvaged), report.problems) == (states, THREADS - 3, ())


def test_a_thread_whose_name_is_none_any_more(store: tuple[Path, dict[str, Any]]) -> None:
    path, states = store
    with closing(sqlite3.connect(path)) as connection:
        connection.execute("UPDATE lastgood_thread SET name = '' WHERE thread = 3")
        connection.commit()
    report, found = salvaged(path)
    assert ([each.thread for each in report.salvaged], found) == (["salvaged-3"], states)


def test_a_lane_that_is_lost_is_on_the_branch_of_its_last_move(tmp_path: Path) -> None:
    with BlockingClient.sqlite(tmp_path / "store.db") as client:
        for thread in ("hurt", "whole"):
            for number in range(3):
                client.save("a", session_id=thread, execution_state={"n": number})
        client.rewind("hurt", "@1")
        client.save("a", session_id="hurt", execution_state={"n": "beside"})
        client.undo("hurt")
    with closing(sqlite3.connect(tmp_path / "store.db")) as connection:
        connection.execute("DELETE FROM lastgood_lane WHERE thread = 1")
        connection.commit()
    with BlockingClient.sqlite(tmp_path / "store.db") as client, BlockingClient.memory() as target:
        (hurt,) = client.copy_to(target, salvage=True).salvaged
        assert hurt.remarks == ("agent a goes on from hurt@3, and was perhaps on another branch",)
        latest = target.latest(session_id="hurt")
        assert latest is not None
        assert latest.state == {"n": 2}
        target.undo("hurt")
        beside = target.latest(session_id="hurt")
        assert beside is not None
        assert beside.state == {"n": "beside"}


class Stopped(Exception):
    """By who is told how far it is."""


def stopping(done: int, total: int) -> None:
    if done > total // 3:
        raise Stopped


def test_one_that_was_interrupted_is_begun_again(tmp_path: Path) -> None:
    """What the first pass found out about digests has to be found out again."""
    with BlockingClient.sqlite(tmp_path / "store.db", durability="relaxed") as client:
        notes: list[str] = []
        for number in range(900):
            notes = [*notes, f"{number} " * 100]
            client.save("a", session_id="hurt", execution_state={"notes": notes})
    with closing(sqlite3.connect(tmp_path / "store.db")) as connection:
        connection.execute("DELETE FROM lastgood_checkpoint WHERE key & 0xffff = 500")
        connection.execute("UPDATE lastgood_part SET digest = x'00' WHERE key & 0xffff = 4")
        connection.execute("UPDATE lastgood_part SET born = 99999 WHERE key & 0xffff = 9")
        connection.commit()
    copy = BlockingClient.sqlite(tmp_path / "copy.db", durability="relaxed")
    with BlockingClient.sqlite(tmp_path / "store.db") as client, copy:
        with pytest.raises(Stopped):
            client.copy_to(copy, salvage=True, progress=stopping)
        (hurt,) = client.copy_to(copy, salvage=True).salvaged
        assert (hurt.lost, hurt.remarks) == (("hurt@500",), ())
        assert copy.verify(data=True).clean
        assert copy.restore("hurt@900").state == {"notes": notes}
        assert client.copy_to(copy, salvage=True).same == 1
