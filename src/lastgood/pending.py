"""Appends on their way, so that one which was interrupted is recognised when it is repeated.

An interrupt may come at any moment: before the commit, between the store and `run.state`, or
between the end of the work and its return to the caller. Knows no store.
"""

from __future__ import annotations

from collections.abc import MutableSequence
from typing import Any, NamedTuple

from lastgood.splitting import Addition


class Pending(NamedTuple):
    """What an append, and those before it of which nobody knows the outcome, put into a list."""

    id: bytes
    """Of the checkpoint that has them, if it is there."""
    added: tuple[Addition, ...]
    target: MutableSequence[Any]
    length: int
    """Of the target before the items; it tells whether they are in it."""
    items: tuple[Any, ...]

    def show(self) -> None:
        """Put the items into `run.state`, once."""
        if len(self.target) == self.length:
            self.target.extend(self.items)
