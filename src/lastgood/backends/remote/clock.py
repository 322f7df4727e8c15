"""What time it is on a server, told without asking it.

Each answer of the server brings its clock. How far that is ahead of ours is known but for the time
that the question took to get there: so the smallest difference that was seen is the best, and what
is told is never behind the server's own time, as long as nobody sets a clock and no host is
stopped. Should that happen, the server notices: a change that is decided on what is told names the
moment that it was decided for.
"""

from __future__ import annotations

import time

OFF = 10_000_000
"""Microseconds by which the moment that a change was decided for may be off where it is carried
out. It takes a while to send a large one."""
APART = 100_000
"""Microseconds by which answers must differ to say that a clock was set."""
AGREEING = 3
"""So many of them in a row must say it: a single one was only slow."""


class ServerClock:
    """Estimates in microseconds."""

    def __init__(self) -> None:
        self._ahead: int | None = None
        self._later: list[int] = []

    def seen(self, clock: int, asked_at: int) -> None:
        """Compare: the server said `clock` to a question that was asked at our `asked_at`."""
        ahead = clock - asked_at
        if self._ahead is None or ahead <= self._ahead:
            self._ahead, self._later = ahead, []
            return
        self._later = [*self._later, ahead] if ahead > self._ahead + APART else []
        if len(self._later) == AGREEING:
            self._ahead, self._later = min(self._later), []

    def now(self) -> int | None:
        """The server's time; None if nothing was heard of it yet."""
        return None if self._ahead is None else ticks() + self._ahead


_OURS: int = getattr(time, "CLOCK_BOOTTIME", time.CLOCK_MONOTONIC)
"""Where there is one, a clock that goes on while the host sleeps."""


def ticks() -> int:
    """Our own clock, which nobody sets."""
    return time.clock_gettime_ns(_OURS) // 1000
