"""A store in this process: dicts under one lock. Encodes and seals like the rest.

The reference for what the rules mean: no SQL, no file, the same rows and the same answers. Ends
with the process; a forked child goes on with a copy of its own.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from contextlib import AbstractContextManager

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
from lastgood.backends.memory import surveys
from lastgood.backends.memory.shelves import Shelves
from lastgood.backends.memory.tables import MemoryTables
from lastgood.backends.memory.writes import MemoryWriter
from lastgood.commits import Found, Intent, Scope, Writes, decided
from lastgood.manifest import Spot, check_parts
from lastgood.reports import Problem
from lastgood.rows import ItemRow
from lastgood.serial import Turnstile


class MemoryBackend(Backend, forking.Forkable):
    """A store that lives as long as this object."""

    blocking = True
    url = "memory:"
    durability: Durability = "none"

    def __init__(self, *, clock: Callable[[], int] = time.time_ns) -> None:
        self.shelves = Shelves()
        self._clock = clock
        self._lock = Turnstile()
        self._created_at = self.now()
        forking.watch(self)

    def at_rest(self) -> AbstractContextManager[None]:
        return self._lock.held()

    def after_fork_in_child(self) -> None:
        self._lock = Turnstile()

    def now(self) -> int:
        """The host's clock in microseconds."""
        return self._clock() // 1000

    def _tables(self) -> MemoryTables:
        return MemoryTables(self.shelves, self.now())

    async def commit(self, intent: Intent) -> Writes:
        return self._lock.run(lambda: self._commit(intent))

    def _commit(self, intent: Intent) -> Writes:
        rows = MemoryWriter(self.shelves, self.now())
        return rows.write(decided(rows, intent))

    async def look(self, scope: Scope) -> Found:
        return self._lock.run(lambda: self._tables().look(scope))

    async def find(self, tenant: str, ids: Sequence[bytes]) -> dict[bytes, Located]:
        return self._lock.run(lambda: self._tables().find(tenant, ids))

    async def history(self, tenant: str, listing: Listing) -> list[Located]:
        return self._lock.run(lambda: self._tables().history(tenant, listing))

    async def parts(self, ranges: Sequence[Extents], *, checked: bool = False) -> list[list[bytes]]:
        return self._lock.run(lambda: [self._range(extent, checked) for extent in ranges])

    def _range(self, extent: Extents, checked: bool) -> list[bytes]:
        stream, first = extent.first
        spots = (Spot(stream, number) for number in range(first, first + extent.length))
        found = [(s, self.shelves.parts[s]) for s in spots if s in self.shelves.parts]
        if checked:
            check_parts((spot, part.digest, part.data) for spot, part in found)
        return [part.data for _, part in found]

    async def at(self, tenant: str, thread: str, seq: int) -> Located | None:
        return self._lock.run(lambda: self._tables().at(tenant, thread, seq))

    async def lineage(self, tenant: str, id: bytes, limit: int) -> list[Located]:
        return self._lock.run(lambda: self._tables().lineage(tenant, id, limit))

    async def outline(
        self, tenant: str, thread: str, *, only: Inside | None = None
    ) -> Outline | None:
        return self._lock.run(lambda: self._tables().outline(tenant, thread, only=only))

    async def items(self, tenant: str, listings: Sequence[ItemListing]) -> list[list[ItemRow]]:
        return self._lock.run(lambda: self._tables().items(tenant, listings))

    async def threads(self, tenant: str, listing: ThreadListing) -> list[ThreadEntry]:
        return self._lock.run(lambda: self._tables().threads(tenant, listing))

    async def census(self, tenant: str) -> Census:
        live = self._lock.run(lambda: surveys.live_threads(self.shelves, tenant))
        return Census(live, self._created_at)

    async def tenants(self) -> list[str]:
        return self._lock.run(lambda: surveys.tenants(self.shelves))

    async def survey(self, tenant: str, sections: Sequence[Section]) -> list[Sheet]:
        return self._lock.run(
            lambda: [surveys.sheet(self.shelves, tenant, section) for section in sections]
        )

    async def checkup(self) -> list[Problem]:
        return self._lock.run(lambda: list(surveys.checkup(self.shelves)))

    async def footprints(self, tenant: str, threads: Sequence[int]) -> dict[int, Footprint]:  # noqa: ARG002
        return self._lock.run(
            lambda: {key: surveys.footprint(self.shelves, key) for key in threads}
        )

    async def close(self) -> None:
        """Nothing to let go of: the data is this object."""
