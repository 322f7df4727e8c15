"""What readers see: checkpoints by id, histories, lists of threads, lines of descent.

Composed from the lookups of `Tables`, like what commits see. The one invariant is the same: what
is shown is complete, or an error says what is missing.
"""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import suppress
from typing import NamedTuple, TypeVar

from lastgood.backend import (
    Inside,
    ItemListing,
    Listing,
    Located,
    Outline,
    ThreadEntry,
    ThreadListing,
)
from lastgood.backends.audits import audit, damaged_in
from lastgood.backends.tables import COUNTED, Tables
from lastgood.errors import CheckpointIntegrityError
from lastgood.rows import (
    CheckpointRow,
    ItemRow,
    LaneRow,
    RunRow,
    ThreadRow,
    earlier,
    suspect,
    unsealed,
)

K = TypeVar("K")
T = TypeVar("T")


class Listed(NamedTuple):
    """A thread on a page: its row, its newest run, its newest checkpoint if that was wanted.

    Where one of them is damaged, `damage` says so, and the others are not told.
    """

    thread: ThreadRow
    run: RunRow | None = None
    newest: CheckpointRow | None = None
    damage: str = ""


def listed_thread(columns: Sequence[object]) -> Listed:
    """A thread by its stored columns alone, damaged or not."""
    try:
        return Listed(unsealed(ThreadRow, columns))
    except CheckpointIntegrityError as error:
        return Listed(suspect(columns), damage=error.message)


class Lifetimes(NamedTuple):
    """How many checkpoints a thread has, how many of them have a time to live or are over it."""

    stored: int
    expiring: int
    over: int


class Views(Tables):
    """The rows of a store as readers see them."""

    def each(self, find: Callable[[K], T], keys: Iterable[K]) -> list[T]:
        """What is found for each of them; a store that is a round trip away does better."""
        return [find(key) for key in keys]

    def find(self, tenant: str, ids: Iterable[bytes]) -> dict[bytes, Located]:
        """Checkpoints of a tenant by id."""
        found = [each for id in ids if (each := self.by_id(tenant, id))]
        return {each.row.id: each for each in found}

    def by_id(self, tenant: str, id: bytes) -> Located | None:
        """A checkpoint of a tenant, unless its thread is only arriving."""
        row, thread = self.owned(id, tenant) or (None, None)
        if row is None or thread is None or not thread.live:
            return None
        return _Names(self, thread).located(row)

    def history(self, tenant: str, listing: Listing) -> list[Located]:
        """Live checkpoints of a thread; complete, or an error."""
        thread = self.thread(tenant, listing.thread)
        if thread is None or not thread.live:
            return []
        lane = None
        if listing.agent is not None:
            lane = self.audited_lane(thread, listing.agent)
            if lane is None:
                return []
        number, now = lane.number if lane else None, self.now_in(thread)
        rows = self.scan(thread.thread, number, listing, now)
        for row in self._not_listed(thread, rows, listing.limit, first=listing.before is None):
            if not _cut_off(row, rows, listing) and wanted(row, number, listing, now):
                raise CheckpointIntegrityError(
                    f"checkpoint {row.label} is missing from the history of {thread.name!r}."
                )
        return _Names(self, thread).all(rows)

    def _not_listed(
        self, thread: ThreadRow, rows: Sequence[CheckpointRow], limit: int, *, first: bool
    ) -> Iterator[CheckpointRow]:
        """Rows that a scan left out, to be asked whether it was right to do so."""
        heads = self._heads(thread) if first else set()
        if thread.checkpoints > COUNTED:
            yield from self._around(thread, rows, heads)
            return
        oldest = rows[-1].seq if len(rows) == limit else 0
        listed = {row.seq for row in rows}
        # Those below the oldest are on a later page.
        others = [seq for seq in self._audited_seqs(thread) - listed if seq >= oldest]
        for seq, row in zip(others, self.checkpoints_at(thread.thread, others), strict=True):
            if row is None:
                raise CheckpointIntegrityError(f"{thread.name}@{seq} is missing.")
            yield row

    def _heads(self, thread: ThreadRow) -> set[bytes]:
        """The heads of all branches; of many branches the newest checkpoint, which is one."""
        if thread.branches > COUNTED:
            return {thread.newest}
        return {branch.head for branch in self.audited_branches(thread)}

    def _audited_seqs(self, thread: ThreadRow) -> set[int]:
        """Every seq of a thread, none lost, none twice and none out of its place."""
        seqs = self.seqs(thread.thread)
        unique = set(seqs)
        audit(thread, len(unique), thread.checkpoints, "checkpoint")
        audit(thread, len(seqs), thread.checkpoints, "checkpoint")
        if seqs != sorted(seqs):
            raise CheckpointIntegrityError(f"the checkpoints of {thread.name!r} are out of order.")
        return unique

    def _around(
        self, thread: ThreadRow, rows: Sequence[CheckpointRow], heads: set[bytes]
    ) -> Iterator[CheckpointRow]:
        """The heads, and the parents of rows, that are not among the rows.

        Every checkpoint is a head or somebody's parent, so a row that a scan lost is one of these.
        """
        parents = {row.parent for row in rows if not row.parent_gone}
        others = list((parents | heads) - {row.id for row in rows} - {b""})
        found_rows = self.checkpoints_of(thread.thread, others)
        for id, found in zip(others, found_rows, strict=True):
            if found is None:
                raise CheckpointIntegrityError(
                    f"checkpoint {id.hex()} of thread {thread.name!r} is missing."
                )
            yield found

    # items

    @abstractmethod
    def scan_items(self, thread: int, listing: ItemListing, now: int) -> list[ItemRow]:
        """One page of items, as the listing asks for them."""

    def items(self, tenant: str, listings: Sequence[ItemListing]) -> list[list[ItemRow]]:
        """Live items of threads; complete, or an error. A thread is looked at once."""
        threads = {name: self.thread(tenant, name) for name in {each.thread for each in listings}}
        kept = {name: row for name, row in threads.items() if row and row.live and row.items}
        for row in kept.values():
            self.audit_items(row)
        return self.each(lambda one: self._named_items(kept.get(one.thread), one), listings)

    def _named_items(self, thread: ThreadRow | None, listing: ItemListing) -> list[ItemRow]:
        """Who meets a damaged item learns the name of its thread; its row has a number."""
        if thread is None:
            return []
        try:
            return self._listed_items(thread, listing)
        except CheckpointIntegrityError as error:
            raise damaged_in(thread, error) from error

    def _listed_items(self, thread: ThreadRow, listing: ItemListing) -> list[ItemRow]:
        """Items that are over their time are read too: one that was changed may only seem so.

        Of many such ones the store leaves out the rest, unread; they are left to `verify`.
        """
        now, page, end = self.now_in(thread), first_page(listing), listing.offset + listing.limit
        found, read = list[ItemRow](), 0
        while True:
            rows = self.scan_items(thread.thread, page, now)
            if page is listing:
                return rows
            found += [row for row in rows if not row.expired(now)]
            read += len(rows)
            if len(found) >= end or len(rows) < page.limit:
                return found[listing.offset : end]
            few = read - len(found) < COUNTED
            page = _next_page(page, rows[-1].key, end - len(found), every=few)

    # lists of threads: a fixed number of queries, however many threads are on the page, and one
    # more for each whose last checkpoints are gone

    @abstractmethod
    def thread_page(self, tenant: str, listing: ThreadListing) -> list[Listed]:
        """Live threads in the order of the listing, with what it asks for besides."""

    @abstractmethod
    def lanes_of(self, threads: Sequence[int]) -> list[LaneRow]: ...
    @abstractmethod
    def lifetimes(self, threads: Sequence[ThreadRow]) -> dict[int, Lifetimes]: ...

    def threads(self, tenant: str, listing: ThreadListing) -> list[ThreadEntry]:
        """Threads as a list shows them."""
        listed = self.thread_page(tenant, listing)
        sound = [found.thread for found in listed if not found.damage]
        lanes: dict[int, list[LaneRow]] = {thread.thread: [] for thread in sound}
        for lane in self.lanes_of(list(lanes)):
            if lane.thread in lanes:
                lanes[lane.thread].append(lane)
        lives = self.lifetimes([thread for thread in sound if thread.expiring])
        return [
            self.told(found, lanes.get(found.thread.thread, []), lives.get(found.thread.thread))
            for found in listed
        ]

    def told(self, found: Listed, lanes: list[LaneRow], lives: Lifetimes | None) -> ThreadEntry:
        """A thread, or what is wrong with it: damage in one takes no other off the list."""
        damage = found.damage
        if not damage:
            try:
                return self._entry(found, lanes, lives)
            except CheckpointIntegrityError as error:
                damage = error.message
        return ThreadEntry(suspect((*found.thread, b"")), (), None, self.clock, damage=damage)

    def _entry(self, found: Listed, lanes: list[LaneRow], lives: Lifetimes | None) -> ThreadEntry:
        thread, over = found.thread, 0
        if lives is not None:
            over = lives.over
            audit(thread, lives.stored, thread.checkpoints, "checkpoint")
            audit(thread, lives.expiring, thread.expiring, "expiring checkpoint")
        audit(thread, len(set(lanes)), thread.lanes, "lane")
        audit(thread, found.run.number if found.run else 0, thread.runs, "run")
        ordered = sorted(lanes, key=lambda lane: lane.number)
        last_step, newest = thread.last_step, found.newest
        if over or not thread.newest:
            newest = self.newest_live(thread) if thread.checkpoints > over else None
            last_step = newest.step_name if newest else None
        return ThreadEntry(
            row=thread._replace(checkpoints=thread.checkpoints - over, last_step=last_step),
            agents=tuple(lane.agent for lane in ordered),
            run=found.run,
            now=self.now_in(thread),
            newest=newest,
        )

    def newest_live(self, thread: ThreadRow) -> CheckpointRow | None:
        """The newest checkpoint of a thread whose last one may be removed or over its time."""
        found = self.history(thread.tenant, Listing(thread.name, limit=1))
        return found[0].row if found else None

    # one thread from inside

    def outline(self, tenant: str, name: str, *, only: Inside | None = None) -> Outline | None:
        """Lanes, branches and tags of a thread, or one kind of them."""
        thread = self.thread(tenant, name)
        if thread is None or not thread.live:
            return None
        now = self.now_in(thread)
        branches = [] if only else self.audited_branches(thread)
        return Outline(
            row=thread,
            lanes=() if only == "tags" else self._all_lanes(thread),
            branches=tuple(
                self.each(lambda b: (b, self.nearest_live(self.head(b), now)), branches)
            ),
            tags=() if only == "lanes" else tuple(self.audited_tags(thread)),
            now=now,
        )

    def _all_lanes(self, thread: ThreadRow) -> tuple[LaneRow, ...]:
        lanes = sorted(self.lanes(thread.thread), key=lambda lane: lane.number)
        audit(thread, len(set(lanes)), thread.lanes, "lane")
        return tuple(lanes)

    def at(self, tenant: str, name: str, seq: int) -> Located | None:
        """The checkpoint of a thread with that number."""
        thread = self.thread(tenant, name)
        if thread is None or not thread.live or not 0 < seq <= thread.seq:
            return None
        row = self.checkpoint_at(thread.thread, seq)
        if row is None and thread.checkpoints <= COUNTED:
            self._audited_seqs(thread)
        return None if row is None else _Names(self, thread).located(row)

    def lineage(self, tenant: str, id: bytes, limit: int) -> list[Located]:
        """A checkpoint and what it follows, newest first; over lanes, past what was removed."""
        start, found = self.find(tenant, [id]).get(id), list[CheckpointRow]()
        if start is None:
            return []
        row: CheckpointRow | None = start.row
        names = _Names(self, self.owner(start.row))
        nearby = self.nearby(start.row, limit) if limit > 1 else {}
        while row is not None:
            found.append(row)
            if len(found) == limit:
                break
            columns = nearby.get(row.before)
            if columns is None:
                row = self.followed(row)
            else:
                row = earlier(row, self.verified(CheckpointRow, columns))
        return names.all(found)

    def nearby(self, row: CheckpointRow, limit: int) -> Mapping[bytes, Sequence[object]]:  # noqa: ARG002
        """What was saved in the thread just before a checkpoint, by id, as it is stored.

        Most of a line is there; a store that reads it at once need not look up each.
        """
        return {}


class _Names:
    """Thread and agent names for the rows of one thread."""

    def __init__(self, tables: Tables, thread: ThreadRow) -> None:
        self._tables, self._thread = tables, thread
        self._now = tables.now_in(thread)
        self._agents: dict[int, str] = {}

    def located(self, row: CheckpointRow) -> Located:
        return self.all([row])[0]

    def all(self, rows: Sequence[CheckpointRow]) -> list[Located]:
        name, agents, now = self._thread.name, self._agents, self._now
        lanes = {row.lane for row in rows}
        if not lanes <= agents.keys():
            self._learn(lanes - agents.keys())
        for lane in lanes - agents.keys():
            lost = next(row for row in rows if row.lane == lane)
            raise CheckpointIntegrityError(
                f"the lane of checkpoint {lost.label} is missing or damaged."
            )
        return [Located(row, name, agents[row.lane], row.expired(now)) for row in rows]

    def _learn(self, lanes: set[int]) -> None:
        for columns in self._tables.lane_columns(self._thread.thread, lanes):
            # A damaged lane hurts its own checkpoints, not those of the others.
            with suppress(CheckpointIntegrityError):
                lane = self._tables.verified(LaneRow, columns)
                self._agents[lane.number] = lane.agent


def wanted(row: CheckpointRow, lane: int | None, listing: Listing, now: int) -> bool:
    """Whether a listing asks for a row."""
    tests = (
        lane is None or lane in (row.lane, row.source_lane),
        listing.branch is None or row.branch == listing.branch,
        listing.step_name is None or row.step_name == listing.step_name,
        listing.since is None or row.created_at >= listing.since,
        listing.until is None or row.created_at < listing.until,
        listing.before is None or row.seq < listing.before,
        listing.above is None or row.seq > listing.above,
        not row.expired(now),
    )
    return all(tests)


def _cut_off(row: CheckpointRow, rows: Sequence[CheckpointRow], listing: Listing) -> bool:
    """Whether a row is left to the next page."""
    return len(rows) == listing.limit and row.seq < rows[-1].seq


def first_page(listing: ItemListing) -> ItemListing:
    """What is read first for a list of live items: all that there are, over their time or not."""
    if listing.over or listing.every:
        return listing
    return listing._replace(every=True, offset=0, limit=listing.offset + listing.limit)


def _next_page(page: ItemListing, last: bytes, wanted: int, *, every: bool) -> ItemListing:
    """What is read behind a key, where a page had too few live items."""
    behind = page._replace(before=last) if page.reverse else page._replace(after=last)
    return behind._replace(every=every, limit=max(wanted, COUNTED) if every else wanted)


def span(listing: ItemListing) -> tuple[bytes, bytes | None]:
    """The keys that a listing asks for: from the first one on, up to but without the second."""
    low = max(listing.prefix, b"" if listing.after is None else listing.after + b"\x00")
    highs = [bound for bound in (_past(listing.prefix), listing.before) if bound is not None]
    return low, min(highs, default=None)


def _past(prefix: bytes) -> bytes | None:
    """The first key behind all that begin so; None if there is none."""
    stem = prefix.rstrip(b"\xff")
    return stem[:-1] + bytes([stem[-1] + 1]) if stem else None
