"""Auditing one thread: its rows are passed in as they are stored, findings come out.

Owns what has to agree with what among the rows; pages are audited in `part_audit`. Pure: nothing
is read here, and no row stops it. Checkpoints come in the order of their seq, and one at a time:
of those that went by, only a fingerprint of id and digest is kept.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection, Sequence
from dataclasses import dataclass, field
from typing import Any, NamedTuple

from lastgood.intervals import Intervals
from lastgood.item_rules import revealed
from lastgood.refs import quote, short_name
from lastgood.reports import Problem
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
)

Columns = Sequence[object]

ROWS: dict[str, Any] = {
    "lane": LaneRow,
    "branch": BranchRow,
    "move": MoveRow,
    "tag": TagRow,
    "run": RunRow,
    "item": ItemRow,
}
COUNTS = {"lane": "lanes", "branch": "branches", "tag": "tags", "run": "runs", "item": "items"}
UNIQUE = ("lane", "item")
"""Rows that say what no other row says: nothing can make them again."""
CHANGED = "it was changed by something else than Lastgood."


@dataclass(slots=True)
class Finding:
    """A problem on its way: the checkpoints that it touches are found one after the other."""

    kind: str
    where: str
    message: str
    repairable: bool = False
    seqs: list[int] = field(default_factory=list)
    sure: bool = False
    """Whether no writer that was under way can explain it."""

    def problem(self, thread: str) -> Problem:
        """As it is reported."""
        names = tuple(short_name(thread, seq) for seq in dict.fromkeys(self.seqs))
        return Problem(self.kind, self.where, self.message, names, self.repairable)


class Claim(NamedTuple):
    """A lane whose row was changed, and whose agent it says it is."""

    finding: Finding
    agent: object


class End(NamedTuple):
    """A checkpoint that nothing has followed so far, and the branch that it was saved on."""

    seq: int
    lane: int
    branch: str


class ThreadAudit:
    """What is wrong with the rows of one thread."""

    def __init__(self, columns: Columns, agents: Collection[str] = ()) -> None:
        """`agents` may be those of lanes whose rows are lost: checkpoints tell if they are."""
        self.columns = columns
        self.agents = agents
        self.key: int = columns[0]  # type: ignore[assignment]
        self.name = str(columns[2])
        self.row = intact(ThreadRow, columns)
        self.findings: list[Finding] = []
        self.counts: Counter[str] = Counter()
        self.lanes: dict[int, LaneRow] = {}
        self.branches: list[BranchRow] = []
        self.tags: list[TagRow] = []
        self.gone: set[str] = set()
        """Tables of which something could not be read: their counts say nothing."""
        self.last = 0
        self._claims: dict[object, Claim] = {}
        self._homeless: dict[int, list[int]] = {}
        self._guessed: dict[int, str] = {}
        self._ids: set[int] = set()
        self._links: set[int] = set()
        self._seqs = Intervals()
        self._expiring = 0
        self._doubtful: set[int] = set()
        self._ends: dict[int, End] = {}
        self._thread = None
        if self.row is None:
            self._thread = self.found("seal", self.shown, CHANGED, repairable=True, sure=True)

    @property
    def shown(self) -> str:
        """The thread's name as it stands in short names."""
        return quote(revealed(str(self.columns[1]), self.name))

    def found(
        self,
        kind: str,
        where: str,
        message: str,
        *,
        repairable: bool = False,
        seqs: Sequence[int] = (),
        sure: bool = False,
    ) -> Finding:
        """Note a finding; more checkpoints may be added to it."""
        finding = Finding(kind, where, message, repairable, list(seqs), sure)
        self.findings.append(finding)
        return finding

    @property
    def sure(self) -> bool:
        """Whether no writer that was under way can explain what was found."""
        return all(finding.sure for finding in self.findings)

    def drop_doubts(self) -> None:
        """Keep only what no writer can explain: the thread never stood still."""
        self.findings = [finding for finding in self.findings if finding.sure]

    def problems(self) -> list[Problem]:
        """Everything that was found."""
        return [finding.problem(self.name) for finding in self.findings]

    @property
    def proven(self) -> dict[int, str]:
        """Lanes whose rows were changed or lost, with the agents that their checkpoints confirm."""
        claims: Any = self._claims.items()
        return self._guessed | {lane: c.agent for lane, c in claims if c.finding.repairable}

    # rows beside the checkpoints

    def take(self, table: str, columns: Columns) -> None:
        """A row of a lane, branch, move, tag, run or item."""
        self.counts[table] += 1
        row = intact(ROWS[table], columns)
        if row is None:
            finding = self.found("seal", self.place(table, columns), CHANGED, sure=True)
            finding.repairable = table not in UNIQUE
            if table == "lane":
                self._claims[columns[1]] = Claim(finding, columns[2])
        elif isinstance(row, LaneRow):
            self.lanes[row.number] = row
        elif isinstance(row, BranchRow):
            self.branches.append(row)
        elif isinstance(row, TagRow):
            self.tags.append(row)

    def place(self, table: str, columns: Columns) -> str:
        """Where a row is, as people say it."""
        if table == "tag":
            return f"{self.shown} tag {columns[1]}"
        if table == "lane":
            return f"{self.shown}/{columns[2]}"
        if table == "item":
            return f"{self.shown} item {columns[1]} {columns[2]!r:.80}"
        number = columns[3] if table == "run" else columns[2]
        return f"{self.agent(columns[1])} {table} {number}"

    def agent(self, lane: object) -> str:
        """A lane as people say it."""
        known = self.lanes.get(lane) if isinstance(lane, int) else None
        return f"{self.shown}/{quote(known.agent)}" if known else f"{self.shown} lane {lane}"

    def unreadable(self, table: str, first: int, last: int, reason: str) -> None:
        """Rows that the store itself cannot read."""
        self.gone.add(table)
        where, seqs = f"{self.shown} {table} row {first}", range(0)
        if table == "checkpoint":
            last = min(last, self.row.seq) if self.row else first
            where, seqs = short_name(self.name, first), range(first, last + 1)
        if last > first:
            where += " and later ones" if table != "checkpoint" else f" to @{last}"
        self.found("row", where, f"it cannot be read: {reason}", seqs=seqs, sure=True)

    # checkpoints

    def checkpoint(self, columns: Columns) -> CheckpointRow | None:
        """The next checkpoint; gives back its row if that can be believed."""
        seq: int = columns[1]  # type: ignore[assignment]
        where = short_name(self.name, seq)
        if seq <= self.last:
            self.found("row", where, "it is there twice.", sure=True)
            return None
        self.last = seq
        self.counts["checkpoint"] += 1
        self._seqs.add(seq, seq)
        if self._thread is not None:
            self._thread.seqs.append(seq)
        row = intact(CheckpointRow, columns)
        if row is None:
            self.found("seal", where, CHANGED, seqs=[seq], sure=True)
            self._doubtful.add(hash(columns[2]))
            return None
        self._check_place(row, where)
        self._check_link(row, where)
        self._ids.add(hash(row.id))
        self._links.add(hash(row.id + row.digest))
        self._ends.pop(hash(row.before), None)
        if row.expires_at is None:  # a branch goes on without a head that is over its time
            self._ends[hash(row.id)] = End(row.seq, row.lane, row.branch)
        self._expiring += row.expires_at is not None
        return row

    def _check_place(self, row: CheckpointRow, where: str) -> None:
        lane, claim = self.lanes.get(row.lane), self._claims.get(row.lane)
        if lane is not None:
            if row.chained(lane.agent) != row.digest:
                message = "its fields do not give its digest."
                self.found("digest", where, message, seqs=[row.seq], sure=True)
        elif claim is not None:
            claim.finding.seqs.append(row.seq)
            agent = claim.agent
            if isinstance(agent, str) and row.chained(agent) == row.digest:
                claim.finding.repairable = True  # the agent's name is the right one still
        else:
            self._homeless.setdefault(row.lane, []).append(row.seq)
            agent = next((name for name in self.agents if row.chained(name) == row.digest), None)
            if agent is not None:
                self._guessed[row.lane] = agent

    def _check_link(self, row: CheckpointRow, where: str) -> None:
        parent = row.before
        if not parent or hash(parent) in self._doubtful:
            return
        if hash(parent) not in self._ids:
            if "checkpoint" not in self.gone:
                self.found("link", where, f"checkpoint {parent.hex()}, which it follows, is lost.")
        elif not row.parent_gone and hash(parent + row.parent_digest) not in self._links:
            self.found("link", where, "what it follows has another digest than it had.", sure=True)

    def numbered_above(self, thread: ThreadRow, stored: Sequence[Columns]) -> None:
        """Of checkpoints that were read before this row of their thread, those it does not know."""
        for columns in stored:
            seq: int = columns[1]  # type: ignore[assignment]
            if seq <= thread.seq:
                continue
            where, changed = short_name(self.name, seq), intact(CheckpointRow, columns) is None
            message = f"its thread has given out no number above {thread.seq}."
            kind = "seal" if changed else "count"
            self.found(kind, where, message, repairable=not changed, sure=True)

    def has(self, id: bytes) -> bool:
        """Whether a checkpoint went by, damaged or not."""
        return hash(id) in self._ids or hash(id) in self._doubtful

    # at the end

    def finish(self) -> None:
        """Compare what went by with what the thread says of itself."""
        self._check_lanes()
        if self.row is not None:
            self._check_counts(self.row)
            self._check_newest(self.row)
            self._check_ends(self.row)
        self._check_names()

    def _check_lanes(self) -> None:
        for number, seqs in self._homeless.items():
            message = "its row is missing, and with it the name of the agent."
            known = number in self._guessed
            where = f"{self.shown} lane {number}"
            self.found("row", where, message, seqs=seqs, repairable=known)
        moves = sum(lane.moves for lane in self.lanes.values())
        if not self._claims and not self._homeless and not {"lane", "move"} & self.gone:
            self._compare("move", self.counts["move"], moves)

    def _check_counts(self, row: ThreadRow) -> None:
        for table, column in COUNTS.items():
            if not self._homeless or table != "lane":
                self._compare(table, self.counts[table], getattr(row, column))
        self._check_checkpoints(row)
        whole = self.counts["checkpoint"] == row.checkpoints and not self._doubtful
        if whole and self._expiring != row.expiring:
            message = f"{row.expiring} checkpoints expire by its count, {self._expiring} do."
            self.found("count", self.shown, message, repairable=True)

    def _compare(self, table: str, found: int, expected: int) -> None:
        if table in self.gone or found == expected:
            return
        if found > expected:
            message = f"it counts {expected} {table} rows and has {found}."
            self.found("count", self.shown, message, repairable=True)
        else:
            message = f"{expected - found} of {expected} {table} rows are missing."
            self.found("row", self.shown, message, repairable=table not in UNIQUE)

    def _check_checkpoints(self, row: ThreadRow) -> None:
        found = self.counts["checkpoint"]
        if "checkpoint" in self.gone or found == row.checkpoints:
            return
        self._compare("checkpoint", found, row.checkpoints)
        if found < row.checkpoints:
            self.findings[-1].repairable = False
            self.findings[-1].seqs += self._lost(row, row.checkpoints - found)

    def _lost(self, row: ThreadRow, count: int) -> list[int]:
        """The seqs that are lost for sure: all that are not there, or at least the newest."""
        gaps = Intervals()
        gaps.add(1, row.seq)
        if row.seq - self.counts["checkpoint"] == count:
            missing = gaps.without(self._seqs)
            return [seq for first, last in missing for seq in range(first, last + 1)]
        return [row.seq] if row.newest and row.seq not in self._seqs else []

    def _check_newest(self, row: ThreadRow) -> None:
        lost = self.counts["checkpoint"] < row.checkpoints or "checkpoint" in self.gone
        if row.newest and not lost and not self.has(row.newest):
            message = "the checkpoint that it names as its newest is not there."
            self.found("count", self.shown, message, repairable=True)

    def _check_ends(self, row: ThreadRow) -> None:
        """Every checkpoint is a head or followed, where each can tell what it follows."""
        whole = self.counts["checkpoint"] == row.checkpoints and not self._doubtful
        linked = not any(finding.kind == "link" for finding in self.findings)
        if not (whole and linked) or len(self.branches) != row.branches or self.gone:
            return
        heads = {hash(branch.head) for branch in self.branches}
        for id, end in self._ends.items():
            if id not in heads:
                where = f"{self.agent(end.lane)} branch {end.branch}"
                message = f"nothing leads to @{end.seq} any more: a change of a branch was lost."
                self.found("head", where, message, repairable=True)

    def _check_names(self) -> None:
        """Heads must be there. A tag may outlive what it names, unless that was lost."""
        if "checkpoint" in self.gone:
            return
        for branch in self.branches:
            if branch.head and not self.has(branch.head):
                where = f"{self.agent(branch.lane)} branch {branch.name}"
                self.found("head", where, f"its head, {branch.head.hex()}, is not there.")
        if self.row is None or self.counts["checkpoint"] >= self.row.checkpoints:
            return
        for tag in self.tags:
            if not self.has(tag.checkpoint):
                message = "it names a checkpoint that was removed or lost."
                self.found("tag", f"{self.shown} tag {tag.name}", message, repairable=True)
