"""Ending a process at a named point of a commit, as kill -9 does: nothing is flushed or undone.

The points are those at which a backend calls its `failpoint`.
"""

from __future__ import annotations

import os
import signal
from collections.abc import Callable
from typing import Protocol

POINTS = ("before-write", "after-write", "before-commit", "after-commit")
REMOTE_POINTS = ("before-write", "after-commit")
"""Of stores on a server: what lies between is in the server's hands, as one statement."""


class Killable(Protocol):
    """A backend that calls its failpoint."""

    failpoint: Callable[[str], None]


def kill_at(point: str, nth: int = 1) -> Callable[[str], None]:
    """A failpoint that ends this process when `point` is reached for the nth time."""
    left = nth

    def failpoint(name: str) -> None:
        nonlocal left
        if name == point:
            left -= 1
            if left == 0:
                os.kill(os.getpid(), signal.SIGKILL)

    return failpoint


def arm(backend: Killable, point: str, nth: int = 1) -> None:
    """Make a backend end its process at the nth commit from now that reaches `point`."""
    backend.failpoint = kill_at(point, nth)
