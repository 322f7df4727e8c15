"""What a reader has seen, so that the next look at it need not read it again.

SQLite's `data_version` tells whether any other connection has committed since it was last asked; if
none has, what this connection read is what is there. A reader never writes, so every commit is one
of another connection. Only what is there is kept: lines of which nothing is missing, and
checkpoints by their ids. That something is absent is looked for every time, and what is over its
time by now is read again.
"""

from __future__ import annotations

from typing import Any

from lastgood.backend import Located
from lastgood.backends.sqlite.verified import is_small
from lastgood.commits import Found, Scope

LIMIT = 512
"""Lines, and checkpoints; with more of either, all of that kind are forgotten."""


class Lines:
    """What one connection has seen since the last commit of any other."""

    def __init__(self, connection: Any) -> None:
        self._connection = connection
        self._version: int | None = None
        self._lines: dict[Scope, tuple[Found, int]] = {}
        self._located: dict[tuple[str, bytes], Located] = {}

    def _compare_version(self) -> None:
        (version,) = self._connection.execute("PRAGMA data_version").fetchone()
        if version != self._version:
            self._lines.clear()
            self._located.clear()
            self._version = version

    def line(self, scope: Scope, clock: int) -> Found | None:
        """What a look would find now. Whatever is noted next must have been read after this."""
        self._compare_version()
        seen = self._lines.get(scope)
        if seen is None:
            return None
        found, newest = seen
        assert found.head is not None, "only lines with a head are kept"
        now = max(clock, newest)
        return None if found.head.expired(now) else Found(now, *found[1:])

    def note_line(self, scope: Scope, found: Found, newest: int) -> None:
        """Keep what a look found, with the store's newest time: no clock is believed behind it."""
        if found.thread is None or found.branch is None or found.head is None:
            return
        if found.tip is not found.head:
            return  # the head is over its time, unless the clock is put back
        if len(self._lines) >= LIMIT:
            self._lines.clear()
        self._lines[scope] = found, max(newest, found.thread.updated_at)

    def located(self, tenant: str, id: bytes) -> Located | None:
        """A checkpoint as it would be found now; the same holds for what is noted next."""
        self._compare_version()
        return self._located.get((tenant, id))

    def note_located(self, tenant: str, found: Located) -> None:
        """Keep a checkpoint, unless it is large or has a time to live."""
        row = found.row
        if row.expires_at is not None or not is_small(row):
            return
        if len(self._located) >= LIMIT:
            self._located.clear()
        self._located[tenant, row.id] = found
