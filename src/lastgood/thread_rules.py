"""What the rules of saving, runs and moves share: how a thread begins, who may write to it.

Pure, like all rules.
"""

from __future__ import annotations

from lastgood.commits import Found
from lastgood.errors import ThreadDeletedError, TransientStorageError
from lastgood.rows import ARRIVING, LIVE, MINUTE, LaneRow, MoveRow, ThreadRow

BEGIN_ANEW = "Stop this writer, or begin anew: a save without parent_id, or a new run."


def opened(tenant: str, thread: str, found: Found, owner: str | None) -> ThreadRow:
    """A new incarnation of a thread id; raises TransientStorageError while it is being copied."""
    if found.thread is not None and found.thread.state == ARRIVING:
        raise TransientStorageError(
            f"thread {thread!r} is being copied here from another store, and is not complete.",
            hint="Wait for the copy to end or begin it again; `delete` gives it up.",
        )
    return ThreadRow(
        thread=0,
        tenant=tenant,
        name=thread,
        incarnation=found.thread.incarnation + 1 if found.thread else 1,
        state=LIVE,
        active=found.now >> MINUTE,
        title="",
        owner=owner,
        seq=0,
        checkpoints=0,
        newest=b"",
        expiring=0,
        lanes=0,
        branches=0,
        tags=0,
        runs=0,
        items=0,
        size=0,
        last_step=None,
        created_at=found.now,
        updated_at=found.now,
    )


def check_holder(holder: int | None, found: Found, thread: str) -> None:
    """Refuse a writer whose thread was deleted since it got hold of it."""
    if holder is not None and (found.live is None or found.live.thread != holder):
        raise deleted(thread)


def deleted(thread: str) -> ThreadDeletedError:
    """The error for a writer that came too late."""
    return ThreadDeletedError(
        f"thread {thread!r} was deleted while this writer still held a part of it.",
        hint=BEGIN_ANEW,
    )


def ago(seconds: float) -> str:
    """A duration as people say it."""
    for unit, size in (("d", 86400), ("h", 3600), ("min", 60)):
        if seconds >= size:
            return f"{seconds / size:.0f} {unit} ago"
    return f"{max(0.0, seconds):.0f} s ago"


def moved_to(
    lane: LaneRow, branch: str, kind: str, id: bytes, now: int
) -> tuple[LaneRow, MoveRow | None]:
    """A lane that follows another branch from now on, and the entry in its log."""
    if branch == lane.current:
        return lane, None
    number = lane.moves + 1
    entry = MoveRow(lane.thread, lane.number, number, id, kind, lane.current, branch, now)
    return lane._replace(current=branch, moves=number), entry
