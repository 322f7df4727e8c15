"""The databases of LangGraph's own savers, read thread by thread and never written to."""

from __future__ import annotations

import json
import sqlite3
from abc import ABC, abstractmethod
from collections.abc import Mapping
from pathlib import Path
from typing import Any, NamedTuple

from langgraph.checkpoint.base import writes_sort_key

from lastgood.adapters.graph_names import Spot
from lastgood.adapters.langgraph.shapes import NewWrite
from lastgood.adapters.langgraph.stock import StockSerde
from lastgood.errors import BackendConnectionError, CheckpointNotFoundError, SerializationError
from lastgood.paths import render

Written = tuple[str, str, str, int]
"""Namespace and id of a checkpoint, task and number of a write."""


class Foreign(NamedTuple):
    """A checkpoint of another saver, decoded."""

    spot: Spot
    id: str
    parent: str | None
    checkpoint: Mapping[str, Any]
    metadata: Mapping[str, Any]
    writes: list[NewWrite]


class Source(ABC):
    """One database."""

    def __init__(self, serde: StockSerde) -> None:
        self.serde = serde

    @abstractmethod
    def threads(self) -> list[tuple[str, int]]:
        """The threads and how many checkpoints each has."""

    @abstractmethod
    def ids(self, thread: str) -> list[tuple[str, str]]:
        """Namespace and id of every checkpoint of a thread, oldest first."""

    @abstractmethod
    def checkpoint(self, spot: Spot, id: str) -> Foreign:
        """One of them."""

    @abstractmethod
    def writes(self, spot: Spot, id: str) -> list[NewWrite]:
        """The writes of a checkpoint."""

    @abstractmethod
    def written(self, thread: str) -> list[Written]:
        """Which writes there are in a thread."""

    @abstractmethod
    def size(self) -> int:
        """Bytes that it takes."""

    @abstractmethod
    def close(self) -> None: ...


_ONE = "WHERE thread_id = ? AND checkpoint_ns = ? AND checkpoint_id = ?"
_ONE_IN_POSTGRES = _ONE.replace("?", "%s")
_SENT = "__pregel_tasks"
_PARTS = _VALUES, _VERSIONS = "channel_values", "channel_versions"
_SENDS_ARE_A_CHANNEL = 4
"""The version of checkpoints since which what was sent is in them."""


class SqliteSource(Source):
    """The file of `SqliteSaver` or `AsyncSqliteSaver`."""

    def __init__(self, path: Path, serde: StockSerde) -> None:
        super().__init__(serde)
        if not path.exists():
            raise CheckpointNotFoundError(f"{path} does not exist.", hint="Give the file's path.")
        if not path.is_file():
            what = "a directory" if path.is_dir() else "a pipe, a socket or a device"
            raise BackendConnectionError(f"{path} is {what}.", hint="Give the file's path.")
        self._path = path
        self._file = sqlite3.connect(f"{path.absolute().as_uri()}?mode=ro", uri=True)
        try:
            self._path_column = self._column_of_paths()
        except BackendConnectionError:
            self._file.close()
            raise

    def _column_of_paths(self) -> str:
        """Older files have none. Raises BackendConnectionError if it is another kind of file."""
        columns = {row[1] for row in self._rows("PRAGMA table_info(writes)")}
        if not columns:
            raise BackendConnectionError(f"{self._path} is no file of LangGraph's SqliteSaver.")
        return "task_path" if "task_path" in columns else "''"

    def _rows(self, statement: str, *values: object) -> list[Any]:
        try:
            return self._file.execute(statement, values).fetchall()
        except sqlite3.Error as error:
            raise BackendConnectionError(f"{self._path} cannot be read: {error}.") from error

    def threads(self) -> list[tuple[str, int]]:
        return self._rows("SELECT thread_id, count(*) FROM checkpoints GROUP BY 1 ORDER BY 1")

    def ids(self, thread: str) -> list[tuple[str, str]]:
        return self._rows(
            "SELECT checkpoint_ns, checkpoint_id FROM checkpoints WHERE thread_id = ?"
            " ORDER BY checkpoint_id",
            thread,
        )

    def checkpoint(self, spot: Spot, id: str) -> Foreign:
        ((parent, kind, data, metadata),) = self._rows(
            f"SELECT parent_checkpoint_id, type, checkpoint, metadata FROM checkpoints {_ONE}",
            *(spot.thread, spot.namespace, id),
        )
        at = (spot.thread, id)
        checkpoint = _fields(self.serde.load(kind, data, at), at, *_PARTS)
        return Foreign(spot, id, parent, checkpoint, _about(metadata, at), self.writes(spot, id))

    def writes(self, spot: Spot, id: str) -> list[NewWrite]:
        rows = self._rows(
            f"SELECT task_id, {self._path_column}, idx, channel, type, value FROM writes {_ONE}",
            *(spot.thread, spot.namespace, id),
        )
        return [_write(self.serde, row, (spot.thread, id, "writes")) for row in rows]

    def written(self, thread: str) -> list[Written]:
        return self._rows(
            "SELECT checkpoint_ns, checkpoint_id, task_id, idx FROM writes WHERE thread_id = ?",
            thread,
        )

    def size(self) -> int:
        beside = (Path(f"{self._path}{suffix}") for suffix in ("", "-wal"))
        return sum(path.stat().st_size for path in beside if path.exists())

    def close(self) -> None:
        self._file.close()


def _fields(found: object, at: tuple[object, ...], *parts: str) -> Mapping[str, Any]:
    """What was read, if it has the shape that it must have; raises SerializationError."""
    if isinstance(found, Mapping) and all(isinstance(found.get(part), Mapping) for part in parts):
        return found
    lacks = " and ".join(parts)
    raise SerializationError(
        f"{render(at)} is no checkpoint" + (f" with {lacks}." if lacks else "'s metadata."),
        path=render(at),
        hint="LangGraph cannot read it either; remove that checkpoint there.",
    )


def _about(metadata: str | bytes | None, at: tuple[object, ...]) -> Mapping[str, Any]:
    """The metadata of a checkpoint, which a file has as JSON."""
    try:
        found = json.loads(metadata or "null")
    except ValueError:
        found = "unreadable"
    return _fields({} if found is None else found, (*at, "metadata"))


def _write(serde: StockSerde, row: Any, at: tuple[object, ...]) -> NewWrite:
    task, path, number, channel, kind, value = row
    data = bytes(value) if value is not None else None
    return NewWrite(task, path or "", number, channel, serde.load(kind, data, (*at, channel)))


def _with_sends(checkpoint: dict[str, Any], writes: list[NewWrite]) -> dict[str, Any]:
    """An old checkpoint, with what the step before it sent: it was kept among the writes alone.

    PostgresSaver puts it in as it reads, under the newest version that there is.
    """
    writes = sorted(writes, key=lambda write: writes_sort_key(write.path, write.task, write.number))
    sends = [write.value for write in writes if write.channel == _SENT]
    versions = checkpoint.get("channel_versions")
    if not sends or not versions:
        return checkpoint
    return {
        **checkpoint,
        "channel_values": {**checkpoint["channel_values"], _SENT: sends},
        "channel_versions": {**versions, _SENT: max(versions.values())},
    }


class PostgresSource(Source):
    """The tables of `PostgresSaver` or `AsyncPostgresSaver`."""

    def __init__(self, dsn: str, serde: StockSerde) -> None:
        super().__init__(serde)
        try:
            import psycopg
        except ImportError as error:
            raise BackendConnectionError(
                "PostgreSQL support is not installed.", hint='pip install "lastgood[postgres]"'
            ) from error
        try:
            self._connection = psycopg.connect(dsn, autocommit=True)
        except psycopg.Error as error:
            raise BackendConnectionError(
                f"the database cannot be reached ({type(error).__name__}).",
                hint="Check host, port, user and database of the DSN.",
            ) from None

    def _rows(self, statement: str, *values: object) -> list[Any]:
        import psycopg

        try:
            rows: list[Any] = self._connection.execute(statement, values).fetchall()
        except psycopg.errors.UndefinedTable as error:
            raise BackendConnectionError(
                "the database has no tables of LangGraph's PostgresSaver.",
                hint="Check the database of the DSN, and the search_path: "
                "?options=-csearch_path%3DSCHEMA",
            ) from error
        except psycopg.Error as error:
            raise BackendConnectionError(f"LangGraph's tables cannot be read: {error}.") from error
        return rows

    def threads(self) -> list[tuple[str, int]]:
        return self._rows("SELECT thread_id, count(*) FROM checkpoints GROUP BY 1 ORDER BY 1")

    def ids(self, thread: str) -> list[tuple[str, str]]:
        return self._rows(
            "SELECT checkpoint_ns, checkpoint_id FROM checkpoints WHERE thread_id = %s"
            ' ORDER BY checkpoint_id COLLATE "C"',
            thread,
        )

    def checkpoint(self, spot: Spot, id: str) -> Foreign:
        ((parent, stored, metadata),) = self._rows(
            "SELECT parent_checkpoint_id, checkpoint, metadata FROM checkpoints"
            f" {_ONE_IN_POSTGRES}",
            *(spot.thread, spot.namespace, id),
        )
        at = (spot.thread, id)
        stored = {**_fields(stored, at, _VERSIONS)}
        values = {**(stored.get(_VALUES) or {}), **self._blobs(spot, stored, at)}
        checkpoint = {**stored, _VALUES: values}
        if parent is not None and stored.get("v", 1) < _SENDS_ARE_A_CHANNEL:
            checkpoint = _with_sends(checkpoint, self.writes(spot, parent))
        about = _fields(metadata or {}, (*at, "metadata"))
        return Foreign(spot, id, parent, checkpoint, about, self.writes(spot, id))

    def writes(self, spot: Spot, id: str) -> list[NewWrite]:
        rows = self._rows(
            "SELECT task_id, task_path, idx, channel, type, blob FROM checkpoint_writes"
            f" {_ONE_IN_POSTGRES}",
            *(spot.thread, spot.namespace, id),
        )
        return [_write(self.serde, row, (spot.thread, id, "writes")) for row in rows]

    def written(self, thread: str) -> list[Written]:
        return self._rows(
            "SELECT checkpoint_ns, checkpoint_id, task_id, idx FROM checkpoint_writes"
            " WHERE thread_id = %s",
            thread,
        )

    def _blobs(self, spot: Spot, stored: Any, at: tuple[object, ...]) -> dict[str, Any]:
        versions = stored.get("channel_versions") or {}
        rows = self._rows(
            "SELECT b.channel, b.type, b.blob FROM checkpoint_blobs b"
            " JOIN unnest(%s::text[], %s::text[]) AS w(channel, version)"
            " ON b.channel = w.channel AND b.version = w.version"
            " WHERE b.thread_id = %s AND b.checkpoint_ns = %s",
            list(versions),
            [str(version) for version in versions.values()],
            spot.thread,
            spot.namespace,
        )
        return {
            channel: self.serde.load(kind, None if blob is None else bytes(blob), (*at, channel))
            for channel, kind, blob in rows
            if kind != "empty"
        }

    def size(self) -> int:
        tables = ("checkpoints", "checkpoint_blobs", "checkpoint_writes")
        return sum(
            self._rows("SELECT pg_total_relation_size(%s::regclass)", table)[0][0]
            for table in tables
        )

    def close(self) -> None:
        self._connection.close()
