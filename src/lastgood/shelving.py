"""Putting items on the shelves of threads and listing them: operations over a `Core`.

The storage under whatever is kept beside checkpoints; it knows nothing of what the values mean.
"""

from __future__ import annotations

from collections.abc import AsyncIterator, Sequence
from dataclasses import replace

from lastgood.backend import ItemListing, Located
from lastgood.commits import Scope
from lastgood.core import Core
from lastgood.item_rules import ChangeItems, Outcome, SaveWithItems
from lastgood.rows import CheckpointRow, ItemRow

PAGE = 500
"""So many items are read at a time."""


async def change_items(core: Core, intent: ChangeItems) -> Outcome:
    """Put and drop items of one thread, all or none."""
    writes = await core.backend.commit(intent)
    assert isinstance(writes.answer, Outcome)
    return writes.answer


async def save_with_items(core: Core, intent: SaveWithItems) -> CheckpointRow:
    """Save a checkpoint and change items of its thread, all or none."""
    intent = replace(intent, save=await core.with_base(intent.save))
    writes = await core.backend.commit(intent)
    return core.committed(intent.save, writes)


async def list_items(
    core: Core, listings: Sequence[ItemListing], tenant: str | None = None
) -> list[list[ItemRow]]:
    """Live items of threads, one list for each listing."""
    if not listings:
        return []
    return await core.backend.items(tenant or core.tenant, listings)


async def tip_and_items(
    core: Core, agent: str, listing: ItemListing
) -> tuple[Located | None, list[ItemRow]]:
    """The head of an agent's current branch in a thread, and items of that."""
    scope = Scope(core.tenant, listing.thread, agent)
    found, (items,) = await core.backend.look_and_list(scope, [listing])
    return core.tip_of(found, agent), items


async def every_item(
    core: Core, listing: ItemListing, tenant: str | None = None
) -> AsyncIterator[ItemRow]:
    """All live items that a listing asks for, whatever its limit, page by page."""
    while True:
        page = (await list_items(core, [listing._replace(limit=PAGE)], tenant))[0]
        for row in page:
            yield row
        if len(page) < PAGE:
            return
        last = page[-1].key
        listing = listing._replace(before=last) if listing.reverse else listing._replace(after=last)
