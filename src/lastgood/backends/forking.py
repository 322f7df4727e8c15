"""What happens to open stores when the process forks.

Before a fork every watched store is brought to rest, so that the child inherits no half-done
change and no lock that a thread holds which the child does not have: neither ours nor one of a
library below us, so no store begins until the fork is over. Registered once with the interpreter;
stores are watched for as long as they live. What goes wrong with one of them must not leave
another as it is: the interpreter is told of it when all have had their turn.
"""

from __future__ import annotations

import os
import threading
import weakref
from abc import ABC, abstractmethod
from collections.abc import Callable
from contextlib import AbstractContextManager, ExitStack

from lastgood.children import begin_anew_in_children


class Forkable(ABC):
    """A store that can be brought to rest."""

    @abstractmethod
    def at_rest(self) -> AbstractContextManager[None]:
        """Nothing is under way inside the block."""

    @abstractmethod
    def after_fork_in_child(self) -> None:
        """Go on without the other threads and what they held."""


class _Gate:
    """Where a store that begins waits for a fork that is under way."""

    def __init__(self) -> None:
        self.lock = threading.RLock()
        begin_anew_in_children(self)

    def after_fork(self) -> None:
        self.lock = threading.RLock()


_WATCHED: weakref.WeakSet[Forkable] = weakref.WeakSet()
_HELD = threading.local()
_GATE = _Gate()


def watch(store: Forkable) -> None:
    """Bring this store to rest before every fork."""
    with _GATE.lock:
        _WATCHED.add(store)


def _before() -> None:
    _HELD.stack = stack = ExitStack()
    stack.enter_context(_GATE.lock)
    _HELD.stores = stores = list(_WATCHED)
    _each(stores, lambda store: stack.enter_context(store.at_rest()))


def _held() -> tuple[ExitStack, list[Forkable]]:
    """What was brought to rest; nothing stays alive for having been there at a fork."""
    stack, stores = _HELD.stack, _HELD.stores
    del _HELD.stack, _HELD.stores
    return stack, stores


def _each(stores: list[Forkable], work: Callable[[Forkable], None]) -> None:
    errors: list[Exception] = []
    for store in stores:
        try:
            work(store)
        except Exception as error:
            errors.append(error)
    if errors:
        raise errors[0]


def _in_parent() -> None:
    stack, _ = _held()
    stack.close()


def _in_child() -> None:
    stack, stores = _held()
    stack.pop_all()
    _each(stores, lambda store: store.after_fork_in_child())


os.register_at_fork(before=_before, after_in_parent=_in_parent, after_in_child=_in_child)
