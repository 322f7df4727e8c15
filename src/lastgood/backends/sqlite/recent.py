"""What this process wrote last, so that the next commit need not read it again.

A commit holds the write lock, and SQLite's `data_version` tells whether any other connection has
committed since; if none has, the rows that we wrote last are the rows that are there. Anything out
of the ordinary (a rollback, a removal, another connection) makes it forget everything.
"""

from __future__ import annotations

from collections.abc import Sized

from lastgood.backends.sqlite.shelves import Shelves
from lastgood.backends.tables import Line
from lastgood.commits import Scope, Writes
from lastgood.manifest import Spot
from lastgood.rows import BranchRow, CheckpointRow, LaneRow, ThreadRow

LIMIT = 4096

Name = tuple[str, str]


class Recent:
    """Threads, lines and streams as of the last commit of this process's one writer."""

    def __init__(self) -> None:
        self.stamp: object = None
        self._version: int | None = None
        self._threads: dict[Name, ThreadRow] = {}
        self._lines: dict[tuple[Name, str, str], tuple[BranchRow, CheckpointRow]] = {}
        self._lanes: dict[tuple[Name, str], LaneRow] = {}
        self._ends: dict[int, int] = {}
        self._accounted: set[int] = set()
        self.shelves = Shelves()
        self.made: set[str] = set()
        """Tables that are there, of those which are made at their first use."""
        self._bounded: tuple[Sized, ...] = (
            self._threads,
            self._lines,
            self._ends,
            self.shelves.items,
        )

    def begin(self, version: int) -> None:
        """A transaction begins; the version tells whether what we know still holds."""
        if version != self._version or max(map(len, self._bounded)) > LIMIT:
            self.forget()
        self._version = version

    def forget(self) -> None:
        """Nothing is known any more."""
        self.stamp = self._version = None
        self._threads.clear()
        self._lines.clear()
        self._lanes.clear()
        self._ends.clear()
        self._accounted.clear()
        self.shelves.forget()
        self.made.clear()

    def line(self, scope: Scope) -> Line | None:
        """What a look would find, if that is known."""
        name = (scope.tenant, scope.thread)
        if scope.agent is None and self.stamp is not None and name in self._threads:
            return Line(self._threads[name])
        lane = self._lanes.get((name, scope.agent or ""))
        if lane is None or self.stamp is None:
            return None
        found = self._lines.get((name, lane.agent, scope.branch or lane.current))
        return Line(self._threads[name], lane, *found) if found else None

    def grown(self, spot: Spot) -> bool | None:
        """Whether a stream has grown over a number; None if we did not write to it."""
        end = self._ends.get(spot.stream)
        return None if end is None else spot.number < end

    def accounted(self, thread: int) -> bool:
        """Whether the items of a thread were counted, and changed by nobody else since."""
        return thread in self._accounted

    def account(self, thread: int) -> None:
        """The items of a thread were counted, and all are there."""
        self._accounted.add(thread)

    def note(self, writes: Writes, lane: LaneRow | None, stamp: object) -> None:
        """Take over what a commit is about to make true."""
        plain = not writes.removed and not writes.swept and writes.wiped is None
        if writes.checkpoint is None and (writes.lane is not None or writes.branches):
            plain = False  # a branch was moved in another way than by a save
        if not plain:
            self.forget()
        elif writes.thread is not None:
            self._take(writes, writes.thread, writes.lane or lane, stamp)

    def _take(self, writes: Writes, thread: ThreadRow, lane: LaneRow | None, stamp: object) -> None:
        name = (thread.tenant, thread.name)
        self.stamp = stamp
        self._threads[name] = thread
        self.shelves.note(writes)
        for part in writes.parts:
            self._ends[writes.slots[part.slot].stream] = part.number + 1
        if lane is not None and writes.checkpoint is not None:
            self._lanes[name, lane.agent] = lane
            for branch in writes.branches:
                self._lines[name, lane.agent, branch.name] = (branch, writes.checkpoint)
