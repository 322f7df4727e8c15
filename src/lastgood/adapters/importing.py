"""What bringing over other libraries' data has in common: where it comes from, how far it is.

A source is read thread by thread, oldest checkpoint first. What is wrong with one thread, a name
that is too long or a value that cannot be read, does not keep the others from being brought over.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import NamedTuple

from lastgood.errors import LastgoodError, StorageError

Progress = Callable[["Count"], None]
STRANGE = (ArithmeticError, AttributeError, LookupError, RecursionError, TypeError, ValueError)
"""What it may raise to read what is not of the shape that its library gives it."""


class Refused(NamedTuple):
    """A thread that was not brought over, or not beyond some checkpoint, and why."""

    thread: str
    error: str
    hint: str

    @classmethod
    def of(cls, thread: object, error: Exception) -> Refused:
        """What is wrong with a thread; raises the error if that is the store."""
        if isinstance(error, StorageError):
            raise error
        if isinstance(error, LastgoodError):
            return cls(str(thread), error.message, error.hint)
        if isinstance(error, ValueError):
            return cls(str(thread), str(error), "")
        what = f"{type(error).__name__}: {error}"
        return cls(str(thread), f"what is stored is not of the shape it must have ({what})", "")


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
    refused: tuple[Refused, ...] = ()

    def plus(self, step: Count) -> Count:
        """What it comes to with one step more."""
        return self._replace(
            checkpoints=self.checkpoints + step.checkpoints,
            skipped=self.skipped + step.skipped,
            writes=self.writes + step.writes,
            differing=self.differing + step.differing,
        )

    def without(self, thread: object, error: Exception) -> Count:
        """The same with a thread that is left out from here on."""
        return self._replace(refused=(*self.refused, Refused.of(thread, error)))

    @property
    def seen(self) -> int:
        return self.checkpoints + self.skipped


def quietly(_count: Count) -> None:
    """Nobody is watching."""
