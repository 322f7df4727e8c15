"""Lastgood and checkpnt on Valkey: a server of its own, with an append-only file.

The file is synced every second, as is usual; with `strict`, before each answer. Bytes are those of
the server's memory: there everything stays.
"""

import atexit
from functools import cache
from pathlib import Path
from typing import Any

from benchmarks.stores.checkpnt import CheckpntSteps
from benchmarks.stores.interface import FULL, NORMAL, Pragmas
from benchmarks.stores.lastgood import LastgoodAppend, LastgoodSave


@cache
def valkey(directory: Path, fsync: str) -> Any:  # noqa: ARG001
    """The server of a directory, and the bytes that it takes while it is empty."""
    from lastgood.testing.servers import ValkeyServer

    server = ValkeyServer(fsync=True, settings={"appendfsync": fsync})
    server.start()
    atexit.register(server.close)
    return server, _used(server)


def _used(server: Any) -> int:
    told = server.ask("INFO", "memory").decode()
    return int(told.partition("used_memory_dataset:")[2].split()[0])


class OnRedis:
    """What stores on Valkey have in common."""

    path: Path
    synchronous = NORMAL

    @property
    def server(self) -> Any:
        """The server, and what it takes while it is empty."""
        return valkey(self.path.parent, "always" if self.synchronous == FULL else "everysec")

    @property
    def url(self) -> str:
        """Where the server is."""
        return str(self.server[0].url)

    def size(self) -> int:
        """Bytes of data in its memory."""
        server, empty = self.server
        return _used(server) - int(empty)

    def kept(self) -> int:
        """The same, after closing."""
        return self.size()

    def pragmas(self) -> Pragmas:
        """What an answer of this server is worth."""
        server, _ = self.server
        told = [server.ask("CONFIG", "GET", name)[1] for name in ("appendonly", "appendfsync")]
        return {("append-only file", FULL if told == [b"yes", b"always"] else NORMAL)}


class _Blocking(OnRedis):
    cache_bytes: int

    def opened(self) -> Any:
        """The client."""
        from lastgood import BlockingClient

        return BlockingClient.redis(self.url, cache_bytes=self.cache_bytes)


class RedisSave(_Blocking, LastgoodSave):
    """`run.save` on Valkey."""


class RedisStrict(RedisSave):
    """The same, synced before each answer."""

    synchronous = FULL


class RedisAppend(_Blocking, LastgoodAppend):
    """`run.append` on Valkey."""


class CheckpntRedis(OnRedis, CheckpntSteps):
    """checkpnt's `Client.redis`: the whole state per `save`."""

    def client(self) -> Any:
        from checkpnt import Client

        return Client.redis(self.url)
