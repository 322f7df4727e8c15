"""What this process last wrote to threads on a server, or saw there: the next save need not ask.

A commit names the version of the thread that it was decided on; the store refuses it if that is
not the version any more. So what is remembered may be out of date without harm: then the commit is
refused, the thread is forgotten, and the store is asked.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from itertools import islice
from typing import NamedTuple

from lastgood.backends.remote.changes import Decision
from lastgood.backends.remote.queries import ThreadName
from lastgood.backends.tables import Line
from lastgood.commits import Found, Place, Scope
from lastgood.rows import BranchRow, CheckpointRow, ItemRow, LaneRow, ThreadRow

LIMIT = 1024
"""So many threads are remembered."""
ITEMS = 16
"""So many items of each, of so many bytes at most."""
SMALL = 256


class Remembered(NamedTuple):
    """A thread as it was after the last commit of ours, or when we last looked."""

    version: int | None
    """None: there was none."""
    thread: ThreadRow | None
    lanes: dict[str, LaneRow]
    heads: dict[tuple[int, str], tuple[BranchRow, CheckpointRow]]
    items: dict[Place, ItemRow]
    """The small ones among those that were written or seen last."""

    def recalled(self, scope: Scope) -> Recalled | None:
        """What a look at this thread would find, if that is known."""
        if scope.agent is None or self.thread is None:
            return Recalled(self.version, Line(self.thread), self.items)
        lane = self.lanes.get(scope.agent)
        head = self.heads.get((lane.number, scope.branch or lane.current)) if lane else None
        if head is None:
            return None
        return Recalled(self.version, Line(self.thread, lane, *head), self.items)


class Recalled(NamedTuple):
    """What can be decided on without asking."""

    version: int | None
    line: Line
    items: Mapping[Place, ItemRow]


class Memory:
    """Threads by their names. Entries are never changed, only replaced: readers need no lock."""

    def __init__(self) -> None:
        self._threads: dict[ThreadName, Remembered] = {}
        self._restless: set[ThreadName] = set()
        """Those that others have changed, until one is found as it was."""

    def get(self, place: ThreadName) -> Remembered | None:
        """A thread, if it is known."""
        return self._threads.get(place)

    def lacks_lane(self, scope: Scope) -> bool:
        """Whether the thread is known, and an agent in it is about to begin."""
        known = self._threads.get(ThreadName(scope.tenant, scope.thread))
        return known is not None and scope.agent is not None and scope.agent not in known.lanes

    def quiet(self, scope: Scope) -> Recalled | None:
        """What a look at a line with a head would find, where nobody else seems to write."""
        place = ThreadName(scope.tenant, scope.thread)
        known = None if place in self._restless else self._threads.get(place)
        recalled = known.recalled(scope) if known else None
        return recalled if recalled and recalled.line.head else None

    def moved(self, place: ThreadName, version: int | None) -> None:
        """A thread is not at that version any more: somebody else writes, unless we did."""
        known = self._threads.get(place)
        if known is not None and known.version != version:
            return
        self.forget(place)
        if len(self._restless) >= LIMIT:
            self._restless.clear()
        self._restless.add(place)

    def forget(self, place: ThreadName) -> None:
        """The store has to be asked again."""
        self._threads.pop(place, None)

    def saw(self, place: ThreadName, version: int | None, found: Found) -> None:
        """Take over what a look has found, unless a commit of ours is newer."""
        known = self._threads.get(place)
        if known is not None and (known.version or 0) > (version or 0):
            return
        if known is None or not _same(known, version, found):
            known = Remembered(version, found.thread, {}, {}, {})
        else:
            self._restless.discard(place)
        lane, branch, head = found.lane, found.branch, found.head
        lanes = {**known.lanes, lane.agent: lane} if lane else known.lanes
        heads = known.heads
        if branch is not None and head is not None and head.id == branch.head:
            heads = {**heads, (branch.lane, branch.name): (branch, head)}
        items = _recent(known.items, found.items.values())
        self._put(place, Remembered(version, found.thread, lanes, heads, items))

    def note(self, place: ThreadName, known: Remembered | None) -> None:
        """Take over what a commit has made true: a thread as it was `expected`."""
        self.forget(place)
        if known is not None:
            self._put(place, known._replace(version=(known.version or 0) + 1))

    def _put(self, place: ThreadName, known: Remembered) -> None:
        self._threads.pop(place, None)
        while len(self._threads) >= LIMIT:
            self._threads.pop(next(iter(list(self._threads))), None)
        self._threads[place] = known


def expected(known: Remembered | None, decision: Decision) -> Remembered | None:
    """A thread with what a commit is about to write, still at the version that this is for."""
    change, writes, found = decision.change, decision.writes, decision.found
    assert change is not None
    thread, lane = writes.thread or found.thread, writes.lane or found.lane
    if thread is None or change.removed or change.swept or change.wiped:
        return None
    if known is None or not _same(known, change.version, found):
        known = Remembered(change.version, thread, {}, {}, {})
    heads = dict(known.heads)
    for branch in writes.branches:
        heads.pop((branch.lane, branch.name), None)
        if writes.checkpoint is not None and branch.head == writes.checkpoint.id:
            heads[branch.lane, branch.name] = branch, writes.checkpoint
    lanes = {**known.lanes, lane.agent: lane} if lane else known.lanes
    items = _recent(known.items, (*found.items.values(), *writes.items), writes.dropped)
    return Remembered(change.version, thread, lanes, heads, items)


def _recent(
    known: dict[Place, ItemRow], rows: Iterable[ItemRow], dropped: Iterable[ItemRow] = ()
) -> dict[Place, ItemRow]:
    """Items after a change; where one is too large to be remembered, nothing is known of it."""
    items = dict(known)
    for row in rows:
        items.pop(row.place, None)
        if len(row.value) <= SMALL:
            items[row.place] = row
    for row in dropped:
        items.pop(row.place, None)
    return dict(islice(items.items(), max(0, len(items) - ITEMS), None))


def _same(known: Remembered, version: int | None, found: Found) -> bool:
    """Whether it is the thread as it was found. After a failover that lost commits of ours, it has
    the same version as with them, and another row.
    """
    return known.version == version and known.thread == found.thread
