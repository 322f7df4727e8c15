"""The half of the client that frees space: what is over its time, and what nobody needs."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import fields, replace
from datetime import timedelta

from lastgood import arguments
from lastgood.backend import Columns, Section
from lastgood.core import Core
from lastgood.driver import Driver
from lastgood.errors import CheckpointNotFoundError
from lastgood.reports import Swept
from lastgood.rows import ThreadRow, intact
from lastgood.scanning import advance
from lastgood.thread_sweep import Rules, ThreadSweep, worth

DAY = 86_400.0
PAUSE = 0.002
"""Seconds between two commits: who waits for the lock of a file has his turn."""


class Sweeping:
    """Methods of `Client` that free space."""

    _core: Core
    _driver: Driver

    async def sweep(
        self,
        session_id: str | None = None,
        *,
        grace_seconds: float | timedelta = DAY,
        dry_run: bool = False,
        progress: Callable[[int], None] | None = None,
    ) -> Swept:
        """Free the space of what nobody can read any more: in all threads of the tenant or in one.

        Checkpoints are removed once they have been expired for longer than `grace_seconds`; until
        then a run may still continue from one. A thread of which nothing else is left is removed as
        a whole. Then the pages that no checkpoint needs are removed: those of expired and pruned
        checkpoints. Others may save meanwhile. A damaged thread is left as it is, and the result
        names it. `progress` is called with the number of threads looked at. Raises
        CheckpointNotFoundError for a thread that is not there.
        """
        rules = Rules(arguments.grace(grace_seconds), dry_run)
        section = Section("thread", name=arguments.name(session_id, "session_id"))
        total, looked = Swept(dry_run=dry_run), 0
        low: int | None = 0
        while low is not None:
            page = section._replace(low=low)
            [sheet] = await self._driver.run(self._core.backend.survey(self._core.tenant, [page]))
            for columns in sheet.rows:
                total = summed(total, await self._swept(columns, rules))
                looked += 1
                if progress is not None:
                    progress(looked)
            low = sheet.next
        if session_id is not None and not looked:
            raise CheckpointNotFoundError(
                f"thread {session_id!r} does not exist.",
                hint="Without a session_id, sweep() looks at all of the tenant.",
            )
        if session_id is None and not dry_run:
            await self._driver.run(self._core.backend.tidy(self._core.tenant))
        return total

    async def _swept(self, columns: Columns, rules: Rules) -> Swept:
        """One thread; its row may be damaged."""
        row = intact(ThreadRow, columns) if len(columns) > 1 else None
        if row is None:
            return Swept(skipped=(f"#{columns[0]}: its row is damaged: verify() tells.",))
        if not worth(row, copies=self._core.backend.copies):
            return Swept()
        sweep = ThreadSweep(self._core, row.name, rules)
        steps = sweep.steps()
        while await self._driver.run(advance(steps)):
            await self._driver.pause(PAUSE)
        return sweep.swept


def summed(one: Swept, other: Swept) -> Swept:
    """What both come to."""
    names = [each.name for each in fields(Swept) if each.name != "dry_run"]
    return replace(one, **{name: getattr(one, name) + getattr(other, name) for name in names})
