"""Small values under names, for a while, that belong to no thread: what frameworks cache.

They are items of hidden threads, one for each namespace.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from lastgood.backend import ItemListing
from lastgood.checkpointers.base import StateT, twin
from lastgood.checkpointers.stored import Stored
from lastgood.core import Core
from lastgood.ids import check_name
from lastgood.item_rules import ChangeItems, ItemDraft, hidden
from lastgood.model import seconds
from lastgood.rows import ItemRow
from lastgood.shelving import change_items, every_item, list_items

SHELF = "values"


class CacheValues(Stored[StateT]):
    """The methods about cached values."""

    async def aput_cache_value(
        self, namespace: str, key: str, value: Any, ttl_seconds: float | None = None
    ) -> None:
        """Keep a value under a key of a namespace.

        It is kept for `ttl_seconds`, which must be more than 0; by default until it is cleared.
        """
        core, ttl = self._core, seconds(ttl_seconds)
        draft = ItemDraft(SHELF, _key(key), core.codec.pack_whole(value, "value"), ttl=ttl)
        intent = ChangeItems(self._cache_tenant, _namespace(namespace), puts=(draft,))
        await self._driver.run(change_items(core, intent))

    async def aget_cache_value(self, namespace: str, key: str) -> Any:
        """Return a value that was kept, or None if it is not there or has expired."""
        wanted = _key(key)
        listing = ItemListing(_namespace(namespace), SHELF, prefix=wanted, limit=1)
        rows = await self._driver.run(list_items(self._core, [listing], self._cache_tenant))
        found = [row for row in rows[0] if row.key == wanted]
        return self._core.codec.unpack(found[0].value) if found else None

    async def aclear_cache_value(self, namespace: str, key: str) -> bool:
        """Remove a value that was kept; return whether it was there."""
        place = SHELF, _key(key)
        intent = ChangeItems(self._cache_tenant, _namespace(namespace), drops=(place,), opens=False)
        return place in (await self._driver.run(change_items(self._core, intent))).before

    async def alist_cache_keys(self, namespace: str, prefix: str | None = None) -> list[str]:
        """Return the keys of a namespace, or those that begin with `prefix`, letter for letter."""
        start = b"" if prefix in (None, "") else check_name(prefix, "prefix").encode()
        listing = ItemListing(_namespace(namespace), SHELF, prefix=start)
        rows = await self._driver.run(_all(self._core, listing, self._cache_tenant))
        return [row.key.decode() for row in rows]

    put_cache_value = twin(aput_cache_value)
    get_cache_value = twin(aget_cache_value)
    clear_cache_value = twin(aclear_cache_value)
    list_cache_keys = twin(alist_cache_keys)

    @property
    def _cache_tenant(self) -> str:
        return hidden(self._core.tenant, "cache")


async def _all(core: Core, listing: ItemListing, tenant: str) -> Sequence[ItemRow]:
    return [row async for row in every_item(core, listing, tenant)]


def _namespace(name: str) -> str:
    return check_name(name, "namespace")


def _key(key: str) -> bytes:
    return check_name(key, "key").encode()
