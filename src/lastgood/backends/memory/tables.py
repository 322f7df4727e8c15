"""Lookups in the shelves of a store in memory."""

from __future__ import annotations

import operator
from bisect import bisect_left, bisect_right
from collections.abc import Callable, Collection, Sequence
from itertools import islice
from typing import Any

from lastgood.backend import ItemListing, Listing, Sort, ThreadListing
from lastgood.backends.memory.shelves import Columns, Items, Shelves
from lastgood.backends.views import Lifetimes, Listed, Views, listed_thread, span, wanted
from lastgood.commits import Place
from lastgood.errors import CheckpointIntegrityError
from lastgood.manifest import Spot
from lastgood.rows import (
    BranchRow,
    CheckpointRow,
    ItemRow,
    LaneRow,
    MoveRow,
    RunRow,
    TagRow,
    ThreadRow,
    intact,
    unsealed,
)

_PLACES: dict[Sort, Callable[[ThreadRow], tuple[Any, ...]]] = {
    "updated": lambda row: (row.active, row.thread),
    "created": lambda row: (row.created_at, row.thread),
    "name": lambda row: (row.name,),
}


class MemoryTables(Views):
    """Lookups in the shelves."""

    def __init__(self, shelves: Shelves, clock: int) -> None:
        self.shelves = shelves
        self.clock = max(clock, shelves.newest)

    def thread(self, tenant: str, name: str) -> ThreadRow | None:
        key = self.shelves.names.get((tenant, name))
        return None if key is None else self.thread_by_key(key)

    def thread_by_key(self, key: int) -> ThreadRow | None:
        found = self.shelves.threads.get(key)
        return None if found is None else unsealed(ThreadRow, found)

    def lane(self, thread: int, agent: str) -> LaneRow | None:
        found = self.shelves.lanes.get(thread, {}).get(agent)
        return None if found is None else unsealed(LaneRow, found)

    def lane_columns(
        self,
        thread: int,
        numbers: Collection[int] | None = None,  # noqa: ARG002
    ) -> list[Columns]:
        return list(self.shelves.lanes.get(thread, {}).values())

    def branch(self, thread: int, lane: int, name: str) -> BranchRow | None:
        found = self.shelves.branches.get(thread, {}).get((lane, name))
        return None if found is None else unsealed(BranchRow, found)

    def branches(self, thread: int) -> list[BranchRow]:
        return [unsealed(BranchRow, row) for row in self.shelves.branches.get(thread, {}).values()]

    def checkpoint(self, thread: int, id: bytes) -> CheckpointRow | None:
        return next((row for row in self.checkpoints(id) if row.thread == thread), None)

    def checkpoints(self, id: bytes) -> list[CheckpointRow]:
        places = self.shelves.ids.get(id, {}).items()
        return [row for thread, seq in places if (row := self.checkpoint_at(thread, seq))]

    def newest_move(self, thread: int, lane: int) -> MoveRow | None:
        moves = self.shelves.moves.get(thread, {})
        newest = max((number for of, number in moves if of == lane), default=None)
        return None if newest is None else unsealed(MoveRow, moves[lane, newest])

    def tag(self, thread: int, name: str) -> TagRow | None:
        found = self.shelves.tags.get(thread, {}).get(name)
        return None if found is None else unsealed(TagRow, found)

    def tags(self, thread: int) -> list[TagRow]:
        found = self.shelves.tags.get(thread, {})
        return [unsealed(TagRow, found[name]) for name in sorted(found)]

    def run(self, thread: int, lane: int) -> RunRow | None:
        runs = self.shelves.runs.get(thread, {})
        newest = max((number for number, of in runs if of == lane), default=None)
        return None if newest is None else unsealed(RunRow, runs[newest, lane])

    def newest_run(self, thread: int) -> RunRow | None:
        runs = self.shelves.runs.get(thread)
        return unsealed(RunRow, runs[max(runs)]) if runs else None

    def item(self, thread: int, shelf: str, key: bytes) -> ItemRow | None:
        found = self.shelves.items.get(thread, Items()).get((shelf, key))
        return None if found is None else unsealed(ItemRow, found)

    def item_columns(self, thread: int, places: Sequence[Place]) -> dict[Place, Sequence[object]]:
        stored = self.shelves.items.get(thread, Items())
        return {place: stored[place] for place in places if place in stored}

    def item_count(self, thread: int) -> int:
        return len(self.shelves.items.get(thread, ()))

    def scan_items(self, thread: int, listing: ItemListing, now: int) -> list[ItemRow]:
        low, high = span(listing)
        stored = self.shelves.items.get(thread, Items())
        between = stored.between(listing.shelf, low, high, reverse=listing.reverse)
        rows = (unsealed(ItemRow, columns) for columns in between)
        found = (row for row in rows if _meant(row, listing, now) and _has(row, listing))
        return list(islice(found, listing.offset, listing.offset + listing.limit))

    def large(self, thread: int, digests: Sequence[bytes]) -> dict[bytes, Spot]:
        found = self.shelves.large
        return {d: found[thread, d] for d in digests if (thread, d) in found}

    def scan(
        self, thread: int, lane: int | None, listing: Listing, now: int
    ) -> list[CheckpointRow]:
        kept: list[CheckpointRow] = []
        shelf = self.shelves.checkpoints.get(thread, {})
        for seq in reversed(_asked_for(sorted(shelf), listing)):
            if _may_be_wanted(shelf[seq], lane, listing, now):
                kept.append(unsealed(CheckpointRow, shelf[seq]))
                if len(kept) == listing.limit:
                    break
        return kept

    def _live(self, tenant: str) -> list[Listed]:
        """Every live thread of a tenant."""
        keys = [key for (of, _), key in self.shelves.names.items() if of == tenant]
        found = [listed_thread(self.shelves.threads[key]) for key in keys]
        return [each for each in found if each.thread.live]

    def thread_page(self, tenant: str, listing: ThreadListing) -> list[Listed]:
        place = _PLACES[listing.sort]
        down = listing.sort != "name"
        found = sorted(self._live(tenant), key=lambda each: place(each.thread), reverse=down)
        if listing.after:
            later = operator.lt if down else operator.gt
            found = [each for each in found if later(place(each.thread), listing.after)]
        if listing.owner is not None:
            found = [each for each in found if each.thread.owner == listing.owner]
        return [self._listed(each, newest=listing.newest) for each in found[: listing.limit]]

    def _listed(self, found: Listed, *, newest: bool) -> Listed:
        row = found.thread
        if found.damage:
            return found
        try:
            last = self.checkpoint_at(row.thread, row.seq) if newest else None
            return Listed(row, self.newest_run(row.thread), last)
        except CheckpointIntegrityError as error:
            return found._replace(damage=error.message)

    def lanes_of(self, threads: Sequence[int]) -> list[LaneRow]:
        stored = (columns for thread in threads for columns in self.lane_columns(thread))
        return [lane for columns in stored if (lane := intact(LaneRow, columns))]

    def checkpoint_at(self, thread: int, seq: int) -> CheckpointRow | None:
        found = self.shelves.checkpoints.get(thread, {}).get(seq)
        return None if found is None else unsealed(CheckpointRow, found)

    def seqs(self, thread: int) -> list[int]:
        return list(self.shelves.checkpoints.get(thread, {}))

    def lifetimes(self, threads: Sequence[ThreadRow]) -> dict[int, Lifetimes]:
        return {row.thread: self._lives(row) for row in threads}

    def _lives(self, thread: ThreadRow) -> Lifetimes:
        shelf = self.shelves.checkpoints.get(thread.thread, {})
        rows = [unsealed(CheckpointRow, shelf[seq]) for seq in shelf]
        expiring = [row for row in rows if row.expires_at is not None]
        over = [row for row in expiring if row.expired(self.now_in(thread))]
        return Lifetimes(len(rows), len(expiring), len(over))


def _asked_for(seqs: list[int], listing: Listing) -> list[int]:
    """The seqs, of some in order, that a listing does not rule out: earlier pages have the rest."""
    low = 0 if listing.above is None else bisect_right(seqs, listing.above)
    high = len(seqs) if listing.before is None else bisect_left(seqs, listing.before)
    return seqs[low:high]


def _may_be_wanted(columns: Columns, lane: int | None, listing: Listing, now: int) -> bool:
    """As it is stored: what is passed over is not verified, as in the other stores."""
    try:
        return wanted(CheckpointRow._make(columns[:-1]), lane, listing, now)
    except TypeError:
        return True  # damaged, as is told when it is read


def _meant(row: ItemRow, listing: ItemListing, now: int) -> bool:
    return listing.every or row.expired(now) is listing.over


def _has(row: ItemRow, listing: ItemListing) -> bool:
    return listing.contains is None or (row.text is not None and listing.contains in row.text)
