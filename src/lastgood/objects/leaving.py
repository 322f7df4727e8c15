"""Fields that could not be kept: whoever loads the state leaves them as they are.

With `on_unserializable="drop"` a state lacks what its loss report names, a lock for example, and a
field that is missing there was not removed. Owns the names of such fields, for as long as a load
lasts; they are no arguments for the same reason as marks. Must not know objects or stores.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from contextvars import ContextVar

from lastgood import paths
from lastgood.model import Loss

_LEFT: ContextVar[frozenset[str]] = ContextVar("left", default=frozenset())


def names_in(losses: Iterable[Loss]) -> frozenset[str]:
    """The names that a loss report speaks of: of what was left out, and of what held it."""
    return frozenset(name for loss in losses for name in paths.names(loss.path))


@contextmanager
def leaving(names: frozenset[str]) -> Iterator[None]:
    """Loads leave fields of these names alone meanwhile, where the state lacks them."""
    token = _LEFT.set(names)
    try:
        yield
    finally:
        _LEFT.reset(token)


def left() -> frozenset[str]:
    """The names of the fields that are left alone now."""
    return _LEFT.get()
