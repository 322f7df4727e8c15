"""Text in a SQLite file that is no longer UTF-8: SQLite's driver then fails a whole statement."""

import sqlite3
from collections.abc import Iterator
from pathlib import Path

import pytest

from lastgood import BlockingClient, CheckpointIntegrityError
from lastgood.checkpointers import Message, SqliteCheckpointer

SPOILED = {
    "title": "UPDATE lastgood_thread SET title = {} WHERE thread = 2",
    "last step": "UPDATE lastgood_thread SET last_step = {} WHERE thread = 2",
    "agent": "UPDATE lastgood_lane SET agent = {} WHERE thread = 2",
    "branch": "UPDATE lastgood_branch SET name = {} WHERE thread = 2",
    "newest step": "UPDATE lastgood_checkpoint SET step_name = {} WHERE key = 2 << 32 | 2",
    "older step": "UPDATE lastgood_checkpoint SET step_name = {} WHERE key = 2 << 32 | 1",
    "run": "UPDATE lastgood_run SET step = {} WHERE thread = 2",
    "item": "UPDATE lastgood_item SET text = {} WHERE text IS NOT NULL",
    "tag": "UPDATE lastgood_tag SET name = {} WHERE thread = 2",
}


@pytest.fixture(params=SPOILED)
def spoiled(tmp_path: Path, request: pytest.FixtureRequest) -> Iterator[BlockingClient]:
    """A store of three threads, the second of which has text that lost a bit."""
    path = tmp_path / "s.db"
    with BlockingClient.sqlite(path, durability="relaxed") as client:
        for name in ("first", "second", "third"):
            with client.run(name, initial={"n": 0}) as run:
                run.save({"n": 1}, step_name="stepped", metadata={"of": name})
            client.tag(f"{name}@", "good")
        checkpointer = SqliteCheckpointer(path)
        checkpointer.put_messages({"thread_id": "second"}, [Message(role="user", content="hello")])
        checkpointer.release()
    with sqlite3.connect(path) as connection:
        statement = SPOILED[request.param].format("CAST(x'e1ff41' AS TEXT)")
        assert connection.execute(statement).rowcount == 1
    connection.close()
    with BlockingClient.sqlite(path) as client:
        yield client


def test_only_its_own_thread_is_hurt(spoiled: BlockingClient) -> None:
    listed = {info.thread_id: info.status for info in spoiled.threads()}
    assert listed.keys() == {"first", "second", "third"}
    assert listed["first"] == listed["third"] == "idle"
    assert [t.thread_id for t in spoiled.threads(metadata={"of": "third"})] == ["third"]
    assert spoiled.stats().checkpoints >= 4  # those of the two sound ones
    assert [header.step_name for header in spoiled.log("third")] == ["stepped", None]


def test_verify_names_it_once(spoiled: BlockingClient) -> None:
    places = [problem.where for problem in spoiled.verify().problems]
    assert places
    assert all("second" in place for place in places)
    assert len(set(places)) == len(places)


def test_who_needs_it_is_told(tmp_path: Path) -> None:
    path = tmp_path / "s.db"
    with BlockingClient.sqlite(path) as client:
        client.save("a", session_id="s", execution_state={"n": 1}, step_name="stepped")
    with sqlite3.connect(path) as connection:
        connection.execute("UPDATE lastgood_checkpoint SET step_name = CAST(x'ff' AS TEXT)")
    connection.close()
    with BlockingClient.sqlite(path) as client:
        for look in (client.log, lambda name: client.latest(agent_id="a", session_id=name)):
            with pytest.raises(CheckpointIntegrityError, match="checkpoint row was changed"):
                look("s")
        with pytest.raises(CheckpointIntegrityError):
            client.save("a", session_id="s", execution_state={"n": 2})
