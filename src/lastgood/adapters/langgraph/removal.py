"""Removing checkpoints of graphs: of some runs, or all but the newest. Operations over a `Core`.

A checkpoint goes with its alias and its writes, in one commit. Where others need what it stored of
a delta channel (a value and the writes since), that is kept under its alias as a stub, which no
list shows: a saver has no reducers, so it cannot compute the value itself.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, NamedTuple

from lastgood.adapters.graph_names import RUNS, WRITES, run_place
from lastgood.adapters.langgraph import deltas
from lastgood.adapters.langgraph.memory import Memory
from lastgood.adapters.langgraph.reading import Reading, Row
from lastgood.adapters.langgraph.shapes import PARENT, Write, is_ours, read_writes
from lastgood.alias_rules import Alias
from lastgood.backend import ItemListing, Listing, Outline
from lastgood.checkpoints import read_mapping
from lastgood.commits import Place
from lastgood.core import Core
from lastgood.item_rules import ItemDraft
from lastgood.removal_rules import Delete, Link, Remove, Seen, fallen
from lastgood.rows import BranchRow
from lastgood.shelving import list_items
from lastgood.thread_sweep import Rules, ThreadSweep

DELTAS = "counters_since_delta_snapshot"
THREADS = 200
Doomed = Callable[[Sequence[Row], Outline], set[bytes]]
"""Which of the checkpoints of a thread are to go, by id."""


class Plan(NamedTuple):
    """A thread as it was read, and what is to happen to it."""

    rows: list[Row]
    outline: Outline
    doomed: set[bytes]


class Removal:
    """Removes checkpoints from one store."""

    def __init__(self, core: Core, reading: Reading, memory: Memory) -> None:
        self._core = core
        self._reading = reading
        self._memory = memory

    async def delete(self, thread: str) -> None:
        """Remove a whole thread."""
        await self._core.backend.commit(Delete(self._core.tenant, thread))
        self._memory.forget(thread)

    async def keep_latest(self, thread: str) -> None:
        """Remove all but the newest checkpoint of each namespace."""
        await self._remove(thread, _all_but_newest)

    async def of_runs(self, thread: str, runs: Sequence[str]) -> None:
        """Remove the checkpoints that some runs saved."""
        codec = self._core.codec

        def doomed(rows: Sequence[Row], _: Outline) -> set[bytes]:
            found = ((row, read_mapping(codec, row.located.row.metadata)) for row in rows)
            return {row.located.row.id for row, data in found if data.get("run_id") in runs}

        await self._remove(thread, doomed, tuple(run_place(run) for run in runs))

    async def threads_of(self, runs: Sequence[str]) -> list[str]:
        """The threads that runs wrote to."""
        names = [name async for name in self._reading.threads()] if runs else []
        found: list[str] = []
        for first in range(0, len(names), THREADS):
            some = names[first : first + THREADS]
            asked = [(name, run) for name in some for run in runs]
            listings = [
                ItemListing(name, RUNS, prefix=run_place(run)[1], limit=1) for name, run in asked
            ]
            rows = await list_items(self._core, listings)
            found += [name for (name, _), noted in zip(asked, rows, strict=True) if noted]
        return list(dict.fromkeys(found))

    async def _remove(self, thread: str, choose: Doomed, notes: tuple[Place, ...] = ()) -> None:
        while True:
            plan = await self._planned(thread, choose)
            if plan is None or not (plan.doomed or notes):
                return
            intent = await self._intent(thread, plan, notes)
            if (await self._core.backend.commit(intent)).answer:
                self._memory.forget(thread)
                await self._free(thread)
                return

    async def _free(self, thread: str) -> None:
        """Remove the pages that only those needed which went."""
        if not self._core.backend.copies:
            async for _ in ThreadSweep(self._core, thread, Rules()).steps():
                pass

    async def _planned(self, thread: str, choose: Doomed) -> Plan | None:
        outline = await self._core.backend.outline(self._core.tenant, thread)
        if outline is None:
            return None
        rows = await self._every(thread)
        return Plan(rows, outline, choose(rows, outline))

    async def _every(self, thread: str) -> list[Row]:
        """All checkpoints of graphs in a thread, newest first."""
        found: list[Row] = []
        listing = Listing(thread, limit=500)
        while True:
            page = await self._core.backend.history(self._core.tenant, listing)
            found += [self._reading.row(one) for one in page if is_ours(one.row)]
            if len(page) < listing.limit:
                return found
            listing = listing._replace(before=page[-1].row.seq)

    async def _intent(self, thread: str, plan: Plan, notes: tuple[Place, ...]) -> Remove:
        gone = [row for row in plan.rows if row.located.row.id in plan.doomed]
        left = [row for row in plan.rows if row.located.row.id not in plan.doomed]
        names = {row.spot.alias(row.context.id) for row in left}
        drops = [row.spot.alias(row.context.id) for row in gone]
        drops = [place for place in drops if place not in names]
        writes = await self._writes_of([row for row in gone if _place(row) not in names])
        stubs = await self._stubs(left, {_place(row) for row in gone} - names)
        return Remove(
            self._core.tenant,
            thread,
            Seen.of(plan.outline.row),
            tuple(plan.doomed),
            _branches(plan),
            puts=(*stubs, *await self._places(left, gone)),
            drops=(*drops, *writes, *notes),
        )

    async def _writes_of(self, rows: Sequence[Row]) -> list[Place]:
        found: list[Place] = []
        for row in rows:
            (writes,) = await self._reading.writes_of(row.spot, [row.context.id])
            found += [write.place for write in writes]
        return found

    async def _places(self, left: Sequence[Row], gone: Sequence[Row]) -> list[ItemDraft]:
        """New places in lists for aliases whose first revision goes."""
        lost = {_place(row): row.located.row.seq for row in gone}
        concerned = {place: row for row in reversed(left) if (place := _place(row)) in lost}
        if not concerned:
            return []
        thread = left[0].spot.thread
        aliases = await self._reading.aliases(thread, list(concerned))
        return [
            ItemDraft(*place, Alias(alias.id, concerned[place].located.row.seq).packed())
            for place, alias in aliases.items()
            if alias.seq == lost[place]
        ]

    # stubs

    async def _stubs(self, left: Sequence[Row], gone: set[Place]) -> list[ItemDraft]:
        """What those that are left need of delta channels that goes."""
        drafts: dict[Place, ItemDraft] = {}
        for row in left:
            parent = await self._reading.parent_of(row)
            place = row.spot.alias(parent) if parent is not None else None
            if place is None or place not in gone:
                continue
            channels = self._delta_channels(row)
            if channels:
                drafts.update(await self._stub(row, channels, gone))
        return list(drafts.values())

    def _delta_channels(self, row: Row) -> list[str]:
        counters = read_mapping(self._core.codec, row.located.row.metadata).get(DELTAS)
        return list(counters) if isinstance(counters, dict) else []

    async def _stub(
        self, row: Row, channels: Sequence[str], gone: set[Place]
    ) -> dict[Place, ItemDraft]:
        """The value and the writes that a checkpoint's lost ancestors had, up to the first left."""
        codec, spot = self._core.codec, row.spot
        walk = await deltas.walk(self._core, self._reading, spot, row.context.id, channels)
        lost = 0
        while lost < len(walk.visited) and spot.alias(walk.visited[lost].source.context.id) in gone:
            lost += 1
        parent = walk.visited[lost].source.context.id if lost < len(walk.visited) else None
        if lost == len(walk.visited) and lost:
            parent = await self._left(spot, walk.visited[-1].source.context.id, gone)
        seeds = {c: walk.seed(codec, c) for c, number in walk.seeds.items() if number < lost}
        nearest = walk.visited[0].source.context
        fields = {**nearest.fields, PARENT: parent}
        stub = codec.pack([fields, seeds, {"source": "stub", "step": -2}])
        drafts = {
            spot.alias(nearest.id): ItemDraft(*spot.alias(nearest.id), Alias(b"", 0, stub).packed())
        }
        number = 0
        for ancestor in reversed(range(lost)):
            for write in read_writes(codec, walk.visited[ancestor].writes):
                seeded = walk.seeds.get(write.channel, len(walk.visited))
                if write.channel in channels and ancestor <= seeded:
                    number += 1
                    draft = _moved(codec, spot, nearest.id, write, number)
                    drafts[draft.place] = draft
        return drafts

    async def _left(self, spot: Any, id: str, gone: set[Place]) -> str | None:
        """The nearest ancestor that is not lost."""
        async for source in self._reading.ancestors(spot, id):
            if spot.alias(source.context.id) not in gone:
                return source.context.id
        return None


def _place(row: Row) -> Place:
    return row.spot.alias(row.context.id)


def _moved(codec: Any, spot: Any, id: str, write: Write, number: int) -> ItemDraft:
    """A write as one of a stub, behind those that were before it."""
    task, path = f"{number:010}", f"~~{number:010}{write.path}"
    data = codec.pack([write.channel, task, path, write.value])
    return ItemDraft(WRITES, spot.write(id, task, write.number), data)


def _all_but_newest(rows: Sequence[Row], outline: Outline) -> set[bytes]:
    current = {(lane.number, lane.current) for lane in outline.lanes}
    heads = {head.id for b, head in outline.branches if head and (b.lane, b.name) in current}
    kept = {row.located.row.lane for row in rows if row.located.row.id in heads}
    # A lane whose head nobody put through LangGraph keeps the newest that was.
    for row in rows:
        if row.located.row.lane not in kept:
            kept.add(row.located.row.lane)
            heads.add(row.located.row.id)
    return {row.located.row.id for row in rows} - heads


def _branches(plan: Plan) -> tuple[BranchRow, ...]:
    """The branches whose heads go, at their nearest ancestors that are left."""
    rows = [row.located.row for row in plan.rows]
    links = {row.id: Link(row.lane, row.before) for row in rows}
    return fallen([branch for branch, _ in plan.outline.branches], links, plan.doomed)
