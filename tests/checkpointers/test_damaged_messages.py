"""Messages whose rows were changed outside: told by every list that they are in, and removable."""

from __future__ import annotations

import sqlite3
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path
from typing import Any

import pytest

from lastgood import BlockingClient, CheckpointIntegrityError
from lastgood.checkpointers import SqliteCheckpointer
from lastgood.messages import Message

THREAD = {"thread_id": "t"}
EDITS = {"value": b"forged", "text": "the message", "expires_at": 1}


@pytest.fixture(params=EDITS)
def damaged(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[SqliteCheckpointer[Any]]:
    """A thread of four messages, of which the second was changed."""
    path = tmp_path / "store.db"
    texts = [Message("user", f"message {number}", message_id=str(number)) for number in range(4)]
    first = SqliteCheckpointer[Any](path)
    first.put_messages(THREAD, texts)
    first.release()
    with closing(sqlite3.connect(path)) as connection:
        second = "SELECT key FROM lastgood_item WHERE shelf = 'messages' LIMIT 1 OFFSET 1"
        connection.execute(
            f"UPDATE lastgood_item SET {request.param} = ?"
            f" WHERE shelf = 'messages' AND key = ({second})",
            [EDITS[request.param]],
        )
        connection.commit()
    checkpointer = SqliteCheckpointer[Any](path)
    yield checkpointer
    checkpointer.release()


def texts_of(checkpointer: SqliteCheckpointer[Any], **options: Any) -> list[object]:
    return [message.message_id for message in checkpointer.get_messages(THREAD, **options)]


@pytest.mark.parametrize(
    "options",
    [{}, {"limit": 2}, {"offset": 1, "limit": 1}, {"search": "message"}],
    ids=["all", "a page", "a later page", "a search"],
)
def test_a_list_says_so(damaged: SqliteCheckpointer[Any], options: dict[str, Any]) -> None:
    with pytest.raises(CheckpointIntegrityError, match="in thread 't'") as caught:
        texts_of(damaged, **options)
    assert "lastgood verify" in caught.value.hint
    with pytest.raises(CheckpointIntegrityError, match="in thread 't'"):
        damaged.get_message(THREAD, "1")


def test_a_page_beside_it_is_the_one_it_was(damaged: SqliteCheckpointer[Any]) -> None:
    assert texts_of(damaged, offset=2) == ["2", "3"]
    assert texts_of(damaged, limit=1) == ["0"]


def test_it_can_be_deleted(damaged: SqliteCheckpointer[Any], tmp_path: Path) -> None:
    assert damaged.delete_message(THREAD, "1")
    assert texts_of(damaged) == ["0", "2", "3"]
    with BlockingClient.sqlite(tmp_path / "store.db") as client:
        assert client.verify().clean


def test_its_thread_can_be_deleted(damaged: SqliteCheckpointer[Any]) -> None:
    damaged.delete_thread(THREAD)
    assert texts_of(damaged) == []
    damaged.put_messages(THREAD, [Message("user", "anew", message_id="1")])
    assert texts_of(damaged) == ["1"]
