"""Reading tables through, past what cannot be read.

Operations over a `Core`. A stretch that fails is read again one number at a time, so that one
damaged row costs itself alone; where many fail in a row, the next one that can be read is searched
for instead.
"""

from __future__ import annotations

from collections.abc import AsyncIterator, Sequence
from typing import NamedTuple

from lastgood.backend import Columns, Section, Sheet
from lastgood.core import Core
from lastgood.errors import UNUSABLE, LastgoodError

PATIENCE = 64
"""After so many numbers in a row that cannot be read, steps grow."""
ABSENT = 4096
"""After so many numbers in a row that are not there, where no range can be read, the rest is given
up: there may be four billion of them."""
BREATH = 512
"""A step has about this weight: a row counts one, data one per KiB."""


async def advance(steps: AsyncIterator[int]) -> bool:
    """Do a step of some longer work, given as the weights of its pieces; False when it is done."""
    weight = 0
    while weight < BREATH:
        try:
            weight += await anext(steps)
        except StopAsyncIteration:
            return False
    return True


class Scanned(NamedTuple):
    """A row of a table, or the numbers of some that cannot be read."""

    first: int
    last: int
    row: Columns | None
    reason: str = ""


class Scanner:
    """Surveys of one tenant that do not stop at damage."""

    def __init__(self, core: Core, tenant: str | None = None) -> None:
        self._backend = core.backend
        self._tenant = core.tenant if tenant is None else tenant

    async def sheets(self, sections: Sequence[Section]) -> list[Sheet] | str:
        """Sheets of one moment, or the reason why one of them cannot be read."""
        try:
            return await self._backend.survey(self._tenant, sections)
        except UNUSABLE:
            raise
        except LastgoodError as error:
            return error.message

    async def scan(self, section: Section) -> AsyncIterator[Scanned]:
        """Every row of a section, and every gap in what can be read."""
        low: int | None = section.low
        absent = 0
        while low is not None and low <= section.high:
            found = await self.sheets([section._replace(low=low)])
            if isinstance(found, list):
                for row in found[0].rows:
                    yield Scanned(low, low, row)
                low = found[0].next
                continue
            single = await self.sheets([_only(section, low)])
            if isinstance(single, list):
                absent = 0 if single[0].rows else absent + 1
                if absent == ABSENT:
                    yield Scanned(low, section.high, None, found)
                    return
                for row in single[0].rows:
                    yield Scanned(low, low, row)
                low += 1
            else:
                readable = await self._readable(section, low)
                yield Scanned(low, readable - 1, None, single)
                low = readable

    async def _readable(self, section: Section, low: int) -> int:
        """The first number above one that failed at which the store can be read again."""
        last, step = low, 1
        while last < section.high:
            number = min(section.high, last + step)
            if isinstance(await self.sheets([_only(section, number)]), list):
                return await self._first_between(section, last, number)
            if number - low >= PATIENCE:
                step *= 2
            last = number
        return section.high + 1

    async def _first_between(self, section: Section, bad: int, good: int) -> int:
        while good - bad > 1:
            middle = (bad + good) // 2
            if isinstance(await self.sheets([_only(section, middle)]), list):
                good = middle
            else:
                bad = middle
        return good


def _only(section: Section, number: int) -> Section:
    return section._replace(low=number, high=number, limit=1)
