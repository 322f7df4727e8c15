"""A SQLite file that is removed, moved or replaced while clients have it open."""

import sqlite3
from collections.abc import Callable
from pathlib import Path

import pytest

from lastgood import BackendConnectionError, BlockingClient, CheckpointIntegrityError


def save(client: BlockingClient, thread: str, number: int) -> str:
    state = {"m": [f"message {number} " * 10] * 100, "n": number}
    return client.save("a", session_id=thread, execution_state=state)


def threads(path: Path) -> set[str]:
    with BlockingClient.sqlite(path) as client:
        assert client.verify(data=True).clean
        return {info.thread_id for info in client.threads(limit=500)}


def integrity(path: Path) -> str:
    connection = sqlite3.connect(path)
    try:
        return str(connection.execute("PRAGMA integrity_check").fetchone()[0])
    finally:
        connection.close()


CALLS: dict[str, Callable[[BlockingClient], object]] = {
    "a save": lambda client: save(client, "late", 0),
    "a read": lambda client: client.latest(agent_id="a", session_id="live"),
    "a list": lambda client: client.threads(),
}


@pytest.fixture
def live(tmp_path: Path) -> Path:
    return tmp_path / "live.db"


@pytest.fixture
def client(live: Path) -> BlockingClient:
    """Has saved and read, with what it saved in the log alone."""
    opened = BlockingClient.sqlite(live)
    for number in range(20):
        save(opened, "live", number)
    assert opened.latest(agent_id="a", session_id="live") is not None
    return opened


@pytest.mark.parametrize("call", CALLS)
def test_a_backup_that_is_put_in_place_is_not_destroyed(
    call: str, client: BlockingClient, live: Path, tmp_path: Path
) -> None:
    backup = tmp_path / "backup.db"
    with BlockingClient.sqlite(backup) as other:
        for number in range(30):
            save(other, f"good-{number}", number)
    backup.replace(live)
    with pytest.raises(BackendConnectionError, match="replaced"):
        CALLS[call](client)
    expected = {f"good-{number}" for number in range(30)}
    assert {info.thread_id for info in client.threads(limit=500)} == expected
    save(client, "new", 1)
    client.close()
    assert integrity(live) == "ok"
    assert threads(live) == expected | {"new"}


def test_a_backup_that_is_copied_over_an_open_file_is_told_how_it_is_put_back(
    client: BlockingClient, live: Path, tmp_path: Path
) -> None:
    """SQLite goes on with the log of the file that was there: what it reads is a mixture."""
    backup = tmp_path / "backup.db"
    client.close()
    backup.write_bytes(live.read_bytes())
    for number in range(20, 60):
        save(client, "live", number)
    client.close()
    save(client, "live", 60)
    live.write_bytes(backup.read_bytes())
    with pytest.raises(CheckpointIntegrityError) as caught:
        client.latest(agent_id="a", session_id="live")
    assert "put it back again, while nobody has it open" in caught.value.hint
    client.close()
    for end in ("-wal", "-shm"):
        live.with_name(f"{live.name}{end}").unlink(missing_ok=True)
    live.write_bytes(backup.read_bytes())
    assert threads(live) == {"live"}


@pytest.mark.parametrize("call", [*CALLS, "close"])
def test_a_file_that_is_moved_away_has_all_that_was_saved(
    call: str, client: BlockingClient, live: Path, tmp_path: Path
) -> None:
    moved = tmp_path / "moved.db"
    live.rename(moved)
    if call != "close":
        with pytest.raises(BackendConnectionError, match="replaced"):
            CALLS[call](client)
    client.close()
    with BlockingClient.sqlite(moved) as other:
        assert len(other.log("live", limit=100)) == 20
        assert other.verify(data=True).clean
    assert threads(live) == set()


@pytest.mark.parametrize("call", ["a read", "a list"])
def test_a_reader_notices_a_file_that_was_made_anew(
    call: str, client: BlockingClient, live: Path
) -> None:
    reader = BlockingClient.sqlite(live)
    assert reader.latest(agent_id="a", session_id="live") is not None
    client.close()
    for file in live.parent.iterdir():
        file.unlink()
    with BlockingClient.sqlite(live) as other:
        new = save(other, "live", 100)
        with pytest.raises(BackendConnectionError, match="nothing was read"):
            CALLS[call](reader)
        found = reader.latest(agent_id="a", session_id="live")
        assert found is not None
        assert found.checkpoint_id == new
        assert len(reader.log("live")) == 1
    reader.close()
