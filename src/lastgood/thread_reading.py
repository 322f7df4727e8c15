"""Reading a thread as it is stored, from its first checkpoint on, to copy or to compare it.

Operations over a `Core`. Each checkpoint comes with the parts that it is the first to need; parts
that no checkpoint needs any more are left where they are. Everything that goes by enters the
thread's fingerprint. Damage is an error here: what is damaged is not carried on. What somebody
removes meanwhile looks the same; whoever reads knows whether the thread has moved.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection, Iterable, Sequence
from typing import Any, NamedTuple

from lastgood import manifest
from lastgood.auditing import COUNTS, ROWS
from lastgood.backend import Columns, Section, Shelf
from lastgood.commits import Scope
from lastgood.core import Core
from lastgood.errors import CheckpointIntegrityError, CheckpointNotFoundError
from lastgood.fingerprints import Fingerprint
from lastgood.intervals import Intervals
from lastgood.manifest import Spot, Stored, part_digest
from lastgood.part_audit import Reach, reaches_of
from lastgood.refs import short_name
from lastgood.rows import TABLES, CheckpointRow, LaneRow, Row, ThreadRow, read_slots, unsealed

PAGE = 256
"""So many checkpoints are read at a time, or fewer that bring many parts."""
PARTS = 1024
BESIDE: tuple[Shelf, ...] = ("lane", "branch", "move", "tag", "run", "item")
"""Those of a thread's rows that are neither checkpoints nor parts."""


class StoredPart(NamedTuple):
    """A part as it is stored; its data is None if that was not asked for."""

    spot: Spot
    born: int
    size: int
    digest: bytes
    data: bytes


class Step(NamedTuple):
    """A checkpoint and the parts that it is the first to need."""

    row: CheckpointRow
    parts: list[StoredPart]


class ThreadReading:
    """One pass over a thread."""

    def __init__(self, core: Core, thread: ThreadRow, *, data: bool) -> None:
        self.data = data
        """Whether the data of parts is read, and compared with their digests."""
        self.fingerprint = Fingerprint()
        self.checkpoints = 0
        self.parts = 0
        self.bytes = 0
        self._core = core
        self._thread = thread
        self._next = 1
        self._counts: Counter[str] = Counter()
        self._moves = 0
        self._agents: dict[int, str] = {}
        self._seen: dict[int, Intervals] = {}

    @property
    def row(self) -> ThreadRow:
        """Of the thread that is read."""
        return self._thread

    @property
    def agents(self) -> Collection[str]:
        """Of its lanes, once its rows were read."""
        return self._agents.values()

    async def moved(self) -> bool:
        """Whether the thread is not any more as it was when this began."""
        scope = Scope(self._thread.tenant, self._thread.name)
        return (await self._core.backend.look(scope)).thread != self._thread

    async def rows(self) -> list[Row]:
        """Everything but checkpoints and parts."""
        found: list[Row] = []
        for table in BESIDE:
            low: int | None = 0
            while low is not None:
                sheet = await self._sheet(Section(table, self._thread.thread, low=low))
                found += [unsealed(ROWS[table], columns) for columns in sheet.rows]
                low = sheet.next
        return self._entered(found)

    def _entered(self, found: list[Row]) -> list[Row]:
        for row in found:
            self._counts[TABLES[type(row)]] += 1
            self.fingerprint.row(row)
        lanes = [row for row in found if isinstance(row, LaneRow)]
        self._agents = {lane.number: lane.agent for lane in lanes}
        self._moves = sum(lane.moves for lane in lanes)
        return found

    def check(self) -> None:
        """Whether all went by that the thread counts: a row that is lost leaves no other trace."""
        expected = {table: getattr(self._thread, column) for table, column in COUNTS.items()}
        expected |= {"move": self._moves, "checkpoint": self._thread.checkpoints}
        found = self._counts | Counter(checkpoint=self.checkpoints)
        for table, count in expected.items():
            if found[table] != count:
                raise CheckpointIntegrityError(f"of {count} {table} rows {found[table]} are there.")

    async def _sheet(self, section: Section) -> Any:
        return (await self._core.backend.survey(self._thread.tenant, [section]))[0]

    async def steps(self, high: int) -> list[Step]:
        """The next checkpoints up to a seq; none at the end. `rows` were read before."""
        if self._next > high:
            return []
        section = Section("checkpoint", self._thread.thread, low=self._next, high=high, limit=PAGE)
        sheet = await self._sheet(section)
        found: list[tuple[CheckpointRow, list[Reach]]] = []
        count = 0
        for columns in sheet.rows:
            if count >= PARTS:
                break
            row = self._verified(columns)
            fresh = self._fresh(await self._reaches(row))
            count += sum(reach.last - reach.first + 1 for reach in fresh)
            found.append((row, fresh))
        read_all = len(found) == len(sheet.rows)
        self._next = (sheet.next or high + 1) if read_all else found[-1][0].seq + 1
        return await self._steps(found)

    async def _steps(self, found: Sequence[tuple[CheckpointRow, list[Reach]]]) -> list[Step]:
        stored = await self._stored([reach for _, fresh in found for reach in fresh])
        steps = []
        for row, fresh in found:
            self.fingerprint.checkpoint(row)
            self.checkpoints += 1
            parts = [self._part(row, spot, stored) for spot in _spots(fresh)]
            steps.append(Step(row, parts))
        return steps

    def _verified(self, columns: Columns) -> CheckpointRow:
        row = unsealed(CheckpointRow, columns)
        agent = self._agents.get(row.lane)
        if agent is None or row.chained(agent) != row.digest:
            raise CheckpointIntegrityError(
                f"{short_name(self._thread.name, row.seq)}: its fields do not give its digest."
            )
        return row

    async def _reaches(self, row: CheckpointRow) -> list[Reach]:
        """The parts that a checkpoint needs."""
        slots = read_slots(row.slots)
        node, is_skeleton = manifest.read(row.manifest)
        reaches = reaches_of(node, slots)
        if is_skeleton:
            reaches += reaches_of((await self._sketch(row)).tree, slots)
        return reaches

    async def _sketch(self, row: CheckpointRow) -> Stored:
        try:
            return await self._core.sketch(row)
        except CheckpointNotFoundError as error:
            raise CheckpointIntegrityError(
                f"{short_name(self._thread.name, row.seq)}: pages of its manifest are missing."
            ) from error

    def _fresh(self, reaches: Iterable[Reach]) -> list[Reach]:
        """What no checkpoint before needed."""
        found = []
        for stream, first, last in reaches:
            wanted = Intervals()
            wanted.add(first, last)
            seen = self._seen.setdefault(stream, Intervals())
            found += [Reach(stream, *new) for new in wanted.without(seen)]
            seen.add(first, last)
        return found

    async def _stored(self, reaches: Sequence[Reach]) -> dict[Spot, StoredPart]:
        """Parts by their places, in few reads: neighbours are one section."""
        streams: dict[int, Intervals] = {}
        for stream, first, last in reaches:
            streams.setdefault(stream, Intervals()).add(first, last)
        sections = [
            Section("part", self._thread.thread, stream, *span, data=self.data, limit=PARTS)
            for stream, spans in streams.items()
            for span in spans
        ]
        found: dict[Spot, StoredPart] = {}
        while sections:
            sheets = await self._core.backend.survey(self._thread.tenant, sections)
            rest = []
            for section, sheet in zip(sections, sheets, strict=True):
                found |= {
                    Spot(section.stream, columns[0]): _part(section.stream, columns)  # type: ignore[arg-type]
                    for columns in sheet.rows
                }
                if sheet.next is not None:
                    rest.append(section._replace(low=sheet.next))
            sections = rest
        return found

    def _part(self, row: CheckpointRow, spot: Spot, stored: dict[Spot, StoredPart]) -> StoredPart:
        part = stored.get(spot)
        if part is None or not self._is_whole(part):
            raise CheckpointIntegrityError(
                f"{short_name(self._thread.name, row.seq)}: part {spot.number} of stream "
                f"{spot.stream} is {'missing' if part is None else 'damaged'}."
            )
        self.fingerprint.part(spot, part.born, part.digest)
        self.parts += 1
        self.bytes += part.size
        return part

    def _is_whole(self, part: StoredPart) -> bool:
        if part.born not in range(1, self._thread.seq + 1):
            return False
        data = part.data
        return not self.data or (type(data) is bytes and part_digest(data) == part.digest)


def _spots(reaches: Iterable[Reach]) -> Iterable[Spot]:
    return (Spot(r.stream, number) for r in reaches for number in range(r.first, r.last + 1))


def _part(stream: int, columns: Columns) -> StoredPart:
    number, *rest = columns
    return StoredPart(Spot(stream, number), *rest)  # type: ignore[arg-type]
