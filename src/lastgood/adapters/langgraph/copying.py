"""Copying a thread: new checkpoints under the same aliases, in the same order, with their writes.

Operations over a `Core`. They are on branches of the same names, and the copy goes on where its
source does. Done twice it does no harm: a copy that was interrupted can be repeated.
"""

from __future__ import annotations

from lastgood.adapters.graph_names import RUNS, WRITES, Spot
from lastgood.adapters.langgraph.putting import Put, Putting
from lastgood.adapters.langgraph.reading import Reading, Row
from lastgood.adapters.langgraph.shapes import PARENT, Context, is_ours
from lastgood.alias_rules import SHELF, SaveAs, read_alias
from lastgood.backend import ItemListing, Listing
from lastgood.checkpoints import pack_mapping
from lastgood.commits import Scope
from lastgood.core import Core
from lastgood.ids import new_id
from lastgood.item_rules import ChangeItems, ItemDraft
from lastgood.move_rules import Switch
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
        holder = await self._holder(target)
        while rows := await self._next(source, seq):
            for row in rows:
                holder = (await self._putting.put(await self._put(row, target, holder))).thread
            seq = rows[-1].located.row.seq
        await self._items(source, target)
        await self._follow(source, target)

    async def _holder(self, thread: str) -> int | None:
        """The key of a thread that is there."""
        found = (await self._core.backend.look(Scope(self._core.tenant, thread))).live
        return found.thread if found else None

    async def _next(self, thread: str, seq: int) -> list[Row]:
        """The next checkpoints behind a seq, oldest first."""
        found: list[Row] = []
        listing = Listing(thread, above=seq, limit=BATCH)
        while True:
            page = await self._core.backend.history(self._core.tenant, listing)
            found += [self._reading.row(one) for one in page if is_ours(one)]
            if len(page) < BATCH:
                return found[::-1]
            listing = listing._replace(before=page[-1].row.seq)

    async def _put(self, row: Row, thread: str, holder: int | None) -> Put:
        core, old, spot = self._core, row.located.row, Spot(thread, row.spot.namespace)
        parent = await self._reading.parent_of(row)
        context = Context({**row.context.fields, PARENT: parent})
        draft = Draft(
            id=new_id(),
            agent=row.spot.lane,
            framework=old.framework,
            step=old.step,
            step_name=old.step_name,
            created_at=old.created_at,
            ttl=None,
            context=pack_mapping(core.codec, context.stored(), "context")[0],
            metadata=old.metadata,
            losses=old.losses,
            tree=detached((await core.load(row.located)).stored.tree),
        )
        save = Save(
            core.tenant,
            thread,
            draft,
            branch=old.branch,
            parent=None,
            holder=holder,
            owner=core.options.user,
            switch=True,
        )
        # What begins a thread follows nothing that is there.
        follows = spot.alias(parent) if parent is not None and holder is not None else None
        return Put(spot, context, SaveAs(save, spot.alias(context.id), follows), None, old.branch)

    async def _follow(self, source: str, target: str) -> None:
        """Let the lanes of a copy follow the branches that those of its source do."""
        core = self._core
        there = await core.backend.outline(core.tenant, source)
        here = await core.backend.outline(core.tenant, target)
        if there is None or here is None:
            return
        wanted = {lane.agent: lane.current for lane in there.lanes}
        branches = {(branch.lane, branch.name) for branch, _ in here.branches}
        for lane in here.lanes:
            branch = wanted.get(lane.agent, lane.current)
            if branch != lane.current and (lane.number, branch) in branches:
                await core.backend.commit(Switch(core.tenant, target, lane.agent, branch, new_id()))

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
