"""A client to Redis for threads, and one for each event loop.

Async connections belong to the event loop that made them, and end with it. A forked child makes its
own, and never touches what it inherited: closing it would end the parent's.
"""

from __future__ import annotations

import asyncio
import threading
import weakref
from abc import ABC, abstractmethod
from collections.abc import AsyncGenerator, Iterator
from contextlib import contextmanager
from typing import Any

import redis
import redis.asyncio
from redis.asyncio.retry import Retry as AsyncRetry
from redis.backoff import NoBackoff
from redis.retry import Retry

from lastgood.backends.remote.holding import held
from lastgood.driver import is_blocking

_ABANDONED: list[object] = []
"""What a forked child inherited: kept, so that nothing closes it."""


class LoopClients(ABC):
    """Clients of both colours, made when they are needed. They repeat no command by themselves."""

    def __init__(self) -> None:
        self._begin()

    def _begin(self) -> None:
        self._lock = threading.Lock()
        self._client: Any = None
        self._clients: weakref.WeakKeyDictionary[
            asyncio.AbstractEventLoop, tuple[Any, AsyncGenerator[None, None]]
        ] = weakref.WeakKeyDictionary()

    @abstractmethod
    def _made(self, driver: Any, retry: object) -> Any:
        """A client of a driver, which is `redis` or `redis.asyncio`."""

    def blocking(self) -> Any:
        """The client for threads."""
        with self._lock:
            if self._client is None:
                self._client = self._made(redis, Retry(NoBackoff(), 0))
            return self._client

    @contextmanager
    def interruptible(self) -> Iterator[Any]:
        """The same, left to those who are in it by who is interrupted: that may be in the middle of
        taking a connection or giving it back.
        """
        client = self.blocking()
        try:
            yield client
        except BaseException as stop:
            if not isinstance(stop, Exception):
                self._forget(client)
            raise

    def _forget(self, client: Any) -> None:
        with self._lock:
            if self._client is client:
                self._client = None

    async def native(self) -> Any:
        """The client for this event loop."""
        loop = asyncio.get_running_loop()
        if loop not in self._clients:
            self._leave_closed()
            client = self._made(redis.asyncio, AsyncRetry(NoBackoff(), 0))
            end = self._until_the_end(client)
            self._clients[loop] = client, end
            await anext(end)
        return self._clients[loop][0]

    def _leave_closed(self) -> None:
        """What stands in a loop keeps it in memory, also if it was closed without an end."""
        for each in self._clients.keyrefs():  # made at once: other threads have loops, too
            if (loop := each()) is not None and loop.is_closed():
                self._clients.pop(loop, None)

    async def _until_the_end(self, client: Any) -> AsyncGenerator[None, None]:
        """Closes a client when its loop ends, and with it what stands in it, or nobody has it."""
        kept = held(client)
        try:
            yield
        finally:
            kept.cancel()
            self._clients.pop(asyncio.get_running_loop(), None)
            try:
                await client.aclose()
            finally:
                pool = getattr(client, "connection_pool", None)  # that of a Cluster's nodes is gone
                if pool is not None:
                    await pool.disconnect()

    async def renew(self, client: Any) -> None:
        """Have the next ones get connections that are new: some lead to a server that is a replica
        by now. What is in use is left alone. Not for a Cluster, which finds its way by itself.
        """
        if not is_blocking():
            await client.connection_pool.disconnect(inuse_connections=False)
        else:
            self._forget(client)

    async def close(self) -> None:
        """Let go of connections: of those for threads, and of this loop's."""
        with self._lock:
            client, self._client = self._client, None
        if client is not None:
            client.close()
            pool = getattr(client, "connection_pool", None)
            if pool is not None:
                pool.disconnect()
        self._leave_closed()
        if is_blocking():
            return
        mine = self._clients.get(asyncio.get_running_loop())
        if mine is not None:
            await mine[1].aclose()

    def abandon(self) -> None:
        """In a forked child: begin anew."""
        _ABANDONED.extend([self._client, *self._clients.values()])
        self._begin()
