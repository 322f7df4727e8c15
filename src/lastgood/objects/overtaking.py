"""Saves that are under way at the same time: which of them took its state later.

A save takes the state when it is called and is there later; one that is called in between may be
faster, as a blocking one beside one that is awaited. What is overtaken must not be stored on top:
it would be the newest, and lack what was acknowledged. Knows the saves of one manager in this
process; must not know objects. Invariant: no state is committed on top of one that was taken later.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from itertools import count
from typing import Self

from lastgood.commits import NOTHING, Found, Scope, Taken, Writes
from lastgood.core import Core
from lastgood.rows import CheckpointRow
from lastgood.rules import Save

TRIES = 1000
"""How often a state is taken once more: each time another save has come to its end, and of dozens
at once on a store that is far away one may well be overtaken thirty times.
"""
KNOWN = 1024
"""Of so many saves the order is remembered: more are hardly under way at once."""


class Order:
    """In which order states were taken. Takes no lock: each step is one of the interpreter."""

    def __init__(self) -> None:
        self._numbers = count(1)
        self._taken: dict[bytes, int] = {}

    def next(self) -> int:
        """The number of a state, to be asked for before it is taken."""
        return next(self._numbers)

    def note(self, id: bytes, number: int) -> None:
        """A checkpoint is to have the state of that number."""
        self._taken[id] = number
        if len(self._taken) > KNOWN:
            self._taken.pop(next(iter(list(self._taken))), None)

    def number(self, id: bytes) -> int:
        """The number of a checkpoint's state; 0 if it is not ours, or long there."""
        return self._taken.get(id, 0)


@dataclass(frozen=True, slots=True)
class InOrder:
    """A save that gives the head instead of writing, if the state of that was taken later."""

    save: Save
    order: Order
    number: int

    @property
    def scope(self) -> Scope:
        return self.save.scope

    def decide(self, found: Found, taken: Taken = NOTHING) -> Writes:
        tip, is_there = found.tip, self.save.draft.id in found.rows
        if tip is not None and not is_there and self.order.number(tip.id) > self.number:
            return Writes(answer=tip)
        return self.save.decide(found, taken)

    def again(self) -> Self:
        return replace(self, save=self.save.again())


async def save_in_order(core: Core, intent: InOrder) -> CheckpointRow:
    """Commit a save; gives back its row, or that of the head which is newer than it."""
    intent = replace(intent, save=await core.with_base(intent.save))
    return core.committed(intent.save, await core.backend.commit(intent))
