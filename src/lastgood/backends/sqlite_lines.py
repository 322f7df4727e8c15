"""Lines that a reader has seen, so that the next look at one of them need not read it again.

SQLite's `data_version` tells whether any other connection has committed since it was last asked; if
none has, what this connection read is what is there. A reader never writes, so every commit is one
of another connection. Only lines of which everything was there are kept: that something is absent
is looked for every time.
"""

from __future__ import annotations

from typing import Any, NamedTuple

from lastgood.backends.tables import Line
from lastgood.commits import Scope

LIMIT = 512
"""Lines; with more, all are forgotten."""
_BRANCH = Scope._fields.index("branch")


class Seen(NamedTuple):
    """A line, and the store's newest time as it was kept then."""

    line: Line
    stamp: object


class Lines:
    """What one connection has seen since the last commit of any other."""

    def __init__(self, connection: Any) -> None:
        self._connection = connection
        self._version: int | None = None
        self._seen: dict[Scope, Seen] = {}

    def known(self, scope: Scope) -> Seen | None:
        """What a look would find. Whatever is noted next must have been read after this."""
        (version,) = self._connection.execute("PRAGMA data_version").fetchone()
        if version != self._version:
            self._seen.clear()
            self._version = version
        return self._seen.get(scope)

    def note(self, scope: Scope, line: Line, stamp: object) -> None:
        """Keep a line of which everything is there."""
        if line.branch is None or line.head is None:
            return
        if len(self._seen) >= LIMIT:
            self._seen.clear()
        self._seen[scope] = Seen(line, stamp)


def asks_for_a_line(scope: Scope) -> bool:
    """Whether nothing is wanted but thread, lane, branch and head."""
    return not any(scope[_BRANCH + 1 :])
