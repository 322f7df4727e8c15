"""The rules of runs: entering one, staying alive, leaving it.

A run is open from its first entry until it is left without an error; whoever enters the lane
while it is open goes on with it. Pure decisions, like `rules`.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Literal, NamedTuple

from lastgood.commits import NOTHING, Found, Repeatable, Scope, Taken, Writes
from lastgood.errors import CheckpointConflictError, CheckpointNotFoundError, StaleWriterError
from lastgood.ids import new_id
from lastgood.model import MAIN
from lastgood.rows import CheckpointRow, LaneRow, RunRow, ThreadRow
from lastgood.rules import Save, moved_on
from lastgood.thread_rules import check_holder, opened

Expect = Literal["new", "existing"]
ERROR_LIMIT = 500


@dataclass(frozen=True, slots=True)
class Enter:
    """Open a run or go on with an open one; on an empty lane `initial` becomes step 0."""

    tenant: str
    thread: str
    agent: str
    run: bytes
    branch: str | None = None
    expect: Expect | None = None
    owner: str | None = None
    initial: Save | None = None
    looked: bool = False
    """Whether `initial` is left out because there was a checkpoint: nothing is done without one."""

    @property
    def scope(self) -> Scope:
        scope = Scope(self.tenant, self.thread, self.agent, self.branch, run=True)
        return scope._replace(ids=self.initial.scope.ids) if self.initial else scope

    def again(self) -> Enter:
        return replace(self, initial=self.initial.again()) if self.initial else self

    def decide(self, found: Found, taken: Taken = NOTHING) -> Writes:
        self._check(found)
        if found.tip is None and self.looked:
            return Writes()
        first = self.initial if found.tip is None else None
        writes = first.decide(found, taken) if first else self._existing(found)
        assert writes.thread is not None
        lane = writes.lane or found.lane
        assert lane is not None
        run = self._run(found, lane, writes.thread)
        thread = writes.thread._replace(runs=max(run.number, writes.thread.runs))
        return writes._replace(thread=thread, run=run, answer=writes.answer or _base(found))

    def _check(self, found: Found) -> None:
        where = f"{self.thread}/{self.agent}"
        if self.expect == "new" and found.tip is not None:
            raise CheckpointConflictError(
                f"{where} has checkpoints already (newest @{found.tip.seq}).",
                hint='Use another session_id, or leave expect="new" out to go on with it.',
            )
        if self.expect == "existing" and found.tip is None:
            raise CheckpointNotFoundError(
                f"{where} has no checkpoint to go on from.",
                hint='Check the id, or leave expect="existing" out to begin it.',
            )

    def _existing(self, found: Found) -> Writes:
        thread = found.live or opened(self.tenant, self.thread, found, self.owner)
        if found.lane is not None:
            return Writes(thread=thread.touched(found.now))
        lane = LaneRow(thread.thread, thread.lanes + 1, self.agent, self.branch or MAIN, 0)
        return Writes(thread=thread._replace(lanes=lane.number).touched(found.now), lane=lane)

    def _run(self, found: Found, lane: LaneRow, thread: ThreadRow) -> RunRow:
        last = found.run
        if last is not None and (not last.closed or last.status == "running"):
            attempt = last.attempt + 1
            return last._replace(
                status="running",
                closed=0,
                attempt=attempt,
                inside=attempt,
                beat_at=found.now,
                error=None,
            )
        return RunRow(
            thread=lane.thread,
            lane=lane.number,
            id=self.run,
            number=thread.runs + 1,
            closed=0,
            status="running",
            attempt=1,
            inside=1,
            started_at=found.now,
            beat_at=found.now,
            step=None,
            error=None,
            result=b"",
        )


def _base(found: Found) -> CheckpointRow | None:
    """What a run goes on from, as a checkpoint of the branch that it goes on with: where nothing of
    that one is left, it reads as what it began from, on another one.
    """
    row, branch = found.tip, found.branch
    return row._replace(branch=branch.name) if row is not None and branch is not None else row


@dataclass(frozen=True, slots=True)
class Place:
    """Where a run works and how it is to be entered."""

    session_id: str
    agent_id: str
    branch: str | None
    expect: Expect | None
    ttl: float | None

    def entry(self, tenant: str, owner: str | None, initial: Save | None, *, looked: bool) -> Enter:
        """The intent to enter it, by a new run if none is open."""
        return Enter(
            tenant=tenant,
            thread=self.session_id,
            agent=self.agent_id,
            run=new_id(),
            branch=self.branch,
            expect=self.expect,
            owner=owner,
            initial=initial,
            looked=looked,
        )


class Outcome(NamedTuple):
    """How a run was left."""

    status: str
    closed: bool
    error: str | None = None
    """What to tell of it; never the state."""
    result: bytes = b""
    refused: bool = False
    """Whether somebody else was faster."""


@dataclass(frozen=True, slots=True)
class Leave(Repeatable):
    """Record how a run was left, unless it is done or somebody else is alive in it.

    Then it is noted of a clean exit (`closed`): if that other one is refused, as the one who left
    was faster, nothing is amiss, and the run has ended.

    Only who has the head may say that it is done, and is told if that cannot be recorded, for the
    result would be lost: the thread was deleted meanwhile, or another run has begun.
    """

    tenant: str
    place: Place
    run: bytes
    attempt: int
    outcome: Outcome
    base: CheckpointRow | None
    holder: int | None

    @property
    def scope(self) -> Scope:
        place = self.place
        return Scope(self.tenant, place.session_id, place.agent_id, place.branch, run=True)

    def decide(self, found: Found, taken: Taken = NOTHING) -> Writes:  # noqa: ARG002
        run = self._finished(found) if self.outcome.status == "done" else self._left(found)
        if run is not None and run is found.run:
            run = self._recorded(run, found.now)
        return Writes(run=run)

    def _recorded(self, run: RunRow, now: int) -> RunRow:
        status, closed, error, result, _ = self.outcome
        return run._replace(
            status=status,
            closed=int(closed),
            inside=-self.attempt,
            beat_at=now,
            step=self.base.step_name if self.base else None,
            error=error,
            result=result,
        )

    def _left(self, found: Found) -> RunRow | None:
        """The run: as it is, where this exit is to be recorded, else as it is to be; or None."""
        run = found.run
        if run is None or run.id != self.run or run.status == "done":
            return None
        if run.status == "running" and run.inside != self.attempt:
            return run._replace(closed=1) if self.outcome.closed else None
        if self.outcome.refused and run.closed and self._is_overtaken(found):
            return _ended(run, self.attempt, found.now)
        return run

    def _is_overtaken(self, found: Found) -> bool:
        return found.head is not None and found.head.seq > (self.base.seq if self.base else 0)

    def _finished(self, found: Found) -> RunRow:
        """If somebody has entered since and has saved, the run is theirs."""
        check_holder(self.holder, found, self.place.session_id)
        run, where = found.run, f"{self.place.session_id}/{self.place.agent_id}"
        if run is None or run.id != self.run:
            raise StaleWriterError(
                f"{where}: another run has begun since; no result can be recorded for this one.",
                expected=self.base and self.base.label,
                head=found.tip and found.tip.label,
                hint="Open the run again.",
            )
        others = run.attempt != self.attempt or (
            run.status == "done" and run.inside != -self.attempt
        )
        if others and self._is_overtaken(found):
            began = f"@{self.base.seq}" if self.base else "an empty lane"
            raise moved_on(where, found, self.base, began)
        return run


@dataclass(frozen=True, slots=True)
class Beat(Repeatable):
    """Say that a run is alive, also where somebody else who was in it has left it."""

    tenant: str
    thread: str
    agent: str
    run: bytes
    attempt: int

    @property
    def scope(self) -> Scope:
        return Scope(self.tenant, self.thread, self.agent, run=True)

    def decide(self, found: Found, taken: Taken = NOTHING) -> Writes:  # noqa: ARG002
        run = found.run
        if run is None or run.id != self.run or run.status == "done":
            return Writes()
        if run.inside == -self.attempt:
            return Writes()  # it was left while this beat was under way
        return Writes(
            run=run._replace(status="running", inside=self.attempt, beat_at=found.now, error=None)
        )


@dataclass(frozen=True, slots=True)
class Settle(Repeatable):
    """Learn the outcome of commits that were interrupted: the head, if it is one of them.

    If it is none of them, none will come late: this is a commit itself, which changes nothing. One
    that is still on its way to a server was decided on what was there before.
    """

    tenant: str
    thread: str
    agent: str
    branch: str | None
    ids: tuple[bytes, ...]

    @property
    def scope(self) -> Scope:
        return Scope(self.tenant, self.thread, self.agent, self.branch)

    def decide(self, found: Found, taken: Taken = NOTHING) -> Writes:  # noqa: ARG002
        head = found.head
        if head is not None and head.id in self.ids:
            return Writes(answer=head)
        return Writes(thread=found.live)


def _ended(run: RunRow, attempt: int, now: int) -> RunRow | None:
    """A run that who was faster has ended, and that who was refused leaves now; None: it is so."""
    if run.status != "running":
        return None
    return run._replace(status="idle", inside=-attempt, beat_at=now, error=None)


def outcome_of(error: BaseException | None) -> Outcome:
    """How a run was left that an exception ended, or none."""
    if error is None:
        return Outcome("idle", closed=True)
    if isinstance(error, Exception):
        text = f"{type(error).__name__}: {_text_of(error)}"[:ERROR_LIMIT]
        told = text.encode("utf-8", "backslashreplace").decode()
        refused = isinstance(error, StaleWriterError)
        return Outcome("failed", closed=False, error=told, refused=refused)
    return Outcome("stale", closed=False, error=type(error).__name__)


def _text_of(error: Exception) -> str:
    """What an exception says; one that cannot say it must not be hidden by why."""
    try:
        return str(error)
    except Exception as failure:
        return f"(its text failed: {type(failure).__name__})"


def status_of(run: RunRow | None, now: int, stale_after: float) -> str:
    """A thread's status: its newest run's; one that stopped beating is stale."""
    if run is None:
        return "idle"
    if run.status == "running" and now - run.beat_at > stale_after * 1e6:
        return "stale"
    return run.status
