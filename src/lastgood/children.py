"""What has threads or locks begins anew in every child of this process."""

from __future__ import annotations

import os
import weakref
from typing import Protocol


class WithThreads(Protocol):
    """What has threads or locks of its own."""

    def after_fork(self) -> None: ...


_WITH_THREADS: weakref.WeakSet[WithThreads] = weakref.WeakSet()


def begin_anew_in_children(owner: WithThreads) -> None:
    """Have `after_fork` called in every child of this process, for as long as the owner lives."""
    _WITH_THREADS.add(owner)


def _after_fork() -> None:
    for owner in list(_WITH_THREADS):
        owner.after_fork()


os.register_at_fork(after_in_child=_after_fork)
