"""Where the pages of a new version of a sequence are: taken over from its base, or new.

Knows matches and places; no values and no store. The one invariant: the places hold the pages of
the body, in order, and say of each range how many elements are in it wherever that is known.
"""

from __future__ import annotations

from itertools import accumulate

from lastgood import pages
from lastgood.pages import Chunk, Cut, Keep, Match
from lastgood.tree import Extent, Place, Sequence, cut_places, pages_in


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
            cuts.append(Cut(*[part[match.first : end] for part in old]))
            places.extend(cut_places(known.places, match.first, match.length))
        else:
            cuts.append(match.cut)
            places.append(pages_in((Chunk(body[match.start : match.end], match.cut),)))
    return pages.chunked(body, cuts), tuple(places)


def counted(
    places: tuple[Place, ...], chunks: tuple[Chunk, ...], lengths: pages.Lengths, total: int
) -> tuple[Place, ...]:
    """The places, each with the number of its elements, as far as the lengths tell.

    A range of which only a part stayed does not know it any more. What is known of the body, of
    which matching has asked for the lengths behind the first difference, tells for free.
    """
    if all(place.elements for place in places if isinstance(place, Extent)):
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
