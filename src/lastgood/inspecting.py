"""The half of the client that inspects the store: is it whole, and what takes the space."""

from __future__ import annotations

from collections.abc import Callable

from lastgood import accounting, arguments
from lastgood.backend import Section
from lastgood.core import Core
from lastgood.driver import Driver
from lastgood.reports import Report, Stats
from lastgood.scanning import advance
from lastgood.surveying import Survey


class Inspecting:
    """Methods of `Client` that read everything and change nothing."""

    _core: Core
    _driver: Driver

    async def verify(
        self,
        session_id: str | None = None,
        *,
        data: bool = False,
        progress: Callable[[int, int], None] | None = None,
    ) -> Report:
        """Look for damage in the whole store, or in one thread; damage does not stop the search.

        This checks that every row is as it was written and that all rows belong together; with
        `data=True`, every byte is read as well. The report names each problem and the checkpoints
        that cannot be restored because of it. `progress` is called with two numbers: the
        checkpoints done, and those expected. Raises CheckpointNotFoundError for a thread that is
        not there.
        """
        survey = Survey(self._core, arguments.name(session_id, "session_id"), data=data)
        while await self._driver.run(advance(survey.steps)):
            if progress is not None:
                progress(survey.done, survey.total)
        if progress is not None:
            progress(survey.done, survey.total)
        return survey.report

    async def stats(self, session_id: str | None = None) -> Stats:
        """Tell how much space the store takes, or how much one thread takes, path by path.

        For the whole store, the answer has the largest threads. Logical bytes count every state
        whole; physical bytes are those that are stored. No data of parts is read. Raises
        CheckpointNotFoundError for a thread that is not there.
        """
        thread = arguments.name(session_id, "session_id")
        if thread is not None:
            account = accounting.ThreadAccount(self._core, thread)
            while await self._driver.run(advance(account.steps)):
                pass
            return account.stats
        totals, section = accounting.Totals(), Section("thread")
        while True:
            page = await self._driver.run(accounting.page(self._core, section))
            totals.add(page.sizes)
            if page.next is None:
                break
            section = section._replace(low=page.next)
        census = await self._driver.run(self._core.backend.census(self._core.tenant))
        return totals.stats(census.disk)
