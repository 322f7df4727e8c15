"""Verifying one thread: its rows first, then the parts that they need, then what is damaged.

Operations over a `Core`; the audits are `auditing` and `part_audit`. Yields the weight of each
piece of work, so that others have their turn in between.
"""

from __future__ import annotations

from collections.abc import AsyncIterator, Collection, Iterable

from lastgood import manifest
from lastgood.auditing import ROWS, Finding, ThreadAudit
from lastgood.backend import LAST, Columns, Section, Shelf
from lastgood.core import Core
from lastgood.errors import LastgoodError
from lastgood.manifest import Spot
from lastgood.part_audit import Fault, FaultFinder, PartAudit, Reach, reaches_of
from lastgood.refs import short_name
from lastgood.rows import CheckpointRow, intact, read_slots
from lastgood.scanning import Scanner

TRIALS = 64
"""So many damaged stretches are tried out, to learn whether data or digest is damaged."""
SMALL: tuple[Shelf, ...] = ("lane", "branch", "move", "tag", "run", "item", "stream", "large")
UNREADABLE = (LastgoodError, ValueError, TypeError, AttributeError, OverflowError, IndexError)
"""What a damaged page can raise on its way into a tree."""


class ThreadSurvey:
    """One audit of one thread."""

    def __init__(
        self, core: Core, columns: Columns, *, data: bool, agents: Collection[str] = ()
    ) -> None:
        self.rows = ThreadAudit(columns, agents)
        self.parts = PartAudit()
        self._core = core
        self._scanner = Scanner(core)
        self._data = data
        self._roots: dict[int, int] = {}
        """The seqs of checkpoints whose states are read through: one for each content, or all."""
        self._known: tuple[tuple[bytes, bytes], list[Reach]] = ((b"", b""), [])

    async def steps(self) -> AsyncIterator[int]:
        """All of it."""
        await self._core.backend.forget(self.rows.key)
        yield await self._outlined()
        async for weight in self._checkpoints():
            yield weight
        self.rows.finish()
        async for weight in self._stored():
            yield weight
        async for weight in self._faults():
            yield weight
        for seq in self._roots.values():
            yield await self._check_root(seq)

    # rows

    async def _outlined(self) -> int:
        """Everything but checkpoints and parts; of one moment, unless it is damaged or much."""
        key = self.rows.key
        sections = [Section(table, key) for table in SMALL]
        found = await self._scanner.sheets([only_thread(key), *sections])
        if isinstance(found, str):
            for section in sections:
                await self._table(section)
            return len(SMALL)
        if found[0].rows and len(found[0].rows[0]) > 1:
            self.rows = ThreadAudit(found[0].rows[0], self.rows.agents)
        for section, sheet in zip(sections, found[1:], strict=True):
            for row in sheet.rows:
                self._take(section.table, row)
            if sheet.next is not None:
                await self._table(section._replace(low=sheet.next))
        return len(SMALL)

    async def _table(self, section: Section) -> None:
        async for found in self._scanner.scan(section):
            if found.row is None:
                self.rows.unreadable(section.table, found.first, found.last, found.reason)
            else:
                self._take(section.table, found.row)

    def _take(self, table: Shelf, columns: Columns) -> None:
        if table in ROWS:
            self.rows.take(table, columns)
        elif table == "stream":
            self.parts.stream(*columns)  # type: ignore[arg-type]
        else:
            digest, stream, number = columns
            self.parts.large(digest, Spot(stream, number))  # type: ignore[arg-type]

    async def _checkpoints(self) -> AsyncIterator[int]:
        named = {branch.head for branch in self.rows.branches}
        named |= {tag.checkpoint for tag in self.rows.tags}
        async for found in self._scanner.scan(self._every_checkpoint):
            if found.row is None:
                self.rows.unreadable("checkpoint", found.first, found.last, found.reason)
            elif (row := self.rows.checkpoint(found.row)) is not None:
                reaches, error = await self._reaches(row)
                self.parts.need(row.seq, reaches)
                if error:
                    where = short_name(self.rows.name, row.seq)
                    message = f"its manifest cannot be read: {error}"
                    self.rows.found("part", where, message, seqs=[row.seq])
                if self._data and self._core.backend.copies:
                    self._roots[row.seq] = row.seq
                elif self._data and row.id in named:
                    self._roots.setdefault(hash((row.root, row.manifest, row.slots)), row.seq)
            yield 1

    @property
    def _every_checkpoint(self) -> Section:
        row = self.rows.row
        return Section("checkpoint", self.rows.key, low=1, high=row.seq if row else LAST)

    async def _reaches(self, row: CheckpointRow) -> tuple[list[Reach], str]:
        """The parts that a checkpoint needs, and why more of them cannot be known."""
        key = (row.manifest, row.slots)
        if self._known[0] == key:
            return self._known[1], ""
        reaches: list[Reach] = []
        try:
            slots = read_slots(row.slots)
            node, is_skeleton = manifest.read(row.manifest)
            reaches = reaches_of(node, slots)
            if is_skeleton:
                whole = await self._core.sketch(row)
                reaches = reaches + reaches_of(whole.tree, slots)
        except UNREADABLE as error:
            return reaches, str(error)
        self._known = key, reaches
        return reaches, ""

    # parts

    async def _stored(self) -> AsyncIterator[int]:
        newest = self.rows.row.seq if self.rows.row else None
        for stream, high in self.parts.wanted():
            section = Section(
                "part", self.rows.key, stream, low=1, high=high, data=self._data, limit=2048
            )
            async for found in self._scanner.scan(section):
                if found.row is not None:
                    self.parts.take(stream, found.row, newest)
                    yield _weight(found.row)
        self._note_parts()

    def _note_parts(self) -> None:
        """What is wrong beside the parts, and hurts no checkpoint."""
        rows = self.rows
        for stream in self.parts.foreign:
            message = "it is not known as one of the thread's, which needs it."
            rows.found("stream", f"{rows.shown} stream {stream}", message, repairable=True)
        for stream, number in self.parts.misborn:
            where = f"{rows.shown} stream {stream} part {number}"
            message = "the seq of the save that brought it is damaged."
            rows.found("part", where, message, repairable=True)
        for stream, number in self.parts.misled():
            where = f"{rows.shown} large page in stream {stream} part {number}"
            message = "saves that look for it find something else."
            rows.found("index", where, message, repairable=True)

    # damage

    async def _faults(self) -> AsyncIterator[int]:
        """Find out whom damaged parts hurt: once more through the checkpoints."""
        faults = {fault: self._fault(fault) for fault in self.parts.faults()}
        if not faults:
            return
        finder, tried = FaultFinder(faults), set[Fault]()
        async for found in self._scanner.scan(self._every_checkpoint):
            row = intact(CheckpointRow, found.row) if found.row is not None else None
            if row is not None:
                reaches, _ = await self._reaches(row)
                met = finder.met(reaches)
                if any(f.suspect and f not in tried for f in met) and len(tried) < TRIALS:
                    tried |= met
                    if await self._sound(row):
                        _clear(faults, (fault for fault in met if fault.inside(reaches)))
                for fault in met:
                    faults[fault].seqs.append(row.seq)
            yield 1
        for finding in faults.values():
            if finding.repairable:
                finding.seqs.clear()
        hurt = {seq for finding in faults.values() for seq in finding.seqs}
        self._roots = {key: seq for key, seq in self._roots.items() if seq not in hurt}

    def _fault(self, fault: Fault) -> Finding:
        message = "the data is not what was written." if fault.suspect else "it is missing."
        where = f"{self.rows.shown} {fault.where}"
        return self.rows.found("part", where, message, sure=fault.suspect)

    async def _sound(self, row: CheckpointRow) -> bool:
        """Whether the state of a checkpoint is what was saved."""
        try:
            return (await self._core.fetch(row)).tree.hash == row.root
        except UNREADABLE:
            return False

    async def _check_root(self, seq: int) -> int:
        section = self._every_checkpoint._replace(low=seq, high=seq)
        found = await self._scanner.sheets([section])
        columns = found[0].rows[0] if isinstance(found, list) and found[0].rows else None
        row = intact(CheckpointRow, columns) if columns is not None else None
        if row is None or await self._sound(row):
            return 1 + (row.size >> 10 if row else 0)
        message = "its state is not the one that was saved."
        self.rows.found("root", short_name(self.rows.name, seq), message, seqs=[seq])
        return 1 + (row.size >> 10)


def only_thread(key: int) -> Section:
    """The row of one thread, hidden or not."""
    return Section("thread", low=key, high=key, beside=True)


def _clear(faults: dict[Fault, Finding], cleared: Iterable[Fault]) -> None:
    """A state that needs these parts is right, so their data is: only the digest is not."""
    for fault in cleared:
        faults[fault].repairable = True
        faults[fault].message = "its digest is damaged, its data is not."


def _weight(columns: Columns) -> int:
    data = columns[-1]
    return 1 + (len(data) >> 10) if isinstance(data, bytes) else 1
