"""Stores without a library: the floor, the JSON row of the tutorials, pickle files."""

import json
import os
import pickle
import sqlite3
from pathlib import Path
from typing import IO

from benchmarks.data import State
from benchmarks.scenarios import Delta, apply
from benchmarks.stores.interface import FULL, NORMAL, THREAD, Pragmas, Steps
from benchmarks.stores.spy import pragmas_of


class Floor(Steps):
    """The least that SQLite can do: a bare INSERT of what is new, committed."""

    def __init__(self, path: Path) -> None:
        super().__init__(path)
        import ormsgpack

        self._pack, self._unpack = ormsgpack.packb, ormsgpack.unpackb
        self._connection = sqlite3.connect(path, isolation_level=None)
        self._connection.execute("PRAGMA journal_mode=WAL")
        self._connection.execute(f"PRAGMA synchronous={self.synchronous}")
        self._connection.execute("CREATE TABLE IF NOT EXISTS step (id INTEGER PRIMARY KEY, data)")

    def begin(self, state: State) -> None:
        self._insert(state)

    def step(self, state: State, delta: Delta) -> str:  # noqa: ARG002
        return self._insert(delta)

    def _insert(self, value: State | Delta) -> str:
        row = self._connection.execute("INSERT INTO step (data) VALUES (?)", [self._pack(value)])
        return str(row.lastrowid)

    def restore(self, mark: str | None = None) -> State:
        upto = 1 << 62 if mark is None else int(mark)
        rows = self._connection.execute("SELECT data FROM step WHERE id <= ? ORDER BY id", [upto])
        state: State = self._unpack(next(rows)[0])
        for [data] in rows:
            apply(state, self._unpack(data))
        return state

    def pragmas(self) -> Pragmas:
        return {pragmas_of(self._connection)}

    def close(self) -> None:
        self._connection.close()


class RelaxedFloor(Floor):
    """The floor without a sync per commit."""

    synchronous = NORMAL


class JsonRows(Steps):
    """The loop of the tutorials: a row per step with the whole state as JSON."""

    def __init__(self, path: Path) -> None:
        super().__init__(path)
        self._step = 0
        self._connection = sqlite3.connect(path)
        self._connection.execute("PRAGMA synchronous=FULL")
        self._connection.execute(
            "CREATE TABLE IF NOT EXISTS checkpoints"
            " (thread_id TEXT, step INT, state TEXT, PRIMARY KEY (thread_id, step))"
        )

    def begin(self, state: State) -> None:
        self.step(state, [])

    def step(self, state: State, delta: Delta) -> str:  # noqa: ARG002
        self._step += 1
        self._connection.execute(
            "INSERT OR REPLACE INTO checkpoints VALUES (?, ?, ?)",
            (THREAD, self._step, json.dumps(state)),
        )
        self._connection.commit()
        return str(self._step)

    def restore(self, mark: str | None = None) -> State:
        [text] = self._connection.execute(
            "SELECT state FROM checkpoints WHERE thread_id = ? AND step <= ?"
            " ORDER BY step DESC LIMIT 1",
            (THREAD, 1 << 62 if mark is None else int(mark)),
        ).fetchone()
        state: State = json.loads(text)
        return state

    def pragmas(self) -> Pragmas:
        return {pragmas_of(self._connection)}

    def close(self) -> None:
        self._connection.close()


class PickleFiles(Steps):
    """A file per step with the whole state as a pickle: written beside, synced, renamed."""

    suffix = ".pickle"

    def __init__(self, path: Path) -> None:
        super().__init__(path)
        self._step = 0
        path.mkdir(exist_ok=True)
        self._directory = os.open(path, os.O_RDONLY)

    def begin(self, state: State) -> None:
        self.step(state, [])

    def step(self, state: State, delta: Delta) -> str:  # noqa: ARG002
        self._step += 1
        name = f"{self._step:06d}{self.suffix}"
        beside = self.path / "new"
        with beside.open("wb") as file:
            self.dump(state, file)
            file.flush()
            os.fsync(file.fileno())
        beside.rename(self.path / name)
        os.fsync(self._directory)
        return name

    def dump(self, state: State, file: IO[bytes]) -> None:
        """Write a state."""
        pickle.dump(state, file, protocol=5)

    def load(self, data: bytes) -> State:
        """Read one."""
        state: State = pickle.loads(data)
        return state

    def restore(self, mark: str | None = None) -> State:
        name = mark or max(path.name for path in self.path.iterdir())
        return self.load((self.path / name).read_bytes())

    def size(self) -> int:
        return sum(path.stat().st_size for path in self.path.iterdir())

    def pragmas(self) -> Pragmas:
        return {("fsync", FULL)}

    def close(self) -> None:
        os.close(self._directory)


class JsonFiles(PickleFiles):
    """The same as JSON."""

    suffix = ".json"

    def dump(self, state: State, file: IO[bytes]) -> None:
        file.write(json.dumps(state).encode())

    def load(self, data: bytes) -> State:
        state: State = json.loads(data)
        return state
