"""News of threads from PostgreSQL: a connection that listens, and who waits for what it hears.

A commit to a thread that somebody watches notifies, of a token that stands for the thread. That
only wakes: what is new, the watcher reads. One connection of its own listens for all watchers of a
store, in a thread of its own, for as long as there are any. The one invariant: whoever is told that
it may wait is woken by every commit after its last look; where that cannot be promised (no session
of our own, a lost connection, a thread that is not there yet) it is told to look again by itself.
"""

from __future__ import annotations

import asyncio
import hashlib
import threading
import time
import weakref
from collections.abc import Awaitable, Callable
from typing import Any

import psycopg
from psycopg import Connection

from lastgood.backend import News
from lastgood.backends.postgres.cursors import ADAPTERS
from lastgood.driver import is_blocking
from lastgood.errors import LastgoodError

CHANNEL = "lastgood"
WATCHED_SECONDS = 60
"""For so long commits to a thread notify, after a watcher has asked for it."""
_RENEW = WATCHED_SECONDS / 2
_LISTENS = 0.25
"""So often the listening thread looks whether it is still wanted."""
_IDLE = 5.0
"""For so long it listens though nobody waits."""
_RETRY = 1.0

Arm = Callable[[], Awaitable[bool]]
"""Have commits to a thread notify for a while; False if it is not there."""


def token(schema: str, tenant: str, thread: str) -> str:
    """What stands for a thread: of fixed size, and tells nobody whose it is."""
    parts = (part.encode("utf-8", "surrogatepass") for part in (schema, tenant, thread))
    text = b"".join(len(part).to_bytes(4, "big") + part for part in parts)
    return hashlib.sha256(text).hexdigest()[:32]


class Listener:
    """The connection, and the watchers by their tokens."""

    def __init__(self, dsn: str) -> None:
        self._dsn = dsn
        self._lock = threading.Lock()
        self._watchers: dict[str, weakref.WeakSet[ThreadNews]] = {}
        self._thread: threading.Thread | None = None
        self._stop = threading.Event()
        self.hears = False
        """Whether what is notified now will be heard."""
        self.useless = False
        """Whether there is a pooler in between: what one session asked for, another gets."""

    def add(self, watcher: ThreadNews) -> None:
        """Tell it from now on."""
        with self._lock:
            self._watchers.setdefault(watcher.token, weakref.WeakSet()).add(watcher)

    def remove(self, watcher: ThreadNews) -> None:
        """Tell it no more."""
        with self._lock:
            known = self._watchers.get(watcher.token)
            if known is not None:
                known.discard(watcher)
                if not known:
                    del self._watchers[watcher.token]

    def start(self) -> None:
        """Begin to listen, unless that is so already."""
        with self._lock:
            if self._thread is None or not self._thread.is_alive():
                self._stop = threading.Event()
                self._thread = threading.Thread(
                    target=self._run, args=(self._stop,), name="lastgood-news", daemon=True
                )
                self._thread.start()

    def close(self) -> None:
        """Stop listening, soon."""
        self._stop.set()
        self.hears = False
        self._tell_all()

    def after_fork(self) -> None:
        """In a child: the thread is not there, and its connection is the parent's."""
        self._lock, self._thread, self.hears = threading.Lock(), None, False

    def _run(self, stop: threading.Event) -> None:
        while not stop.is_set() and not self.useless:
            try:
                with psycopg.connect(self._dsn, autocommit=True, context=ADAPTERS) as connection:
                    if self._listen(connection, stop):
                        return
            except psycopg.Error:
                stop.wait(_RETRY)
            finally:
                self.hears = False
                self._tell_all()

    def _listen(self, connection: Connection[Any], stop: threading.Event) -> bool:
        """Pass on what is heard; True when nobody wants to hear any more."""
        found = connection.execute("SELECT pg_backend_pid()", prepare=False).fetchone()
        self.useless = found != (connection.info.backend_pid,)
        if self.useless:
            return True
        connection.execute(f"LISTEN {CHANNEL}", prepare=False)
        self.hears = True
        self._tell_all()
        wanted = time.monotonic()
        while not stop.is_set() and time.monotonic() - wanted < _IDLE:
            for note in connection.notifies(timeout=_LISTENS):
                self._tell(note.payload)
            if self._watchers:
                wanted = time.monotonic()
        return True

    def _tell(self, token: str) -> None:
        with self._lock:
            watchers = list(self._watchers.get(token, ()))
        for watcher in watchers:
            watcher.tell()

    def _tell_all(self) -> None:
        with self._lock:
            watchers = [each for known in self._watchers.values() for each in known]
        for watcher in watchers:
            watcher.tell()


class ThreadNews(News):
    """What one watcher holds."""

    def __init__(self, listener: Listener, token: str, arm: Arm) -> None:
        self.token = token
        self._listener = listener
        self._arm = arm
        self._armed_until = 0.0
        self._told = threading.Event()
        self._wake: Callable[[], object] | None = None
        listener.add(self)

    async def wait(self, seconds: float) -> bool:
        listener = self._listener
        if listener.useless:
            return False
        if not listener.hears:
            self._armed_until = 0.0  # what happens while nobody listens is not heard of
            listener.start()
            return False
        if time.monotonic() > self._armed_until - _RENEW:
            return await self._armed()
        await self._heard(seconds)
        return True

    async def _armed(self) -> bool:
        """Ask for notices; then the watcher has to look once more."""
        began = time.monotonic()
        try:
            if not await self._arm():
                return False
        except LastgoodError:
            return False  # it may only read, or the server is away: then others will say so
        self._armed_until = began + WATCHED_SECONDS
        return True

    async def _heard(self, seconds: float) -> None:
        if is_blocking():
            self._told.wait(seconds)
        else:
            await self._heard_on_loop(seconds)
        self._told.clear()

    async def _heard_on_loop(self, seconds: float) -> None:
        loop, event = asyncio.get_running_loop(), asyncio.Event()
        self._wake = lambda: loop.call_soon_threadsafe(event.set)
        try:
            if not self._told.is_set():
                async with asyncio.timeout(seconds):  # wait_for of 3.11 may swallow a cancel
                    await event.wait()
        except TimeoutError:
            return
        finally:
            self._wake = None

    def tell(self) -> None:
        """From the listening thread: there may be news."""
        self._told.set()
        wake = self._wake
        if wake is not None:
            try:
                wake()
            except RuntimeError:
                return  # its loop is closed: nobody waits any more

    def close(self) -> None:
        self._listener.remove(self)
