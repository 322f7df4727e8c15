"""Copying a thread: new checkpoints under the same aliases, in the same order, with their writes.

Operations over a `Core`. Done twice it does no harm: a copy that was interrupted can be repeated.
"""

from __future__ import annotations

from lastgood.adapters.graph_names import RUNS, WRITES, Spot
from lastgood.adapters.langgraph.putting import Put, Putting
from lastgood.adapters.langgraph.reading import Reading, Row
from lastgood.adapters.langgraph.shapes import is_ours
from lastgood.alias_rules import SHELF, SaveAs, read_alias
from lastgood.backend import ItemListing, Listing
from lastgood.core import Core
from lastgood.ids import new_id
from lastgood.item_rules import ChangeItems, ItemDraft
from lastgood.rules import Draft, Save
from lastgood.shelving import change_items, every_item
from lastgood.tree import detached

BATCH = 500


class Copying:
    """Copies threads of one store."""

    def __init__(self, core: Core, reading: Reading, putting: Putting) -> None:
        self._core = core
        self._reading = reading
        self._putting = putting

    async def copy(self, source: str, target: str) -> None:
        """All checkpoints of graphs, their writes and stubs."""
        seq = 0
        while rows := await self._next(source, seq):
            for row in rows:
                await self._putting.put(await self._put(row, target))
            seq = rows[-1].located.row.seq
        await self._items(source, target)

    async def _next(self, thread: str, seq: int) -> list[Row]:
        """The next checkpoints behind a seq, oldest first."""
        found: list[Row] = []
        listing = Listing(thread, above=seq, limit=BATCH)
        while True:
            page = await self._core.backend.history(self._core.tenant, listing)
            found += [self._reading.row(one) for one in page if is_ours(one.row)]
            if len(page) < BATCH:
                return found[::-1]
            listing = listing._replace(before=page[-1].row.seq)

    async def _put(self, row: Row, thread: str) -> Put:
        loaded = await self._core.load(row.located)
        old = row.located.row
        draft = Draft(
            id=new_id(),
            agent=row.spot.lane,
            framework=old.framework,
            step=old.step,
            step_name=old.step_name,
            created_at=old.created_at,
            ttl=None,
            context=old.context,
            metadata=old.metadata,
            losses=old.losses,
            tree=detached(loaded.stored.tree),
        )
        spot = Spot(thread, row.spot.namespace)
        parent = row.context.parent
        owner = self._core.options.user
        save = Save(self._core.tenant, thread, draft, parent=None, owner=owner, switch=True)
        intent = SaveAs(
            save,
            spot.alias(row.context.id),
            parent=spot.alias(parent) if parent is not None else None,
        )
        return Put(spot, row.context, intent, None)

    async def _items(self, source: str, target: str) -> None:
        """Writes, notes of runs and stubs."""
        core, drafts = self._core, list[ItemDraft]()
        for shelf in (WRITES, RUNS, SHELF):
            async for row in every_item(core, ItemListing(source, shelf)):
                if shelf != SHELF or read_alias(row).stub:
                    drafts.append(ItemDraft(row.shelf, row.key, row.value, first_wins=True))
        for first in range(0, len(drafts), BATCH):
            some = tuple(drafts[first : first + BATCH])
            await change_items(core, ChangeItems(core.tenant, target, puts=some, opens=False))
