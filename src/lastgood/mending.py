"""What is left of a damaged thread, put together as a thread that is whole again.

Pure: rows that can be believed are passed in, with what an audit has found. Checkpoints that are
lost are treated as if they had been removed: what followed them falls back to what they followed.
Nothing is made up but what other rows say: a branch ends at the newest checkpoint saved on it. A
lane's log that is not whole would undo another move than the last one, so it goes altogether.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from typing import Any, NamedTuple

from lastgood.auditing import COUNTS, ThreadAudit
from lastgood.ids import check_name
from lastgood.item_rules import revealed
from lastgood.rows import (
    LIVE,
    MINUTE,
    TABLES,
    BranchRow,
    CheckpointRow,
    ItemRow,
    LaneRow,
    MoveRow,
    Row,
    RunRow,
    TagRow,
    ThreadRow,
)

Branch = tuple[int, str]
"""A lane and the name of one of its branches."""


class Link(NamedTuple):
    """A checkpoint as far as others lead to it."""

    seq: int
    id: bytes
    lane: int
    branch: str
    before: bytes
    expires: bool
    created_at: int
    step_name: str | None
    inline: int
    """Bytes of its manifest."""

    @classmethod
    def of(cls, row: CheckpointRow) -> Link:
        expires = row.expires_at is not None
        told = (expires, row.created_at, row.step_name, len(row.manifest))
        return cls(row.seq, row.id, row.lane, row.branch, row.before, *told)


class Mended(NamedTuple):
    """A thread of what is left."""

    thread: ThreadRow
    rows: list[Row]
    """All that is no checkpoint."""
    seqs: list[int]
    """Of the checkpoints that are left, in order."""
    before: Mapping[int, bytes]
    """What those follow from now on that followed a lost one, by seq."""
    led: Mapping[str, int]
    """Agents that may be on another branch than they were, each with the seq of its head."""
    left: Mapping[str, int]
    """How many rows of each other table are left out."""


class Mending:
    """The making of one."""

    def __init__(
        self, audit: ThreadAudit, rows: Iterable[Row], links: Sequence[Link], lost: set[int]
    ) -> None:
        rows = list(rows)
        self._audit = audit
        self._known = {link.id: link for link in links}
        self._moves = [row for row in rows if isinstance(row, MoveRow)]
        self._lanes = {row.number: row for row in rows if isinstance(row, LaneRow)}
        for number, agent in audit.proven.items():
            self._lanes[number] = self._lane(number, agent)
        self._alive = [link for link in links if link.seq not in lost and link.lane in self._lanes]
        self._ids = {link.id for link in self._alive}
        self._others = [row for row in rows if not isinstance(row, LaneRow | BranchRow | MoveRow)]
        branches = [row for row in rows if isinstance(row, BranchRow)]
        self._empty = {(row.lane, row.name) for row in branches if not row.head}
        self._branches = self._heads(branches)

    def mended(self, parts: int) -> Mended:
        """The thread; `parts` is how many bytes its pages take."""
        moves = {number: self._log(lane) for number, lane in self._lanes.items()}
        lanes = [
            lane._replace(current=self._followed(lane), moves=len(moves[number]))
            for number, lane in self._lanes.items()
        ]
        rows: list[Row] = [*lanes, *self._branches.values()]
        rows += [move for log in moves.values() for move in log]
        rows += [row for row in self._others if self._stays(row)]
        counts = Counter(TABLES[type(row)] for row in rows)
        return Mended(
            self._thread(counts, rows, parts),
            rows,
            [link.seq for link in self._alive],
            dict(self._bereaved()),
            dict(self._led(lanes)),
            self._left(counts),
        )

    # checkpoints

    def _bereaved(self) -> Iterable[tuple[int, bytes]]:
        """What follows a lost checkpoint from now on follows what is left of its past."""
        newest: dict[Branch, Link] = {}
        for link in self._alive:
            place = (link.lane, link.branch)
            if link.before and link.before not in self._ids:
                yield link.seq, self._fallback(link) or _id(newest.get(place))
            newest[place] = link

    def _fallback(self, link: Link) -> bytes:
        """The nearest one that is left on the way back, which ends where it leaves the lane."""
        at: Link | None = link
        while at is not None and at.before not in self._ids:
            parent = self._known.get(at.before)
            older = parent is not None and parent.seq < at.seq and parent.lane == link.lane
            at = parent if older else None
        return at.before if at is not None else b""

    # branches and lanes

    def _heads(self, rows: Iterable[BranchRow]) -> dict[Branch, BranchRow]:
        """Every branch that is known, or that a checkpoint was saved on, with its head."""
        newest = {(link.lane, link.branch): link for link in self._alive}
        lasting = {(link.lane, link.branch): link for link in self._alive if not link.expires}
        found = {
            place: BranchRow(self._audit.key, *place, head=link.id)
            for place, link in newest.items()
        }
        for row in rows:
            place = (row.lane, row.name)
            if row.lane not in self._lanes:
                continue
            if row.head not in self._ids:
                head = _id(newest.get(place)) or self._before(row)
                found[place] = row._replace(head=head)
            elif _seq(lasting.get(place)) <= self._known[row.head].seq:
                found[place] = row
        return found

    def _before(self, row: BranchRow) -> bytes:
        """Where a branch ends of which nothing is left but that it began somewhere."""
        head = self._known.get(row.head)
        return self._fallback(head) if head is not None and head.lane == row.lane else b""

    def _lane(self, number: int, agent: str) -> LaneRow:
        """A lane of which only the agent is known; its log says which branch it followed last."""
        log = self._entries(number)
        whole = [move.number for move in log] == list(range(1, len(log) + 1))
        current, moves = (log[-1].new_branch, len(log)) if log and whole else ("", 0)
        return LaneRow(self._audit.key, number, agent, current, moves)

    def _entries(self, lane: int) -> list[MoveRow]:
        """What is left of a lane's log."""
        own = [move for move in self._moves if move.lane == lane]
        return sorted(own, key=lambda move: move.number)

    def _followed(self, lane: LaneRow) -> str:
        """The branch that a lane follows; where nothing of it is left, the last one saved on.

        Not the empty one: an agent that begins anew does all again that it has done.
        """
        place = (lane.number, lane.current)
        saved = [link.branch for link in self._alive if link.lane == lane.number]
        if not saved or place in self._empty or self._head(lane):
            return lane.current or "main"
        return saved[-1]

    def _head(self, lane: LaneRow) -> bytes:
        """Of the branch that a lane follows."""
        branch = self._branches.get((lane.number, lane.current))
        return branch.head if branch is not None else b""

    def _led(self, lanes: Iterable[LaneRow]) -> Iterable[tuple[str, int]]:
        for lane in lanes:
            known = lane.number not in self._audit.proven
            if self._head(lane) and not (
                known and lane.current == self._lanes[lane.number].current
            ):
                yield lane.agent, self._known[self._head(lane)].seq

    def _log(self, lane: LaneRow) -> list[MoveRow]:
        """The moves of a lane, if they are all there and lead to branches that are."""
        log = self._entries(lane.number)
        own = {name for number, name in self._branches if number == lane.number}
        whole = len(log) == lane.moves and all({m.old_branch, m.new_branch} <= own for m in log)
        return log if whole else []

    def _stays(self, row: Row) -> bool:
        if isinstance(row, TagRow):
            return row.checkpoint in self._ids
        return not isinstance(row, RunRow) or row.lane in self._lanes

    # the thread

    def _thread(self, counts: Counter[str], rows: Sequence[Row], parts: int) -> ThreadRow:
        top = self._alive[-1] if self._alive else None
        thread = self._audit.row or self._guessed()
        numbered = max([thread.seq, *(link.seq for link in self._known.values())])
        heads = {branch.head for branch in self._branches.values()}
        newest = top if top is not None and top.seq == numbered and top.id in heads else None
        values = sum(len(row.value) for row in rows if isinstance(row, ItemRow))
        counted: dict[str, Any] = {column: counts[table] for table, column in COUNTS.items()}
        return thread._replace(
            seq=numbered,
            checkpoints=len(self._alive),
            newest=_id(newest),
            last_step=newest.step_name if newest else None,
            expiring=sum(link.expires for link in self._alive),
            size=parts + values + sum(link.inline for link in self._alive),
            **counted,
        )

    def _guessed(self) -> ThreadRow:
        """The row of a thread whose own was changed: its name, title and owner as they stand."""
        stored: Any = ThreadRow._make(self._audit.columns[:-1])
        times = [link.created_at for link in self._known.values()] or [0]
        guessed: ThreadRow = stored.emptied()
        return guessed._replace(
            name=self._name(stored),
            incarnation=1,
            state=LIVE,
            title=stored.title if isinstance(stored.title, str) else "",
            owner=stored.owner if isinstance(stored.owner, str) else None,
            seq=0,
            created_at=min(times),
            updated_at=max(times),
            active=max(times) >> MINUTE,
        )

    def _name(self, stored: Any) -> str:
        """The name as it stands, if it can be one; those of hidden threads are not checked."""
        name = stored.name
        if isinstance(name, str) and revealed(str(stored.tenant), name) != name:
            return name
        try:
            return check_name(name, "thread")
        except (TypeError, ValueError):
            return f"salvaged-{self._audit.key}"

    def _left(self, counts: Counter[str]) -> dict[str, int]:
        """How many rows are not there any more: of what the thread counts, or of what is stored."""
        told = Counter(move=sum(lane.moves for lane in self._lanes.values()))
        if self._audit.row is not None:
            told.update({table: getattr(self._audit.row, name) for table, name in COUNTS.items()})
        expected = self._audit.counts | told  # the larger number of each
        del expected["checkpoint"]
        return {table: n - counts[table] for table, n in expected.items() if n > counts[table]}


def _id(link: Link | None) -> bytes:
    return link.id if link is not None else b""


def _seq(link: Link | None) -> int:
    return link.seq if link is not None else 0
