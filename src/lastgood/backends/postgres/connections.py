"""Connections to PostgreSQL that do not wait for ever.

The driver waits for an answer as long as the network says that the peer is there, and a broken
proxy or a stopped server says so without end. These connections give up when nothing was heard for
`silence` seconds: whoever waits then gets an error, and the connection is closed. So are those of
its pool on which nothing was heard since then: of a host that is gone, all lead nowhere, and to
find that out one by one would take a long time.

Who is interrupted cancels what it waits for, unless a pooler may stand between: what was sent is
waited for then, for as long as the driver waits for the end of what it cancelled. A PgBouncer that
is asked to cancel ends, with everybody's connections, if who asked is interrupted meanwhile.
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
from psycopg.waiting import Ready

from lastgood.backends.postgres.exchange import Repertoire

T = TypeVar("T")
Signals = Generator[Any, Any, T]
"""What the driver runs: it yields what to wait for, and is sent what happened, or nothing."""

SILENCE_SECONDS = 20.0
"""How long a server may say nothing while it is asked or told something."""
PATIENT_SECONDS = 3600.0
"""The same where much is read or removed at once: checking a store, deleting a thread."""
WIND_UP_SECONDS = 5.0
"""The same where nobody waits any more for what was asked."""
CANCEL_SECONDS = 30.0
"""How long it may take to hear that something is cancelled."""


def _listening(signals: Signals[T], connection: BoundConnection | BoundAsyncConnection) -> Any:
    """Pass everything on, and raise when nothing happens any more."""
    heard, ready, cancelled, limit = time.monotonic(), None, False, connection.silence
    try:
        while True:
            wanted = signals.send(ready)
            ready = yield wanted
            now = time.monotonic()
            # Begun once more: the driver was interrupted, and waits for the end of what it
            # cancelled. It goes on with the interruption after a QueryCanceled only.
            if ready is None:
                cancelled, limit, ready = True, min(limit, WIND_UP_SECONDS), Ready.NONE
                heard = now
            elif ready:
                heard = now
            elif now - heard > limit:
                connection.pgconn.finish()
                connection.reach.lost_at = max(connection.reach.lost_at, heard)
                kind = QueryCanceled if cancelled else OperationalError
                raise kind(f"no answer from the server for {limit:.0f} s")
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
    direct = False
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

    def cancel_safe(self, *, timeout: float = CANCEL_SECONDS) -> None:
        if self.direct:
            super().cancel_safe(timeout=timeout)


class BoundAsyncConnection(AsyncConnection[Any]):
    """An async connection."""

    silence = SILENCE_SECONDS
    direct = False
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

    async def cancel_safe(self, *, timeout: float = CANCEL_SECONDS) -> None:  # noqa: ASYNC109
        if self.direct:
            await super().cancel_safe(timeout=timeout)


def is_dead(connection: BoundConnection | BoundAsyncConnection) -> bool:
    """Whether a connection was ended while it lay idle, or may be; costs no round trip.

    A server that has nothing to answer says something only when it ends the connection.
    """
    if connection.closed or connection.heard_at < connection.reach.lost_at:
        return True
    waiting = select.poll()
    waiting.register(connection.pgconn.socket, select.POLLIN)
    return bool(waiting.poll(0))
