"""Writes of threads that are not there yet: kept for a day, out of sight. Operations over a `Core`.

Whoever puts the first checkpoint of a thread, or of its graph, takes them over, right behind its
commit. A process that ends in between leaves that to who reads the checkpoint next: no write that
was acknowledged is lost.
"""

from __future__ import annotations

from lastgood.adapters.graph_names import WRITES, Spot
from lastgood.backend import ItemListing
from lastgood.core import Core
from lastgood.item_rules import ChangeItems, ItemDraft, hidden
from lastgood.rows import ItemRow
from lastgood.shelving import change_items, every_item

PARKED = 24 * 3600.0
"""Seconds for which they are kept."""


async def park(core: Core, thread: str, drafts: tuple[ItemDraft, ...]) -> None:
    """Keep writes until their thread begins."""
    parked = tuple(draft._replace(ttl=PARKED) for draft in drafts)
    await change_items(core, ChangeItems(hidden(core.tenant, "parked"), thread, puts=parked))


def may_be_parked(spot: Spot, parent: str | None, seq: int) -> bool:
    """Whether writes of a checkpoint may still be there: it is the first of its thread or graph.

    A thread may have been begun by a subgraph, whose checkpoints wait for none of the graph around
    it, or by somebody else who saves there.
    """
    return seq == 1 or (parent is None and not spot.namespace)


async def take_over(core: Core, thread: str) -> None:
    """Move parked writes into their thread."""
    tenant = hidden(core.tenant, "parked")
    rows = [row async for row in every_item(core, ItemListing(thread, WRITES), tenant)]
    if rows:
        drafts = tuple(_again(row) for row in rows)
        await change_items(core, ChangeItems(core.tenant, thread, puts=drafts, opens=False))
        # Not the whole of it: others may have been parked since the list was read.
        moved = tuple(row.place for row in rows)
        await change_items(core, ChangeItems(tenant, thread, drops=moved))


def _again(row: ItemRow) -> ItemDraft:
    return ItemDraft(row.shelf, row.key, row.value, row.text, first_wins=True)
