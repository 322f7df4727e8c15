"""A thread at one moment: what its file says, and which of the files beside it count.

Pure: the file and the names are passed in. The one invariant: a file that the file of the thread
does not account for is a stray, whatever its name and content say.
"""

from __future__ import annotations

import sys
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from lastgood.backends.files import thread_file
from lastgood.backends.files.checkpoint_file import Opened
from lastgood.backends.files.names import (
    PREPARED,
    THREAD,
    Place,
    directory_of,
    is_data,
    place_of,
    shelf_file,
    version_of,
)
from lastgood.backends.files.rows import Columns
from lastgood.backends.files.thread_file import ThreadFile
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
    rivals: Mapping[int, Place]
    """Files that claim the seq of another one: a merge of two copies of a store leaves them."""
    ids: Mapping[bytes, int]
    strays: tuple[str, ...]
    """Files that were never committed, or were removed."""
    listed_at: int
    """When the names had changed last."""

    @property
    def thread(self) -> Columns | None:
        return self.file.thread

    @property
    def key(self) -> int:
        return key_of(self.file)

    def path(self, seq: int) -> Path:
        """The file of a checkpoint; CheckpointIntegrityError if nobody knows which of two it is."""
        if seq in self.rivals:
            raise CheckpointIntegrityError(
                f"{self.directory} has two files for @{seq}: {self.places[seq].file} and "
                f"{self.rivals[seq].file}.",
                hint="Move the one away that is not of this store; two stores are put together by "
                "`lastgood copy`.",
            )
        return self.directory / self.places[seq].file

    def files(self) -> Iterator[Path]:
        """The files of checkpoints and items."""
        return (self.directory / name for name in self.names if is_data(name))

    def shelves(self) -> dict[str, Path]:
        """The files of its shelves."""
        return {shelf: self.directory / name for shelf, name in _shelf_files(self.file).items()}


def taken(directory: Path, raw: bytes | None, names: list[str], listed_at: int) -> Snapshot | None:
    """A thread, given its file and the names beside it; None if there is nothing of it."""
    if raw is None:
        if any(map(is_data, names)):
            raise CheckpointIntegrityError(
                f"{directory / THREAD} is missing, and other files of the thread are there.",
                hint="Put back a copy of the file.",
            )
        return None
    file = thread_file.read(raw, str(directory / THREAD))
    _check_place(directory, file)
    found = dict(_valid(file, names))
    ordered = sorted(found.values())
    places = {place.seq: place for place in ordered}
    rivals = {place.seq: place for place in ordered if place != places[place.seq]}
    named = found.keys() | set(_shelf_files(file).values())
    strays = tuple([name for name in names if name not in named and _is_ours(name)])
    _check_age(directory, file, strays)
    ids = {place.id: place.seq for place in ordered}
    return Snapshot(directory, raw, file, names, places, rivals, ids, strays, listed_at)


def _is_ours(name: str) -> bool:
    return is_data(name) or (name.startswith(".") and name.endswith(PREPARED))


def key_of(file: ThreadFile) -> int:
    """The number of a thread; 0 until its first commit."""
    key: Any = file.thread[0] if file.thread else 0
    return key  # type: ignore[no-any-return]


def _shelf_files(file: ThreadFile) -> dict[str, str]:
    key = key_of(file)
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


def _check_age(directory: Path, file: ThreadFile, strays: Iterable[str]) -> None:
    """An old copy of the file of a thread must not have what was saved since taken for strays.

    A save that was killed leaves the next numbers at most; a copy that is arriving may leave more.
    """
    row = intact(ThreadRow, file.thread) if file.thread else None
    if row is None or not row.live:
        return
    seq = max((place.seq for place in map(place_of, strays) if place is not None), default=row.seq)
    change = max((version for version in map(version_of, strays) if version), default=file.changes)
    if seq > row.seq + 1 or change > file.changes + 1:
        raise CheckpointIntegrityError(
            f"{directory / THREAD} is an old copy: it ends at @{row.seq} and change {file.changes} "
            f"of items, the files beside it at @{seq} and {change}.",
            hint="Put back the newest copy of the file; to go on from the old one, move the later "
            "files away.",
        )


def checked(snapshot: Snapshot, seq: int, found: Opened) -> Columns:
    """The columns of a row; of one that the file should not hold, under the names that the file has
    and without a seal: then it hides no other.
    """
    columns, thread = found.columns, snapshot.thread
    lanes = snapshot.file.tables["lanes"]
    agent = next((row[2] for row in lanes if row[1] == columns[3]), found.names.agent)
    place = (snapshot.key, seq, snapshot.places[seq].id)
    right = thread is not None and (*columns[:3], *found.names) == (*place, thread[2], agent)
    return columns if right else (*place, *columns[3:-1], b"")
