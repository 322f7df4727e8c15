"""A new version of a sequence, and where its pages are: taken over from its base, or new.

Knows matches and places; no values and no store. The one invariant: the places hold the pages of
the body, in order, and say of each range how many elements are in it wherever that is known.
"""

from __future__ import annotations

import hashlib
from itertools import accumulate

from lastgood import pages
from lastgood.codec import Shape
from lastgood.pages import Chunk, Cut, Keep, Match, New
from lastgood.tree import Extent, Node, Place, Sequence, cut_places, made, pages_in


def laid(
    shape: Shape,
    count: int,
    body: bytes,
    matches: list[Match],
    known: Sequence | None,
    nested: tuple[Node, ...] = (),
    lengths: pages.Lengths | None = None,
) -> Sequence:
    """A sequence, given its body and what of it stands in an earlier version."""
    if known is not None and _is_append(matches, known):
        new = [match for match in matches if isinstance(match, New)]
        tail, cut = (body[new[0].start :], new[0].cut) if new else (b"", Cut())
        return grown(known, shape, count, tail, cut, nested, known.binary)
    chunks, places = arranged(matches, body, known)
    return Sequence(
        family=shape.family,
        kind=shape.kind,
        extra=shape.extra,
        count=count,
        chunks=chunks,
        places=counted(places, chunks, lengths, count),
        running=hashlib.sha256(body),
        home=known.home if known else None,
        nested=nested,
    )


def _is_append(matches: list[Match], known: Sequence) -> bool:
    first = matches[0] if matches else None
    if not isinstance(first, Keep) or first.first:
        return False
    whole = first.length == pages.count_pages(known.chunks)
    return whole and all(isinstance(match, New) for match in matches[1:])


def grown(
    known: Sequence,
    shape: Shape,
    count: int,
    tail: bytes,
    cut: Cut,
    nested: tuple[Node, ...],
    binary: bool | None,
) -> Sequence:
    """The sequence with a tail: shares the base's memory, hashes and copies only what is new."""
    chunks, places, running = known.chunks, known.places, known.running
    if tail:
        running = running.copy()
        running.update(tail)
        chunks = pages.grown(chunks, tail, cut)
        places = (*places, pages_in((Chunk(tail, cut),)))
    return made(
        Sequence,
        family=shape.family,
        kind=shape.kind,
        extra=shape.extra,
        count=count,
        chunks=chunks,
        places=places,
        running=running,
        home=known.home,
        nested=nested,
        binary=binary,
        own_size=known.own_size + len(tail),  # which would otherwise be summed up from all chunks
    )


def arranged(
    matches: list[Match], body: bytes, known: Sequence | None
) -> tuple[tuple[Chunk, ...], tuple[Place, ...]]:
    """The body in memory, cut as it is stored, and where each of its pages is."""
    old = pages.cut_of(known.chunks) if known else Cut()
    cuts: list[Cut] = []
    places: list[Place] = []
    for match in matches:
        if isinstance(match, Keep):
            assert known is not None, "only a base has pages to keep"
            end = match.first + match.length
            cuts.append(old.between(match.first, end))
            places.extend(cut_places(known.places, match.first, match.length))
        else:
            cuts.append(match.cut)
            places.append(pages_in((Chunk(body[match.start : match.end], match.cut),)))
    return pages.chunked(body, cuts), tuple(places)


def counted(
    places: tuple[Place, ...], chunks: tuple[Chunk, ...], lengths: pages.Lengths | None, total: int
) -> tuple[Place, ...]:
    """The places, each with the number of its elements, as far as pages or lengths tell.

    A range of which only a part stayed does not know it any more. What is known of the body, of
    which matching has asked for the lengths behind the first difference, tells for free.
    """
    if all(place.elements for place in places if isinstance(place, Extent)):
        return places
    counts = pages.cut_of(chunks).counts
    if counts:
        return _summed(places, list(accumulate(counts, initial=0)))
    if lengths is None:
        return places
    ends = list(accumulate(pages.cut_of(chunks).sizes, initial=0))
    found: list[Place] = []
    page = index = 0
    for place in places:
        page += place.length if isinstance(place, Extent) else len(place.pages)
        after = total if page == len(ends) - 1 else lengths.before(ends[page])
        held = place.elements if isinstance(place, Extent) else sum(place.counts)
        if not held and after and index >= 0:
            held = after - index
        index = after or (index + held if held and index >= 0 else -1)
        found.append(place._replace(elements=held) if isinstance(place, Extent) else place)
    return tuple(found)


def _summed(places: tuple[Place, ...], elements: list[int]) -> tuple[Place, ...]:
    """The same, given how many elements stand before each page."""
    found: list[Place] = []
    page = 0
    for place in places:
        if isinstance(place, Extent):
            end = page + place.length
            held = place.elements or elements[end] - elements[page]
            found.append(place if held == place.elements else place._replace(elements=held))
        else:
            end = page + len(place.pages)
            found.append(place)
        page = end
    return tuple(found)
