"""A place of its own in a server, looked at with a plain client."""

from typing import Any
from uuid import uuid4

import redis


class RawPlace:
    """A prefix that nobody else has, and a client that knows nothing of us."""

    def __init__(self, url: str) -> None:
        self.url = url
        self.prefix = f"p-{uuid4().hex[:12]}"
        self.raw: Any = redis.Redis.from_url(url)
        self.cluster = bool(self.raw.info("cluster")["cluster_enabled"])
        if self.cluster:
            self.raw.close()
            self.raw = redis.RedisCluster.from_url(url)

    def stored(self, pattern: str = "*") -> list[str]:
        """The keys that are there."""
        return sorted(key.decode() for key in self.raw.scan_iter(f"{self.prefix}:{pattern}"))

    def close(self) -> None:
        for key in self.stored():
            self.raw.unlink(key)
        self.raw.close()
