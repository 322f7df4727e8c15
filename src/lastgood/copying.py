"""Copying threads from one store into another: whole, verified, resumable.

Operations over two `Core`s, each with the driver of its caller's colour. The source is only read.
Threads are dealt with one after the other; see `transfers` for how one of them goes over. One that
cannot be copied is noted in the report, and holds up no other.
"""

from __future__ import annotations

from collections.abc import AsyncIterator, Awaitable, Callable
from dataclasses import replace

from lastgood.backend import Columns, Section
from lastgood.copy_rules import Entomb
from lastgood.errors import (
    CheckpointConflictError,
    CheckpointIntegrityError,
    CheckpointNotFoundError,
    LastgoodError,
    StorageError,
)
from lastgood.reports import CopyReport, NotCopied, Salvaged
from lastgood.rows import ARRIVING, DELETED, ThreadRow, intact, unsealed
from lastgood.salvaging import salvage
from lastgood.scanning import Scanned, Scanner
from lastgood.thread_reading import ThreadReading
from lastgood.transfers import Choice, Moved, Refused, Side, Transfer

ATTEMPTS = 8
"""How often a thread that changes meanwhile is gone after."""
_UPDATED = ThreadRow._fields.index("updated_at")

Progress = Callable[[int, int], None]
Chosen = tuple[str, Columns]
"""The tenant that a thread belongs to in the target, and its row as it is stored in the source."""
DAMAGE = (CheckpointIntegrityError, StorageError)
"""These types themselves: `StorageError` is a disk that fails, those below it are other things."""
PAGE = 512
"""So many threads are looked at together."""
NAMELESS = "its own row is lost, and with it its name. Take it from a backup."
Carry = Callable[[str, Columns], Awaitable[None]]


class Copier:
    """One copy under way."""

    def __init__(
        self, source: Side, target: Side, choice: Choice, progress: Progress | None
    ) -> None:
        self.report = CopyReport(dry_run=choice.dry_run)
        self._source = source
        self._target = target
        self._choice = choice
        self._progress = progress
        self._done = self._total = 0
        """Checkpoints: those that are dealt with, and all that are chosen."""
        self._agents: set[str] = set()
        """Those of the threads that went over."""
        self._met: set[object] = set()
        """The keys of threads that were dealt with."""

    async def run(self) -> CopyReport:
        """All threads that are chosen; what is left of damaged ones last."""
        pages = Pages(self._source, self._target, self._choice)
        while (page := await pages.next()) is not None:
            self._total += sum(_expected(columns) for _, columns in page)
        damaged: list[Chosen] = []
        pages = Pages(self._source, self._target, self._choice)
        while (page := await pages.next()) is not None:
            damaged += [each for each in page if not await self._counted(each, self._whole)]
        for chosen in damaged:
            await self._counted(chosen, self._left)
        if self._choice.salvage and self._choice.threads is None:
            await self._name_lost()
        return self.report

    async def _name_lost(self) -> None:
        """Threads that nothing leads to any more: who rescues a store hears what stays behind."""
        for problem in await self._source.driver.run(self._source.core.backend.checkup()):
            key = problem.where.removeprefix("thread #")
            lost = problem.kind == "orphan" and not problem.repairable
            if lost and key.isdecimal() and int(key) not in self._met:
                self._met.add(int(key))
                self._refuse((int(key),), "damaged", NAMELESS)

    async def _counted(self, chosen: Chosen, carry: Carry) -> bool:
        """Deal with a thread; False if it is damaged, and what is left of it is wanted later."""
        begun, columns = self._done, chosen[1]
        self._met.add(columns[0])
        try:
            await carry(*chosen)
        except Refused as refused:
            self._refuse(columns, refused.kind, str(refused))
        except CheckpointConflictError as error:
            self._refuse(columns, "conflict", error.message)
        except (CheckpointIntegrityError, StorageError) as error:
            if self._choice.salvage and carry == self._whole and type(error) in DAMAGE:
                self._tell(begun - self._done)
                return False
            if not isinstance(error, CheckpointIntegrityError):
                raise
            self._refuse(columns, "damaged", error.message)
        self._tell(begun + _expected(columns) - self._done)
        return True

    def _tell(self, count: int) -> None:
        self._done += count
        if self._progress is not None:
            self._progress(self._done, self._total)

    def _refuse(self, columns: Columns, kind: str, message: str) -> None:
        name = str(columns[2]) if len(columns) > 1 else f"#{columns[0]}"
        problems = (*self.report.problems, NotCopied(name, kind, message))
        self.report = replace(self.report, problems=problems)

    async def _whole(self, tenant: str, columns: Columns) -> None:
        """Copy a thread without damage, again and again if it changes meanwhile."""
        if len(columns) == 1:
            message = "its row was changed, or cannot be read; whose it was cannot be told."
            raise Refused("damaged", message)
        row = unsealed(ThreadRow, columns)
        if row.state == ARRIVING:
            return
        for _ in range(ATTEMPTS):
            now = row if row.state == DELETED else await self._source.thread(row.tenant, row.name)
            if now is None or not now.live:
                await self._entomb(tenant, row)
                return
            if await self._carried(tenant, self._source.reading(now, data=True)):
                return
        raise _never_still()

    async def _left(self, tenant: str, columns: Columns) -> None:
        """Copy what is left of a damaged thread."""
        for _ in range(ATTEMPTS):
            source = self._source
            reading = await salvage(source.core, source.driver, columns, self._agents)
            if reading is None:
                raise Refused("damaged", "no checkpoint of it can be restored.")
            if await self._carried(tenant, reading):
                found = Salvaged(reading.row.name, reading.lost, reading.remarks)
                self.report = replace(self.report, salvaged=(*self.report.salvaged, found))
                return
        raise _never_still()

    async def _carried(self, tenant: str, reading: ThreadReading) -> bool:
        """Copy a thread as it is read; False if it has changed meanwhile."""
        begun = self._done
        transfer = Transfer(self._source, self._target, tenant, reading, self._choice)
        try:
            await transfer.run(self._tell)
        except (Moved, CheckpointIntegrityError) as error:
            if isinstance(error, LastgoodError) and not await self._source.moved(reading):
                await transfer.give_up()
                raise
            self._tell(begun - self._done)
            return False
        except CheckpointConflictError:
            await transfer.give_up()
            raise
        self._add(transfer)
        return True

    async def _entomb(self, tenant: str, row: ThreadRow) -> None:
        """Take over that a thread was deleted, unless the target shows it still."""
        intent = Entomb(row._replace(tenant=tenant))
        if not await self._target.decide(intent, dry_run=self._choice.dry_run):
            raise Refused(
                "differs",
                "it was deleted in the source, and is there still. A copy removes nothing: "
                "delete it in the target too, or keep it.",
            )

    def _add(self, transfer: Transfer) -> None:
        report, row, reading = self.report, transfer.row, transfer.reading
        self._agents.update(reading.agents)
        if not transfer.copies:
            self.report = replace(report, same=report.same + 1)
            return
        self.report = replace(
            report,
            threads=report.threads + 1,
            checkpoints=report.checkpoints + row.checkpoints,
            parts=report.parts + reading.parts,
            bytes=report.bytes + reading.bytes,
            items=report.items + row.items,
        )


class Pages:
    """The chosen threads of the source, page by page: of the tenant, then of what it hides."""

    def __init__(self, source: Side, target: Side, choice: Choice) -> None:
        self._source = source
        self._choice = choice
        self._tenants = list(zip(source.tenants(), target.tenants(), strict=True))
        self._rows: AsyncIterator[Scanned] | None = None

    async def next(self) -> list[Chosen] | None:
        """The next page, which may be empty; None at the end."""
        if not self._tenants:
            return None
        tenant, its = self._tenants[0]
        if self._choice.threads is not None:
            self._tenants.clear()
            return [(its, await self._named(tenant, name)) for name in self._choice.threads]
        if self._rows is None:
            self._rows = Scanner(self._source.core, tenant).scan(Section("thread"))
        page = await self._source.driver.run(_first(self._rows))
        if len(page) < PAGE:
            self._tenants.pop(0)
            self._rows = None
        return [(its, columns) for columns in page if self._wanted(tenant, columns)]

    def _wanted(self, tenant: str, columns: Columns) -> bool:
        """Whether a row is copied; one whose tenant cannot be told is in the survey of each."""
        if len(columns) == 1:
            return tenant == self._source.core.tenant
        since, updated = self._choice.since, columns[_UPDATED]
        return since is None or not isinstance(updated, int) or updated >= since

    async def _named(self, tenant: str, name: str) -> Columns:
        sheet = (await self._source.survey(tenant, [Section("thread", name=name)]))[0]
        row = intact(ThreadRow, sheet.rows[0]) if sheet.rows else None
        if not sheet.rows or (row is not None and not row.live):
            raise CheckpointNotFoundError(
                f"thread {name!r} does not exist in {self._source.core.backend.url}.",
                hint="`lastgood threads` lists those that are there.",
            )
        return sheet.rows[0]


async def _first(rows: AsyncIterator[Scanned]) -> list[Columns]:
    """The next rows; of some that cannot be read, the number of the first."""
    page: list[Columns] = []
    async for found in rows:
        page.append((found.first,) if found.row is None else found.row)
        if len(page) == PAGE:
            break
    return page


def _never_still() -> Refused:
    return Refused(
        "changing",
        "it was written to all the time, in the source or by another copy in the target. "
        "Stop its writers and copy again.",
    )


def _expected(columns: Columns) -> int:
    row = intact(ThreadRow, columns) if len(columns) > 1 else None
    return row.checkpoints if row is not None and row.live else 0
