"""Which pages two sequences share, told by where the pages are.

Knows spans of pages and positions in a sequence; no bytes. The one invariant: shares increase on
both sides, so between two of them lies what differs.
"""

from __future__ import annotations

from bisect import bisect_left, bisect_right
from collections.abc import Iterator
from heapq import heappop, heappush
from itertools import accumulate
from typing import NamedTuple


class Span(NamedTuple):
    """Neighbouring pages of a stream; `elements` is 0 where nobody knows how many they hold."""

    stream: int
    first: int
    length: int
    elements: int = 0


class Stretch(NamedTuple):
    """So many pages of a sequence from page `start` on."""

    start: int
    length: int


class Share(NamedTuple):
    """So many pages that stand at page `old` of the one sequence and at page `new` of the other."""

    old: int
    new: int
    length: int


class Sum(NamedTuple):
    """So many elements are in these shares, by number, together."""

    total: int
    shares: range


class Layout:
    """Where the pages of a sequence are."""

    def __init__(self, spans: list[Span]) -> None:
        self.spans = spans
        self.starts = list(accumulate((span.length for span in spans), initial=0))

    @property
    def pages(self) -> int:
        return self.starts[-1]

    def placed(self) -> Iterator[tuple[int, Span]]:
        """Each span with the page of the sequence that it begins at."""
        return zip(self.starts, self.spans, strict=False)

    def cut(self, stretch: Stretch) -> Iterator[Span]:
        """The spans of a stretch of pages."""
        end = stretch.start + stretch.length
        number = bisect_right(self.starts, stretch.start) - 1
        while number < len(self.spans) and self.starts[number] < end:
            start, span = self.starts[number], self.spans[number]
            low, high = max(stretch.start, start), min(end, start + span.length)
            whole = high - low == span.length
            yield span if whole else Span(span.stream, span.first + low - start, high - low)
            number += 1

    def gaps(self, kept: list[Stretch]) -> list[Stretch]:
        """What lies before, between and behind stretches; may be empty."""
        starts = [0, *(stretch.start + stretch.length for stretch in kept)]
        ends = [*(stretch.start for stretch in kept), self.pages]
        return [Stretch(start, end - start) for start, end in zip(starts, ends, strict=True)]

    def sums(self, kept: list[Stretch], counted: list[tuple[int, int]]) -> Iterator[Sum]:
        """What the spans tell about the elements in shares, which each lie in one span.

        `counted` has the number of each page that is in no share, and how many elements it holds.
        """
        shares = [stretch.start for stretch in kept]
        numbers = [number for number, _ in counted]
        before = list(accumulate((elements for _, elements in counted), initial=0))
        for start, span in self.placed():
            end = start + span.length
            inside = range(bisect_left(shares, start), bisect_left(shares, end))
            rest = before[bisect_left(numbers, end)] - before[bisect_left(numbers, start)]
            if span.elements and inside:
                yield Sum(span.elements - rest, inside)


def shared(old: Layout, new: Layout) -> list[Share]:
    """The most pages that both have in the same order."""
    return _heaviest(sorted(_common(old, new), key=lambda share: share.new))


def _common(old: Layout, new: Layout) -> Iterator[Share]:
    """Every overlap of a span with one of the other side."""
    known: dict[int, list[tuple[int, int, int]]] = {}
    for start, span in old.placed():
        known.setdefault(span.stream, []).append((span.first + span.length, span.first, start))
    for spans in known.values():
        spans.sort()
    for start, span in new.placed():
        among = known.get(span.stream, [])
        for end, first, place in among[bisect_left(among, (span.first + 1,)) :]:
            low, high = max(first, span.first), min(end, span.first + span.length)
            if low >= high:
                break
            yield Share(place + low - first, start + low - span.first, high - low)


def _heaviest(shares: list[Share]) -> list[Share]:
    """The row of shares that increases on both sides and has the most pages.

    The front holds the best rows by where they end on the old side; a share enters it when the new
    side is past it.
    """
    front = _Front()
    waiting: list[tuple[int, int, int, int]] = []
    before: list[int] = []
    for number, share in enumerate(shares):
        while waiting and waiting[0][0] <= share.new:
            front.enter(*heappop(waiting)[1:])
        weight, last = front.best(share.old)
        before.append(last)
        ends = (share.new + share.length, share.old + share.length)
        heappush(waiting, (*ends, weight + share.length, number))
    while waiting:
        front.enter(*heappop(waiting)[1:])
    chosen: list[Share] = []
    number = front.rows[-1][1] if front.rows else -1
    while number >= 0:
        chosen.append(shares[number])
        number = before[number]
    return chosen[::-1]


class _Front:
    """Rows by their end, each heavier than all that end before it."""

    def __init__(self) -> None:
        self.ends: list[int] = []
        self.rows: list[tuple[int, int]] = []

    def best(self, start: int) -> tuple[int, int]:
        """Weight and last share of the heaviest row that ends at or before a page."""
        position = bisect_right(self.ends, start)
        return self.rows[position - 1] if position else (0, -1)

    def enter(self, end: int, weight: int, number: int) -> None:
        if self.best(end)[0] >= weight:
            return
        position = stop = bisect_left(self.ends, end)
        while stop < len(self.ends) and self.rows[stop][0] <= weight:
            stop += 1
        self.ends[position:stop] = [end]
        self.rows[position:stop] = [(weight, number)]


def solved(known: list[Sum], number: int) -> list[int | None]:
    """The elements in each share, as far as the sums tell."""
    counts: list[int | None] = [None] * number
    progress = True
    while progress:
        progress = False
        for total, inside in known:
            unknown = [n for n in inside if counts[n] is None]
            if len(unknown) == 1:
                counts[unknown[0]] = total - sum(counts[n] or 0 for n in inside)
                progress = True
    return counts
