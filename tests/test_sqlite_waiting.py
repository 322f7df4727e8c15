"""Waiting for the write lock of a file: everybody as often as the others, and not for ever."""

import sqlite3
import threading
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from lastgood import BlockingClient, TransientStorageError
from lastgood.backends.sqlite import waiting


@pytest.fixture
def client(tmp_path: Path) -> Iterator[BlockingClient]:
    with BlockingClient.sqlite(tmp_path / "x.db") as client:
        client.save("a", session_id="s", execution_state={"n": 0})
        yield client


@pytest.fixture
def holder(client: BlockingClient, tmp_path: Path) -> Iterator[sqlite3.Connection]:
    """Another connection, which has the lock."""
    assert client.latest(agent_id="a", session_id="s") is not None
    other = sqlite3.connect(tmp_path / "x.db", isolation_level=None, check_same_thread=False)
    other.execute("BEGIN IMMEDIATE")
    yield other
    other.close()


def test_who_has_waited_long_looks_as_often_as_the_others(
    client: BlockingClient, holder: sqlite3.Connection, monkeypatch: pytest.MonkeyPatch
) -> None:
    pauses: list[float] = []
    sleep = time.sleep

    def noted(seconds: float) -> None:
        pauses.append(seconds)
        sleep(seconds)

    monkeypatch.setattr(waiting.time, "sleep", noted)
    timer = threading.Timer(0.5, lambda: holder.execute("COMMIT"))
    timer.start()
    client.save("a", session_id="s", execution_state={"n": 1})
    timer.join()
    assert len(pauses) > 10
    assert max(pauses) < 0.01
    assert client.restore("s@").state == {"n": 1}


def test_not_for_ever(
    client: BlockingClient, holder: sqlite3.Connection, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(waiting, "PATIENCE", 0.05)
    with pytest.raises(TransientStorageError, match="held the write lock") as caught:
        client.save("a", session_id="s", execution_state={"n": 1})
    assert not caught.value.in_doubt
    holder.execute("COMMIT")
    client.save("a", session_id="s", execution_state={"n": 2})
    assert [client.restore(each.checkpoint_id).state["n"] for each in client.log("s")] == [2, 0]
