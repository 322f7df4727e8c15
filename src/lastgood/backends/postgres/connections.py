"""Connections to PostgreSQL that do not wait for ever.

The driver waits for an answer as long as the network says that the peer is there, and a broken
proxy or a stopped server says so without end. These connections give up when nothing was heard for
`silence` seconds: whoever waits then gets an error, and the connection is closed. So are those of
its pool on which nothing was heard since then: of a host that is gone, all lead nowhere, and to
find that out one by one would take a long time.
"""

from __future__ import annotations

import select
import time
from collections.abc import Generator, Iterator
from contextlib import contextmanager
from functools import cached_property
from typing import Any, Self, TypeVar

from psycopg import AsyncConnection, Connection, Error, OperationalError
from psycopg.errors import QueryCanceled

from lastgood.backends.postgres.exchange import Repertoire

T = TypeVar("T")
Signals = Generator[Any, Any, T]
"""What the driver runs: it yields what to wait for, and is sent what happened, or nothing."""

SILENCE_SECONDS = 20.0
"""How long a server may say nothing while it is asked or told something."""
PATIENT_SECONDS = 3600.0
"""The same where much is read or removed at once: checking a store, deleting a thread."""


def _listening(signals: Signals[T], connection: BoundConnection | BoundAsyncConnection) -> Any:
    """Pass everything on, and raise when nothing happens any more."""
    heard, ready, cancelled = time.monotonic(), None, False
    try:
        while True:
            wanted = signals.send(ready)
            ready = yield wanted
            # Begun once more: the driver was interrupted, and waits for the end of what it
            # cancelled. It goes on with the interruption after a QueryCanceled only.
            cancelled |= ready is None
            now = time.monotonic()
            if ready:
                heard = now
            elif now - heard > connection.silence:
                connection.pgconn.finish()
                connection.reach.lost_at = max(connection.reach.lost_at, heard)
                kind = QueryCanceled if cancelled else OperationalError
                raise kind(f"no answer from the server for {connection.silence:.0f} s")
    except StopIteration as stop:
        connection.heard_at = heard
        return stop.value


class Reach:
    """Whether the last attempt to connect came through. A pool tries again in silence, and those
    who wait for it would never learn why.
    """

    refusal: Error | None = None
    lost_at = 0.0
    """What was asked for then was never answered."""

    @contextmanager
    def tried(self) -> Iterator[None]:
        """An attempt."""
        try:
            yield
        except Error as error:
            self.refusal = error
            raise
        self.refusal = None


class BoundConnection(Connection[Any]):
    """A blocking connection."""

    silence = SILENCE_SECONDS
    reach: Reach
    heard_at: float

    @classmethod
    def connect(cls, conninfo: str = "", **options: Any) -> Self:
        """With `reach=`, that is told how it went."""
        reach: Reach = options.pop("reach", None) or Reach()
        with reach.tried():
            made = super().connect(conninfo, **options)
        made.reach, made.heard_at = reach, time.monotonic()
        return made

    @cached_property
    def repertoire(self) -> Repertoire:
        return Repertoire()

    def wait(self, gen: Signals[T], *args: Any, **kwargs: Any) -> T:
        found: T = super().wait(_listening(gen, self), *args, **kwargs)
        return found


class BoundAsyncConnection(AsyncConnection[Any]):
    """An async connection."""

    silence = SILENCE_SECONDS
    reach: Reach
    heard_at: float

    @classmethod
    async def connect(cls, conninfo: str = "", **options: Any) -> Self:
        """With `reach=`, that is told how it went."""
        reach: Reach = options.pop("reach", None) or Reach()
        with reach.tried():
            made = await super().connect(conninfo, **options)
        made.reach, made.heard_at = reach, time.monotonic()
        return made

    @cached_property
    def repertoire(self) -> Repertoire:
        return Repertoire()

    async def wait(self, gen: Signals[T], *args: Any, **kwargs: Any) -> T:
        found: T = await super().wait(_listening(gen, self), *args, **kwargs)
        return found


def is_dead(connection: BoundConnection | BoundAsyncConnection) -> bool:
    """Whether a connection was ended while it lay idle, or may be; costs no round trip.

    A server that has nothing to answer says something only when it ends the connection.
    """
    if connection.closed or connection.heard_at < connection.reach.lost_at:
        return True
    waiting = select.poll()
    waiting.register(connection.pgconn.socket, select.POLLIN)
    return bool(waiting.poll(0))
