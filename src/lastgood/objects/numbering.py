"""The numbers by which shared values are told from one another in the table of a stored state.

They say nothing but which is which; a value that keeps its number keeps its place, so what refers
to it need not be written again. Owns what is remembered: ids, and no value. Must not know trees.
Invariant: of the values of one state, no two have the same number, whatever was remembered.
"""

from __future__ import annotations

from itertools import count


class Numbering:
    """The numbers in the state that was stored last."""

    def __init__(self) -> None:
        self._known: dict[int, int] = {}

    def begin(self) -> Numbers:
        """Those of the state that is stored now."""
        return Numbers(self._known)

    def note(self, numbers: Numbers) -> None:
        """Nothing gets a number any more: the next state begins with these."""
        self._known = numbers.by_id


class Numbers:
    """The numbers in one state, given in the order in which its values are met."""

    def __init__(self, before: dict[int, int]) -> None:
        self.by_id: dict[int, int] = {}
        self.met: list[object] = []
        """The values that have one, each of which is met later than those that hold it."""
        self._before = before
        self._unused = count(max(before.values(), default=0) + 1)

    def of(self, value: object) -> int:
        """That of before, or one that was not used then.

        An id that another value has taken over since brings along a number, too: any will do.
        """
        number = self.by_id.get(id(value))
        if number is None:
            number = self._before.get(id(value)) or next(self._unused)
            self.by_id[id(value)] = number
            self.met.append(value)
        return number
