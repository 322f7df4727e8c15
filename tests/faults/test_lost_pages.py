"""A page of the file is lost: what `verify` names is what cannot be restored, no more, no less."""

from pathlib import Path

import apsw
import pytest

from lastgood import BlockingClient, LastgoodError
from lastgood.backends.sqlite.schema import PAGE_SIZE

THREADS = ("one", "two", "three")


@pytest.fixture
def store(place: Path) -> tuple[Path, dict[str, str]]:
    """Three threads whose rows and pages fill some pages of the file each."""
    path, ids = place / "store.db", {}
    with BlockingClient.sqlite(path, durability="relaxed") as client:
        for thread in THREADS:
            with client.run(thread, initial={"messages": []}) as run:
                for number in range(60):
                    run.append("messages", f"message {number} " * 30)
            found = client.log(thread, limit=100)
            ids |= {header.name: header.checkpoint_id for header in found}
    return path, ids


def leaves(path: Path, table: str) -> list[int]:
    connection = apsw.Connection(str(path))
    query = "SELECT pageno FROM dbstat WHERE name = ? AND pagetype = 'leaf' ORDER BY pageno"
    found = connection.execute(query, (f"lastgood_{table}",)).fetchall()
    connection.close()
    return [number for (number,) in found]


def lost(client: BlockingClient, ids: dict[str, str]) -> set[str]:
    names = set()
    for name, id in ids.items():
        try:
            client.restore(id)
        except LastgoodError:
            names.add(name)
    return names


def names_after_losing(path: Path, page: int, ids: dict[str, str]) -> tuple[set[str], set[str]]:
    """What verify names, and what cannot be restored, without one page of the file."""
    whole = path.read_bytes()
    try:
        start = (page - 1) * PAGE_SIZE
        path.write_bytes(whole[:start] + bytes(PAGE_SIZE) + whole[start + PAGE_SIZE :])
        with BlockingClient.sqlite(path) as client:
            report = client.verify(data=True)
            assert not report.clean
            assert report.exit_code in (1, 2)
            named = {name for problem in report.problems for name in problem.checkpoints}
            return named, lost(client, ids)
    finally:
        for suffix in ("-wal", "-shm"):
            path.with_name(path.name + suffix).unlink(missing_ok=True)
        path.write_bytes(whole)


@pytest.mark.parametrize("table", ["checkpoint", "part"])
def test_a_lost_page_of_a_table(store: tuple[Path, dict[str, str]], table: str) -> None:
    path, ids = store
    pages = leaves(path, table)
    assert len(pages) > 5
    for page in pages:
        named, gone = names_after_losing(path, page, ids)
        assert named == gone, f"page {page}"
        assert 0 < len(gone) < len(ids)


@pytest.mark.parametrize("table", ["branch", "run", "move", "tag", "large", "stream_thread"])
def test_a_lost_page_that_no_checkpoint_needs(
    store: tuple[Path, dict[str, str]], table: str
) -> None:
    path, ids = store
    for page in leaves(path, table):
        assert names_after_losing(path, page, ids) == (set(), set())
