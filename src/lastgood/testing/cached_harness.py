"""A store of record behind a cache, for cases: PostgreSQL and Valkey, with a prefix of its own."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from lastgood.backend import Backend
from lastgood.testing.postgres_harness import PostgresHarness
from lastgood.testing.servers.addresses import address


class CachedHarness(PostgresHarness):
    """A schema, and a prefix in the cache."""

    also = ("valkey",)

    def __init__(self, directory: Path) -> None:
        super().__init__(directory)
        self.prefix = f"cache-{self.schema}"

    def backend(self) -> Backend:
        from lastgood.backends.cached import CachedBackend
        from lastgood.backends.redis.cache import RedisCache

        cache = RedisCache(address("valkey"), ttl=600, prefix=self.prefix)
        return CachedBackend(super().backend(), cache)

    def cached(self) -> list[bytes]:
        """What is in the cache."""
        with self._valkey() as valkey:
            return self._keys(valkey)

    def lose_cache(self) -> None:
        """As if the server had been restarted."""
        with self._valkey() as valkey:
            if keys := self._keys(valkey):
                valkey.delete(*keys)

    def _keys(self, valkey: Any) -> list[bytes]:
        return list(valkey.scan_iter(match=f"{self.prefix}:*", count=1000))

    def _valkey(self) -> Any:
        import redis

        return redis.Redis.from_url(address("valkey"))

    def close(self) -> None:
        super().close()
        self.lose_cache()

    # What is damaged is the record; a copy of what was there before would hide it.

    def flip_part(self, thread: str) -> None:
        super().flip_part(thread)
        self.lose_cache()

    def lose_part(self, thread: str) -> None:
        super().lose_part(thread)
        self.lose_cache()
