"""Rows in plain files, looked up like those in memory.

A thread is put on the shelves of a memory store when somebody asks for it; the rows of its
checkpoints are read from their files one by one. The one invariant: what was put on the shelves is
of one moment, thread by thread.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, MutableMapping, Sequence
from pathlib import Path
from typing import Any

from lastgood.backend import ItemListing, Located
from lastgood.backends.files import disk
from lastgood.backends.files.names import THREAD
from lastgood.backends.files.rows import Columns
from lastgood.backends.files.snapshot import Snapshot
from lastgood.backends.files.store import FileStore
from lastgood.backends.memory.shelves import Items, Shelves
from lastgood.backends.memory.tables import MemoryTables
from lastgood.backends.views import Listed, listed_thread
from lastgood.commits import Place
from lastgood.errors import CheckpointIntegrityError
from lastgood.ids import show_id
from lastgood.rows import CheckpointRow, ItemRow, ThreadRow, fields_of, intact, suspect, unsealed

_GONE, _FALLBACK = (fields_of(CheckpointRow).index(n) for n in ("parent_gone", "fallback"))
_KEYS: dict[str, Callable[[Columns], Any]] = {
    "lanes": lambda row: row[2],
    "branches": lambda row: (row[1], row[2]),
    "moves": lambda row: (row[1], row[2]),
    "tags": lambda row: row[1],
    "runs": lambda row: (row[3], row[1]),
}
"""What rows are found by on the shelves."""


class FileRows(MutableMapping[int, Columns]):
    """The rows of a thread's checkpoints by seq, and what a commit is about to change of them."""

    def __init__(self, store: FileStore, snapshot: Snapshot) -> None:
        self._store = store
        self._snapshot = snapshot
        self.changed: dict[int, Columns | None] = {}

    def __getitem__(self, seq: int) -> Columns:
        if seq in self.changed:
            found = self.changed[seq]
            if found is None:
                raise KeyError(seq)
            return found
        if seq not in self._snapshot.places:
            raise KeyError(seq)
        columns = self._store.row(self._snapshot, seq)
        orphan = self._snapshot.file.orphans.get(seq)
        if orphan is None or columns[-1] == b"":
            return columns
        row = list(columns)
        row[_GONE], row[_FALLBACK], row[-1] = 1, *orphan
        return tuple(row)

    def __setitem__(self, seq: int, columns: Columns) -> None:
        self.changed[seq] = columns

    def __delitem__(self, seq: int) -> None:
        self.changed[seq] = None

    def __iter__(self) -> Iterator[int]:
        return iter(self._snapshot.places)

    def __reversed__(self) -> Iterator[int]:
        return reversed(list(self._snapshot.places))

    def __len__(self) -> int:
        return len(self._snapshot.places)


class FileTables(MemoryTables):
    """Lookups in the threads that were asked for."""

    def __init__(self, store: FileStore, clock: int) -> None:
        super().__init__(Shelves(newest=store.clock.newest()), clock)
        self.store = store
        self.snapshots: dict[int, Snapshot] = {}
        """The threads on the shelves, by key."""
        self._seen: dict[Path, bytes | None] = {}
        self._taken_up: set[Path] = set()

    def outdated(self) -> bool:
        """Whether a thread has changed since it was put on the shelves."""
        seen = self._seen.items()
        return any(disk.read(place / THREAD) != raw for place, raw in seen)

    def load(self, place: Path) -> None:
        """Put a thread on the shelves."""
        if place in self._seen:
            return
        self._seen[place] = disk.read(place / THREAD)
        found = self._snapshot(place)
        self._seen[place] = found.raw if found else None
        if found is not None and found.thread is not None:
            self._shelve(found, found.thread)

    def _snapshot(self, place: Path) -> Snapshot | None:
        return self.store.snapshot(place)

    def _shelve(self, found: Snapshot, thread: Columns) -> None:
        key, shelves, tables = found.key, self.shelves, found.file.tables
        self.snapshots[key] = found
        shelves.threads[key] = thread
        shelves.names[str(thread[1]), str(thread[2])] = key
        for name, key_of in _KEYS.items():
            getattr(shelves, name)[key] = {key_of(row): row for row in tables[name]}
        shelves.checkpoints[key] = FileRows(self.store, found)  # type: ignore[assignment]
        for digest, at in found.file.large.items():
            if at.seq in found.places:
                shelves.large[key, digest] = at.spot

    def load_all(self, tenant: str) -> dict[Path, CheckpointIntegrityError]:
        """Put every thread of a tenant on the shelves; tells which cannot be read."""
        return self._load_below(self.store.tenant(tenant))

    def load_everything(self) -> dict[Path, CheckpointIntegrityError]:
        """The same for all tenants."""
        failed: dict[Path, CheckpointIntegrityError] = {}
        for tenant in self.store.tenants():
            failed |= self._load_below(tenant)
        return failed

    def _load_below(self, tenant: Path) -> dict[Path, CheckpointIntegrityError]:
        failed: dict[Path, CheckpointIntegrityError] = {}
        for place in self.store.threads(tenant):
            try:
                self.load(place)
            except CheckpointIntegrityError as error:
                failed[place] = error
        return failed

    # lookups that find a thread first

    def thread(self, tenant: str, name: str) -> ThreadRow | None:
        place = self.store.directory(tenant, name)
        self.load(place)
        found = next((f.thread for f in self.snapshots.values() if f.directory == place), None)
        return None if found is None else unsealed(ThreadRow, found)

    def load_key(self, key: int) -> Snapshot | None:
        """Put the thread with a key on the shelves."""
        if key not in self.snapshots:
            place = self.store.by_key(key)
            if place is not None:
                self.load(place)
        return self.snapshots.get(key)

    def thread_by_key(self, key: int) -> ThreadRow | None:
        self.load_key(key)
        return super().thread_by_key(key)

    def owned(self, id: bytes, tenant: str) -> tuple[CheckpointRow, ThreadRow] | None:
        found = super().owned(id, tenant)
        if found is not None:
            return found
        place = self.store.home(tenant, id)
        if place is not None:
            self.load(place)
        return super().owned(id, tenant)

    def by_id(self, tenant: str, id: bytes) -> Located | None:
        found = super().by_id(tenant, id)
        if found is None:
            self._account_for(tenant, id)
        return found

    def _account_for(self, tenant: str, id: bytes) -> None:
        """That an id is nowhere is believed only if no file is missing."""
        self.load_all(tenant)
        for found in self.snapshots.values():
            row = intact(ThreadRow, found.thread) if found.thread else None
            if row is not None and row.live and row.tenant == tenant:
                lacking = row.checkpoints - len(found.places)
                if lacking:
                    raise CheckpointIntegrityError(
                        f"checkpoint {show_id(id)} is not there, but {lacking} files are missing"
                        f" in {found.directory}: it may be one of them.",
                        hint="Put back copies of the files.",
                    )

    def checkpoints(self, id: bytes) -> list[CheckpointRow]:
        places = [(key, found.ids.get(id)) for key, found in self.snapshots.items()]
        rows = [self.checkpoint_at(key, seq) for key, seq in places if seq]
        return [row for row in rows if row is not None]

    def checkpoint(self, thread: int, id: bytes) -> CheckpointRow | None:
        found = self.load_key(thread)
        seq = found.ids.get(id) if found else None
        return None if seq is None else self.checkpoint_at(thread, seq)

    def _live(self, tenant: str) -> list[Listed]:
        failed, above = self.load_all(tenant), self.store.tenant(tenant)
        own = [
            f.thread for f in self.snapshots.values() if f.directory.parent == above and f.thread
        ]
        lost = [_unreadable(tenant, place, error) for place, error in failed.items()]
        return [each for each in map(listed_thread, own) if each.thread.live] + lost

    # items, shelf by shelf

    def load_items(self, thread: int, shelf: str | None = None) -> None:
        """Put the items of a thread on the shelves, those of one shelf or all."""
        snapshot = self.snapshots.get(thread)
        stored = self.shelves.items.setdefault(thread, Items())
        for name, path in snapshot.shelves().items() if snapshot else ():
            if shelf in (None, name) and path not in self._taken_up:
                self._taken_up.add(path)
                stored.update({(name, _hashable(row[2])): row for row in self.store.items(path)})

    def item(self, thread: int, shelf: str, key: bytes) -> ItemRow | None:
        self.load_items(thread, shelf)
        return super().item(thread, shelf, key)

    def item_columns(self, thread: int, places: Sequence[Place]) -> dict[Place, Sequence[object]]:
        for shelf in {shelf for shelf, _ in places}:
            self.load_items(thread, shelf)
        return super().item_columns(thread, places)

    def item_count(self, thread: int) -> int:
        self.load_items(thread)
        return super().item_count(thread)

    def scan_items(self, thread: int, listing: ItemListing, now: int) -> list[ItemRow]:
        self.load_items(thread, listing.shelf)
        return super().scan_items(thread, listing, now)

    # what a commit removes

    def children(self, row: CheckpointRow) -> list[CheckpointRow]:
        """The checkpoints that go back to one."""
        snapshot, shelf = self.snapshots[row.thread], self.shelves.checkpoints[row.thread]
        stored = [shelf.get(seq) for seq in snapshot.places if self._may_follow(seq, row)]
        rows = [unsealed(CheckpointRow, columns) for columns in stored if columns is not None]
        return [child for child in rows if row.id in (child.parent, child.fallback)]

    def _may_follow(self, seq: int, row: CheckpointRow) -> bool:
        """Whether a checkpoint may name another one; tells without reading its state."""
        snapshot, shelf = self.snapshots[row.thread], self.shelves.checkpoints[row.thread]
        assert isinstance(shelf, FileRows)
        if seq <= row.seq:
            return False
        changed = seq in shelf.changed or seq in snapshot.file.orphans
        return changed or self.store.mentions(snapshot, seq, row.id)


def _hashable(key: object) -> bytes:
    """The key of an item; of one that was changed into something else, whatever it is now."""
    return key if isinstance(key, bytes) else repr(key).encode()


def _unreadable(tenant: str, place: Path, error: CheckpointIntegrityError) -> Listed:
    """A thread of which the directory is all that can be told."""
    known: Sequence[object] = (0, tenant, place.name)
    zeros = (0,) * (len(fields_of(ThreadRow)) - len(known))
    return Listed(suspect((*known, *zeros, b"")), damage=error.message)
