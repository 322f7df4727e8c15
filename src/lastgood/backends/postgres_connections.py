"""Connections to PostgreSQL that do not wait for ever.

The driver waits for an answer as long as the network says that the peer is there, and a broken
proxy or a stopped server says so without end. These connections give up when nothing was heard for
`silence` seconds: whoever waits then gets an error, and the connection is closed.
"""

from __future__ import annotations

import select
import time
from collections import Counter
from collections.abc import Generator, Sequence
from typing import Any, TypeVar

from psycopg import AsyncConnection, Connection, OperationalError
from psycopg.errors import QueryCanceled

T = TypeVar("T")
Signals = Generator[Any, Any, T]
"""What the driver runs: it yields what to wait for, and is sent what happened, or nothing."""

SILENCE_SECONDS = 20.0
"""How long a server may say nothing while it is asked or told something."""
PATIENT_SECONDS = 3600.0
"""The same where much is read or removed at once: checking a store, deleting a thread."""


OFTEN = 1
"""A statement that was sent so many times on a connection is prepared there: to read and plan one
takes the server several times as long as to carry it out."""
MANY = 1000
"""So many statements are told apart."""


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
                kind = QueryCanceled if cancelled else OperationalError
                raise kind(f"no answer from the server for {connection.silence:.0f} s")
    except StopIteration as stop:
        return stop.value


class Counting:
    """Counts how often a statement was sent on a connection."""

    _times: Counter[tuple[str, tuple[type, ...]]] | None = None
    tuned = False
    """Whether the session was told how to plan what is prepared."""

    def times(self, text: str, values: Sequence[object]) -> int:
        """How often it was, with values of these types, before this time."""
        if self._times is None or len(self._times) > MANY:
            self._times = Counter()
        key = text, tuple(map(type, values))
        self._times[key] += 1
        return self._times[key] - 1


class BoundConnection(Counting, Connection[Any]):
    """A blocking connection."""

    silence = SILENCE_SECONDS

    def wait(self, gen: Any, *args: Any, **kwargs: Any) -> Any:
        return super().wait(_listening(gen, self), *args, **kwargs)


class BoundAsyncConnection(Counting, AsyncConnection[Any]):
    """An async connection."""

    silence = SILENCE_SECONDS

    async def wait(self, gen: Any, *args: Any, **kwargs: Any) -> Any:
        return await super().wait(_listening(gen, self), *args, **kwargs)


def is_dead(connection: Connection[Any] | AsyncConnection[Any]) -> bool:
    """Whether a connection was ended while it lay idle; costs no round trip.

    A server that has nothing to answer says something only when it ends the connection.
    """
    if connection.closed:
        return True
    waiting = select.poll()
    waiting.register(connection.pgconn.socket, select.POLLIN)
    return bool(waiting.poll(0))
