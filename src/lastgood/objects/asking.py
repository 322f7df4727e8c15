"""Which objects are being asked for their state, by the `state_dict` of their class.

Such a method may call ours and add to what that gives: copies, which are its own to change. Where
it did not, its state means what they are copies of. Owns who is being asked, and what was handed
to whom; these are no arguments for the same reason as marks. Must not know how copies are made.
Invariant: of what a class has changed, its own word stands.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from contextvars import ContextVar
from typing import Any, Protocol


class Handed(Protocol):
    """Copies that the `state_dict` of a class got from ours."""

    def meant(self, state: Mapping[str, Any]) -> dict[str, Any] | None:
        """A state with what they are copies of in their places; None if they were changed."""


class Asking:
    """One object that is being asked."""

    def __init__(self, value: object, *, whole: bool) -> None:
        self.value = value
        self.whole = whole
        """Whether nothing around it may share what it has: then copies of plain data do as well."""
        self.handed: Handed | None = None
        self.leans = False
        """Whether what was handed has an object as it is, which would say something else itself."""

    def meant(self, state: Mapping[str, Any]) -> Mapping[str, Any] | None:
        """What the class gave, in terms of the objects themselves; None if nobody can tell."""
        found = self.handed.meant(state) if self.handed else None
        known = _KNOWN.get()
        if found is not None and known is not None:
            known[id(self.value)] = self.value, found
        return found if found is not None or self.leans else state


_ASKED: ContextVar[tuple[Asking, ...]] = ContextVar("asked", default=())
_Known = dict[int, tuple[object, Mapping[str, Any]]]
_KNOWN: ContextVar[_Known | None] = ContextVar("known", default=None)
"""What objects have given, by their ids, which are theirs as long as they are held here."""


@contextmanager
def asking(value: object, *, whole: bool) -> Iterator[Asking]:
    """An object is asked for its state meanwhile."""
    asked = Asking(value, whole=whole)
    token = _ASKED.set((*_ASKED.get(), asked))
    try:
        yield asked
    finally:
        _ASKED.reset(token)


@contextmanager
def asking_once() -> Iterator[None]:
    """What objects give is remembered meanwhile: asking each inside of each would never end."""
    token = None if _KNOWN.get() is not None else _KNOWN.set({})
    try:
        yield
    finally:
        if token is not None:
            _KNOWN.reset(token)


def given_before(value: object) -> Mapping[str, Any] | None:
    """What an object has given already."""
    known = _KNOWN.get()
    return known[id(value)][1] if known and id(value) in known else None


def asker(value: object) -> Asking | None:
    """Who gets what we give of an object, if that is its own class."""
    around = _ASKED.get()
    return around[-1] if around and around[-1].value is value else None


def is_asked(value: object) -> bool:
    """Whether an object is being asked, further out: it is taken as it is meanwhile."""
    around = _ASKED.get()
    if not any(each.value is value for each in around):
        return False
    around[-1].leans = True
    return True
