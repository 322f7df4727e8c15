"""What happens to open stores when the process forks.

Before a fork every watched store is brought to rest, so that the child inherits no half-done
change and no lock that a thread holds which the child does not have. Registered once with the
interpreter; stores are watched for as long as they live.
"""

from __future__ import annotations

import os
import threading
import weakref
from abc import ABC, abstractmethod


class Forkable(ABC):
    """A store that can be brought to rest."""

    @abstractmethod
    def before_fork(self) -> None:
        """Wait until nothing is under way, and keep it so."""

    @abstractmethod
    def after_fork_in_parent(self) -> None:
        """Go on."""

    @abstractmethod
    def after_fork_in_child(self) -> None:
        """Go on without the other threads."""


_WATCHED: weakref.WeakSet[Forkable] = weakref.WeakSet()
_HELD = threading.local()


def watch(store: Forkable) -> None:
    """Bring this store to rest before every fork."""
    _WATCHED.add(store)


def _before() -> None:
    _HELD.stores = []
    for store in list(_WATCHED):
        store.before_fork()
        _HELD.stores.append(store)


def _in_parent() -> None:
    for store in _HELD.stores:
        store.after_fork_in_parent()


def _in_child() -> None:
    for store in _HELD.stores:
        store.after_fork_in_child()


os.register_at_fork(before=_before, after_in_parent=_in_parent, after_in_child=_in_child)
