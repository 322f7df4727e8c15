"""Keeps nothing: the same interface for stateless mode.

Operations succeed and leave no trace, except that an open run must be able to go on: the newest
checkpoint of a lane stays until the run on it is left. Promises nothing, so it is not under the
contract.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence

from lastgood.backend import (
    Durability,
    ItemListing,
    Listing,
    Located,
    Section,
    Sheet,
    ThreadEntry,
    ThreadListing,
)
from lastgood.backends.memory import MemoryBackend
from lastgood.commits import Intent, Writes
from lastgood.copy_rules import Bring
from lastgood.errors import StorageError
from lastgood.removal_rules import Delete
from lastgood.rows import ItemRow
from lastgood.run_rules import Enter, Leave


class NullBackend(MemoryBackend):
    """Forgets a thread as soon as nobody is in a run on it."""

    url = "null:"
    durability: Durability = "none"

    def __init__(self) -> None:
        super().__init__()
        self._inside: Counter[tuple[str, str]] = Counter()

    async def commit(self, intent: Intent) -> Writes:
        if isinstance(intent, Bring):
            raise StorageError("null: keeps nothing of a copy.", hint="Copy into another store.")
        writes = await super().commit(intent)
        name = intent.scope.tenant, intent.scope.thread
        self._inside[name] += isinstance(intent, Enter) - isinstance(intent, Leave)
        if self._inside[name] <= 0:
            del self._inside[name]
            await super().commit(Delete(*name))
            self.shelves.threads.pop(self.shelves.names.pop(name, 0), None)
        return writes

    async def find(self, tenant: str, ids: Sequence[bytes]) -> dict[bytes, Located]:  # noqa: ARG002
        return {}

    async def history(self, tenant: str, listing: Listing) -> list[Located]:  # noqa: ARG002
        return []

    async def items(self, tenant: str, listings: Sequence[ItemListing]) -> list[list[ItemRow]]:  # noqa: ARG002
        return [[] for _ in listings]

    async def threads(self, tenant: str, listing: ThreadListing) -> list[ThreadEntry]:  # noqa: ARG002
        return []

    async def tenants(self) -> list[str]:
        return []

    async def survey(self, tenant: str, sections: Sequence[Section]) -> list[Sheet]:  # noqa: ARG002
        return [Sheet([], None) for _ in sections]
