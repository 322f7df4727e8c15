"""Copying a thread: new checkpoints under the same aliases, in the same order, with their writes.

Operations over a `Core`. Each follows what it followed, on a branch of the same name, and the copy
goes on where its source does. Done twice it does no harm: a copy that was interrupted can be
repeated.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import NamedTuple

from lastgood.adapters.graph_names import RUNS, WRITES, Spot
from lastgood.adapters.langgraph.putting import Put, Putting
from lastgood.adapters.langgraph.reading import Reading, Row
from lastgood.adapters.langgraph.shapes import PARENT, Context, is_ours
from lastgood.alias_rules import SHELF, SaveAs, read_alias
from lastgood.backend import ItemListing, Listing, Outline
from lastgood.checkpoints import pack_mapping
from lastgood.core import Core
from lastgood.ids import new_id
from lastgood.item_rules import ChangeItems, ItemDraft
from lastgood.move_rules import Switch
from lastgood.rules import Draft, Save
from lastgood.shelving import change_items, every_item
from lastgood.tree import detached

BATCH = 500


class Made(NamedTuple):
    """A checkpoint that was copied: its id in the copy, and the names of its branch."""

    id: bytes
    thread: int
    branch: str
    copied: str
    """How the branch is called in the copy: the name may have been taken there."""


class Copying:
    """Copies threads of one store."""

    def __init__(self, core: Core, reading: Reading, putting: Putting) -> None:
        self._core = core
        self._reading = reading
        self._putting = putting

    async def copy(self, source: str, target: str) -> None:
        """All checkpoints of graphs, their writes and stubs."""
        seq = 0
        made: dict[bytes, Made] = {}
        while rows := await self._next(source, seq):
            for row in rows:
                old = row.located.row
                put = await self._put(row, target, made.get(old.before))
                new = await self._putting.put(put)
                made[old.id] = Made(new.id, new.thread, old.branch, new.branch)
            seq = rows[-1].located.row.seq
        await self._items(source, target)
        await self._follow(source, target, made)

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

    async def _put(self, row: Row, thread: str, before: Made | None) -> Put:
        core, old, spot = self._core, row.located.row, Spot(thread, row.spot.namespace)
        parent = await self._reading.parent_of(row)
        context = Context.given({**row.context.fields, PARENT: parent})
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
        branch = before.copied if before and before.branch == old.branch else old.branch
        save = Save(
            core.tenant,
            thread,
            draft,
            branch=branch,
            parent=before.id if before else None,
            holder=before.thread if before else None,
            owner=core.options.user,
            switch=True,
        )
        return Put(spot, context, SaveAs(save, spot.alias(context.id)), None, branch)

    async def _follow(self, source: str, target: str, made: Mapping[bytes, Made]) -> None:
        """Let the lanes of a copy follow the branches that those of its source do."""
        core = self._core
        there = await core.backend.outline(core.tenant, source)
        here = await core.backend.outline(core.tenant, target)
        wanted = {made[head].id: name for name, head in _current(there) if head in made}
        followed = {head for _, head in _current(here)}
        for branch, _ in here.branches if here else ():
            agent = wanted.get(branch.head)
            if agent is not None and branch.head not in followed:
                followed.add(branch.head)
                intent = Switch(core.tenant, target, agent, branch.name, new_id())
                await core.backend.commit(intent)

    async def _items(self, source: str, target: str) -> None:
        """Writes, notes of runs and stubs."""
        core, drafts = self._core, list[ItemDraft]()
        for shelf in (WRITES, RUNS, SHELF):
            async for row in every_item(core, ItemListing(source, shelf)):
                if shelf != SHELF or read_alias(row).stub:
                    drafts.append(
                        ItemDraft(row.shelf, row.key, row.value, row.text, first_wins=True)
                    )
        for first in range(0, len(drafts), BATCH):
            some = tuple(drafts[first : first + BATCH])
            await change_items(core, ChangeItems(core.tenant, target, puts=some, opens=False))


def _current(outline: Outline | None) -> Iterator[tuple[str, bytes]]:
    """The lanes of a thread, and the heads of the branches that they follow."""
    if outline is not None:
        agents = {(lane.number, lane.current): lane.agent for lane in outline.lanes}
        for branch, head in outline.branches:
            agent = agents.get((branch.lane, branch.name))
            if agent is not None and head is not None:
                yield agent, head.id
