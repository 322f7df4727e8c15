"""Adding up what a store or a thread takes, in small steps.

Operations over a `Core`. Sizes come from the store; data of parts is never read, but for manifests
that are themselves stored as parts. Rows that are damaged are left out: that is for `verify`.
"""

from __future__ import annotations

from collections.abc import AsyncIterator
from heapq import nlargest
from typing import Any, NamedTuple

from lastgood.backend import Columns, Footprint, Section
from lastgood.core import Core
from lastgood.errors import CheckpointIntegrityError, CheckpointNotFoundError
from lastgood.measuring import PartSizes, PathMeter
from lastgood.reports import Size, Stats
from lastgood.rows import CheckpointRow, ThreadRow, intact, unsealed
from lastgood.scanning import Scanner

SHOWN = 20
"""So many threads are named."""
TOGETHER = 64
"""So many threads are measured in one read."""


class Page(NamedTuple):
    """Threads with what they take."""

    sizes: list[Size]
    next: int | None
    """What to pass as `after`; None on the last page."""


async def page(core: Core, section: Section) -> Page:
    """The next threads of a tenant."""
    sheet = (await core.backend.survey(core.tenant, [section._replace(limit=TOGETHER)]))[0]
    rows = [row for columns in sheet.rows if (row := _live(columns)) is not None]
    found = await core.backend.footprints(core.tenant, [row.thread for row in rows])
    return Page([_size(row.name, found[row.thread]) for row in rows], sheet.next)


def _live(columns: Columns) -> ThreadRow | None:
    row = intact(ThreadRow, columns) if len(columns) > 1 else None
    return row if row is not None and row.live else None


def _size(name: str, found: Footprint) -> Size:
    return Size(name, found.checkpoints, found.logical, found.inline + found.parts + found.items)


class Totals:
    """The sum of all threads, and the largest of them."""

    def __init__(self) -> None:
        self.threads = 0
        self.largest: list[Size] = []
        self._sum = (0, 0, 0)

    def add(self, sizes: list[Size]) -> None:
        """Take in some threads."""
        self.threads += len(sizes)
        self.largest = nlargest(SHOWN, [*self.largest, *sizes], key=lambda size: size.physical)
        rows = (self._sum, *((s.checkpoints, s.logical, s.physical) for s in sizes))
        checkpoints, logical, physical = map(sum, zip(*rows, strict=True))
        self._sum = (checkpoints, logical, physical)

    def stats(self, disk: int | None) -> Stats:
        """The answer for all threads."""
        return Stats(self.threads, Size("", *self._sum), disk, tuple(self.largest))


class ThreadAccount:
    """The states of one thread, path by path."""

    def __init__(self, core: Core, name: str) -> None:
        self._core = core
        self._scanner = Scanner(core)
        self._section = Section("thread", name=name)
        self._total = Size(name, 0, 0, 0)
        self._parts = PartSizes()
        self._meter = PathMeter(self._parts)
        self.steps = self._all()

    @property
    def stats(self) -> Stats:
        """The answer for one thread."""
        return Stats(1, self._total, by_path=tuple(self._meter.sizes()))

    async def _all(self) -> AsyncIterator[int]:
        row = await self._row()
        found = await self._core.backend.footprints(self._core.tenant, [row.thread])
        self._total = _size(row.name, found[row.thread])
        async for stream in self._scanner.scan(Section("stream", row.thread)):
            async for weight in self._stream(row.thread, stream.row):
                yield weight
        checkpoints = Section("checkpoint", row.thread, low=1, high=row.seq)
        async for found_row in self._scanner.scan(checkpoints):
            await self._checkpoint(found_row.row)
            yield 1

    async def _row(self) -> ThreadRow:
        sheets = await self._core.backend.survey(self._core.tenant, [self._section])
        for columns in sheets[0].rows:
            row = unsealed(ThreadRow, columns)
            if row.live:
                return row
        raise CheckpointNotFoundError(
            f"thread {self._section.name!r} does not exist.",
            hint="Without a session_id, stats() is about all of the tenant.",
        )

    async def _stream(self, thread: int, columns: Columns | None) -> AsyncIterator[int]:
        stream: Any = columns[0] if columns else 0
        section = Section("part", thread, stream, low=1, limit=2048)
        async for part in self._scanner.scan(section):
            number, _, size, *_ = part.row or (None, None, None)
            if isinstance(number, int) and isinstance(size, int):
                self._parts.add(stream, number, size)
            yield 1

    async def _checkpoint(self, columns: Columns | None) -> None:
        row = intact(CheckpointRow, columns) if columns else None
        if row is None:
            return
        try:
            sketch = await self._core.sketch(row)
        except (CheckpointIntegrityError, CheckpointNotFoundError):  # or removed meanwhile
            return
        self._meter.add(sketch.tree, sketch.slots, split=sketch.skeleton is not None)
