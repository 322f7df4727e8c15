"""Appends on their way, so that one which was interrupted is recognised when it is repeated.

An interrupt may come at any moment: before the commit, between the store and `run.state`, or
between the end of the work and its return to the caller. Knows no store.
"""

from __future__ import annotations

from collections.abc import MutableSequence
from dataclasses import dataclass, field
from operator import is_
from typing import Any, NamedTuple

from lastgood.errors import TransientStorageError
from lastgood.splitting import Addition

TRIES = 20
"""How often a save is made anew that others overtake."""


class Seen(NamedTuple):
    """What a capture of the working copy has seen: the head, how often others were about to change
    the copy, and how many appends were interrupted.
    """

    base: str | None
    grown: int
    broken_off: int


def never_alone(where: str) -> TransientStorageError:
    """The error for who was overtaken every time."""
    return TransientStorageError(
        f"{where}: others save in this run so often that before_save never came to its end between "
        "two of them.",
        hint="Save in one place, or make before_save quicker.",
    )


@dataclass(slots=True)
class Pending:
    """What an append, and those before it of which nobody knows the outcome, put into a list."""

    added: tuple[Addition, ...]
    target: MutableSequence[Any]
    items: tuple[Any, ...]
    ids: set[bytes] = field(default_factory=set, init=False)
    """Of the checkpoints that have them if they are there: its own, and those of saves since."""
    _begun: bool = field(default=False, init=False)
    _shown: bool = field(default=False, init=False)

    def show(self) -> None:
        """Put the items into `run.state`, once, whatever else the caller does with the list."""
        if self._shown:
            return
        if not (self._begun and self._are_there()):
            self._begun = True
            self.target.extend(self.items)
        self._shown = True

    def _are_there(self) -> bool:
        """Whether an interrupt came between the items and the note of them."""
        found, count = list(self.target), len(self.items)
        starts = range(len(found) - count, -1, -1)
        return any(all(map(is_, found[at : at + count], self.items)) for at in starts)
