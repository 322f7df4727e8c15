"""Reading what is left of a damaged thread, so that it can be copied as a thread that is whole.

Operations over a `Core`. An audit of every byte says which checkpoints cannot be restored;
`mending` makes a thread of the others, and this reads it as `thread_reading` reads a whole one:
what goes by is verified in the same way, so no damage is carried on.
"""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import AsyncIterator, Collection
from typing import Any

from lastgood.auditing import ROWS
from lastgood.backend import Columns, Section, Sheet
from lastgood.core import Core
from lastgood.driver import Driver
from lastgood.manifest import Spot, part_digest
from lastgood.mending import Link, Mended, Mending
from lastgood.refs import short_name
from lastgood.rows import CheckpointRow, Row, ThreadRow, intact
from lastgood.scanning import Scanner, advance
from lastgood.thread_reading import BESIDE, StoredPart, ThreadReading
from lastgood.thread_survey import ThreadSurvey, only_thread


class Wreck:
    """A damaged thread: what an audit says of it, and all of its rows that can be believed."""

    def __init__(self, core: Core, columns: Columns, agents: Collection[str]) -> None:
        self._survey = ThreadSurvey(core, columns, data=True, agents=agents)
        self._scanner = Scanner(core)
        self._rows: list[Row] = []
        self._links: list[Link] = []
        self.steps = self._all()

    async def _all(self) -> AsyncIterator[int]:
        async for weight in self._survey.steps():
            yield weight
        key = self._survey.rows.key
        for table in (*BESIDE, "checkpoint"):
            async for found in self._scanner.scan(Section(table, key)):
                if found.row is not None:
                    self._take(table, found.row)
                yield 1

    def _take(self, table: str, columns: Columns) -> None:
        row: Any = intact(ROWS.get(table, CheckpointRow), columns)
        if isinstance(row, CheckpointRow):
            self._links.append(Link.of(row))
        elif row is not None:
            self._rows.append(row)

    @property
    def columns(self) -> Columns:
        """The row of the thread, as it stood when the audit began."""
        return self._survey.rows.columns

    @property
    def lost(self) -> set[int]:
        """The seqs of checkpoints that cannot be restored."""
        return {
            seq
            for found in self._survey.rows.findings
            if not found.repairable
            for seq in found.seqs
        }

    def remarks(self, mended: Mended) -> tuple[str, ...]:
        """What is not as it was, besides the checkpoints that are lost."""
        told = [f"without {n} {table} row{'s' * (n > 1)}" for table, n in mended.left.items()]
        row = self._survey.rows.row
        unknown = row.checkpoints - len(mended.seqs) - len(self.lost) if row is not None else 0
        if unknown > 0:
            told.append(f"without {unknown} more of its checkpoints, whose numbers are not known")
        name = mended.thread.name
        told += [
            f"agent {agent} goes on from {short_name(name, seq)}, and was perhaps on another branch"
            for agent, seq in mended.led.items()
        ]
        if intact(ThreadRow, self.columns) is None:
            told.append(
                "its own row was changed: look at its name, title and owner; whether more"
                " checkpoints are lost is not known"
            )
        return tuple(told)

    def leaves(self, mended: Mended) -> bool:
        """Whether anything is left to go on from; without its checkpoints a thread begins anew."""
        row = self._survey.rows.row
        had_none = not self.lost and (row is None or not row.checkpoints)
        return bool(mended.seqs or (mended.rows and had_none))

    def mended(self) -> Mended:
        """A thread of what is left."""
        mending = Mending(self._survey.rows, self._rows, self._links, self.lost)
        return mending.mended(self._survey.parts.bytes)


class Salvage(ThreadReading):
    """One pass over what is left of a thread."""

    def __init__(self, core: Core, wreck: Wreck, mended: Mended) -> None:
        super().__init__(core, mended.thread, data=True)
        self.lost = tuple([short_name(mended.thread.name, seq) for seq in sorted(wreck.lost)])
        """Short names of the checkpoints that cannot be restored."""
        self.remarks = wreck.remarks(mended)
        """What else is not as it was."""
        self._columns = wreck.columns
        self._mended = mended
        self._scanner = Scanner(core)

    async def rows(self) -> list[Row]:
        return self._entered(self._mended.rows)

    async def moved(self) -> bool:
        sheets = await self._scanner.sheets([only_thread(self._thread.thread)])
        return isinstance(sheets, str) or sheets[0].rows != [self._columns]

    async def _sheet(self, section: Section) -> Sheet:
        """Of checkpoints those that are left, one at a time where a stretch cannot be read."""
        seqs = self._mended.seqs
        at = bisect_left(seqs, section.low)
        if section.table != "checkpoint" or at == len(seqs):
            return Sheet([], None)
        last = seqs[min(at + section.limit, len(seqs)) - 1]
        here = section._replace(low=seqs[at], high=min(section.high, last))
        found = await self._scanner.sheets([here])
        if isinstance(found, str):
            last = seqs[at]
            found = await self._core.backend.survey(
                self._thread.tenant, [here._replace(high=last, limit=1)]
            )
        wanted = set(seqs[at : at + section.limit])
        rows = [columns for columns in found[0].rows if columns[1] in wanted]
        return Sheet(rows, found[0].next or last + 1)

    def _verified(self, columns: Columns) -> CheckpointRow:
        row = super()._verified(columns)
        if row.seq in self._mended.before:
            return row._replace(parent_gone=1, fallback=self._mended.before[row.seq])
        return row

    def _part(self, row: CheckpointRow, spot: Spot, stored: dict[Spot, StoredPart]) -> StoredPart:
        """A part of a state that is right: where its digest or its origin is not, that is."""
        part = stored.get(spot)
        if part is not None:
            born = part.born if part.born in range(1, row.seq + 1) else row.seq
            digest = part_digest(part.data) if type(part.data) is bytes else part.digest
            stored[spot] = part._replace(digest=digest, born=born)
        return super()._part(row, spot, stored)


async def salvage(
    core: Core, driver: Driver, columns: Columns, agents: Collection[str]
) -> Salvage | None:
    """A reading of what is left of a thread; None if that is nothing.

    `agents` are those of other threads: they may be those of lanes whose rows are lost.
    """
    wreck = Wreck(core, columns, agents)
    while await driver.run(advance(wreck.steps)):
        pass
    mended = wreck.mended()
    return Salvage(core, wreck, mended) if wreck.leaves(mended) else None
