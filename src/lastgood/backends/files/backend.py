"""A store of plain files: one complete, readable JSON file for every checkpoint.

For looking at states with any tool, for keeping them under version control, for a disk that is all
there is. Each save writes the whole state, so it costs what the state takes, not what changed; so
does reading a row. Threads that are long or large belong into SQLite.

Writers to a thread take turns, by a lock on a file in its directory; readers take none. A save is
acknowledged when the files are synced and their names are. No pickle is read or written.
"""

from __future__ import annotations

import os
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import AbstractContextManager, suppress
from pathlib import Path
from typing import Literal, TypeVar

from lastgood.backend import (
    Backend,
    Census,
    Durability,
    Extents,
    Footprint,
    Inside,
    ItemListing,
    Listing,
    Located,
    Outline,
    Section,
    Sheet,
    ThreadEntry,
    ThreadListing,
)
from lastgood.backends import forking
from lastgood.backends.files import disk, surveys
from lastgood.backends.files.names import LOCK
from lastgood.backends.files.store import ATTEMPTS, FileStore
from lastgood.backends.files.tables import FileTables
from lastgood.backends.files.writes import FileWriter, changes
from lastgood.backends.memory import surveys as memory_surveys
from lastgood.commits import Found, Intent, Scope, Writes, decided
from lastgood.errors import LastgoodError
from lastgood.item_rules import belongs
from lastgood.manifest import Spot, check_parts
from lastgood.registry import in_address
from lastgood.reports import Problem
from lastgood.rows import ItemRow
from lastgood.serial import Turnstile

T = TypeVar("T")
Rows = TypeVar("Rows", bound=FileTables)


def _no_failpoint(name: str) -> None:
    """Called at each named point of a commit; fault tests put a kill in its place."""


class FilesBackend(Backend, forking.Forkable):
    """A store in a directory."""

    blocking = True
    copies = True

    def __init__(
        self,
        directory: str | os.PathLike[str] = "./lastgood",
        *,
        durability: Literal["strict", "relaxed"] = "strict",
        clock: Callable[[], int] = time.time_ns,
    ) -> None:
        self.directory = os.fspath(directory)
        if not self.directory:
            raise ValueError("the directory has no name. For the one you are in: '.'")
        self.url = f"files:{in_address(str(self.directory))}"
        self.durability: Durability = durability
        self.failpoint: Callable[[str], None] = _no_failpoint
        # The store stays where it is when the working directory changes.
        place = Path(self.directory).absolute()
        self.store = FileStore(place, strict=durability == "strict")
        self._clock = clock
        self._turn = Turnstile()
        forking.watch(self)

    def at_rest(self) -> AbstractContextManager[None]:
        return self._turn.held()

    def after_fork_in_child(self) -> None:
        self._turn = Turnstile()

    def now(self) -> int:
        """The host's clock in microseconds."""
        return self._clock() // 1000

    # committing

    async def commit(self, intent: Intent) -> Writes:
        try:
            return self._turn.run(lambda: self._commit(intent))
        except OSError as error:
            raise disk.translated(error, self.directory) from error

    def _commit(self, intent: Intent) -> Writes:
        place = self.store.directory(intent.scope.tenant, intent.scope.thread)
        if not place.exists():
            _, writes = self._decided(place, intent)
            if not changes(writes):
                return writes
            self.store.begin(self.now())
            self.store.disk.make(place)
        return disk.under_lock(place / LOCK, lambda: self._locked(place, intent))

    def _locked(self, place: Path, intent: Intent) -> Writes:
        rows, writes = self._decided(place, intent)
        if changes(writes):
            self.store.note_time(rows.clock)
        if not _concerns_others(writes, intent):
            return rows.write(writes)
        return self.store.under_lock(lambda: self._alone(place, intent))

    def _alone(self, place: Path, intent: Intent) -> Writes:
        """A commit that nobody else's to another thread may come between."""
        rows, writes = self._decided(place, intent)
        return rows.write(writes)

    def _decided(self, place: Path, intent: Intent) -> tuple[FileWriter, Writes]:
        """What a commit comes to; a thread whose lock is not held may change meanwhile."""
        return self._seen(
            lambda rows: (rows, decided(rows, intent)),
            lambda: FileWriter(self.store, self.now(), place, self.failpoint),
        )

    # reading

    def _read(self, work: Callable[[FileTables], T]) -> T:
        try:
            return self._seen(work, lambda: FileTables(self.store, self.now()))
        except OSError as error:
            raise disk.translated(error, self.directory) from error

    def _seen(self, work: Callable[[Rows], T], begin: Callable[[], Rows]) -> T:
        """Look at threads as they are; again, if one changed so that something was missing."""
        self.store.check_format()
        attempts = iter(range(ATTEMPTS))
        while True:
            rows = begin()
            try:
                return work(rows)
            except LastgoodError:
                if next(attempts, None) is None or not rows.outdated():
                    raise

    async def look(self, scope: Scope) -> Found:
        return self._read(lambda rows: rows.look(scope))

    async def find(self, tenant: str, ids: Sequence[bytes]) -> dict[bytes, Located]:
        return self._read(lambda rows: rows.find(tenant, ids))

    async def history(self, tenant: str, listing: Listing) -> list[Located]:
        return self._read(lambda rows: rows.history(tenant, listing))

    async def parts(self, ranges: Sequence[Extents], *, checked: bool = False) -> list[list[bytes]]:
        return self._read(lambda rows: [self._range(rows, each, checked) for each in ranges])

    def _range(self, rows: FileTables, extent: Extents, checked: bool) -> list[bytes]:
        """Parts from the file of the checkpoint that they are read for."""
        snapshot = rows.load_key(extent.thread)
        if snapshot is None or extent.seq not in snapshot.places:
            return []
        pages = self.store.opened(snapshot, extent.seq).pages
        stream, first = extent.first
        spots = (Spot(stream, number) for number in range(first, first + extent.length))
        found = [(spot, pages[spot]) for spot in spots if spot in pages]
        if checked:
            check_parts((spot, part.digest, part.data) for spot, part in found)
        return [part.data for _, part in found]

    async def at(self, tenant: str, thread: str, seq: int) -> Located | None:
        return self._read(lambda rows: rows.at(tenant, thread, seq))

    async def lineage(self, tenant: str, id: bytes, limit: int) -> list[Located]:
        return self._read(lambda rows: rows.lineage(tenant, id, limit))

    async def outline(
        self, tenant: str, thread: str, *, only: Inside | None = None
    ) -> Outline | None:
        return self._read(lambda rows: rows.outline(tenant, thread, only=only))

    async def items(self, tenant: str, listings: Sequence[ItemListing]) -> list[list[ItemRow]]:
        return self._read(lambda rows: rows.items(tenant, listings))

    async def threads(self, tenant: str, listing: ThreadListing) -> list[ThreadEntry]:
        return self._read(lambda rows: rows.threads(tenant, listing))

    async def census(self, tenant: str) -> Census:
        return self._read(lambda rows: self._census(rows, tenant))

    def _census(self, rows: FileTables, tenant: str) -> Census:
        about = self.store.about()
        failed = rows.load_everything()
        owners = {str(found.thread[1]) for found in rows.snapshots.values() if found.thread}
        alone = not failed and all(belongs(owner, tenant) for owner in owners)
        return Census(
            threads=memory_surveys.live_threads(rows.shelves, tenant),
            created_at=about.created_at if about else self.now(),
            disk=sum(_sizes(self.store.root)) if alone else None,
        )

    async def tenants(self) -> list[str]:
        return self._read(surveys.tenants)

    async def survey(self, tenant: str, sections: Sequence[Section]) -> list[Sheet]:
        return self._read(
            lambda rows: [surveys.sheet(rows, tenant, section) for section in sections]
        )

    async def checkup(self) -> list[Problem]:
        return self._read(lambda rows: list(surveys.checkup(rows)))

    async def footprints(self, tenant: str, threads: Sequence[int]) -> dict[int, Footprint]:  # noqa: ARG002
        return self._read(lambda rows: {key: surveys.footprint(rows, key) for key in threads})

    async def close(self) -> None:
        """Nothing is held between two calls."""


def _concerns_others(writes: Writes, intent: Intent) -> bool:
    """Whether it opens a thread, or takes an id that must be nowhere else."""
    opens = writes.thread is not None and writes.thread.thread == 0
    chosen = writes.checkpoint is not None and writes.checkpoint.id in intent.scope.ids
    return opens or chosen or bool(writes.brought)


def _sizes(root: Path) -> Iterator[int]:
    """What every file below a directory takes."""
    for path in root.rglob("*"):
        with suppress(FileNotFoundError):
            yield path.stat().st_size if path.is_file() else 0
