"""Cutting encoded sequences into pages, and finding the pages that a new version can reuse.

Owns the page sizes and the matching; knows bytes only: no values, no streams, no store. The one
invariant: joining the pages of a layout, in order, gives exactly the body it was made from.

A body is the concatenation of element encodings. msgpack is self-delimiting, so a page that
recurs at an element boundary ends at an element boundary too; that makes comparing bytes enough.
"""

from __future__ import annotations

from abc import abstractmethod
from bisect import bisect_left
from collections.abc import Callable, Iterable, Sequence
from itertools import accumulate, chain
from operator import sub
from typing import NamedTuple

PAGE = 1024
"""A page of elements closes at about this many bytes."""
SLICE = 64 * 1024
"""A long text is cut every so many bytes; an element above this is taken apart itself."""
CHUNK = 64 * 1024
"""Pages are held together in memory in chunks of about this size: few to compare, cheap to grow."""

TIES = 8
"""How many pages with the same first element are tried; a list of equal values has many."""

Skip = Callable[[bytes, int], int]


class Cut(NamedTuple):
    """How bytes are cut: the size of each page, of the first element in it, and how many it has.

    `firsts` and `counts` are empty where they are not known (pages from the store) or mean nothing
    (texts).
    """

    sizes: tuple[int, ...] = ()
    firsts: tuple[int, ...] = ()
    counts: tuple[int, ...] = ()

    def between(self, first: int, last: int) -> Cut:
        """How the pages from one to before another are cut."""
        return Cut(*[part[first:last] for part in self])

    def __add__(self, other: Cut) -> Cut:  # type: ignore[override]
        sizes = self.sizes + other.sizes
        if len(self.firsts) == len(self.sizes) and len(other.firsts) == len(other.sizes):
            return Cut(sizes, self.firsts + other.firsts, self.counts + other.counts)
        return Cut(sizes)


class Chunk(NamedTuple):
    """Neighbouring pages in one piece of memory."""

    data: bytes
    cut: Cut


class Keep(NamedTuple):
    """Pages `first` to `first + length - 1` of the base recur here."""

    first: int
    length: int


class New(NamedTuple):
    """The body from `start` to `end` is new, and cut like this."""

    start: int
    end: int
    cut: Cut


Match = Keep | New
_END = Chunk(b"", Cut())


def pages_of(chunks: Sequence[Chunk]) -> list[bytes]:
    """Every page of a body, in order."""
    found = []
    for data, cut in chunks:
        start = 0
        for size in cut.sizes:
            found.append(data[start : start + size])
            start += size
    return found


def count_pages(chunks: Sequence[Chunk]) -> int:
    """How many pages a body has."""
    return sum(len(chunk.cut.sizes) for chunk in chunks)


def joined(chunks: Sequence[Chunk]) -> bytes:
    """The whole body."""
    return chunks[0].data if len(chunks) == 1 else b"".join([chunk.data for chunk in chunks])


def after(base: Sequence[Chunk], chunks: Sequence[Chunk]) -> bytes | None:
    """What comes after a base that stands at the front of these chunks; None if it does not."""
    for same, (chunk, other) in enumerate(zip(base, chunks, strict=False)):
        if chunk.data == other.data:
            continue
        if not (other.data.startswith(chunk.data) or chunk.data.startswith(other.data)):
            return None
        return _behind(base[same:], joined(chunks[same:]))  # cut in another way from here on
    return joined(chunks[len(base) :]) if 0 < len(base) <= len(chunks) else None


def _behind(base: Sequence[Chunk], body: bytes) -> bytes | None:
    offset = 0
    for chunk in base:
        if not body.startswith(chunk.data, offset):
            return None
        offset += len(chunk.data)
    return body[offset:]


def cut_of(chunks: Sequence[Chunk]) -> Cut:
    """How the whole body is cut."""
    if len(chunks) == 1:
        return chunks[0].cut
    cuts = [chunk.cut for chunk in chunks]
    sizes = tuple(chain.from_iterable(cut.sizes for cut in cuts))
    if any(len(cut.firsts) != len(cut.sizes) for cut in cuts):
        return Cut(sizes)
    firsts = chain.from_iterable(cut.firsts for cut in cuts)
    return Cut(sizes, tuple(firsts), tuple(chain.from_iterable(cut.counts for cut in cuts)))


def grown(chunks: tuple[Chunk, ...], data: bytes, cut: Cut) -> tuple[Chunk, ...]:
    """Append pages; only the last chunk is copied, so growing costs the same at any length."""
    if chunks and len(chunks[-1].data) < CHUNK:
        last = chunks[-1]
        return (*chunks[:-1], Chunk(last.data + data, last.cut + cut))
    return (*chunks, Chunk(data, cut))


def recounted(chunks: tuple[Chunk, ...], encoded: Sequence[bytes]) -> tuple[Chunk, ...]:
    """The same chunks, of which each knows its elements, given all of them by their encodings."""
    if all(len(chunk.cut.counts) == len(chunk.cut.sizes) for chunk in chunks):
        return chunks
    at = {end: index for index, end in enumerate(accumulate(map(len, encoded), initial=0))}
    found, start = [], 0
    for data, cut in chunks:
        firsts = [at[end] for end in accumulate(cut.sizes, initial=start)]
        sizes = tuple([len(encoded[index]) for index in firsts[:-1]])
        found.append(Chunk(data, Cut(cut.sizes, sizes, tuple(map(sub, firsts[1:], firsts)))))
        start += len(data)
    return tuple(found)


def chunked(body: bytes, cuts: Sequence[Cut]) -> tuple[Chunk, ...]:
    """A body in chunks, given how its stretches are cut."""
    if len(body) < CHUNK and cuts:
        return (Chunk(body, sum(cuts[1:], cuts[0])),)
    chunks: tuple[Chunk, ...] = ()
    offset = 0
    for cut in cuts:
        end = offset + sum(cut.sizes)
        chunks = grown(chunks, body[offset:end], cut)
        offset = end
    return chunks


def cut_elements(lengths: Sequence[int]) -> Cut:
    """Group neighbouring elements, given by their lengths, into pages."""
    sizes, firsts, ends, open_page = [], [], [0], 0
    for number, length in enumerate(lengths, 1):
        if not open_page:
            firsts.append(length)
        open_page += length
        if open_page >= PAGE:
            sizes.append(open_page)
            ends.append(number)
            open_page = 0
    if open_page:
        sizes.append(open_page)
        ends.append(len(lengths))
    return Cut(tuple(sizes), tuple(firsts), tuple(map(sub, ends[1:], ends)))


def cut_text(length: int) -> Cut:
    """Cut a text of that many bytes."""
    whole, rest = divmod(length, SLICE)
    return Cut((SLICE,) * whole + ((rest,) if rest else ()))


def common_prefix(base: Sequence[Chunk], body: bytes) -> tuple[int, int]:
    """How many bytes and whole pages of the base stand at the front of the body."""
    offset = pages = 0
    for chunk in base:
        if body.startswith(chunk.data, offset):
            offset += len(chunk.data)
            pages += len(chunk.cut.sizes)
            continue
        start = 0
        for size in chunk.cut.sizes:
            if not body.startswith(chunk.data[start : start + size], offset):
                return offset, pages
            offset, start = offset + size, start + size
            pages += 1
    return offset, pages


def spells(pieces: Iterable[memoryview | None], base: Sequence[Chunk]) -> bool:
    """Whether pieces, one behind the other, give exactly the base; None is never the same."""
    chunks = iter(base)
    data, offset = b"", 0
    for piece in pieces:
        if piece is None:
            return False
        rest = piece
        while not data.startswith(rest, offset):  # most lie in one chunk
            room = len(data) - offset
            if len(rest) <= room or not data.endswith(rest[:room]):
                return False
            rest = rest[room:]
            data, offset = next(chunks, _END).data, 0
            if not data:
                return False
        offset += len(rest)
    return offset == len(data) and next(chunks, None) is None


def match_text(base: Sequence[Chunk], body: bytes) -> list[Match]:
    """Reuse the pages at both ends of a text; what lies between is cut anew."""
    offset, kept = common_prefix(base, body)
    pages = pages_of(base)
    end, tail = len(body), len(pages)
    while tail > kept and end - len(pages[tail - 1]) >= offset:
        page = pages[tail - 1]
        if not body.endswith(page, offset, end):
            break
        end -= len(page)
        tail -= 1
    middle = [New(offset, end, cut_text(end - offset))] if end > offset else []
    return _keep(0, kept) + middle + _keep(tail, len(pages) - tail)


def match_elements(
    base: Sequence[Chunk], body: bytes, lengths_from: Lengths, skip: Skip
) -> list[Match]:
    """Reuse every page of the base that recurs in the body, whatever moved.

    A page is looked up by its first element; on a tie the next one in base order wins.
    `lengths_from` gives the lengths of the elements from an offset of the body on, `skip` tells
    where the element that begins at an offset of a page ends.
    """
    offset, kept = common_prefix(base, body)
    found = _keep(0, kept)
    if offset == len(body):
        return found
    lengths = lengths_from(offset)
    if kept == count_pages(base):
        return [*found, New(offset, len(body), cut_elements(lengths))]
    return found + _Resync(base, body, skip).scan(offset, lengths, kept)


class Lengths:
    """The lengths of the elements of a body, from the offset on that they were asked for."""

    _offset = _first = 0
    _lengths: Sequence[int] = ()
    _ends: Sequence[int] = ()

    @abstractmethod
    def __call__(self, offset: int) -> list[int]:
        """The lengths from an offset on."""

    def before(self, offset: int) -> int:
        """How many elements stand before an offset; 0 where nobody asked so far in front."""
        if not self._lengths or offset < self._offset:
            return 0
        if not self._ends:
            self._ends = list(accumulate(self._lengths, initial=self._offset))
        return self._first + bisect_left(self._ends, offset)


class KnownLengths(Lengths):
    """For a body whose elements were just encoded one by one; looks only at those asked for."""

    def __init__(self, encoded: Sequence[bytes], base_size: int, base_count: int) -> None:
        self._encoded = encoded
        self._index_at = {0: 0, base_size: base_count}

    def __call__(self, offset: int) -> list[int]:
        first = self._index_at.get(offset)
        if first is None:
            first = bisect_left(list(accumulate(map(len, self._encoded))), offset) + 1
        self._offset, self._first = offset, first
        self._lengths = lengths = list(map(len, self._encoded[first:]))
        return lengths

    def new(self, matches: list[Match]) -> list[int]:
        """The elements that a matching found nowhere in the base."""
        offset, index = self._offset, 0
        found: list[int] = []
        for match in matches:
            if isinstance(match, New):
                while offset < match.start:
                    offset, index = offset + self._lengths[index], index + 1
                while offset < match.end:
                    found.append(self._first + index)
                    offset, index = offset + self._lengths[index], index + 1
        return found


class ScannedLengths(Lengths):
    """For a body of so many elements that have to be found again in its bytes."""

    def __init__(self, body: bytes, skip: Skip, count: int) -> None:
        self._body = body
        self._skip = skip
        self._count = count

    def __call__(self, offset: int) -> list[int]:
        self._offset = offset
        lengths = []
        while offset < len(self._body):
            end = self._skip(self._body, offset)
            lengths.append(end - offset)
            offset = end
        self._first, self._lengths = self._count - len(lengths), lengths
        return lengths


def _keep(first: int, count: int) -> list[Match]:
    return [Keep(first, count)] if count else []


class _Resync:
    """Walks a body past the first difference and picks up known pages again."""

    def __init__(self, base: Sequence[Chunk], body: bytes, skip: Skip) -> None:
        self.pages = pages_of(base)
        self.body = body
        self.by_first: dict[bytes, list[int]] = {}
        firsts = _first_elements(base, skip)
        for number, (page, first) in enumerate(zip(self.pages, firsts, strict=True)):
            self.by_first.setdefault(page[:first], []).append(number)

    def scan(self, offset: int, lengths: Sequence[int], expected: int) -> list[Match]:
        """Match from an element boundary on; `expected` is the base page that would come next."""
        found: list[Match] = []
        fresh, fresh_from, index = [], offset, 0
        while index < len(lengths):
            page = self._find(offset, lengths[index], expected)
            if page is None:
                fresh.append(lengths[index])
                offset += lengths[index]
                index += 1
                continue
            if fresh:
                found.append(New(fresh_from, offset, cut_elements(fresh)))
                fresh = []
            end, expected = self._run(offset, page)
            found.append(Keep(page, expected - page))
            while offset < end:
                offset += lengths[index]
                index += 1
            fresh_from = offset
        if fresh:
            found.append(New(fresh_from, offset, cut_elements(fresh)))
        return found

    def _run(self, offset: int, page: int) -> tuple[int, int]:
        """Follow the base from a page on: where it ends here, and which page comes no more."""
        while page < len(self.pages) and self.body.startswith(self.pages[page], offset):
            offset += len(self.pages[page])
            page += 1
        return offset, page

    def _find(self, offset: int, length: int, expected: int) -> int | None:
        candidates = self.by_first.get(self.body[offset : offset + length])
        if candidates is None:
            return None
        start = bisect_left(candidates, expected)
        for page in (*candidates[start : start + TIES], *candidates[:start][:TIES]):
            if self.body.startswith(self.pages[page], offset):
                return page
        return None


def _first_elements(base: Sequence[Chunk], skip: Skip) -> list[int]:
    """The length of the first element of every page."""
    found: list[int] = []
    for chunk in base:
        found += chunk.cut.firsts or [skip(page, 0) for page in pages_of((chunk,))]
    return found
