"""Redis and Valkey for cases: a prefix of its own, and raw access to its keys."""

from __future__ import annotations

import atexit
import time
from collections.abc import Iterator
from contextlib import contextmanager
from functools import cache
from pathlib import Path
from typing import Any
from uuid import uuid4

import ormsgpack

from lastgood.backend import Backend
from lastgood.testing.harness import FIELDS, ORDER, BackendHarness, flipped
from lastgood.testing.servers.addresses import address

_HEAD = 22
_BORN = 6
_KINDS = {"lane": b"l", "branch": b"b", "tag": b"g", "run": b"r", "move": b"m"}
_TABLES = {"checkpoint": ":c", "item": ":e", "run": ":r", "move": ":r"}


class RedisHarness(BackendHarness):
    """A prefix on the server of the test run, or on another one."""

    scheme = "redis"
    server = "valkey"
    turns_clock = True

    def __init__(self, directory: Path, url: str | None = None) -> None:
        super().__init__(directory)
        self.prefix = f"t-{uuid4().hex[:16]}"
        self.pool_size = 8
        self._url = url

    @property
    def url(self) -> str:
        """Where the server is."""
        return self._url or address(self.server or "valkey")

    @property
    def address(self) -> str:  # type: ignore[override]
        mark = "&" if "?" in self.url else "?"
        return f"{self.url}{mark}prefix={self.prefix}"

    def backend(self) -> Backend:
        from lastgood.backends.redis.backend import RedisBackend

        return RedisBackend(
            self.url, prefix=self.prefix, pool_size=self.pool_size, shift=self._shift
        )

    def _shift(self) -> int:
        """How far the clock of the case is ahead of the host's."""
        return (self.time() - time.time_ns()) // 1000

    @contextmanager
    def raw(self) -> Iterator[Any]:
        """A plain client of the server."""
        import redis

        with redis.Redis.from_url(self.url, protocol=2) as client:
            yield client

    def keys(self, client: Any) -> list[bytes]:
        """Every key of the case."""
        return list(client.scan_iter(f"{self.prefix}:*", count=1000))

    def close(self) -> None:
        """Leave nothing on the server."""
        with self.raw() as client:
            if keys := self.keys(client):
                client.unlink(*keys)

    def stored_bytes(self) -> int:
        """The bytes of all fields and values."""
        with self.raw() as client:
            return sum(_size(client, key) for key in self.keys(client))

    def _thread(self, client: Any, thread: str) -> bytes:
        """The key of a thread."""
        place = FIELDS["thread"].index("name")
        for key in self.keys(client):
            if key.endswith(b"}"):
                row = client.hget(key, "t")
                if row and ormsgpack.unpackb(row)[place] == thread.encode():
                    return bytes(key)
        raise AssertionError(f"no thread {thread}")

    def _newest(self, client: Any, table: str, thread: str) -> tuple[bytes, bytes, list[Any]]:
        """The newest row of a table: key, field and columns."""
        key = self._thread(client, thread)
        if table == "thread":
            return key, b"t", ormsgpack.unpackb(client.hget(key, "t"))
        key += _TABLES.get(table, "").encode()
        kind = _KINDS.get(table, b"")
        order = FIELDS[table].index("seq" if table == "checkpoint" else ORDER[table])
        rows = {
            field: ormsgpack.unpackb(row)
            for field, row in client.hgetall(key).items()
            if field.startswith(kind)
        }
        field = max(rows, key=lambda each: rows[each][order])
        return key, field, rows[field]

    def _part(self, client: Any, thread: str) -> tuple[bytes, bytes, bytes]:
        """The first page: key, field and value."""
        key = self._thread(client, thread) + b":p"
        field = min(client.hkeys(key), key=lambda each: [int(n) for n in each.split(b":")])
        return key, field, client.hget(key, field)

    def flip_part(self, thread: str) -> None:
        with self.raw() as client:
            key, field, part = self._part(client, thread)
            client.hset(key, field, part[:_HEAD] + flipped(part[_HEAD:]))

    def flip_digest(self, thread: str) -> None:
        with self.raw() as client:
            key, field, part = self._part(client, thread)
            digest = flipped(part[_BORN:_HEAD])
            client.hset(key, field, part[:_BORN] + digest + part[_HEAD:])

    def lose_part(self, thread: str) -> None:
        with self.raw() as client:
            client.hdel(*self._part(client, thread)[:2])

    def edit_row(self, table: str, thread: str, column: str, value: object) -> None:
        with self.raw() as client:
            key, field, columns = self._newest(client, table, thread)
            columns[FIELDS[table].index(column)] = (
                value.encode("utf-8", "surrogatepass") if isinstance(value, str) else value
            )
            client.hset(key, field, ormsgpack.packb(columns))

    def lose_row(self, table: str, thread: str) -> None:
        with self.raw() as client:
            client.hdel(*self._newest(client, table, thread)[:2])


class Redis62Harness(RedisHarness):
    """The same on the oldest server that we support."""

    server = "redis62"


class ClusterHarness(RedisHarness):
    """The same on a Cluster."""

    server = "cluster"

    @contextmanager
    def raw(self) -> Iterator[Any]:
        """One client for all cases: a Cluster is asked for all its commands when it is made."""
        yield _cluster_client(self.url)


@cache
def _cluster_client(url: str) -> Any:
    import redis

    client = redis.RedisCluster.from_url(url, protocol=2)
    atexit.register(client.close)
    return client


def _size(client: Any, key: bytes) -> int:
    kind = client.type(key)
    if kind == b"hash":
        return sum(len(field) + len(value) for field, value in client.hgetall(key).items())
    if kind == b"zset":
        return sum(len(member) + 8 for member in client.zrange(key, 0, -1))
    return sum(map(len, client.smembers(key))) if kind == b"set" else 8
