"""Which elements of one list are still there in another: an alignment in bounded time.

Knows nothing of the elements but whether they are equal. The one invariant: the pairs increase on
both sides, so what is paired kept its order.

Both ends are trimmed first. What occurs once on either side anchors the rest (the longest row of
those that increases); between two anchors the same begins anew. Where nothing is unique, a small
middle is aligned exactly and a large one greedily, so that 100,000 equal values are no trap; nor
are lists in which each round finds a single anchor: the rounds have a budget.
"""

from __future__ import annotations

from bisect import bisect_left
from collections import Counter
from collections.abc import Hashable, Sequence

Pair = tuple[int, int]
Box = tuple[int, int, int, int]
Keys = Sequence[Hashable]

EXACT = 40_000
"""Middles of at most so many pairs of elements are aligned exactly."""
LOOKS = 1_000_000
"""Anchors are looked for among so many elements in all, one counted once in each round."""
ROUNDS = 32
"""Or so many times among all elements of longer lists."""


def aligned(old: Keys, new: Keys) -> list[Pair]:
    """Places of equal elements, in order on both sides."""
    found: list[Pair] = []
    todo = [(0, len(old), 0, len(new))]
    left = max(LOOKS, ROUNDS * (len(old) + len(new)))
    while todo:
        low, high, from_, to = todo.pop()
        while low < high and from_ < to and old[low] == new[from_]:
            found.append((low, from_))
            low, from_ = low + 1, from_ + 1
        while low < high and from_ < to and old[high - 1] == new[to - 1]:
            high, to = high - 1, to - 1
            found.append((high, to))
        if low == high or from_ == to:
            continue
        left -= high - low + to - from_
        anchors = _anchors(old[low:high], new[from_:to]) if left >= 0 else []
        if anchors:
            todo += _between(anchors, (low, high, from_, to))
            found += [(low + i, from_ + j) for i, j in anchors]
        else:
            match = _exact if (high - low) * (to - from_) <= EXACT else _greedy
            found += [(low + i, from_ + j) for i, j in match(old[low:high], new[from_:to])]
    return sorted(found)


def _between(anchors: list[Pair], box: Box) -> list[Box]:
    low, high, from_, to = box
    starts = [(low, from_), *((low + i + 1, from_ + j + 1) for i, j in anchors)]
    ends = [*((low + i, from_ + j) for i, j in anchors), (high, to)]
    return [(a, c, b, d) for (a, b), (c, d) in zip(starts, ends, strict=True) if a < c and b < d]


def _anchors(old: Keys, new: Keys) -> list[Pair]:
    """What occurs exactly once on both sides, as far as its order was kept."""
    here, there = Counter(old), Counter(new)
    place = {key: i for i, key in enumerate(old) if here[key] == 1}
    pairs = [(place[key], j) for j, key in enumerate(new) if there[key] == 1 and key in place]
    return _increasing(pairs)


def _increasing(pairs: list[Pair]) -> list[Pair]:
    """The longest row of pairs that increases on the left; it increases on the right already."""
    tails: list[int] = []
    tail_at: list[int] = []
    before: list[int] = []
    for number, (left, _) in enumerate(pairs):
        length = bisect_left(tails, left)
        before.append(tail_at[length - 1] if length else -1)
        tails[length : length + 1] = [left]
        tail_at[length : length + 1] = [number]
    row: list[Pair] = []
    number = tail_at[-1] if tail_at else -1
    while number >= 0:
        row.append(pairs[number])
        number = before[number]
    return row[::-1]


def _exact(old: Keys, new: Keys) -> list[Pair]:
    """A longest common subsequence, by the usual table."""
    table = [[0] * (len(new) + 1) for _ in range(len(old) + 1)]
    for i in range(len(old) - 1, -1, -1):
        row, below = table[i], table[i + 1]
        for j in range(len(new) - 1, -1, -1):
            row[j] = below[j + 1] + 1 if old[i] == new[j] else max(below[j], row[j + 1])
    found, i, j = [], 0, 0
    while i < len(old) and j < len(new):
        if old[i] == new[j]:
            found.append((i, j))
            i, j = i + 1, j + 1
        elif table[i + 1][j] >= table[i][j + 1]:
            i += 1
        else:
            j += 1
    return found


def _greedy(old: Keys, new: Keys) -> list[Pair]:
    """Each element takes the next place where it occurs."""
    places: dict[Hashable, list[int]] = {}
    for i, key in enumerate(old):
        places.setdefault(key, []).append(i)
    found, free = [], 0
    for j, key in enumerate(new):
        among = places.get(key, [])
        position = bisect_left(among, free)
        if position < len(among):
            found.append((among[position], j))
            free = among[position] + 1
    return found
