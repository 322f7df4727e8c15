"""Freeing the hints of threads that have ended by themselves: nobody was there to take them off;
and what is left of one that cannot be deleted as others are, for its row is missing.

A thread is gone when none of its keys is there. One of which something is left is damaged, and its
hints are what leads to it. The one invariant: no hint is dropped of a checkpoint that can be read.
On one server the script that drops looks once more. In a Cluster a hint is there before its thread,
so none is dropped of an id that is younger than an hour or does not tell its age; and for a thread
that is opened anew meanwhile they are written again, here and by who opens it (`Hints.settle`).

What stays is the number that a thread had: no other may be given it.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import get_args

from lastgood.backend import Sort, ThreadListing
from lastgood.backends.redis.calls import named
from lastgood.backends.redis.hints import Hints
from lastgood.backends.redis.keys import BUCKETS, Keys, belongs, id_in, tag_of
from lastgood.backends.redis.scripts import HINT
from lastgood.backends.redis.wire import Wire
from lastgood.backends.remote.queries import ThreadName

TABLES = 16
"""So many tables of ids are read in a round trip."""
HOUR = 3600 * 1_000_000
_TIMED = 7
"""The version of ids that begin with the time at which they were made, in milliseconds."""
AT_ONCE = 500
"""So many threads are looked for in one, and so many hints dropped by a script."""


class Tidying:
    """Hints that lead to nothing."""

    def __init__(self, wire: Wire, keys: Keys, hints: Hints) -> None:
        self._wire = wire
        self._keys = keys
        self._hints = hints

    async def of(self, tenant: str, now: int) -> None:
        """Drop those of a tenant: of its checkpoints, and in its lists."""
        for first in range(0, BUCKETS, TABLES):
            await self._ids(tenant, [self._keys.ids(first + n) for n in range(TABLES)], now)
        for sort in get_args(Sort):
            await self._list(tenant, ThreadListing(sort, limit=AT_ONCE), now)

    async def cleared(self, place: ThreadName) -> bool:
        """Remove what is left of a thread whose row is missing; False if that is there."""
        tag = tag_of(place)
        thread = self._keys.thread(tag)
        ids = await self._wire.one("HKEYS", f"{thread}:i")
        if await self._wire.one(*HINT.over(named(self._wire, thread), "clear")) != b"done":
            return False
        await self._hints.drop(place.tenant, tag, ids)
        return True

    async def _ids(self, tenant: str, tables: Sequence[str], now: int) -> None:
        found = await self._wire.send([("HGETALL", table) for table in tables])
        until = now - HOUR if self._wire.clients.cluster else None
        mine = [
            {f: tag for f, tag in pairs.items() if belongs(f, tenant) and _aged(id_in(f), until)}
            for pairs in found
        ]
        gone = await self._gone({_text(tag) for pairs in mine for tag in pairs.values()})
        stale = {
            table: {field: tag for field, tag in pairs.items() if _text(tag) in gone}
            for table, pairs in zip(tables, mine, strict=True)
        }
        await self._drop(stale)
        if gone and self._wire.clients.cluster:
            back = gone - await self._gone(gone)
            await self._wire.send(
                [
                    HINT.call(table, "claim", field, tag, "id")
                    for table, pairs in stale.items()
                    for field, tag in pairs.items()
                    if _text(tag) in back
                ]
            )

    async def _drop(self, stale: dict[str, dict[bytes, bytes]]) -> None:
        act = ("drop",) if self._wire.clients.cluster else ("lapse", self._keys.stem)
        for table, pairs in stale.items():
            words = [word for pair in pairs.items() for word in pair]
            groups = (words[at : at + 2 * AT_ONCE] for at in range(0, len(words), 2 * AT_ONCE))
            await self._wire.send([HINT.call(table, *act, *group) for group in groups])

    async def _gone(self, tags: Iterable[str]) -> set[str]:
        """Those of which nothing is there."""
        asked, gone = list(tags), set()
        for at in range(0, len(asked), AT_ONCE):
            some = asked[at : at + AT_ONCE]
            found = await self._wire.send([("EXISTS", *self._keys.own(tag)) for tag in some])
            gone |= {tag for tag, count in zip(some, found, strict=True) if not count}
        return gone

    async def _list(self, tenant: str, listing: ThreadListing, now: int) -> None:
        while True:
            listed, _ = await self._hints.page(tenant, listing)
            gone = await self._gone({each.tag for each in listed})
            stale = [each for each in listed if each.tag in gone]
            if stale:
                await self._hints.unlist(tenant, listing, stale, now)
            if len(listed) < listing.limit:
                return
            listing = listing._replace(after=listed[-1].place)


def _aged(id: bytes, until: int | None) -> bool:
    """Whether an id tells that it was made before a time; without one they all do."""
    made = int.from_bytes(id[:6]) * 1000
    return until is None or (id[6] >> 4 == _TIMED and made < until)


def _text(tag: bytes) -> str:
    return tag.decode("ascii", "replace")
