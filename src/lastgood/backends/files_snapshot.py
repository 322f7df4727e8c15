"""A thread at one moment: what its file says, and which of the files beside it count.

Pure: the file and the names are passed in. The one invariant: a file that the file of the thread
does not account for is a stray, whatever its name and content say.
"""

from __future__ import annotations

import sys
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from lastgood.backends import files_thread
from lastgood.backends.files_checkpoint import Opened
from lastgood.backends.files_names import (
    PREPARED,
    THREAD,
    Place,
    directory_of,
    is_data,
    place_of,
    shelf_file,
)
from lastgood.backends.files_rows import Columns
from lastgood.backends.files_thread import ThreadFile
from lastgood.errors import CheckpointIntegrityError
from lastgood.rows import DELETED, ThreadRow, intact

_STATE, _SEQ = (ThreadRow._fields.index(name) for name in ("state", "seq"))


@dataclass(frozen=True, slots=True)
class Snapshot:
    """A thread at one moment."""

    directory: Path
    raw: bytes
    file: ThreadFile
    names: list[str]
    """All files in its directory."""
    places: Mapping[int, Place]
    """The checkpoints that count, by seq, oldest first."""
    ids: Mapping[bytes, int]
    strays: tuple[str, ...]
    """Files that were never committed, or were removed."""

    @property
    def thread(self) -> Columns | None:
        return self.file.thread

    @property
    def key(self) -> int:
        return self.thread[0] if self.thread else 0  # type: ignore[return-value]

    def path(self, seq: int) -> Path:
        return self.directory / self.places[seq].file

    def shelves(self) -> dict[str, Path]:
        """The files of its shelves."""
        return {shelf: self.directory / name for shelf, name in _shelf_files(self.file).items()}


def taken(directory: Path, raw: bytes | None, names: list[str]) -> Snapshot | None:
    """A thread, given its file and the names beside it; None if there is nothing of it."""
    if raw is None:
        if any(map(is_data, names)):
            raise CheckpointIntegrityError(
                f"{directory / THREAD} is missing, and other files of the thread are there.",
                hint="Put back a copy of the file.",
            )
        return None
    file = files_thread.read(raw, str(directory / THREAD))
    _check_place(directory, file)
    found = dict(_valid(file, names))
    places = {place.seq: place for place in sorted(found.values())}
    named = found.keys() | set(_shelf_files(file).values())
    strays = tuple([name for name in names if name not in named and _is_ours(name)])
    ids = {place.id: seq for seq, place in places.items()}
    return Snapshot(directory, raw, file, names, places, ids, strays)


def _is_ours(name: str) -> bool:
    return is_data(name) or (name.startswith(".") and name.endswith(PREPARED))


def _shelf_files(file: ThreadFile) -> dict[str, str]:
    key: Any = file.thread[0] if file.thread else 0
    return {shelf: shelf_file(shelf, key, version) for shelf, version in file.items.items()}


def _valid(file: ThreadFile, names: list[str]) -> Iterator[tuple[str, Place]]:
    """Files of checkpoints that the thread accounts for."""
    row = file.thread
    if row is None or row[_STATE] == DELETED:
        return
    last, gone = row[_SEQ], set(file.removed)
    highest = last if isinstance(last, int) else sys.maxsize
    for name in names:
        place = place_of(name)
        if place is not None and place.seq <= highest and place.seq not in gone:
            yield name, place


def _check_place(directory: Path, file: ThreadFile) -> None:
    row = intact(ThreadRow, file.thread) if file.thread else None
    here = directory.parent.name, directory.name
    if row is not None and (directory_of(row.tenant), directory_of(row.name)) != here:
        raise CheckpointIntegrityError(
            f"{directory} holds thread {row.name!r}, which belongs into another directory.",
            hint="Move a copy out of the store; rename a directory back.",
        )


def checked(snapshot: Snapshot, seq: int, found: Opened) -> Columns:
    """The columns of a row; without a seal if the file is not the one that it should be."""
    columns, thread = found.columns, snapshot.thread
    lanes = snapshot.file.tables["lanes"]
    agent = next((row[2] for row in lanes if row[1] == columns[3]), found.names.agent)
    right = thread is not None and (*columns[:3], *found.names) == (
        *(thread[0], seq, snapshot.places[seq].id),
        *(thread[2], agent),
    )
    return columns if right else (*columns[:-1], b"")
