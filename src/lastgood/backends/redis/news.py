"""News of a thread from Redis: a stream that commits add to, and a watcher that waits for it.

The stream is there for as long as somebody watches, and ends by itself: a watcher makes it and puts
off its end, and a commit adds to it only if it finds it. An entry says nothing but that there is
one: what is new, the watcher reads. Each watcher waits on a connection of its own, which no pool
knows and which is closed with it. The one invariant: whoever is told that it may wait is woken by
every checkpoint after its last look; where that cannot be promised (a lost connection, a server
that takes no writes from us) it is told to look again by itself.
"""

from __future__ import annotations

import asyncio
import os
import time
from typing import Any

from redis import exceptions

from lastgood.backend import News
from lastgood.backends.redis.clients import Clients
from lastgood.backends.redis.scripts import WATCH
from lastgood.backends.redis.wire import Word
from lastgood.driver import is_blocking, run_blocking

WATCHED_SECONDS = 60
"""For so long the stream stays, after a watcher has asked for it."""
_RENEW = WATCHED_SECONDS / 2
_RETRY = 1.0
"""For so long a watcher looks by itself when something went wrong."""
_RESERVE = 0.5
"""So much of a wait, or half of it, is for the reply: servers look at their clocks now and then."""
_FIRST = "0"
_FAILURES = (exceptions.RedisError, exceptions.RedisClusterException, OSError)

_ABANDONED: list[object] = []
"""What a forked child inherited: kept, so that nothing closes it."""


class StreamNews(News):
    """What one watcher holds."""

    def __init__(self, clients: Clients, stream: str) -> None:
        self._clients = clients
        self._stream = stream
        self._connection: Any = None
        self._blocking = False
        self._process = 0
        self._seen: Word = _FIRST
        """The newest entry that we know of."""
        self._ask_at = 0.0
        self._rests_until = 0.0

    async def wait(self, seconds: float) -> bool:
        if time.monotonic() < self._rests_until:
            return False
        if self._connection is not None and self._process != os.getpid():
            self.close()
        whole = False
        try:
            await self._told(seconds)
            whole = True
        except _FAILURES:
            self._rests_until = time.monotonic() + _RETRY
        finally:
            if not whole:
                self.close()  # a reply may still be on its way, also when we are cancelled
        return whole

    async def _told(self, seconds: float) -> None:
        end = time.monotonic() + seconds
        if is_blocking():
            await self._heard(end)
        else:
            async with asyncio.timeout(seconds):  # wait_for of 3.11 may swallow a cancel
                await self._heard(end)

    async def _heard(self, end: float) -> None:
        if self._connection is None:
            await self._open(end)
        if time.monotonic() >= self._ask_at and await self._asked(end):
            return
        left = end - time.monotonic()
        millis = int((left - min(_RESERVE, left / 2)) * 1000)
        if millis < 1:
            return  # to the server 0 means for ever
        command = ("XREAD", "BLOCK", millis, "STREAMS", self._stream, self._seen)
        found = await self._reply(end, *command)
        if found:
            self._seen = found[0][1][-1][0]
        else:
            self._ask_at = 0.0  # nothing happened, or the stream is gone

    async def _open(self, end: float) -> None:
        self._blocking, self._process = is_blocking(), os.getpid()
        left = max(end - time.monotonic(), 0.001)
        self._connection = await self._clients.apart(self._stream, left)
        opened = self._connection.connect()
        if not self._blocking:
            await opened

    async def _asked(self, end: float) -> bool:
        """Have commits add to the stream for a while; True if there may be something new."""
        began = time.monotonic()
        newest = await self._reply(end, "EVAL", WATCH.text, 1, self._stream, WATCHED_SECONDS)
        self._ask_at = began + _RENEW
        before, self._seen = self._seen, newest
        return bool(before != newest)

    async def _reply(self, end: float, *command: Word) -> Any:
        connection = self._connection
        if not self._blocking:
            await connection.send_command(*command)
            return await connection.read_response()
        connection.send_command(*command)
        if not connection.can_read(timeout=max(end - time.monotonic(), 0)):
            raise TimeoutError
        return connection.read_response()

    def close(self) -> None:
        connection, self._connection = self._connection, None
        self._seen, self._ask_at = _FIRST, 0.0
        if connection is None:
            return
        if self._process != os.getpid():
            _ABANDONED.append(connection)
        elif self._blocking:
            connection.disconnect()
        else:
            run_blocking(connection.disconnect(nowait=True))  # which does not suspend
