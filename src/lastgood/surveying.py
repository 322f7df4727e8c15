"""Verifying a store: thread after thread, in small steps, into one report.

Operations over a `Core`. A step is a few reads and what is computed from them, so that nothing is
locked for long and others have their turn in between. Where a thread changed under its audit and
something seems wrong, it is audited again; what a writer may explain is not reported.
"""

from __future__ import annotations

from collections.abc import AsyncIterator, Sequence
from dataclasses import replace

from lastgood.auditing import ThreadAudit
from lastgood.backend import Columns, Section
from lastgood.core import Core
from lastgood.errors import CheckpointNotFoundError
from lastgood.reports import Problem, Report
from lastgood.rows import LIVE, ThreadRow, intact
from lastgood.scanning import BREATH, Scanned, Scanner
from lastgood.thread_survey import ThreadSurvey, only_thread

ATTEMPTS = 3
"""How often a thread that changes meanwhile is audited."""

_TENANT, _STATE, _CHECKPOINTS = (
    ThreadRow._fields.index(name) for name in ("tenant", "state", "checkpoints")
)


class Survey:
    """One verification under way."""

    def __init__(self, core: Core, thread: str | None, *, data: bool, store: bool) -> None:
        self.done = 0
        self.total = 0
        """Checkpoints: those that were looked at, and all that are expected."""
        self._core = core
        self._scanner = Scanner(core)
        self._threads = Section("thread", name=thread, beside=thread is None)
        self._data = data
        self._store = store and thread is None
        self._seen = Report(data=data)
        self._problems: list[Problem] = []
        self.steps = self._all()

    @property
    def report(self) -> Report:
        """What was found."""
        return replace(self._seen, problems=tuple(dict.fromkeys(self._problems)))

    async def _all(self) -> AsyncIterator[int]:
        if self._store:
            self._problems += await self._core.backend.checkup()
            yield BREATH
        async for found in self._scanner.scan(self._threads):
            self.total += _expected(found.row)
            yield 1
        async for found in self._scanner.scan(self._threads):
            if found.row is None or len(found.row) == 1:
                self._problems.append(_lost(found))
            elif _living(found.row):
                async for weight in self._thread(found.row):
                    yield weight
        self._check_there()
        self.done = self.total

    def _check_there(self) -> None:
        if self._threads.name is not None and not self._seen.threads and not self._problems:
            raise CheckpointNotFoundError(
                f"thread {self._threads.name!r} does not exist.",
                hint="Without a session_id, verify() looks at all of the tenant.",
            )

    async def _thread(self, columns: Columns) -> AsyncIterator[int]:
        """Audit a thread; again, if it changed meanwhile and does not look right."""
        before: Columns | None = columns
        begun = self.done
        for attempt in range(ATTEMPTS):
            if before is None:
                return  # it was deleted
            survey = ThreadSurvey(self._core, before, data=self._data)
            async for weight in survey.steps():
                self.done = min(self.total, begun + survey.rows.counts["checkpoint"])
                yield weight
            after = await self._again(survey.rows)
            if after == survey.rows.columns or survey.rows.sure:
                break
            if attempt == ATTEMPTS - 1:
                survey.rows.drop_doubts()
            before = after
        self._add(survey)
        self.done = min(self.total, begun + _expected(columns))

    async def _again(self, audit: ThreadAudit) -> Columns | None:
        """The row of a thread as it is now; what is numbered above it is told to the audit.

        That is read first: a save writes both at once, so the row that is read later has its number
        too.
        """
        above = await self._above(audit)
        found = await self._scanner.sheets([only_thread(audit.key)])
        rows = found[0].rows if isinstance(found, list) else []
        if not rows or len(rows[0]) == 1 or not _living(rows[0]):
            return None
        now = intact(ThreadRow, rows[0])
        if now is not None:
            audit.numbered_above(now, above)
        return rows[0]

    async def _above(self, audit: ThreadAudit) -> Sequence[Columns]:
        """Checkpoints that are numbered above what their thread had given out, as far as seen."""
        if audit.row is None:
            return []
        above = Section("checkpoint", audit.key, low=audit.row.seq + 1)
        found = await self._scanner.sheets([above])
        return found[0].rows if isinstance(found, list) else []

    def _add(self, survey: ThreadSurvey) -> None:
        seen = self._seen
        self._problems += survey.rows.problems()
        self._seen = replace(
            seen,
            threads=seen.threads + (survey.rows.columns[_TENANT] == self._core.tenant),
            checkpoints=seen.checkpoints + survey.rows.counts["checkpoint"],
            parts=seen.parts + survey.parts.parts,
            bytes=seen.bytes + survey.parts.bytes,
        )


def _living(columns: Columns) -> bool:
    """Whether a thread has anything to look at: a tombstone has not, unless it was changed."""
    return columns[_STATE] == LIVE or intact(ThreadRow, columns) is None


def _expected(columns: Columns | None) -> int:
    count = columns[_CHECKPOINTS] if columns is not None and len(columns) > 1 else 0
    return count if isinstance(count, int) and count > 0 else 0


def _lost(found: Scanned) -> Problem:
    if found.row is None:
        return Problem("row", f"thread #{found.first}", f"it cannot be read: {found.reason}")
    message = "its row was changed by something else than Lastgood; whose it was cannot be told."
    return Problem("seal", f"thread #{found.row[0]}", message)
