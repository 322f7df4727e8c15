"""A large sequence of which most recurs where it was: found by rows, not element by element.

Packing many elements in one call takes less time than packing each of them, and most saves bring a
large list or dict as it was, with more at its end, or with a place in it changed. Knows values,
encodings and the pages of a base; no streams and no store. The one invariant: a page is kept only
where its first element begins in the new version too, which is why pages are compared with as many
elements as they hold.
"""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Iterator
from itertools import accumulate, chain, pairwise
from operator import add
from typing import NamedTuple

from lastgood import pages
from lastgood.codec import LIST, ROW, Encoder, Family, Shape, skip
from lastgood.pages import SLICE, Chunk, Cut, Keep, Match, New
from lastgood.placing import grown, laid
from lastgood.tree import Sequence, moved

TOGETHER, MANY = 48 << 10, 1024
"""Rows have about so many bytes, and where nothing says where pages begin, so many elements at
most: few calls, and buffers that stay in the processor's cache."""
LARGE = 4 * TOGETHER
"""From so many bytes on a sequence has rows enough for some to differ."""


def nearly(encoder: Encoder, shape: Shape, known: Sequence) -> Sequence | None:
    """The new version of a sequence, if most of it is its base; None to look at each element."""
    if known.kind != shape.kind or known.binary is not False or known.nested:
        return None
    content = _Content(encoder, shape)
    longer = _longer(content, known) if shape.kind == LIST else None
    return longer or (_mended(content, known) if known.own_size >= LARGE else None)


def jump(family: Family) -> pages.Skip:
    """How to pass over one element."""
    return _skip_item if family is Family.MAP else skip


def _skip_item(data: bytes, offset: int) -> int:
    """Where the (key, value) pair that begins at an offset ends."""
    return skip(data, skip(data, offset))


class _Content(NamedTuple):
    """The elements of a new version."""

    encoder: Encoder
    shape: Shape

    @property
    def total(self) -> int:
        return len(self.shape.content)

    def values(self, first: int, last: int) -> list[object]:
        """Some elements; of a mapping the keys and values by turns."""
        some = self.shape.content[first:last]
        return list(chain.from_iterable(some) if self.shape.family is Family.MAP else some)

    def row(self, first: int, last: int) -> memoryview | None:
        """The bytes of some elements one behind the other, or None if one must be walked."""
        return self.encoder.pack_row(self.values(first, last))

    def each(self, first: int, last: int) -> list[bytes] | None:
        """The bytes of each of them, or None if one is out of the ordinary."""
        found = self.encoder.pack_plain(self.values(first, last))
        if found is not None and self.shape.family is Family.MAP:
            found = list(map(add, found[::2], found[1::2]))
        return None if found is None or any(len(data) > SLICE for data in found) else found


def _longer(content: _Content, known: Sequence) -> Sequence | None:
    """A list that begins with all of its base, as most do; None if it does not.

    A list that changed elsewhere mostly shows it in the last element of the base: looked at first.
    """
    count = known.count
    if not ROW <= count <= content.total:
        return None
    last = content.row(count - 1, count)
    if last is None or not known.chunks[-1].data.endswith(last):
        return None
    size = min(MANY, 1 + TOGETHER * count // known.own_size)
    rows = (content.row(at, min(count, at + size)) for at in range(0, count, size))
    if not pages.spells(rows, known.chunks):
        return None
    return _with_tail(content, known)


def _with_tail(content: _Content, known: Sequence) -> Sequence | None:
    """The base and a few more elements, unless one of them is out of the ordinary."""
    encoded = content.each(known.count, content.total)
    if encoded is None:
        return None
    cut = pages.cut_elements(list(map(len, encoded)))
    return grown(known, content.shape, content.total, b"".join(encoded), cut, (), binary=False)


def _mended(content: _Content, known: Sequence) -> Sequence | None:
    """A sequence with one stretch that differs from its base, and maybe more at the end."""
    cut = pages.cut_of(known.chunks)
    if len(cut.counts) != len(cut.sizes):
        return None
    base = _Base(pages.joined(known.chunks), cut, content)
    stretch = base.stretch() if base.is_alike() else None
    matched = base.matched(stretch) if stretch is not None else None
    if matched is None:
        return None
    return moved(laid(content.shape, content.total, *matched, known), binary=False)


class _Stretch(NamedTuple):
    """The pages from `first` to before `last` differ; those behind have moved by so many elements.

    What the new version has behind those is new.
    """

    first: int
    last: int
    shift: int


class _Base:
    """The pages of a base beside a new version."""

    def __init__(self, body: bytes, cut: Cut, content: _Content) -> None:
        self.body = body
        self.cut = cut
        self.content = content
        self.ends = list(accumulate(cut.sizes, initial=0))
        self.elements = list(accumulate(cut.counts, initial=0))

    def is_alike(self) -> bool:
        """Whether at least one of both ends is the same: costs two elements."""
        count = self.content.total
        first = self.content.row(0, 1) if count else None
        if first is not None and self.body.startswith(first):
            return True
        last = self.content.row(count - 1, count) if count else None
        return last is not None and self.body.endswith(last)

    def stretch(self) -> _Stretch | None:
        """What differs, to about a row; None if nothing recurs at either end.

        What comes behind it has moved with the end, or has stayed where it was and something was
        appended.
        """
        end, moved_by = len(self.cut.sizes), self.content.total - self.elements[-1]
        marks = list(self._marks(end))
        rows = list(pairwise(marks))
        same = next((n for n, row in enumerate(rows) if not self._recurs(*row, 0)), len(rows))
        first, rest = marks[same], rows[same:]
        for shift in dict.fromkeys((moved_by, 0)):
            last = self._back(first, rest, shift, end)
            if last < end:
                return _Stretch(first, last, shift)
        return _Stretch(first, end, moved_by) if first else None

    def _marks(self, end: int) -> Iterator[int]:
        """The pages with which rows begin, and the end."""
        mark = 0
        while mark < end:
            yield mark
            mark = min(end, bisect_left(self.ends, self.ends[mark] + TOGETHER))
        yield end

    def _back(self, first: int, rows: list[tuple[int, int]], shift: int, end: int) -> int:
        """From which page on everything recurs."""
        last = end
        for row in reversed(rows):
            free = self.elements[row[0]] + shift >= self.elements[first]
            if not free or not self._recurs(*row, shift):
                break
            last = row[0]
        return last

    def _recurs(self, first: int, last: int, shift: int) -> bool:
        """Whether pages stand in the new version, moved by so many elements."""
        row = self.content.row(self.elements[first] + shift, self.elements[last] + shift)
        start, size = self.ends[first], self.ends[last] - self.ends[first]
        return row is not None and len(row) == size and self.body.startswith(row, start)

    def matched(self, stretch: _Stretch) -> tuple[bytes, list[Match]] | None:
        """The new body, and what of it is taken over; None if an element is out of the ordinary."""
        first, last, shift = stretch
        start, end = self.ends[first], self.ends[last]
        middle = self.content.each(self.elements[first], self.elements[last] + shift)
        tail = self.content.each(self.elements[-1] + shift, self.content.total)
        if middle is None or tail is None:
            return None
        spelled = b"".join(middle)
        body = b"".join((self.body[:start], spelled, self.body[end:], *tail))
        matches: list[Match] = [Keep(0, first)] if first else []
        matches += self._inner(stretch, middle, spelled)
        if last < len(self.cut.sizes):
            matches.append(Keep(last, len(self.cut.sizes) - last))
        if tail:
            sizes = list(map(len, tail))
            matches.append(New(len(body) - sum(sizes), len(body), pages.cut_elements(sizes)))
        return body, matches

    def _inner(self, stretch: _Stretch, encoded: list[bytes], body: bytes) -> list[Match]:
        """The same for the stretch that differs, compared with what it was."""
        first, last, _ = stretch
        start = self.ends[first]
        old = Chunk(self.body[start : self.ends[last]], self.cut.between(first, last))
        lengths = pages.KnownLengths(
            encoded, len(old.data), self.elements[last] - self.elements[first]
        )
        found = pages.match_elements((old,), body, lengths, jump(self.content.shape.family))
        return [
            Keep(match.first + first, match.length)
            if isinstance(match, Keep)
            else New(match.start + start, match.end + start, match.cut)
            for match in found
        ]
