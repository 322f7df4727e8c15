"""Commits to plain files: decided on the shelves, then written down file by file.

The order is the whole point. A checkpoint's file is put into its place and its name is made to
last; only then does the file of the thread take its new form, which is the commit. What was removed
is deleted after it. So whatever happens in between, the thread is as it was before or as it is
after, and files that it does not account for are swept by its next commit.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from itertools import chain
from pathlib import Path

from lastgood.backends.files import checkpoint_file, disk, items_file, thread_file
from lastgood.backends.files.checkpoint_file import Names, Opened, Pages
from lastgood.backends.files.names import THREAD, Place, shelf_file
from lastgood.backends.files.snapshot import Snapshot
from lastgood.backends.files.store import FileStore
from lastgood.backends.files.tables import FileRows, FileTables
from lastgood.backends.files.thread_file import ROWS, Large, Orphan, ThreadFile
from lastgood.backends.memory.shelves import Items, StoredPart
from lastgood.backends.memory.writes import MemoryWriter
from lastgood.backends.tables import met, taken
from lastgood.commits import NOTHING, Brought, Taken, Writes
from lastgood.errors import CheckpointIntegrityError, SerializationError, StorageError
from lastgood.manifest import Part, Spot, part_digest
from lastgood.pages import SLICE
from lastgood.rows import (
    CheckpointRow,
    ItemRow,
    ThreadRow,
    bereaved,
    fields_of,
    sealed,
    unsealed,
)

Failpoint = Callable[[str], None]
STREAMS = 24
"""A stream's number is the thread's key and a count of so many bits: no other thread has it."""
_FALLBACK = fields_of(CheckpointRow).index("fallback")


def changes(writes: Writes) -> bool:
    """Whether a decision writes anything."""
    return any(writes._replace(answer=None, opens=False))


class FileWriter(FileTables, MemoryWriter):
    """A commit to one thread, whose lock is held."""

    def __init__(self, store: FileStore, clock: int, place: Path, failpoint: Failpoint) -> None:
        super().__init__(store, clock)
        self._place = place
        self._failpoint = failpoint
        self._strays: tuple[str, ...] = ()
        self._opened: dict[Path, Opened] = {}
        self.load(place)
        self._before = next(iter(self.snapshots.values()), None)

    def _snapshot(self, place: Path) -> Snapshot | None:
        if place != self._place:
            return super()._snapshot(place)
        found = self.store.fresh(place)
        self._strays = found.strays if found else ()
        return found

    def taken(self, writes: Writes) -> Taken:
        ids = {each.row.id for each in writes.brought}
        tenant = writes.thread.tenant if writes.thread else ""
        known = met(self, writes) if ids and self.store.names_one_of(tenant, ids) else NOTHING
        return taken(self, writes, self._grown) | known

    def _grown(self, spot: Spot, count: int) -> bool:  # noqa: ARG002
        streams = self._before.file.streams if self._before else {}
        return spot.number <= streams.get(spot.stream, 0)

    def write(self, writes: Writes) -> Writes:
        if not changes(writes):
            return writes
        self._failpoint("before-write")
        if writes.thread is not None and writes.thread.thread == 0:
            key = self.store.next_key()
            self.shelves.last_thread, self.shelves.last_stream = key - 1, key << STREAMS
            self._before = None
        elif self._before is not None:
            known = self._before.file.streams
            self.shelves.last_stream = max(known, default=int(self._before.key) << STREAMS)
        for shelf in _shelves(writes):
            self.load_items(_key(writes), shelf)
        written = super().write(writes)
        self._carry_out(written)
        return written

    # on the shelves: removal knows its files, not only its rows

    def _remove(self, gone: dict[bytes, CheckpointRow]) -> None:
        for row in gone.values():
            for child in self.children(row):
                if child.id not in gone:
                    self._put(bereaved(child, gone))
        for row in gone.values():
            self._set(self.shelves.checkpoints[row.thread], row.seq)

    def _wipe(self, tombstone: ThreadRow) -> None:
        key = tombstone.thread
        for name in (*ROWS, "checkpoints", "items"):
            self._set(getattr(self.shelves, name), key)
        self._set(self.shelves.threads, key, sealed(tombstone))

    # into files

    def _carry_out(self, writes: Writes) -> None:
        made: list[Path] = []
        path, data = self._place / THREAD, b""
        try:
            self._sweep()
            self._prepare(writes, made)
            self._failpoint("after-write")
            data = thread_file.file_of(self._after(writes))
            made.append(self.store.disk.prepare(path, data))
            self._failpoint("before-commit")
            made[-1].replace(path)
        except BaseException:
            # Ctrl-C may come when the commit is over: then its files must stay.
            if disk.read(path) != data:
                disk.discard(made)
            raise
        self._make_last()
        self._failpoint("after-commit")
        for written, opened in self._opened.items():
            self.store.wrote(written, opened)
        self._delete(writes)

    def _make_last(self) -> None:
        try:
            self.store.disk.sync(self._place)
        except OSError as error:
            raise StorageError(
                f"the change is in {self._place}, but the disk did not take it: {error.strerror}.",
                hint="It may be gone after a power cut. Look at the head before you save again.",
            ) from error

    def _sweep(self) -> None:
        """Remove what an interrupted commit left, before its name is used again.

        What was removed before is forgotten from now on, so it must not come back either.
        """
        for name in self._strays:
            (self._place / name).unlink(missing_ok=True)
        if self._strays or (self._before is not None and self._before.file.removed):
            self.store.disk.sync(self._place)

    def _delete(self, writes: Writes) -> None:
        """Files of what was removed; one that stays is swept later."""
        gone = [self._place / Place(row.seq, row.id).file for row in writes.removed]
        if self._before is not None:
            shelves = self._before.shelves()
            if writes.wiped is not None:
                gone += self._before.files()
            gone += [shelves[shelf] for shelf in _shelves(writes) if shelf in shelves]
        disk.discard(gone)

    def _prepare(self, writes: Writes, made: list[Path]) -> None:
        """Put files into their places that nobody looks at yet."""
        files = dict(self._shelf_files(writes))
        files |= dict([self._checkpoint(given.row) for given in _new(writes)])
        if files and not (self._place / THREAD).exists():
            # From now on any file without that of the thread is damage.
            self.store.disk.put(self._place / THREAD, thread_file.file_of(ThreadFile()))
            self.store.disk.sync(self._place)
        for path, data in files.items():
            made.append(path)
            self.store.disk.put(path, data)
        if files:
            self.store.disk.sync(self._place)

    def _shelf_files(self, writes: Writes) -> Iterator[tuple[Path, bytes]]:
        """The files of the shelves that are changed, unless they are empty now."""
        key = _key(writes)
        for shelf in _shelves(writes):
            rows = list(self.shelves.items.get(key, Items()).between(shelf))
            if rows:
                name = shelf_file(shelf, key, self._version + 1)
                yield self._place / name, items_file.file_of(shelf, rows)

    @property
    def _version(self) -> int:
        return self._before.file.changes if self._before else 0

    def _checkpoint(self, row: CheckpointRow) -> tuple[Path, bytes]:
        """The file of a checkpoint."""
        path = self._place / Place(row.seq, row.id).file
        columns, parts = sealed(row), self._pages(row)
        lanes = {lane.number: lane.agent for lane in self.lanes(row.thread)}
        thread = unsealed(ThreadRow, self.shelves.threads[row.thread])
        names = Names(thread.name, lanes[row.lane])
        data = checkpoint_file.file_of(names, row, columns, parts)
        found = checkpoint_file.opened(data, str(path))
        if (found.columns, found.pages) != (columns, parts):
            raise SerializationError(
                "the state holds bytes that are not the codec's own: as text they would not come"
                " back. Keep ormsgpack's Ext and Fragment out of it.",
                path="state",
            )
        self._opened[path] = found._replace(checked=True)
        return path, data

    def _pages(self, row: CheckpointRow) -> Pages:
        """All pages of a checkpoint: those that the commit brings, and those of its forebears."""
        parts: dict[Spot, StoredPart] = {}
        new = self.shelves.parts
        while missing := set(checkpoint_file.spots_of(row, parts)) - parts.keys():
            parts |= {spot: new[spot] for spot in missing & new.keys()}
            parts |= self._stored(missing - new.keys(), row)
        return parts

    def _stored(self, spots: set[Spot], row: CheckpointRow) -> Pages:
        """Pages from the files of this thread, as few of them as possible."""
        found: dict[Spot, StoredPart] = {}
        for seq in self._holders(row, spots) if spots else ():
            found |= self._copies(seq, spots - found.keys())
            if len(found) == len(spots):
                break
        if len(found) < len(spots):
            raise CheckpointIntegrityError(
                f"{len(spots) - len(found)} pages that {row.label} takes over are damaged or lost.",
                hint="Restore an older checkpoint and go on from there.",
            )
        return found

    def _copies(self, seq: int, spots: set[Spot]) -> Iterator[tuple[Spot, StoredPart]]:
        """What the file of a checkpoint has of some pages, and has right."""
        assert self._before is not None, "only a thread has files"
        try:
            held = self.store.opened(self._before, seq)
        except CheckpointIntegrityError:
            return
        for spot in spots & held.pages.keys():
            part = held.pages[spot]
            if held.checked or part_digest(part.data) == part.digest:
                yield spot, part

    def _holders(self, row: CheckpointRow, spots: set[Spot]) -> Iterator[int]:
        """Checkpoints that may have what a new one takes over, the likely ones first."""
        before = self._before
        if before is not None:
            large = [at.seq for at in before.file.large.values() if at.spot in spots]
            likely = [before.ids.get(row.parent, 0), *large]
            seqs = dict.fromkeys((*likely, *reversed(list(before.places))))
            yield from (seq for seq in seqs if seq in before.places)

    def _after(self, writes: Writes) -> ThreadFile:
        """The file of the thread with everything that is on the shelves now."""
        key = _key(writes)
        if writes.wiped is not None:
            return ThreadFile(self.shelves.threads[key], dict.fromkeys(ROWS, ()))
        before = self._before.file if self._before else ThreadFile()
        removed = [row.seq for row in writes.removed]
        return ThreadFile(
            thread=self.shelves.threads[key],
            tables={
                name: tuple(getattr(self.shelves, name).get(key, {}).values()) for name in ROWS
            },
            streams=_numbered(before.streams, writes),
            large=_large(before, writes, removed),
            items=self._shelf_versions(before, writes, key),
            changes=self._version + bool(_shelves(writes)),
            orphans=self._orphans(before, key, removed),
            removed=tuple(removed),
        )

    def _shelf_versions(self, before: ThreadFile, writes: Writes, key: int) -> dict[str, int]:
        changed = _shelves(writes)
        filled = {shelf for shelf, _ in self.shelves.items.get(key, {})}
        kept = {shelf: n for shelf, n in before.items.items() if shelf not in changed}
        return kept | {shelf: self._version + 1 for shelf in changed if shelf in filled}

    def _orphans(self, before: ThreadFile, key: int, removed: list[int]) -> dict[int, Orphan]:
        rows: object = self.shelves.checkpoints.get(key)
        changed = rows.changed if isinstance(rows, FileRows) else {}
        found = {seq: old for seq, old in before.orphans.items() if seq not in removed}
        for seq, columns in changed.items():
            if columns is not None and self._before is not None and seq in self._before.places:
                found[seq] = Orphan(columns[_FALLBACK], columns[-1])  # type: ignore[arg-type]
        return found


def _new(writes: Writes) -> Iterator[Brought]:
    """The checkpoints that a commit adds."""
    if writes.checkpoint is not None:
        yield Brought(writes.checkpoint, writes.slots, writes.parts)
    yield from writes.brought


def _key(writes: Writes) -> int:
    """The thread that is written to."""
    found = (
        *(writes.thread, writes.wiped, writes.lane, writes.run, writes.move, writes.tag),
        *(writes.untagged, writes.checkpoint, *writes.branches, *writes.removed),
        *(*writes.items, *writes.dropped, *writes.rows),
    )
    return next(row.thread for row in found if row is not None)


def _shelves(writes: Writes) -> list[str]:
    """The shelves whose items change."""
    rows = (*writes.items, *writes.dropped, *writes.rows)
    return sorted({row.shelf for row in rows if isinstance(row, ItemRow)})


def _spots(given: Brought) -> Iterator[tuple[Spot, Part]]:
    """The parts that come with a checkpoint, and where they go."""
    for part in given.parts:
        yield Spot(given.slots[part.slot].stream, part.number), part


def _numbered(streams: Mapping[int, int], writes: Writes) -> dict[int, int]:
    """The highest number of every stream, after this commit's pages."""
    highest = dict(streams)
    for spot, _ in chain.from_iterable(map(_spots, _new(writes))):
        highest[spot.stream] = max(spot.number, highest.get(spot.stream, 0))
    return highest


def _large(before: ThreadFile, writes: Writes, removed: list[int]) -> dict[bytes, Large]:
    """Where large pages are, as long as the checkpoint is there that brought them."""
    found = {digest: at for digest, at in before.large.items() if at.seq not in removed}
    for given in _new(writes):
        large = ((spot, part) for spot, part in _spots(given) if len(part.data) >= SLICE)
        found |= {part.digest: Large(spot, given.row.seq) for spot, part in large}
    return found
