"""Sweeping one thread: checkpoints that are over their time, then parts that nobody needs.

Operations over a `Core`. First every checkpoint is read: which are to go, which parts the others
need. Then it is written, in short commits, each only if the thread is still as it was read; where
it is not, it is read again. A thread of which a row cannot be found or read is left alone: what
that one needs is not known. Yields the weight of each piece of work.
"""

from __future__ import annotations

from collections.abc import AsyncIterator
from dataclasses import replace
from typing import Any, NamedTuple

from lastgood import manifest
from lastgood.backend import Outline, Section
from lastgood.commits import Intent, Loose
from lastgood.core import Core
from lastgood.errors import CheckpointIntegrityError, CheckpointNotFoundError
from lastgood.intervals import Intervals
from lastgood.manifest import Spot
from lastgood.part_audit import Reach, reaches_of
from lastgood.removal_rules import Delete, Link, Remove, Seen, Sweep, fallen
from lastgood.reports import Swept
from lastgood.rows import CheckpointRow, ThreadRow, read_slots, unsealed
from lastgood.scanning import BREATH, Scanner

TOGETHER = 100
"""So many checkpoints or parts go in one commit, which takes a few milliseconds."""
ATTEMPTS = 5
"""How often a thread that changes meanwhile is read."""


class Rules(NamedTuple):
    """What is swept."""

    grace: int | None = None
    """For how many microseconds a checkpoint must be over its time; None: parts alone."""
    dry_run: bool = False


class Moved(Exception):
    """The thread is not as it was read."""


class Plan(NamedTuple):
    """What the checkpoints of a thread come to."""

    outline: Outline
    links: dict[bytes, Link]
    doomed: dict[bytes, None]
    """A set, in the order of their seqs."""
    waiting: int
    needed: dict[int, Intervals]

    @property
    def whole(self) -> bool:
        """Whether the thread goes, and not only what is over its time in it."""
        row = self.outline.row
        return 0 < len(self.doomed) == row.checkpoints and not row.tags and not row.items


def worth(row: ThreadRow, *, copies: bool) -> bool:
    """Whether there may be something to sweep: fewer checkpoints than were saved, or one expires.

    `copies`: each checkpoint has its parts for itself, and they go with it.
    """
    return row.live and (row.expiring > 0 or (row.seq > row.checkpoints and not copies))


_NOTHING: tuple[tuple[bytes, bytes], list[Reach]] = ((b"", b""), [])


class ThreadSweep:
    """One sweep of one thread."""

    def __init__(self, core: Core, name: str, rules: Rules) -> None:
        self.swept = Swept(dry_run=rules.dry_run)
        self._core = core
        self._name = name
        self._rules = rules
        self._scanner = Scanner(core)
        self._known = _NOTHING

    async def steps(self) -> AsyncIterator[int]:
        """All of it."""
        reason = "it was written to all the time, or is damaged: verify() tells."
        for _ in range(ATTEMPTS):
            try:
                async for weight in self._attempt():
                    yield weight
            except (Moved, CheckpointNotFoundError):
                continue
            except CheckpointIntegrityError as error:
                reason = error.message  # or what was being read was removed meanwhile
                continue
            return
        self.swept = replace(self.swept, skipped=(f"{self._name}: {reason}",))

    async def _attempt(self) -> AsyncIterator[int]:
        outline = await self._core.backend.outline(self._core.tenant, self._name)
        if outline is None:
            return
        plan = Plan(outline, {}, {}, 0, {})
        self._known = _NOTHING  # numbers of parts may be others' since the last attempt
        async for row in self._checkpoints(outline.row):
            plan = await self._planned(plan, row)
            yield 1
        if len(plan.links) != outline.row.checkpoints:
            raise Moved
        self.swept = replace(self.swept, waiting=plan.waiting)
        if plan.whole and outline.row.updated_at > outline.now - (self._rules.grace or 0):
            self._count(waiting=len(plan.doomed))  # a run began in it, or it lost its last tag
            return
        carry_out = self._delete(plan) if plan.whole else self._clear(plan)
        async for weight in carry_out:
            yield weight

    # reading

    async def _checkpoints(self, row: ThreadRow) -> AsyncIterator[CheckpointRow]:
        section = Section("checkpoint", row.thread, low=1, high=row.seq)
        async for found in self._scanner.scan(section):
            if found.row is None:
                raise CheckpointIntegrityError(f"a checkpoint cannot be read: {found.reason}")
            yield unsealed(CheckpointRow, found.row)

    async def _planned(self, plan: Plan, row: CheckpointRow) -> Plan:
        """Take in a checkpoint."""
        plan.links[row.id] = Link(row.lane, row.before)
        grace, now = self._rules.grace, plan.outline.now
        over = grace is not None and row.expired(now)
        if over and row.expired(now - (grace or 0)):
            plan.doomed[row.id] = None
            return plan
        for stream, first, last in await self._reaches(row):
            plan.needed.setdefault(stream, Intervals()).add(first, last)
        return plan._replace(waiting=plan.waiting + over)

    async def _reaches(self, row: CheckpointRow) -> list[Reach]:
        """The parts that a checkpoint needs; those of its neighbour are often the same."""
        key = (row.manifest, row.slots)
        if self._known[0] != key:
            slots = read_slots(row.slots)
            node, is_skeleton = manifest.read(row.manifest)
            reaches = reaches_of(node, slots)
            if is_skeleton:
                reaches += reaches_of((await self._core.sketch(row)).tree, slots)
            self._known = key, reaches
        return self._known[1]

    async def _loose(self, plan: Plan) -> AsyncIterator[Loose]:
        """The parts that nobody needs, stream by stream."""
        key = plan.outline.row.thread
        large = {}
        async for columns in self._stored(Section("large", key)):
            digest, stream, number = columns
            large[Spot(stream, number)] = digest
        async for (stream,) in self._stored(Section("stream", key)):
            needed = plan.needed.get(stream, Intervals())
            section = Section("part", key, stream, low=1, limit=2048)
            async for number, _, size, *_ in self._stored(section):
                if number not in needed:
                    spot = Spot(stream, number)
                    yield Loose(spot, size or 0, large.get(spot, b""))

    async def _stored(self, section: Section) -> AsyncIterator[Any]:
        async for found in self._scanner.scan(section):
            if found.row is None:
                raise CheckpointIntegrityError(f"a {section.table} cannot be read: {found.reason}")
            yield found.row

    # writing

    async def _delete(self, plan: Plan) -> AsyncIterator[int]:
        """All of it is over its time."""
        sizes = []
        async for part in self._loose(plan):
            sizes.append(part.size)
            yield 1
        row = plan.outline.row
        await self._commit(Delete(self._core.tenant, self._name, row), row)
        self._count(checkpoints=len(plan.doomed), threads=1, parts=len(sizes), bytes=sum(sizes))

    async def _clear(self, plan: Plan) -> AsyncIterator[int]:
        row, doomed = plan.outline.row, list(plan.doomed)[::-1]
        for first in range(0, len(doomed), TOGETHER):
            row = await self._remove(plan, doomed[first : first + TOGETHER], row)
            yield BREATH
        if self._core.backend.copies:
            return
        batch: list[Loose] = []
        async for part in self._loose(plan):
            batch.append(part)
            yield 1
            if len(batch) == TOGETHER:
                row, batch = await self._drop(batch, row), []
                yield BREATH
        if batch:
            await self._drop(batch, row)

    async def _remove(self, plan: Plan, doomed: list[bytes], row: ThreadRow) -> ThreadRow:
        """The newest first: what is left falls back to what is there."""
        going = set(doomed)
        heads = [branch for branch, _ in plan.outline.branches if branch.head in going]
        branches = fallen(heads, plan.links, plan.doomed)
        intent = Remove(self._core.tenant, self._name, Seen.of(row), tuple(doomed), branches)
        row = await self._commit(intent, row)
        self._count(checkpoints=len(doomed))
        return row

    async def _drop(self, loose: list[Loose], row: ThreadRow) -> ThreadRow:
        row = await self._commit(Sweep(self._core.tenant, self._name, row, tuple(loose)), row)
        self._count(parts=len(loose), bytes=sum(part.size for part in loose))
        return row

    async def _commit(self, intent: Intent, row: ThreadRow) -> ThreadRow:
        """The thread's row after a change."""
        if self._rules.dry_run:
            return row
        writes = await self._core.backend.commit(intent)
        if not writes.answer:
            raise Moved
        return writes.thread or row

    def _count(self, **more: int) -> None:
        grown = {name: getattr(self.swept, name) + count for name, count in more.items()}
        self.swept = replace(self.swept, **grown)
