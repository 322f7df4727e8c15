"""Surveys of plain files: rows as on the shelves, parts from every file that has a copy."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from contextlib import suppress
from pathlib import Path
from typing import Any, NamedTuple

from lastgood.backend import Columns, Footprint, Section, Sheet
from lastgood.backends.files import disk
from lastgood.backends.files.checkpoint_file import Pages, opened
from lastgood.backends.files.names import LOCK, THREAD, directory_of, place_of
from lastgood.backends.files.snapshot import Snapshot
from lastgood.backends.files.tables import FileTables
from lastgood.backends.memory import surveys as memory_surveys
from lastgood.backends.surveys import gathered, orphans, told
from lastgood.errors import CheckpointIntegrityError, LastgoodError
from lastgood.manifest import Spot, part_digest
from lastgood.reports import Problem
from lastgood.rows import DELETED, CheckpointRow, ItemRow, ThreadRow, fields_of

_TENANT, _STATE = (fields_of(ThreadRow).index(name) for name in ("tenant", "state"))
_SIZE, _MANIFEST = (fields_of(CheckpointRow).index(name) for name in ("size", "manifest"))

_VALUE = fields_of(ItemRow).index("value")


def sheet(tables: FileTables, tenant: str, section: Section) -> Sheet:
    """One section of a survey."""
    if section.table == "thread":
        return _threads(tables, tenant, section)
    snapshot = tables.load_key(section.owner)
    if snapshot is None:
        return Sheet([], None)
    if section.table == "stream":
        return Sheet([(stream,) for stream in snapshot.file.streams], None)
    if section.table == "large":
        found = snapshot.file.large.items()
        return Sheet([(d, *at.spot) for d, at in found if at.seq in snapshot.places], None)
    if section.table == "item":
        tables.load_items(section.owner)
    if section.table == "part":
        return _parts(tables, snapshot, section)
    return memory_surveys.sheet(tables.shelves, tenant, section)


def _threads(tables: FileTables, tenant: str, section: Section) -> Sheet:
    failed = _loaded(tables, tenant, section)
    found = memory_surveys.sheet(tables.shelves, tenant, section)
    if found.next is not None or section.beside:  # who verifies hears of them by `checkup`
        return found
    lost = [place for place in failed if place.parent == tables.store.tenant(tenant)]
    return found._replace(rows=[*found.rows, *(_lost(tenant, place) for place in lost)])


def _loaded(tables: FileTables, tenant: str, section: Section) -> Iterable[Path]:
    """Put the threads of a section on the shelves; tells which of many cannot be read."""
    if section.name is not None:
        tables.load(tables.store.directory(tenant, section.name))
    elif section.low == section.high:
        tables.load_key(section.low)
    else:
        return tables.load_everything()
    return ()


def _lost(tenant: str, place: Path) -> Columns:
    """The row of a thread of which the directory is all that can be told; no seal fits it."""
    known = (_key_in(place), tenant, place.name)
    return *known, *(None,) * (len(fields_of(ThreadRow)) - len(known)), b""


# parts: a copy that is right is shown before one that is not


class Held(NamedTuple):
    """What is known of a part, and the checkpoint whose file is asked for its data."""

    born: int
    size: int
    digest: bytes
    seq: int
    right: bool


def _parts(tables: FileTables, snapshot: Snapshot, section: Section) -> Sheet:
    held = _held(tables, snapshot).get(section.stream, {})
    wanted = [n for n in sorted(held) if section.low <= n <= section.high]
    shown = (_part(tables, snapshot, section, number, held[number]) for number in wanted)
    found, more = gathered(shown, section.limit)
    return Sheet(found, wanted[len(found) - 1] + 1 if more else None)


def _part(
    tables: FileTables, snapshot: Snapshot, section: Section, number: int, held: Held
) -> Columns:
    data = None
    if section.data:
        data = tables.store.opened(snapshot, held.seq).pages[Spot(section.stream, number)].data
    return number, held.born, held.size, held.digest, data


def _held(tables: FileTables, snapshot: Snapshot) -> dict[int, dict[int, Held]]:
    """All parts of a thread by stream and number; found once, for as long as no file changes."""
    seen = snapshot.raw, tables.store.signatures(snapshot)
    if tables.store.held is None or tables.store.held[0] != seen:
        held: dict[int, dict[int, Held]] = {}
        for seq, pages in _copies(tables, snapshot):
            for (stream, number), part in pages.items():
                known = held.setdefault(stream, {}).get(number)
                if known is None or not known.right:
                    right = part_digest(part.data) == part.digest
                    if known is None or right:
                        size = len(part.data)
                        held[stream][number] = Held(part.born, size, part.digest, seq, right)
        tables.store.held = seen, held
    return tables.store.held[1]


def _copies(tables: FileTables, snapshot: Snapshot) -> Iterator[tuple[int, Pages]]:
    """The pages of every checkpoint whose file can be read, the newest first."""
    for seq in reversed(list(snapshot.places)):
        try:
            yield seq, tables.store.opened(snapshot, seq).pages
        except CheckpointIntegrityError:
            continue  # its row is reported


def footprint(tables: FileTables, key: int) -> Footprint:
    """What a thread takes: every part counts once, in however many files it is."""
    snapshot = tables.load_key(key)
    if snapshot is None:
        return Footprint(0, 0, 0, 0)
    rows: list[Any] = []
    sizes: dict[Spot, int] = {}
    for seq in snapshot.places:
        try:
            found = tables.store.opened(snapshot, seq)
        except CheckpointIntegrityError:
            continue
        rows.append(found.columns)
        sizes.update({spot: len(part.data) for spot, part in found.pages.items()})
    return Footprint(
        checkpoints=len(rows),
        logical=sum(row[_SIZE] for row in rows),
        inline=sum(len(row[_MANIFEST]) for row in rows),
        parts=sum(sizes.values()),
        items=_item_bytes(tables, key),
    )


def _item_bytes(tables: FileTables, key: int) -> int:
    tables.load_items(key)
    rows: list[Any] = list(tables.shelves.items.get(key, {}).values())
    return sum(len(row[_VALUE]) for row in rows if isinstance(row[_VALUE], bytes))


# who has threads


def tenants(tables: FileTables) -> list[str]:
    """Who has a thread that was not deleted; of each directory one file is read that tells it."""
    return told(_tenant(tables, place) for place in tables.store.tenants())


def _tenant(tables: FileTables, directory: Path) -> str | None:
    """Whose a directory is. Of some names it is the name itself, whatever is left inside."""
    damaged = False
    for place in tables.store.threads(directory):
        try:
            found = tables.store.snapshot(place)
        except CheckpointIntegrityError:
            damaged = True
            continue
        row = found.thread if found is not None else None
        if row is None or row[_STATE] == DELETED:
            continue
        name = row[_TENANT]
        if isinstance(name, str) and directory_of(name) == directory.name:
            return name
        damaged = True
    return directory.name if damaged and directory_of(directory.name) == directory.name else None


# the store as a whole


def checkup(tables: FileTables) -> Iterator[Problem]:
    """What is not right with the store itself, its threads, and what deleted ones left."""
    try:
        tables.store.about()
    except LastgoodError as error:
        yield Problem("file", "store", error.message)
    try:
        tables.store.clock.check()
    except CheckpointIntegrityError as error:
        yield Problem("file", "store", error.message, repairable=True)
    yield from map(_unreadable, tables.load_everything())
    for key, snapshot in tables.snapshots.items():
        deleted = snapshot.thread is not None and snapshot.thread[_STATE] == DELETED
        if deleted and _seqs(snapshot.strays) and (seqs := _left_behind(tables, snapshot)):
            yield orphans("checkpoint", key, seqs, deleted=True)


def _left_behind(tables: FileTables, snapshot: Snapshot) -> list[int]:
    """Files of a deleted thread that nobody is about to remove: the lock is free."""
    place = snapshot.directory
    found = disk.under_lock(place / LOCK, lambda: tables.store.fresh(place))
    return _seqs(found.strays) if found and found.raw == snapshot.raw else []


def _seqs(names: Iterable[str]) -> list[int]:
    return sorted(place.seq for place in map(place_of, names) if place is not None)


def _unreadable(place: Path) -> Problem:
    key, seqs = _key_in(place), _seqs(disk.names_in(place))
    if not (place / THREAD).exists():
        return orphans("checkpoint", key, seqs, deleted=False)
    named = tuple(f"#{key}@{seq}" for seq in seqs)
    message = "the file of the thread cannot be read, or is not of this place or this store."
    return Problem("file", f"thread #{key}", message, named)


def _key_in(place: Path) -> int:
    """The key of a thread, as one of its checkpoints tells it; 0 if none does."""
    for name in sorted(filter(place_of, disk.names_in(place))):
        with suppress(CheckpointIntegrityError):
            raw = disk.read(place / name)
            key = opened(raw, name).columns[0] if raw else None
            if isinstance(key, int):
                return key
    return 0
