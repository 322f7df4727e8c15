"""Commits to one thread that come at the same time, sent as one change.

LangGraph puts the writes of a task and the checkpoint behind them in the same moment. The one that
has its turn takes along those that wait behind it: each is decided on what the one before it will
have written, and the store carries out all of it or nothing. If it refuses, each goes alone.
"""

from __future__ import annotations

from typing import NamedTuple

from lastgood.backends.remote.attempts import Attempt
from lastgood.backends.remote.changes import Change, Decision
from lastgood.backends.remote.memory import Remembered, expected
from lastgood.rows import ItemRow

MOST = 32
"""So many share a change."""


class Company(NamedTuple):
    """One change, and those whose commits it carries out."""

    change: Change
    members: tuple[tuple[Attempt, Decision], ...]
    known: Remembered | None
    """The thread as it will be, still at the version that the change is for."""

    @classmethod
    def of(cls, attempt: Attempt, decision: Decision, known: Remembered | None) -> Company:
        """One alone, given what is known of its thread."""
        assert decision.change is not None
        return cls(decision.change, ((attempt, decision),), expected(known, decision))

    @property
    def is_shared(self) -> bool:
        return len(self.members) > 1

    @property
    def is_open(self) -> bool:
        """Whether more may come along: items alone are put so far, decided on what is known."""
        change, count = self.change, len(self.members)
        if change.moment is None or change.checkpoint is not None or count >= MOST:
            return False
        return _only_puts(change) and all(type(row) is ItemRow for row in change.rows)

    def joined(self, attempt: Attempt, decision: Decision) -> Company | None:
        """With one more, decided on what is known here; None if it cannot share the change."""
        change = decision.change and _both(self.change, decision.change)
        if change is None:
            return None
        attempt.sent = decision
        if attempt.begun:  # looked at last, so that it knows if it does not wait any more
            attempt.sent = None
            return None
        members = (*self.members, (attempt, decision))
        return Company(change, members, expected(self.known, decision))

    def told(self) -> None:
        """Tell all that they are done."""
        for attempt, decision in self.members:
            attempt.writes = attempt.told(decision)
            attempt.sent = None

    def parted(self) -> None:
        """Nothing of it is on its way any more."""
        for attempt, _ in self.members:
            attempt.sent = None

    def doubted(self) -> None:
        """Tell all that nobody knows."""
        for attempt, decision in self.members:
            attempt.doubt(decision)


def _both(first: Change, second: Change) -> Change | None:
    """The second, decided on what the first will have written, with that; None if both put one
    item, or more than rows are put.
    """
    places = {row.place for row in first.rows if isinstance(row, ItemRow)}
    others = {row.place for row in second.rows if isinstance(row, ItemRow)}
    if not _only_puts(second) or not places.isdisjoint(others.union(second.free)):
        return None
    return second._replace(
        version=first.version,
        seal=first.seal,
        moment=first.moment,
        former=first.former,
        thread=second.thread or first.thread,
        rows=first.rows + second.rows,
        free=first.free + second.free,
    )


def _only_puts(change: Change) -> bool:
    if change.opens or change.wiped or change.untagged is not None:
        return False
    return not (change.dropped or change.removed or change.swept or change.brought)
