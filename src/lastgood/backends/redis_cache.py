"""A cache for parts in Redis or Valkey: a hash for each thread, which goes as a whole.

Only a cache: it may lose anything. A call waits `REPLY_SECONDS` at most; when one fails, the server
is left alone for `REST_SECONDS`. Threads that could not be dropped meanwhile are dropped before the
cache is used again, by this process; whatever no process comes to drop ends with its time.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from typing import Any

from redis.exceptions import RedisError

from lastgood.backends import forking
from lastgood.backends.cached import PartCache
from lastgood.backends.redis_clients import checked
from lastgood.backends.redis_loops import LoopClients
from lastgood.driver import is_blocking

REPLY_SECONDS = 0.05
"""How long a call waits for the server, to connect or to answer."""
NATIVE_SECONDS = 2 * REPLY_SECONDS
"""The same for a whole call of async code, which knows when it has taken too long."""
REST_SECONDS = 5.0
"""How long a server that failed is left alone."""
PENDING = 10_000
"""So many threads that are to be dropped are remembered."""

_PUT = """
if redis.call('EXISTS', KEYS[2]) == 1 then return 0 end
for at = 2, #ARGV, 1000 do
  redis.call('HSET', KEYS[1], unpack(ARGV, at, math.min(at + 999, #ARGV)))
end
if redis.call('TTL', KEYS[1]) < 0 then redis.call('EXPIRE', KEYS[1], ARGV[1]) end
return 1
"""
"""A thread that was dropped for good takes nothing in; all of a thread ends at one time."""

Command = tuple[Any, ...]


class _QuickClients(LoopClients):
    """Clients that do not wait for long."""

    def __init__(self, url: str) -> None:
        super().__init__()
        self._url = url

    def _made(self, driver: Any, retry: object) -> Any:
        return driver.Redis.from_url(
            self._url,
            protocol=2,
            socket_timeout=REPLY_SECONDS,
            socket_connect_timeout=REPLY_SECONDS,
            retry=retry,
        )


class RedisCache(PartCache, forking.Forkable):
    """Parts under one prefix of a server."""

    def __init__(self, url: str, *, ttl: int, prefix: str = "lastgood-cache") -> None:
        self._clients = _QuickClients(checked(url))
        self._ttl = ttl
        self._prefix = prefix
        self._resting_until = 0.0
        self._pending: dict[str, bool] = {}
        forking.watch(self)

    # what a cache provides

    async def get(self, thread: str, names: Sequence[str]) -> list[bytes | None]:
        nothing: list[bytes | None] = [None] * len(names)
        if not await self._is_clear(thread):
            return nothing
        replies = await self._sent([("HMGET", self._hash(thread), *names)])
        return nothing if replies is None else list(replies[0])

    async def put(self, thread: str, values: Mapping[str, bytes]) -> None:
        if not await self._is_clear(thread):
            return
        pairs = [word for pair in values.items() for word in pair]
        keys = (self._hash(thread), self._gone(thread))
        await self._sent([("EVAL", _PUT, 2, *keys, self._ttl, *pairs)])

    async def drop(self, thread: str, *, for_good: bool) -> None:
        if len(self._pending) < PENDING:
            self._pending[thread] = self._pending.get(thread, False) or for_good
        await self._is_clear(thread)

    async def _is_clear(self, thread: str) -> bool:
        """Whether the server can be asked, and nothing is there that was to be dropped."""
        if time.monotonic() < self._resting_until:
            return False
        waiting = dict(self._pending)
        if waiting:
            commands = [c for each, for_good in waiting.items() for c in self._end(each, for_good)]
            if await self._sent(commands) is None:
                return False
            for each in waiting:
                self._pending.pop(each, None)
        return thread not in self._pending

    def _end(self, thread: str, for_good: bool) -> Iterator[Command]:
        if for_good:
            yield ("SET", self._gone(thread), "1", "EX", self._ttl)
        yield ("UNLINK", self._hash(thread))

    def _hash(self, thread: str) -> str:
        return f"{self._prefix}:{{{thread}}}"

    def _gone(self, thread: str) -> str:
        return f"{self._prefix}:{{{thread}}}:gone"

    # the server

    async def _sent(self, commands: Sequence[Command]) -> list[Any] | None:
        """The replies; None if they cannot be had in time. Then the server is left alone."""
        try:
            if is_blocking():
                pipe = self._clients.blocking().pipeline(transaction=False)
                return list(_filled(pipe, commands).execute())
            pipe = (await self._clients.native()).pipeline(transaction=False)
            async with asyncio.timeout(NATIVE_SECONDS):
                return list(await _filled(pipe, commands).execute())
        except (RedisError, OSError):
            self._resting_until = time.monotonic() + REST_SECONDS
            return None

    async def close(self) -> None:
        await self._clients.close()

    # forks of the process

    @contextmanager
    def at_rest(self) -> Iterator[None]:
        yield

    def after_fork_in_child(self) -> None:
        self._clients.abandon()


def _filled(pipe: Any, commands: Sequence[Command]) -> Any:
    for command in commands:
        pipe.execute_command(*command)
    return pipe
