"""The half of the client that inspects the store: is it whole, and what takes the space."""

from __future__ import annotations

from collections.abc import Callable

from lastgood import accounting, arguments
from lastgood.backend import Section
from lastgood.core import Core
from lastgood.driver import Driver
from lastgood.item_rules import visible
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
        store: bool = True,
        progress: Callable[[int, int], None] | None = None,
    ) -> Report:
        """Look for damage in all threads of the tenant, or in one; damage does not stop the search.

        This checks that every row is as it was written and that all rows belong together; with
        `data=True`, every byte is read as well. What concerns the store as a whole is checked too,
        unless `store` is False: whoever verifies tenant after tenant has to do that only once. The
        report names each problem and the checkpoints that cannot be restored because of it.
        `progress` is called with two numbers: the checkpoints done, and those expected. Raises
        CheckpointNotFoundError for a thread that is not there.
        """
        thread = arguments.name(session_id, "session_id")
        survey = Survey(self._core, thread, data=data, store=store)
        while await self._driver.run(advance(survey.steps)):
            if progress is not None:
                progress(survey.done, survey.total)
        if progress is not None:
            progress(survey.done, survey.total)
        return survey.report

    async def tenants(self) -> list[str]:
        """List the names of all tenants that have something in the store, in order.

        This is for whoever runs the store and opens a client for each, to verify or sweep it:
        everything else that a client does is about its own tenant. Do not show the answer to users:
        the names of tenants may be those of customers. A tenant whose threads were all deleted is
        not listed. The cost is a few lookups for each tenant; in memory and in Redis, where no
        index has their names, every thread is looked at.
        """
        found = await self._driver.run(self._core.backend.tenants())
        return sorted({visible(tenant) for tenant in found})

    async def stats(self, session_id: str | None = None) -> Stats:
        """Tell how much space the tenant's threads take, or how much one takes, path by path.

        For all threads, the answer has the largest ones. Logical bytes count every state
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
