"""A directory of plain files: where what is, read as it stands at one moment.

    lastgood.json                       what this directory is; how many threads it ever had
    clock.json                          the newest time of any change, see `files.clock`
    threads/TENANT/THREAD/thread.json   a thread, see `files.thread_file`
    threads/TENANT/THREAD/SEQ-ID.json   a checkpoint, see `files.checkpoint_file`

Nothing is locked to read. The file of a thread and the names beside it are read until they fit
together; a checkpoint's file never changes, so what they say stays true for as long as it is there.
"""

from __future__ import annotations

from collections.abc import Callable
from contextlib import suppress
from dataclasses import replace
from pathlib import Path
from typing import Any, NamedTuple, TypeVar

from lastgood.backends.files import checkpoint_file, disk, items_file, thread_file
from lastgood.backends.files.checkpoint_file import Opened
from lastgood.backends.files.clock import StoreClock
from lastgood.backends.files.names import LOCK, STORE, THREAD, THREADS, directory_of, place_of
from lastgood.backends.files.recent import Recent, Signature, missing, signature_of
from lastgood.backends.files.rows import Columns
from lastgood.backends.files.snapshot import Snapshot, checked, key_of, taken
from lastgood.codec import text
from lastgood.errors import (
    CheckpointIntegrityError,
    IncompatibleCheckpointError,
    LastgoodError,
    TransientStorageError,
)
from lastgood.ids import show_id
from lastgood.integrity import seal

T = TypeVar("T")
FORMAT = 1
_PUT_BACK = "Put back a copy of the file; `lastgood verify` tells what else is damaged."
ATTEMPTS = 100
"""How often a thread that is being changed is read again."""
ROWS, PAGES = 16 << 20, 64 << 20
"""Bytes of rows, and of whole files with their pages, that are remembered."""
THREADS_KNOWN = 4096
"""So many threads are remembered as they were last read."""
HOMES = 10_000
"""So many ids are remembered with the thread that they were found in."""


class StoreFile(NamedTuple):
    """What the file at the top says."""

    created_at: int
    threads: int
    """The key of the youngest thread."""


class FileStore:
    """One directory, and what was read from it."""

    def __init__(self, root: Path, *, strict: bool) -> None:
        self.root = root
        self.disk = disk.Disk(strict=strict)
        self.clock = StoreClock(root, self.disk)
        self._snapshots: dict[Path, Snapshot] = {}
        self._rows: Recent[Columns] = Recent(ROWS)
        self._files: Recent[Opened] = Recent(PAGES)
        self._shelves: Recent[tuple[Columns, ...]] = Recent(ROWS)
        self._homes: dict[bytes, Path] = {}
        self._keys: dict[int, Path] = {}
        self._is_known = False
        """Whether the store was seen to be of our format."""
        self.held: tuple[object, Any] | None = None
        """Which parts are where in the thread that was surveyed last; see `files.surveys`."""

    # where things are

    def directory(self, tenant: str, thread: str) -> Path:
        """The directory of a thread, there or not."""
        return self.tenant(tenant) / directory_of(thread)

    def tenant(self, tenant: str) -> Path:
        return self.root / THREADS / directory_of(tenant)

    def tenants(self) -> list[Path]:
        """The directories of all tenants."""
        return _below(self.root / THREADS)

    def threads(self, tenant: Path) -> list[Path]:
        """The directories of a tenant's threads."""
        return _below(tenant)

    def by_key(self, key: int) -> Path | None:
        """The directory of the thread with a key."""
        known = self._keys.get(key)
        if known is not None and self._is_of(key, known):
            return known
        places = (place for tenant in self.tenants() for place in self.threads(tenant))
        return next((place for place in places if self._is_of(key, place)), None)

    def _is_of(self, key: int, place: Path) -> bool:
        try:
            found = self.snapshot(place)
        except CheckpointIntegrityError:
            return False
        return found is not None and found.key == key

    def home(self, tenant: str, id: bytes) -> Path | None:
        """The directory of the thread that has a checkpoint, among those of a tenant."""
        known, above = self._homes.get(id), self.tenant(tenant)
        if known is not None and known.parent == above and self._has(known, id):
            return known
        for place in self.threads(above):
            if self._has(place, id):
                self.remember(id, place)
                return place
        return None

    def names_one_of(self, tenant: str, ids: set[bytes]) -> bool:
        """Whether there is a file with one of these ids, committed or not."""
        places = self.threads(self.tenant(tenant))
        found = (place_of(name) for place in places for name in disk.names_in(place))
        return any(place.id in ids for place in found if place is not None)

    def _has(self, place: Path, id: bytes) -> bool:
        """Whether a thread has a checkpoint: a file alone may be left of a save that was killed."""
        ending = f"-{show_id(id)}.json"
        if not any(name.endswith(ending) for name in disk.names_in(place)):
            return False
        found = self.snapshot(place)
        return found is not None and id in found.ids

    def remember(self, id: bytes, place: Path) -> None:
        """Note which thread has a checkpoint: the next search begins there."""
        if len(self._homes) > HOMES:
            self._homes.clear()
        self._homes[id] = place

    # what is in them

    def snapshot(self, directory: Path) -> Snapshot | None:
        """A thread as it is; None if there is none."""
        known = self._snapshots.get(directory)
        raw = disk.read(directory / THREAD)
        # Files come and go by other hands too: one that was lost may have been put back.
        if known is not None and (known.raw, known.listed_at) == (
            raw,
            disk.changed_at(directory),
        ):
            return known
        return self.fresh(directory)

    def fresh(self, directory: Path) -> Snapshot | None:
        """The same, with the names of its files looked up anew."""
        for _ in range(ATTEMPTS):
            raw, listed_at = disk.read(directory / THREAD), disk.changed_at(directory)
            names = disk.names_in(directory)
            if raw == disk.read(directory / THREAD):
                known = self._snapshots.get(directory)
                if known is not None and (known.raw, known.names) == (raw, names):
                    return self._kept(replace(known, listed_at=listed_at))
                found = taken(directory, raw, names, listed_at)
                return None if found is None else self._kept(found)
        raise TransientStorageError(f"{directory} never stands still.", hint="Try again.")

    def _kept(self, found: Snapshot) -> Snapshot:
        if len(self._snapshots) > THREADS_KNOWN:
            self._snapshots.clear()
            self._keys.clear()
        self._check_alone(found)
        self._snapshots[found.directory] = found
        self._keys[found.key] = found.directory
        return found

    def _check_alone(self, found: Snapshot) -> None:
        """Pages are found by the number of their thread, so no two threads may have the same."""
        other, here = self._keys.get(found.key), found.directory
        if other is None or other == here or _key_at(other) != found.key or not found.key:
            return
        twin = other if other.parent == here.parent else "a thread of another tenant"
        raise CheckpointIntegrityError(
            f"{here} has the number of {twin}: one of them came from another store.",
            hint="Move that one out; two stores are put together by `lastgood copy`.",
        )

    def opened(self, snapshot: Snapshot, seq: int) -> Opened:
        """The file of a checkpoint with its pages."""
        path = snapshot.path(seq)
        signature = signature_of(path)
        found = self._files.get(path, signature)
        if found is None:
            found = self._read(path, signature)
        return found

    def row(self, snapshot: Snapshot, seq: int) -> Columns:
        """The row of a checkpoint as its file has it; one whose names are not right has no seal."""
        path = snapshot.path(seq)
        signature = signature_of(path)
        found = self._rows.get(path, signature)
        if found is None:
            found = checked(snapshot, seq, self.opened(snapshot, seq))
            weight = 1024 + sum(len(each) for each in found if isinstance(each, bytes | str))
            self._rows.put(path, signature, weight, found)
        return found

    def items(self, path: Path) -> tuple[Columns, ...]:
        """The items in the file of a shelf."""
        signature = signature_of(path)
        found = self._shelves.get(path, signature)
        if found is None:
            found = items_file.read(disk.read(path) or b"", str(path))
            self._shelves.put(path, signature, 4 * signature[1], found)
        return found

    def signatures(self, snapshot: Snapshot) -> list[Signature]:
        """What changes when a file of a checkpoint does."""
        alone = snapshot.places.keys() - snapshot.rivals.keys()
        return [signature_of(snapshot.path(seq)) for seq in alone]

    def _read(self, path: Path, signature: Signature) -> Opened:
        raw = disk.read(path)
        if raw is None:
            raise missing(path)
        found = checkpoint_file.opened(raw, str(path))
        self._files.put(path, signature, 2 * found.size, found)
        return found

    def wrote(self, path: Path, opened: Opened) -> None:
        """A file that this store has just put into its place."""
        self._files.put(path, signature_of(path), 2 * opened.size, opened)
        self.remember(opened.columns[2], path.parent)  # type: ignore[arg-type]

    def mentions(self, snapshot: Snapshot, seq: int, id: bytes) -> bool:
        """Whether the row of a checkpoint may name an id; without reading its state."""
        raw = disk.read(snapshot.path(seq)) or b""
        return show_id(id).encode() in raw[: raw.find(b'\n "state": ')]

    # the file at the top

    def about(self) -> StoreFile | None:
        """What the store says of itself; None if there is none yet."""
        path = self.root / STORE
        raw = disk.read(path)
        if raw is None and self.tenants():
            raw = disk.read(path)  # another process may have begun between the two looks
            if raw is None:
                raise CheckpointIntegrityError(
                    f"{path} is missing, and threads are there.",
                    hint="Put back a copy of the file.",
                )
        return None if raw is None else _about(raw, path)

    def check_format(self) -> None:
        """Refuse a store of another version; damage is told by what it hurts."""
        if not self._is_known:
            with suppress(CheckpointIntegrityError):
                self._is_known = self.about() is not None

    def begin(self, now: int) -> None:
        """See to it that there is a store."""
        if self.about() is None:
            self.disk.make(self.root)
            self.under_lock(lambda: self._begin(now))

    def _begin(self, now: int) -> None:
        if self.about() is None:
            self._tell(StoreFile(now, 0))

    def next_key(self) -> int:
        """The key of a new thread. The caller holds the lock of the store."""
        told = self.about()
        assert told is not None, "a store begins before its first thread"
        self._tell(told._replace(threads=told.threads + 1))
        return told.threads + 1

    def _tell(self, told: StoreFile) -> None:
        document = {"lastgood": "files", "format": FORMAT, **told._asdict(), "seal": _seal(told)}
        self.disk.put(self.root / STORE, f"{text.lines(document)}\n".encode())
        self.disk.sync(self.root)

    def note_time(self, now: int) -> None:
        """Keep the newest time of any change, to a second. The lock of the store must be free."""
        if self.clock.is_behind(now):
            self.under_lock(lambda: self.clock.note(now))

    def under_lock(self, work: Callable[[], T]) -> T:
        """Work while no other thread is opened, and no id is chosen elsewhere."""
        return disk.under_lock(self.root / LOCK, work)


def _below(directory: Path) -> list[Path]:
    names = sorted(disk.names_in(directory))
    return [directory / name for name in names if not name.startswith(".")]


def _key_at(directory: Path) -> int:
    """The number of a thread as its file tells it now; 0 if it does not."""
    raw = disk.read(directory / THREAD)
    try:
        return 0 if raw is None else key_of(thread_file.read(raw, str(directory)))
    except CheckpointIntegrityError:
        return 0


def _seal(told: StoreFile) -> str:
    return seal("store", list(told)).hex()


def _about(raw: bytes, path: Path) -> StoreFile:
    try:
        document: dict[str, Any] = text.parse(raw.decode())
        kind, format_ = document["lastgood"], document["format"]
        found = StoreFile(document["created_at"], document["threads"])
        whole = document["seal"] == _seal(found)
    except (LastgoodError, LookupError, TypeError, ValueError) as error:
        raise CheckpointIntegrityError(f"{path} is damaged: {error}", hint=_PUT_BACK) from error
    if (kind, format_) != ("files", FORMAT):
        raise IncompatibleCheckpointError(
            f"{path} has format {format_!r}; this version reads {FORMAT}.",
            hint="Upgrade lastgood, or use the version that wrote it.",
        )
    if not whole:
        message = f"{path} was changed by something else than Lastgood."
        raise CheckpointIntegrityError(message, hint=_PUT_BACK)
    return found
