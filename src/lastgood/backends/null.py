"""Keeps nothing: the same interface for stateless mode.

Operations succeed and leave no trace, except that an open run must be able to go on: the newest
checkpoint of a lane stays until the run on it is left. Promises nothing, so it is not under the
contract.
"""

from __future__ import annotations

from collections.abc import Sequence

from lastgood.backend import Durability, Listing, Located, ThreadEntry
from lastgood.backends.memory import MemoryBackend, Shelves
from lastgood.commits import Intent, Writes
from lastgood.run_rules import Leave


class NullBackend(MemoryBackend):
    """Forgets a run's checkpoints when it is left, and everything else at once."""

    url = "null:"
    durability: Durability = "none"

    def __init__(self) -> None:
        super().__init__()
        self._open_runs = 0

    async def commit(self, intent: Intent) -> Writes:
        writes = await super().commit(intent)
        entered = writes.run is not None and writes.run.attempt == 1 and writes.thread is not None
        self._open_runs += entered - isinstance(intent, Leave)
        if self._open_runs <= 0:
            self._open_runs, self.shelves = 0, Shelves()
        return writes

    async def find(self, tenant: str, ids: Sequence[bytes]) -> dict[bytes, Located]:  # noqa: ARG002
        return {}

    async def history(self, tenant: str, listing: Listing) -> list[Located]:  # noqa: ARG002
        return []

    async def threads(self, tenant: str, *, after: int | None, limit: int) -> list[ThreadEntry]:  # noqa: ARG002
        return []
