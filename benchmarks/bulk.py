"""Large stores, made in bulk: rows as commits would have written them, each with its own seal.

Through the interface a store of ten million checkpoints would take the better part of an hour.
Every checkpoint has a small state; one is the parent of the next.
"""

import sqlite3
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from benchmarks.stores.interface import AGENT


def thread_name(number: int) -> str:
    """The name of a thread of such a store, counted from 1."""
    return f"thread-{number:07d}"


def checkpoint_id(thread: int, seq: int) -> bytes:
    """The id of a checkpoint of such a store."""
    return (0x01A0 << 112 | 7 << 76 | thread << 32 | seq).to_bytes(16)


def fill(path: Path, threads: int, checkpoints: int) -> None:
    """A store of so many threads with so many checkpoints each."""
    from lastgood import BlockingClient

    with BlockingClient.sqlite(path) as client:
        client.save(AGENT, session_id=thread_name(1), execution_state={"n": 0}, step_name="step")
    connection = sqlite3.connect(path, isolation_level=None)
    connection.execute("PRAGMA synchronous=OFF")
    connection.execute("PRAGMA cache_size=-500000")
    connection.execute("BEGIN")
    _Model(connection).multiply(threads, checkpoints)
    connection.execute("COMMIT")
    connection.execute("PRAGMA wal_checkpoint(TRUNCATE)")
    connection.close()


class _Model:
    """The rows of a store with one checkpoint, of which copies are made."""

    def __init__(self, connection: sqlite3.Connection) -> None:
        from lastgood.backends.sqlite.rows import unfolded
        from lastgood.backends.sqlite.schema import select
        from lastgood.rows import BranchRow, CheckpointRow, LaneRow, ThreadRow, unsealed

        self._connection = connection

        def only(kind: type[Any]) -> Any:
            return unsealed(kind, connection.execute(select(kind, "1")).fetchone())

        self._thread, self._lane, self._branch = map(only, (ThreadRow, LaneRow, BranchRow))
        found = connection.execute(select(CheckpointRow, "1")).fetchone()
        self._checkpoint = unsealed(CheckpointRow, unfolded(found))

    def multiply(self, threads: int, checkpoints: int) -> None:
        from lastgood.backends.sqlite.schema import COLUMNS, stamp
        from lastgood.rows import CheckpointRow

        for table in ("thread", "lane", "branch", "checkpoint"):
            self._connection.execute(f"DELETE FROM lastgood_{table}")
        columns = COLUMNS[CheckpointRow]
        names, marks = ", ".join(columns), ", ".join("?" * len(columns))
        insert = f"INSERT INTO lastgood_checkpoint ({names}) VALUES ({marks})"
        for thread in range(1, threads + 1):
            self._put_thread(thread, checkpoints)
            self._connection.executemany(insert, self._line(thread, checkpoints))
        self._connection.execute(
            "UPDATE lastgood_meta SET value = ? WHERE name = 'thread'", (stamp(threads, "thread"),)
        )

    def _put_thread(self, thread: int, checkpoints: int) -> None:
        head = checkpoint_id(thread, checkpoints)
        row = self._thread._replace(
            thread=thread,
            name=thread_name(thread),
            seq=checkpoints,
            checkpoints=checkpoints,
            newest=head,
        )
        self._put("thread", row)
        self._put("lane", self._lane._replace(thread=thread))
        self._put("branch", self._branch._replace(thread=thread, head=head))

    def _put(self, table: str, row: Any) -> None:
        from lastgood.rows import sealed

        marks = ", ".join("?" * (len(row) + 1))
        self._connection.execute(f"INSERT INTO lastgood_{table} VALUES ({marks})", sealed(row))

    def _line(self, thread: int, checkpoints: int) -> Iterator[tuple[object, ...]]:
        from lastgood.backends.sqlite.rows import folded
        from lastgood.rows import seal_of

        parent, parent_digest = b"", b""
        for seq in range(1, checkpoints + 1):
            row = self._checkpoint._replace(
                thread=thread,
                seq=seq,
                id=checkpoint_id(thread, seq),
                parent=parent,
                parent_digest=parent_digest,
                step=seq - 1,
                created_at=self._checkpoint.created_at + seq,
            )
            row = row._replace(digest=row.chained(AGENT))
            parent, parent_digest = row.id, row.digest
            yield folded(row, seal_of(row))
