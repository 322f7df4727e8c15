"""A backend that stands in front of another one and passes everything on.

Wrappers derive from it and change what they are about. The one invariant: whatever a wrapper does
not mention goes to the record, the store that keeps the data.
"""

from __future__ import annotations

from collections.abc import Sequence

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
    News,
    Outline,
    Section,
    Sheet,
    ThreadEntry,
    ThreadListing,
)
from lastgood.commits import Found, Intent, Scope, Writes
from lastgood.reports import Problem
from lastgood.rows import ItemRow


class Wrapper(Backend):
    """Passes everything on."""

    def __init__(self, record: Backend) -> None:
        self.record = record
        self.blocking = record.blocking
        self.url = record.url
        self.pulse = record.pulse

    @property
    def durability(self) -> Durability:  # type: ignore[override]
        return self.record.durability

    async def commit(self, intent: Intent) -> Writes:
        return await self.record.commit(intent)

    async def look(self, scope: Scope) -> Found:
        return await self.record.look(scope)

    async def find(self, tenant: str, ids: Sequence[bytes]) -> dict[bytes, Located]:
        return await self.record.find(tenant, ids)

    async def history(self, tenant: str, listing: Listing) -> list[Located]:
        return await self.record.history(tenant, listing)

    async def parts(self, ranges: Sequence[Extents], *, checked: bool = False) -> list[list[bytes]]:
        return await self.record.parts(ranges, checked=checked)

    async def at(self, tenant: str, thread: str, seq: int) -> Located | None:
        return await self.record.at(tenant, thread, seq)

    async def lineage(self, tenant: str, id: bytes, limit: int) -> list[Located]:
        return await self.record.lineage(tenant, id, limit)

    async def outline(
        self, tenant: str, thread: str, *, only: Inside | None = None
    ) -> Outline | None:
        return await self.record.outline(tenant, thread, only=only)

    async def items(self, tenant: str, listings: Sequence[ItemListing]) -> list[list[ItemRow]]:
        return await self.record.items(tenant, listings)

    async def look_and_list(
        self, scope: Scope, listings: Sequence[ItemListing]
    ) -> tuple[Found, list[list[ItemRow]]]:
        return await self.record.look_and_list(scope, listings)

    async def threads(self, tenant: str, listing: ThreadListing) -> list[ThreadEntry]:
        return await self.record.threads(tenant, listing)

    async def census(self, tenant: str) -> Census:
        return await self.record.census(tenant)

    async def tenants(self) -> list[str]:
        return await self.record.tenants()

    async def survey(self, tenant: str, sections: Sequence[Section]) -> list[Sheet]:
        return await self.record.survey(tenant, sections)

    async def checkup(self) -> list[Problem]:
        return await self.record.checkup()

    async def footprints(self, tenant: str, threads: Sequence[int]) -> dict[int, Footprint]:
        return await self.record.footprints(tenant, threads)

    async def forget(self, thread: int) -> bool:
        return await self.record.forget(thread)

    async def tidy(self, tenant: str) -> bool:
        return await self.record.tidy(tenant)

    def news(self, tenant: str, thread: str) -> News | None:
        return self.record.news(tenant, thread)

    async def close(self) -> None:
        await self.record.close()
