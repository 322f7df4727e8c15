"""A cache for parts in Redis or Valkey: a hash for each thread, which goes as a whole.

Only a cache: it may lose anything. A server has `REPLY_SECONDS` to answer, also where much is sent
or asked for, which goes in pieces; when it does not, it is left alone for `REST_SECONDS`. One that
takes nothing in, as it is full, is still read. Threads that could not be dropped meanwhile are
dropped as soon as the cache is used again, by this process, and not read before; whatever no
process comes to drop ends with its time.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from itertools import islice
from typing import Any

from redis import exceptions
from redis.exceptions import RedisError, ResponseError

from lastgood.backends import forking
from lastgood.backends.cached import PartCache
from lastgood.backends.redis.clients import checked
from lastgood.backends.redis.loops import LoopClients
from lastgood.driver import is_blocking

REPLY_SECONDS = 0.05
"""How long a call waits for the server, to connect or to answer."""
NATIVE_SECONDS = 2 * REPLY_SECONDS
"""The same for a whole call of async code, which knows when it has taken too long."""
REST_SECONDS = 5.0
"""How long a server that failed is left alone."""
ALIVE_SECONDS = 1.0
"""One that has answered within this time is not silent: a busy process is late to hear it."""
PENDING = 10_000
"""So many threads that are to be dropped are remembered."""
DROPS = 200
"""So many of them are dropped at a time."""
PIECE = 1 << 20
"""About so many bytes are sent or asked for at a time."""
FIRST, MOST = 8, 64
"""So many values are asked for before it is known how large they are, for one may have a megabyte;
and so many at most."""

_PUT = """
if redis.call('EXISTS', KEYS[2]) == 1 then return 0 end
for at = 2, #ARGV, 1000 do
  redis.call('HSET', KEYS[1], unpack(ARGV, at, math.min(at + 999, #ARGV)))
end
if redis.call('TTL', KEYS[1]) < 0 then redis.call('EXPIRE', KEYS[1], ARGV[1]) end
return 1
"""
"""A thread that was dropped for good takes nothing in; all of a thread ends at one time."""

_END = """
redis.call('UNLINK', KEYS[1])
return redis.call('SET', KEYS[2], '1', 'EX', ARGV[1])
"""
"""Drops a thread for good. A server that is full refuses a script at its first command or not at
all, and that one it takes."""

_LATE = (TimeoutError, exceptions.TimeoutError)

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
        self._full_until = 0.0
        self._heard_at = -ALIVE_SECONDS
        self._pending: dict[str, bool] = {}
        forking.watch(self)

    # what a cache provides

    async def get(self, thread: str, names: Sequence[str]) -> list[bytes | None]:
        found: list[bytes | None] = []
        size = FIRST if await self._is_clear(thread) else 0
        while size and len(found) < len(names):
            some = names[len(found) : len(found) + size]
            replies = await self._sent([("HMGET", self._hash(thread), *some)])
            if replies is None:
                break
            found += replies[0]
            size = _fitting(replies[0])
        return found + [None] * (len(names) - len(found))

    async def put(self, thread: str, values: Mapping[str, bytes]) -> None:
        if time.monotonic() < self._full_until or not await self._is_clear(thread):
            return
        keys = (self._hash(thread), self._gone(thread))
        for piece in _pieces(values):
            command = ("EVAL", _PUT, 2, *keys, self._ttl, *piece)
            if await self._sent([command], putting=True) is None:
                return

    async def drop(self, thread: str, *, for_good: bool) -> None:
        if len(self._pending) < PENDING:
            self._pending[thread] = self._pending.get(thread, False) or for_good
        await self._is_clear(thread)

    async def _is_clear(self, thread: str) -> bool:
        """Whether the server can be asked, and nothing is there that was to be dropped."""
        if time.monotonic() < self._resting_until:
            return False
        waiting = self._waiting(thread)
        if waiting:
            if await self._sent([self._end(*each) for each in waiting.items()]) is None:
                return False
            for each, for_good in waiting.items():
                if self._pending.get(each) is for_good:  # else it was deleted meanwhile
                    self._pending.pop(each, None)
        return thread not in self._pending

    def _waiting(self, thread: str) -> dict[str, bool]:
        """Some threads that are to be dropped, this one first."""
        pending = self._pending.copy()
        first = {thread: pending[thread]} if thread in pending else {}
        return first | dict(islice(pending.items(), DROPS))

    def _end(self, thread: str, for_good: bool) -> Command:
        if for_good:
            return ("EVAL", _END, 2, self._hash(thread), self._gone(thread), self._ttl)
        return ("UNLINK", self._hash(thread))

    def _hash(self, thread: str) -> str:
        return f"{self._prefix}:{{{thread}}}"

    def _gone(self, thread: str) -> str:
        return f"{self._prefix}:{{{thread}}}:gone"

    # the server

    async def _sent(
        self, commands: Sequence[Command], *, putting: bool = False
    ) -> list[Any] | None:
        """The replies; None if they cannot be had in time. Then the server is left alone, but one
        that answers and only takes nothing in is left alone with that.
        """
        try:
            replies = await self._replies(commands)
        except (RedisError, OSError) as error:
            now = time.monotonic()
            if putting and isinstance(error, ResponseError):
                self._full_until = now + REST_SECONDS
            elif not isinstance(error, _LATE) or now - self._heard_at > ALIVE_SECONDS:
                self._resting_until = now + REST_SECONDS
            return None
        self._heard_at = time.monotonic()
        return replies

    async def _replies(self, commands: Sequence[Command]) -> list[Any]:
        if is_blocking():
            pipe = self._clients.blocking().pipeline(transaction=False)
            return list(_filled(pipe, commands).execute())
        pipe = (await self._clients.native()).pipeline(transaction=False)
        async with asyncio.timeout(NATIVE_SECONDS):
            return list(await _filled(pipe, commands).execute())

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


def _fitting(found: Sequence[bytes | None]) -> int:
    """How many values are a piece, if they are as large as these."""
    size = sum(len(value) for value in found if value is not None)
    return max(1, min(MOST, len(found) * PIECE // max(size, 1)))


def _pieces(values: Mapping[str, bytes]) -> Iterator[list[str | bytes]]:
    """Names and values, together so many as are a piece."""
    piece: list[str | bytes] = []
    weight = 0
    for name, value in values.items():
        piece += (name, value)
        weight += len(value)
        if weight >= PIECE:
            yield piece
            piece, weight = [], 0
    if piece:
        yield piece
