"""The half of the client that carries threads over into another store."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from datetime import datetime
from typing import Protocol

from lastgood import arguments
from lastgood.copying import Copier
from lastgood.core import Core
from lastgood.driver import Driver
from lastgood.ids import check_name
from lastgood.reports import CopyReport
from lastgood.transfers import Choice, Side


class Opened(Protocol):
    """A client of either colour."""

    _core: Core


class Copying:
    """Methods of `Client` that are about two stores."""

    _core: Core
    _driver: Driver

    async def copy_to(
        self,
        target: Opened,
        *,
        session_ids: str | Iterable[str] | None = None,
        since: datetime | None = None,
        revive: bool = False,
        salvage: bool = False,
        dry_run: bool = False,
        progress: Callable[[int, int], None] | None = None,
    ) -> CopyReport:
        """Copy threads into the store of another client, whatever kind of store that is.

        Everything of a thread is copied as it is: ids, seqs, branches, tags, runs, items, times and
        checksums. Each thread is read back and compared before it becomes visible in the target.
        This store is only read. A copy that was interrupted goes on where it stopped. A thread that
        the target has with other content is left alone, and so is one that was deleted there,
        unless `revive` is true.

        A damaged thread is left out. With `salvage=True`, what is left of it is copied: every
        checkpoint that can be restored, as it is. A checkpoint that followed a lost one then
        follows what the lost one followed, as if that had been removed. The report says what is
        missing.

        `session_ids` chooses one thread or several; `since` chooses those that changed since then.
        Without either, everything of the tenant is copied, LangGraph's store included. To copy
        other tenants, open a client for each name in `tenants`. `dry_run` writes nothing.
        `progress` is called with two numbers: the checkpoints done, and those expected. Raises
        CheckpointNotFoundError for a chosen thread that is not there.
        """
        other = _core_of(target)
        threads = None
        if session_ids is not None:
            named = [session_ids] if isinstance(session_ids, str) else session_ids
            threads = tuple(check_name(each, "session_ids") for each in dict.fromkeys(named))
        choice = Choice(threads, arguments.instant(since, "since"), revive, dry_run, salvage)
        native = self._driver is self._core.driver
        sides = (
            Side(self._core, self._driver),
            Side(other, other.driver if native else self._driver),
        )
        return await Copier(*sides, choice, progress).run()


def _core_of(target: Opened) -> Core:
    core = getattr(target, "_core", None)
    if not isinstance(core, Core):
        raise TypeError(
            f"copy_to() takes the client of another store, not {target!r:.60}. "
            "Open it first: Client.open(url)."
        )
    return core
