"""Cutting encoded sequences into pages, and finding the pages that a new version can reuse.

Owns the page sizes and the matching; knows bytes only: no values, no streams, no store. The one
invariant: joining the pages of a layout, in order, gives exactly the body it was made from.

A body is the concatenation of element encodings. msgpack is self-delimiting, so a page that
recurs at an element boundary ends at an element boundary too; that makes comparing bytes enough.
"""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Callable, Iterator, Sequence
from itertools import accumulate
from typing import NamedTuple

PAGE = 1024
"""A page of elements closes at about this many bytes."""
SLICE = 64 * 1024
"""A long text is cut every so many bytes; an element above this is taken apart itself."""
CHUNK = 64 * 1024
"""Pages are held together in memory in chunks of about this size: few to compare, cheap to grow."""

TIES = 8
"""How many pages with the same first element are tried: a list of equal values has no end of them."""

Skip = Callable[[bytes, int], int]
Lengths = Callable[[int], list[int]]


class Chunk(NamedTuple):
    """Neighbouring pages in one piece of memory."""

    data: bytes
    sizes: tuple[int, ...]


class Keep(NamedTuple):
    """Pages `first` to `first + count - 1` of the base recur here."""

    first: int
    count: int


class New(NamedTuple):
    """The body from `start` to `end` is new, cut into pages of these sizes."""

    start: int
    end: int
    sizes: tuple[int, ...]


Match = Keep | New


def pages_of(chunks: Sequence[Chunk]) -> Iterator[bytes]:
    """Every page of a body, in order."""
    for data, sizes in chunks:
        start = 0
        for size in sizes:
            yield data[start : start + size]
            start += size


def joined(chunks: Sequence[Chunk]) -> bytes:
    """The whole body."""
    return chunks[0].data if len(chunks) == 1 else b"".join(chunk.data for chunk in chunks)


def grown(chunks: tuple[Chunk, ...], data: bytes, sizes: tuple[int, ...]) -> tuple[Chunk, ...]:
    """Append pages; only the last chunk is copied, so growing costs the same at any length."""
    if chunks and len(chunks[-1].data) < CHUNK:
        last = chunks[-1]
        return (*chunks[:-1], Chunk(last.data + data, last.sizes + sizes))
    return (*chunks, Chunk(data, sizes))


def cut(lengths: Sequence[int]) -> tuple[int, ...]:
    """Group neighbouring elements, given by their lengths, into page sizes."""
    sizes, open_page = [], 0
    for length in lengths:
        open_page += length
        if open_page >= PAGE:
            sizes.append(open_page)
            open_page = 0
    if open_page:
        sizes.append(open_page)
    return tuple(sizes)


def sliced(length: int) -> tuple[int, ...]:
    """Page sizes for a text of that many bytes."""
    whole, rest = divmod(length, SLICE)
    return (SLICE,) * whole + ((rest,) if rest else ())


def common_prefix(base: Sequence[Chunk], body: bytes) -> tuple[int, int]:
    """How many bytes and whole pages of the base stand at the front of the body."""
    offset = pages = 0
    for data, sizes in base:
        if body.startswith(data, offset):
            offset += len(data)
            pages += len(sizes)
            continue
        for page in pages_of((Chunk(data, sizes),)):
            if not body.startswith(page, offset):
                return offset, pages
            offset += len(page)
            pages += 1
    return offset, pages


def match_text(base: Sequence[Chunk], body: bytes) -> list[Match]:
    """Reuse the pages at both ends of a text; what lies between is cut anew."""
    offset, kept = common_prefix(base, body)
    pages = list(pages_of(base))
    end, tail = len(body), len(pages)
    while tail > kept and end - len(pages[tail - 1]) >= offset:
        page = pages[tail - 1]
        if not body.endswith(page, offset, end):
            break
        end -= len(page)
        tail -= 1
    middle = [New(offset, end, sliced(end - offset))] if end > offset else []
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
    if kept == sum(len(chunk.sizes) for chunk in base):
        return [*found, New(offset, len(body), cut(lengths))]
    return found + _Resync(list(pages_of(base)), body, skip).scan(offset, lengths, kept)


def known_lengths(lengths: list[int]) -> Lengths:
    """For a body whose elements were just encoded one by one."""

    def lengths_from(offset: int) -> list[int]:
        if not offset:
            return lengths
        return lengths[bisect_left(list(accumulate(lengths)), offset) + 1 :]

    return lengths_from


def scanned_lengths(body: bytes, skip: Skip) -> Lengths:
    """For a body whose elements have to be found again in its bytes."""

    def lengths_from(offset: int) -> list[int]:
        lengths = []
        while offset < len(body):
            end = skip(body, offset)
            lengths.append(end - offset)
            offset = end
        return lengths

    return lengths_from


def _keep(first: int, count: int) -> list[Match]:
    return [Keep(first, count)] if count else []


class _Resync:
    """Walks a body past the first difference and picks up known pages again."""

    def __init__(self, pages: list[bytes], body: bytes, skip: Skip) -> None:
        self.pages = pages
        self.body = body
        self.by_first: dict[bytes, list[int]] = {}
        for number, page in enumerate(pages):
            self.by_first.setdefault(page[: skip(page, 0)], []).append(number)

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
                found.append(New(fresh_from, offset, cut(fresh)))
                fresh = []
            end = offset + len(self.pages[page])
            _add_page(found, page)
            while offset < end:
                offset += lengths[index]
                index += 1
            fresh_from, expected = offset, page + 1
        if fresh:
            found.append(New(fresh_from, offset, cut(fresh)))
        return found

    def _find(self, offset: int, length: int, expected: int) -> int | None:
        candidates = self.by_first.get(self.body[offset : offset + length], ())
        start = bisect_left(candidates, expected)
        for page in (*candidates[start : start + TIES], *candidates[:start][:TIES]):
            if self.body.startswith(self.pages[page], offset):
                return page
        return None


def _add_page(found: list[Match], page: int) -> None:
    last = found[-1] if found else None
    if isinstance(last, Keep) and last.first + last.count == page:
        found[-1] = Keep(last.first, last.count + 1)
    else:
        found.append(Keep(page, 1))
