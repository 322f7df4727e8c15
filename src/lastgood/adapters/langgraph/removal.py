"""Removing checkpoints of graphs: of some runs, or all but the newest. Operations over a `Core`.

A checkpoint goes with its alias, its revisions and its writes, in one commit. What others need of
it for their delta channels is kept in `stubs`.
"""

from __future__ import annotations

from collections.abc import AsyncIterator, Callable, Iterator, Mapping, Sequence
from typing import NamedTuple

from langgraph.checkpoint.serde.types import ERROR, INTERRUPT, RESUME

from lastgood.adapters.graph_names import RUNS, WRITES, revised_place, run_place
from lastgood.adapters.langgraph.memory import Memory
from lastgood.adapters.langgraph.questions import Change as Asked
from lastgood.adapters.langgraph.questions import Questions
from lastgood.adapters.langgraph.reading import Reading, Row
from lastgood.adapters.langgraph.shapes import is_ours, may_be_of, text_of
from lastgood.adapters.langgraph.stubs import Stubs
from lastgood.alias_rules import Alias
from lastgood.backend import ItemListing, Listing, Outline
from lastgood.checkpoints import read_mapping
from lastgood.commits import Place
from lastgood.core import Core
from lastgood.driver import give_way, pause
from lastgood.item_rules import ItemDraft
from lastgood.removal_rules import Delete, Link, Remove, Seen, fallen
from lastgood.rows import BranchRow, ItemRow
from lastgood.shelving import every_item, list_items
from lastgood.thread_sweep import Rules, ThreadSweep

THREADS = 200
MOMENT, MOMENTS = 0.001, 2000
"""How often, with so many seconds between, it is looked whether what was on its way is there."""
ASKED = (INTERRUPT, ERROR)
"""What a task asks, or why it failed: a later run writes it once more, in the same place.

Not if it had an answer before: the next answer would be taken for one to an earlier question.
"""


class Plan(NamedTuple):
    """A thread as it was read, and what is to happen to it."""

    rows: list[Row]
    outline: Outline
    aliases: dict[Place, Alias]
    doomed: set[bytes]

    def replaced(self) -> set[bytes]:
        """The checkpoints that a revision has replaced; no branch may fall back to one of them."""
        named = {alias.id for alias in self.aliases.values()}
        return {row.located.row.id for row in self.rows} - named

    def names(self) -> dict[Place, Row]:
        """What each alias will name: what it does, or else the newest revision that is left."""
        left = [row for row in self.rows if row.located.row.id not in self.doomed]
        found = {_place(row): row for row in reversed(left)}
        named = {alias.id for alias in self.aliases.values()}
        return found | {_place(row): row for row in left if row.located.row.id in named}


Doomed = Callable[[Plan], set[bytes]]
"""Which of the checkpoints of a thread are to go, by id."""


class Removal:
    """Removes checkpoints from one store."""

    def __init__(self, core: Core, reading: Reading, memory: Memory) -> None:
        self._core = core
        self._reading = reading
        self._memory = memory
        self._stubs = Stubs(core, reading)
        self._questions = Questions(core, reading)

    async def delete(self, thread: str) -> None:
        """Remove a whole thread."""
        await self._core.backend.commit(Delete(self._core.tenant, thread))
        self._memory.forget(thread)

    async def keep_latest(self, thread: str) -> None:
        """Remove all but the newest checkpoint of each namespace."""
        await self._remove(thread, _all_but_newest)

    async def of_runs(self, thread: str, runs: Sequence[str]) -> None:
        """Remove the checkpoints and writes of some runs."""
        codec = self._core.codec

        def doomed(plan: Plan) -> set[bytes]:
            found = ((row, read_mapping(codec, row.located.row.metadata)) for row in plan.rows)
            ids = {row.located.row.id for row, data in found if data.get("run_id") in runs}
            return ids | plan.replaced() if ids else ids

        await self._remove(thread, doomed, runs)

    async def put_by_now(self) -> None:
        """Let what is on its way come to its end; a run that was cancelled does not wait for it."""
        begun, moments = self._memory.puts(), iter(range(MOMENTS))
        while begun & self._memory.puts() and next(moments, None) is not None:
            await give_way()
            await pause(MOMENT)

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

    async def _remove(self, thread: str, choose: Doomed, runs: Sequence[str] = ()) -> None:
        while True:
            plan = await self._planned(thread, choose)
            if plan is None or not (plan.doomed or runs):
                return
            intent = await self._intent(thread, plan, runs)
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
        rows, aliases = await self._every(thread), await self._reading.every_alias(thread)
        plan = Plan(rows, outline, aliases, set())
        return plan._replace(doomed=choose(plan))

    async def _every(self, thread: str) -> list[Row]:
        """All checkpoints of graphs in a thread, newest first."""
        found: list[Row] = []
        listing = Listing(thread, limit=500)
        while True:
            page = await self._core.backend.history(self._core.tenant, listing)
            found += [self._reading.row(one) for one in page if is_ours(one)]
            if len(page) < listing.limit:
                return found
            listing = listing._replace(before=page[-1].row.seq)

    async def _intent(self, thread: str, plan: Plan, runs: Sequence[str]) -> Remove:
        names = plan.names()
        gone = {_place(row) for row in plan.rows} - names.keys()
        writes = {*await self._reading.write_places(thread, list(gone))}
        left = list(names.values())
        asked = Asked([], [])
        if runs:
            away = gone | {place for place, alias in plan.aliases.items() if alias.stub}
            grounds = await self._stubs.grounds(left, away)
            writes |= {place async for place in self._written(thread, grounds, runs)}
            rows = [row for row in plan.rows if _place(row) in gone]
            asked = await self._questions.change(names, rows, writes, set(map(text_of, runs)))
            writes.update(asked.drops)
        notes = [run_place(run) for run in runs]
        revised = await self._reading.revised(thread)
        noted = [revised_place(place) for place in gone if place[1] in revised]
        stubs = await self._stubs.change(thread, left, gone, plan.aliases)
        return Remove(
            self._core.tenant,
            thread,
            Seen.of(plan.outline.row),
            tuple(plan.doomed),
            _branches(plan),
            puts=(*stubs.puts, *asked.puts, *_renamed(plan, names)),
            drops=(*gone, *writes, *noted, *stubs.drops, *notes),
        )

    async def _written(
        self, thread: str, grounds: Mapping[Place, set[str]], runs: Sequence[str]
    ) -> AsyncIterator[Place]:
        """The writes of runs, but for what waits, and tasks that delta channels are made of.

        Such a task keeps all of its writes: with a part of them it would be taken for one that has
        ended, and the rest would never come.
        """
        asks = [may_be_of(self._core.codec, name) for name in ASKED]
        answers = may_be_of(self._core.codec, RESUME)
        for text in map(text_of, runs):
            listing = ItemListing(thread, WRITES, contains=text)
            rows = [row async for row in every_item(self._core, listing) if row.text == text]
            answered = {_task(row) for row in rows if answers(row)}
            stay = {_task(row) for row in self._needed(rows, grounds)}
            for row in rows:
                waits = _task(row) not in answered and any(test(row) for test in asks)
                if _task(row) not in stay and not waits:
                    yield row.place

    def _needed(
        self, rows: Sequence[ItemRow], grounds: Mapping[Place, set[str]]
    ) -> Iterator[ItemRow]:
        """Those of some writes that delta channels are made of."""
        codec, lengths = self._core.codec, {len(key) for _, key in grounds}
        tests = {key: [may_be_of(codec, n) for n in names] for (_, key), names in grounds.items()}
        for row in rows:
            wanted = (test for length in lengths for test in tests.get(row.key[:length], ()))
            if any(test(row) for test in wanted):
                yield row


def _place(row: Row) -> Place:
    return row.spot.alias(row.context.id)


def _task(row: ItemRow) -> bytes:
    """What the writes of one task at one checkpoint have in common: all but their number."""
    return row.key[:-4]


def _renamed(plan: Plan, names: Mapping[Place, Row]) -> Iterator[ItemDraft]:
    """The aliases of which a revision goes: what they name then, and where lists have that."""
    seqs = {row.located.row.seq for row in plan.rows if row.located.row.id not in plan.doomed}
    for place, row in names.items():
        alias, found = plan.aliases.get(place), row.located.row
        renamed = Alias(found.id, alias.seq if alias and alias.seq in seqs else found.seq)
        if renamed != alias:
            yield ItemDraft(*place, renamed.packed())


def _all_but_newest(plan: Plan) -> set[bytes]:
    rows, outline = plan.rows, plan.outline
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
    """The branches whose heads go, at their nearest ancestors that are left.

    The one that a lane follows goes on to the end of the branch that it falls to: what was there
    before a fork that goes is the latest again.
    """
    rows = [row.located.row for row in plan.rows]
    links = {row.id: Link(row.lane, row.before) for row in rows}
    moved = fallen([branch for branch, _ in plan.outline.branches], links, plan.doomed)
    left = {row.id: row for row in reversed(rows) if row.id not in plan.doomed}
    newest = {row.lane: row.id for row in left.values()}
    ends = {(row.lane, row.branch): row.id for row in left.values()}
    current = {(lane.number, lane.current) for lane in plan.outline.lanes}

    def last(branch: BranchRow) -> bytes:
        row = left.get(branch.head)
        return newest.get(branch.lane, b"") if row is None else ends[row.lane, row.branch]

    return tuple(
        each._replace(head=last(each)) if (each.lane, each.name) in current else each
        for each in moved
    )
