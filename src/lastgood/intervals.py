"""Sets of whole numbers as few ranges: which parts of a stream are needed, stored, damaged.

A stream of a million parts that grew without a gap is one range here. Pure.
"""

from __future__ import annotations

from bisect import bisect_left, bisect_right
from collections.abc import Iterator

Range = tuple[int, int]
"""First and last, both inside."""


class Intervals:
    """A set of numbers, kept as ranges that neither overlap nor touch."""

    def __init__(self) -> None:
        self._firsts: list[int] = []
        self._lasts: list[int] = []

    def __iter__(self) -> Iterator[Range]:
        return iter(list(zip(self._firsts, self._lasts, strict=True)))

    def __contains__(self, number: int) -> bool:
        at = bisect_right(self._firsts, number) - 1
        return at >= 0 and number <= self._lasts[at]

    @property
    def highest(self) -> int:
        """The largest number; 0 if there is none."""
        return self._lasts[-1] if self._lasts else 0

    def add(self, first: int, last: int) -> None:
        """Take in a range, merged with those that it meets."""
        low = bisect_left(self._lasts, first - 1)
        high = bisect_right(self._firsts, last + 1)
        if low < high:
            first = min(first, self._firsts[low])
            last = max(last, self._lasts[high - 1])
        self._firsts[low:high] = [first]
        self._lasts[low:high] = [last]

    def without(self, other: Intervals) -> Iterator[Range]:
        """The ranges of numbers that are here and not in another set."""
        for start, end in self:
            first = start
            for taken_first, taken_last in other.meeting(start, end):
                if first < taken_first:
                    yield first, taken_first - 1
                first = taken_last + 1
            if first <= end:
                yield first, end

    def meeting(self, first: int, last: int) -> Iterator[Range]:
        """The ranges that have a number in common with a range."""
        low = bisect_left(self._lasts, first)
        high = bisect_right(self._firsts, last)
        return iter([(self._firsts[at], self._lasts[at]) for at in range(low, high)])
