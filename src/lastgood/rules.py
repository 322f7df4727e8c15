"""The rules of saving: which line a checkpoint joins, who wins, what is refused.

Pure decisions over what a commit found (design: "Conflicts and heads"); every backend runs these
same ones. Runs and removal have theirs in `run_rules` and `removal_rules`.
"""

from __future__ import annotations

import re
from typing import Literal, NamedTuple

from lastgood import manifest
from lastgood.commits import NOTHING, Found, Scope, Taken, Writes
from lastgood.errors import (
    CheckpointConflictError,
    CheckpointExpiredError,
    CheckpointNotFoundError,
    StaleWriterError,
    ThreadDeletedError,
)
from lastgood.ids import show_id
from lastgood.manifest import Plan, Stored
from lastgood.model import HEAD, INHERIT, MAIN, Sentinel
from lastgood.rows import (
    BranchRow,
    CheckpointRow,
    LaneRow,
    MoveRow,
    ThreadRow,
    pack_slots,
    read_slots,
)
from lastgood.thread_rules import BEGIN_ANEW, ago, check_holder, moved_to, opened
from lastgood.tree import Node, detached

OnConflict = Literal["branch", "reject"]
Kind = Literal["save", "handoff", "fork", "rewind"]
REMOVED = "a checkpoint that was removed"
"""Where somebody began who goes on from what is not there any more."""
OPEN_AGAIN = "Open the run again."
BESIDE = "To keep this state as a branch: client.save(..., parent_id=error.expected)."
_SUFFIX = re.compile(r"(-[0-9a-f]{6})+$")


class Draft(NamedTuple):
    """A captured checkpoint: everything that is known before the commit."""

    id: bytes
    agent: str
    framework: str
    step: int | None
    step_name: str | None
    created_at: int
    ttl: float | Sentinel | None
    context: bytes
    metadata: bytes
    losses: bytes
    tree: Node | CheckpointRow
    """The state: its tree, or a stored checkpoint that has the same one."""
    base: bytes = b""
    stored: Stored | None = None
    """What the tree was diffed against, and under which checkpoint's id."""
    target: str | None = None
    schema: str | None = None
    chosen: bool = False
    """Whether the caller chose the id: then it may be there already."""


class Line(NamedTuple):
    """Where a checkpoint goes."""

    parent: CheckpointRow | None
    branch: str
    current: bool


class Save(NamedTuple):
    """The intent to commit one checkpoint.

    `holder` is the key of the thread that the writer got hold of earlier: a run's.
    """

    tenant: str
    thread: str
    draft: Draft
    branch: str | None = None
    parent: bytes | Sentinel | None = HEAD
    on_conflict: OnConflict = "branch"
    holder: int | None = None
    owner: str | None = None
    kind: Kind = "save"
    """All but plain saves join their lane as they say, whatever its head is by then."""
    switch: bool = False
    """Whether the branch that it joins or begins becomes the lane's current one."""
    follows: bool = False
    """Whether the branch is to be the lane's current one still: a run that was not given one."""

    @property
    def scope(self) -> Scope:
        draft = self.draft
        parent = self.parent if isinstance(self.parent, bytes) else b""
        wanted = dict.fromkeys((draft.id if draft.chosen else b"", parent, draft.base))
        tree = draft.tree
        return Scope(
            tenant=self.tenant,
            thread=self.thread,
            agent=draft.agent,
            branch=None if self.follows else self.branch,
            ids=tuple([id for id in wanted if id]),
            large=() if isinstance(tree, CheckpointRow) else manifest.large_pages(tree),
        )

    def again(self) -> Save:
        return self._replace(draft=self.draft._replace(chosen=True))

    def decide(self, found: Found, taken: Taken = NOTHING) -> Writes:
        check_holder(self.holder, found, self.thread)
        again = found.rows.get(self.draft.id)
        if again is not None:
            return Writes(answer=self._repeated(again, found))
        line = self._line(found, long="branch" in taken)
        plan = _plan(self.draft, found, fresh="stream" in taken)
        thread = found.live or opened(self.tenant, self.thread, found, self.owner)
        lane = found.lane or self._new_lane(thread, line.branch)
        row = self._row(found, thread, lane, line, plan)
        lane, move = self._moved(lane, found, line)
        return Writes(
            thread=_advanced(thread, found, line, row, plan),
            lane=lane if found.lane != lane else None,
            move=move,
            branches=(BranchRow(thread.thread, lane.number, line.branch, row.id),),
            opens=_opens(found, line),
            checkpoint=row,
            slots=plan.slots,
            parts=plan.parts,
            answer=plan.stored,
        )

    def _new_lane(self, thread: ThreadRow, branch: str) -> LaneRow:
        return LaneRow(thread.thread, thread.lanes + 1, self.draft.agent, branch, 0)

    def _moved(self, lane: LaneRow, found: Found, line: Line) -> tuple[LaneRow, MoveRow | None]:
        """The lane as it follows its branch from now on, and the entry that tells so."""
        if found.lane is None or not line.current:
            return lane, None
        kind: str = self.kind
        if kind == "save":
            kind = "start over" if self.parent is None else "switch"
        return moved_to(lane, line.branch, kind, self.draft.id, found.now)

    def _repeated(self, again: CheckpointRow, found: Found) -> CheckpointRow:
        """The same id once more: the same content is a retry, other content is a conflict."""
        draft = self.draft
        root = draft.tree.root if isinstance(draft.tree, CheckpointRow) else draft.tree.hash
        same = (again.root, again.context, again.metadata) == (root, draft.context, draft.metadata)
        here = found.live is not None and again.thread == found.live.thread
        if same and here and found.agents.get(again.lane) == draft.agent:
            if again.expired(found.now):
                raise CheckpointExpiredError(
                    f"checkpoint {again.label} exists already, and is over its time.",
                    hint="Leave checkpoint_id out to store it under a new id.",
                )
            return again
        raise CheckpointConflictError(
            f"checkpoint {again.label} exists already, with other content or in another place.",
            hint="Leave checkpoint_id out to get a new id, or save the same content again.",
        )

    def _aside(self, found: Found, *, long: bool) -> str:
        """The name of a line beside the one it leaves; the whole id if the short one is taken."""
        parent = found.rows.get(self.parent) if isinstance(self.parent, bytes) else None
        stem = parent.branch if parent and self.kind != "handoff" else self._name(found)
        if self.kind == "rewind":
            stem = _SUFFIX.sub("", stem)  # or every rewind of a rewind would make it longer
        digits = self.draft.id.hex()
        short = stem.encode()[:200].decode(errors="ignore")
        return f"{short}-{digits if long else digits[-6:]}"

    def _name(self, found: Found) -> str:
        return self.branch or (found.lane.current if found.lane else MAIN)

    def _line(self, found: Found, *, long: bool) -> Line:
        name = self._name(found)
        if self.follows and found.lane is not None and found.lane.current != name:
            base = found.rows.get(self.parent) if isinstance(self.parent, bytes) else None
            raise self._stale(found, base, began=REMOVED)
        if self.parent is HEAD:
            return Line(found.tip, name, current=found.lane is None)
        if self.kind == "handoff":
            parent = self._parent(found)
            branch = self._aside(found, long=long) if found.tip else name
            return Line(parent, branch, current=True)
        if self.kind != "save":
            return self._forked(found, self._parent(found), long=long)
        if self.parent is None:
            return self._root(found, name, long=long)
        return self._child(found, self._parent(found), name, long=long)

    def _forked(self, found: Found, parent: CheckpointRow, *, long: bool) -> Line:
        """A line of its own from any checkpoint of the lane."""
        if self.branch is not None and found.branch is not None:
            raise CheckpointConflictError(
                f"{self.thread}/{self.draft.agent} has a branch {self.branch!r} already.",
                hint="Give the fork another name, or none.",
            )
        current = self.kind == "rewind" or self.switch
        return Line(parent, self.branch or self._aside(found, long=long), current=current)

    def _root(self, found: Found, name: str, *, long: bool) -> Line:
        """Start a lane, or start it over: the old line stays, the new root becomes current."""
        if found.tip is None:
            return Line(None, name, current=True)
        if self.on_conflict == "reject":
            raise self._stale(found, None)
        return Line(None, self._aside(found, long=long) if found.branch else name, current=True)

    def _child(self, found: Found, parent: CheckpointRow, name: str, *, long: bool) -> Line:
        heads = [row.id for row in (found.head, found.tip) if row is not None]
        if found.lane is None or not heads:
            return Line(parent, name, current=self.switch or found.lane is None)
        if self.branch is not None and found.branch is None:
            return Line(parent, self.branch, current=self.switch)
        if parent.id in heads:
            return Line(parent, name, current=self.switch)
        if self.on_conflict == "reject":
            raise self._stale(found, parent)
        return Line(parent, self._aside(found, long=long), current=self.switch)

    def _parent(self, found: Found) -> CheckpointRow:
        assert isinstance(self.parent, bytes)
        row = found.rows.get(self.parent)
        if row is None or found.live is None:
            raise self._no_parent(found, self.parent)
        if row.thread != found.live.thread:
            raise ValueError(
                f"parent_id {row.label} belongs to another thread than {self.thread!r}. "
                "A parent is in the same thread."
            )
        head = found.head
        if row.expired(found.now) and (head is None or head.id != row.id):
            raise CheckpointExpiredError(f"parent_id {row.label} is over its time.")
        return row

    def _no_parent(self, found: Found, parent: bytes) -> Exception:
        if self.holder is not None:
            return self._stale(found, None, began=REMOVED)
        shown = f"parent_id {show_id(parent)} does not exist in thread {self.thread!r}"
        if found.thread is not None and (found.live is None or found.live.incarnation > 1):
            return ThreadDeletedError(
                f"{shown} any more: it was removed, or the thread was deleted and began anew.",
                hint=BEGIN_ANEW,
            )
        return CheckpointNotFoundError(
            f"{shown}.", hint="Leave parent_id out to go on from the head."
        )

    def _stale(
        self, found: Found, parent: CheckpointRow | None, began: str = "an empty lane"
    ) -> StaleWriterError:
        began = f"@{parent.seq}" if parent else began
        hint = 'Open the run again, or on_conflict="branch".'
        if self.holder is not None:  # a run, which has no such option
            hint = f"{OPEN_AGAIN} {BESIDE}" if parent else OPEN_AGAIN
        return moved_on(f"{self.thread}/{self.draft.agent}", found, parent, began, hint)

    def _row(
        self, found: Found, thread: ThreadRow, lane: LaneRow, line: Line, plan: Plan
    ) -> CheckpointRow:
        draft, parent = self.draft, line.parent
        ttl, expires_at = _expiry(draft, parent, found.now, thread)
        root = draft.tree.root if isinstance(draft.tree, CheckpointRow) else draft.tree.hash
        step = draft.step if draft.step is not None else parent.step + 1 if parent else 0
        parent_id, parent_digest = (parent.id, parent.digest) if parent else (b"", b"")
        row = CheckpointRow(
            thread=thread.thread,
            seq=thread.seq + 1,
            id=draft.id,
            lane=lane.number,
            branch=line.branch,
            parent=parent_id,
            parent_digest=parent_digest,
            parent_gone=0,
            fallback=b"",
            step=step,
            step_name=draft.step_name,
            framework=draft.framework,
            created_at=draft.created_at,
            ttl=ttl,
            expires_at=expires_at,
            context=draft.context,
            metadata=draft.metadata,
            target=draft.target,
            schema=draft.schema,
            source_lane=parent.lane if parent and self.kind == "handoff" else None,
            losses=draft.losses,
            root=root,
            digest=b"",
            size=draft.tree.size,
            manifest=plan.manifest,
            slots=pack_slots(plan.slots),
        )
        return row._replace(digest=row.chained(draft.agent))


def moved_on(
    where: str, found: Found, base: CheckpointRow | None, began: str, hint: str = OPEN_AGAIN
) -> StaleWriterError:
    """The error for who goes on from what is no longer the head."""
    head = found.tip or found.head
    age = (found.now - head.created_at) / 1e6 if head else 0.0
    now = f"@{head.seq} ({ago(age)})" if head else "gone"
    if base and found.branch and found.branch.name != base.branch:
        now += f" on branch {found.branch.name!r}"
    return StaleWriterError(
        f"{where} moved on: you began at {began}, the head is {now}.",
        expected=base and base.label,
        head=head and head.label,
        hint=hint,
    )


def _plan(draft: Draft, found: Found, *, fresh: bool) -> Plan:
    tree = draft.tree
    if isinstance(tree, CheckpointRow):
        return Plan(tree.manifest, read_slots(tree.slots))
    base, live, stored = found.rows.get(draft.base), found.live, draft.stored
    here = base is not None and live is not None and base.thread == live.thread
    if stored is not None and not (here and base.place == stored.place):  # type: ignore[union-attr]
        return manifest.plan(detached(tree), None, found.large)
    return manifest.plan(tree, stored, found.large, fresh=fresh)


def _expiry(
    draft: Draft, parent: CheckpointRow | None, now: int, thread: ThreadRow
) -> tuple[float | None, int | None]:
    """TTL and absolute expiry; the clock never runs behind the newest time in the thread."""
    if draft.ttl is INHERIT:
        if parent is None or parent.expires_at is None:
            return None, None
        left = max(0.0, (parent.expires_at - now) / 1e6)
        # Two looks at a server's clock may differ by what a round trip takes.
        return left if parent.ttl is None else min(left, parent.ttl), parent.expires_at
    if draft.ttl is None:
        return None, None
    assert isinstance(draft.ttl, float)
    return draft.ttl, max(now, thread.updated_at) + round(draft.ttl * 1e6)


def _advanced(
    thread: ThreadRow, found: Found, line: Line, row: CheckpointRow, plan: Plan
) -> ThreadRow:
    return thread.touched(
        found.now,
        seq=row.seq,
        checkpoints=thread.checkpoints + 1,
        newest=row.id,
        expiring=thread.expiring + (row.expires_at is not None),
        lanes=thread.lanes + (found.lane is None),
        branches=thread.branches + _opens(found, line),
        size=thread.size + sum([len(p.data) for p in plan.parts]) + len(row.manifest),
        last_step=row.step_name,
    )


def _opens(found: Found, line: Line) -> bool:
    return found.branch is None or found.branch.name != line.branch
