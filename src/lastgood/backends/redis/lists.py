"""Lists of threads, page by page: what the hints have, as far as it is there.

The one invariant: a page is full, or the list ends with it. What turned out to be gone is taken off
the list on the way.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from lastgood.backend import ThreadListing
from lastgood.backends.redis import calls as redis_calls
from lastgood.backends.redis import queries as redis_queries
from lastgood.backends.redis.calls import Call, clock
from lastgood.backends.redis.hints import Hints, Listed, user_of
from lastgood.backends.redis.keys import Keys
from lastgood.backends.redis.queries import Question
from lastgood.backends.redis.wire import Wire
from lastgood.backends.remote.queries import AskThreads, PageRows
from lastgood.rows import ARRIVING, LIVE, ThreadRow, intact

AT_ONCE = 500
"""So many threads are looked at in a row where a whole list is."""
_BORN = ThreadRow._fields.index("created_at")


class Lists:
    """The lists of one store."""

    def __init__(self, wire: Wire, keys: Keys, hints: Hints, shift: Callable[[], int]) -> None:
        self._wire = wire
        self._keys = keys
        self._hints = hints
        self._shift = shift

    async def page(self, query: AskThreads, heard: list[Any]) -> list[PageRows]:
        """Threads of a list that are really there, until there are as many as were asked for.

        What the server said is noted in `heard`.
        """
        tenant, listing = query.tenant, query.listing
        found: list[PageRows] = []
        after, dated = listing.after, False
        while len(found) < listing.limit:
            wanted = listing._replace(after=after, limit=listing.limit - len(found))
            listed, undated = await self._hints.page(tenant, wanted)
            if undated and not dated:
                dated = await self._dated(query, undated)
                continue
            found += [rows for _, rows in await self._there(query, listed, heard)]
            if len(listed) < wanted.limit:
                break
            after = listed[-1].place
        return found

    async def _dated(self, query: AskThreads, undated: Sequence[Listed]) -> bool:
        """Sort threads by their age that an older version has listed by their keys."""
        for at in range(0, len(undated), AT_ONCE):
            there = await self._there(query, undated[at : at + AT_ONCE], [])
            rows = ((each, intact(ThreadRow, found.thread)) for each, found in there)
            times = [(each, 0 if row is None else row.created_at) for each, row in rows]
            await self._hints.date(query.tenant, times)
        return True

    async def _there(
        self, query: AskThreads, listed: Sequence[Listed], heard: list[Any]
    ) -> list[tuple[Listed, PageRows]]:
        asked = Question("page", (int(query.listing.newest),), redis_queries.page)
        calls = [Call(self._keys.thread(each.tag), [asked]) for each in listed]
        replies = await redis_calls.one_by_one(self._wire, calls, self._shift())
        heard += replies
        found, stale = [], []
        for each, (_, _, reply) in zip(listed, replies, strict=True):
            rows = None if reply is None else redis_queries.page(reply)
            row = None if rows is None else intact(ThreadRow, rows.thread)
            if rows is not None and (row is None or _wanted(row, each.key, query.listing)):
                found.append((each, rows if row else _placed(rows, each, query.listing)))
                self._hints.note(each.key, each.tag)
            elif row is None or (row.thread, row.state) != (each.key, ARRIVING):
                stale.append(each)
        if stale:
            now = clock(replies[0]) + self._shift()
            await self._hints.unlist(query.tenant, query.listing, stale, now)
        return found


def _wanted(row: ThreadRow, key: int, listing: ThreadListing) -> bool:
    """Whether it is the thread that a list means, and that of the user whose list it is."""
    return (row.thread, row.state) == (key, LIVE) and user_of(listing) in (None, row.owner)


def _placed(rows: PageRows, listed: Listed, listing: ThreadListing) -> PageRows:
    """A damaged thread, at its place in the list: that is where the next page goes on."""
    if listing.sort != "created":
        return rows
    before, behind = rows.thread[:_BORN], rows.thread[_BORN + 1 :]
    return rows._replace(thread=(*before, listed.place[0], *behind))
