"""What bringing over other libraries' data has in common: where it comes from, how far it is.

Pure values. A source is read thread by thread, oldest checkpoint first.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import NamedTuple

Progress = Callable[["Count"], None]


class Count(NamedTuple):
    """How far an import is, and what it came to."""

    threads: int = 0
    checkpoints: int = 0
    skipped: int = 0
    """Checkpoints that were there already, or over their time."""
    writes: int = 0
    """Writes that were added to checkpoints which were there already."""
    differing: int = 0
    """Writes of those that are others here, and were left as they are."""
    of: int = 0
    """How many checkpoints there are to be read."""

    @property
    def seen(self) -> int:
        return self.checkpoints + self.skipped


def quietly(_count: Count) -> None:
    """Nobody is watching."""
