"""The rules of moving: which branch a lane follows, and which checkpoint a tag names.

Pure decisions, like `rules`. No branch ever loses its head here: a lane only begins to follow
another one, and its log keeps where it came from, so every move can be undone.
"""

from __future__ import annotations

from dataclasses import dataclass

from lastgood.commits import NOTHING, Found, Repeatable, Scope, Taken, Writes
from lastgood.errors import CheckpointNotFoundError, ThreadDeletedError
from lastgood.ids import show_id
from lastgood.refs import Address
from lastgood.rows import LaneRow, MoveRow, TagRow
from lastgood.thread_rules import moved_to


@dataclass(frozen=True, slots=True)
class Switch(Repeatable):
    """Follow another branch that is there already."""

    tenant: str
    thread: str
    agent: str
    branch: str
    id: bytes
    """Of this switch, so that one that is repeated after an unknown outcome is recognised."""

    @property
    def scope(self) -> Scope:
        return Scope(self.tenant, self.thread, self.agent, self.branch, move=True)

    def decide(self, found: Found, taken: Taken = NOTHING) -> Writes:  # noqa: ARG002
        if found.lane is None:
            raise _nobody(self.thread, self.agent)
        if found.branch is None:
            raise CheckpointNotFoundError(
                f"{self.thread}/{self.agent} has no branch {self.branch!r}.",
                hint="client.branches() lists them; fork() makes one.",
            )
        if found.move is not None and found.move.id == self.id:
            return Writes(answer=found.move)
        return _followed(found, found.lane, self.branch, "switch", self.id)


@dataclass(frozen=True, slots=True)
class Undo(Repeatable):
    """Go back to the branch that the lane followed before its last move."""

    tenant: str
    thread: str
    agent: str
    id: bytes
    """Of this undo, so that one that is repeated after an unknown outcome happens once."""

    @property
    def scope(self) -> Scope:
        return Scope(self.tenant, self.thread, self.agent, move=True)

    def decide(self, found: Found, taken: Taken = NOTHING) -> Writes:  # noqa: ARG002
        if found.lane is None:
            raise _nobody(self.thread, self.agent)
        if found.move is None:
            before = Address(self.thread, self.agent, "back", 1)
            raise CheckpointNotFoundError(
                f"{self.thread}/{self.agent} has nothing to undo: its branch was never changed.",
                hint=f"To take back saves: rewind to '{before}'.",
            )
        if found.move.id == self.id:
            return Writes(answer=found.move)
        return _followed(found, found.lane, found.move.old_branch, "undo", self.id)


def _nobody(thread: str, agent: str) -> CheckpointNotFoundError:
    return CheckpointNotFoundError(
        f"there is no thread {thread!r} with an agent {agent!r}.",
        hint="client.branches(session_id) lists the agents of a thread.",
    )


def _followed(found: Found, lane: LaneRow, branch: str, kind: str, id: bytes) -> Writes:
    after, entry = moved_to(lane, branch, kind, id, found.now)
    if entry is None or found.live is None:
        return Writes(answer=MoveRow(*lane[:2], lane.moves, id, kind, branch, branch, found.now))
    return Writes(thread=found.live.touched(found.now), lane=after, move=entry, answer=entry)


@dataclass(frozen=True, slots=True)
class Tag(Repeatable):
    """Give a checkpoint a name; a tag of that name moves."""

    tenant: str
    thread: str
    name: str
    id: bytes

    @property
    def scope(self) -> Scope:
        return Scope(self.tenant, self.thread, ids=(self.id,), tag=self.name)

    def decide(self, found: Found, taken: Taken = NOTHING) -> Writes:  # noqa: ARG002
        thread, row = found.live, found.rows.get(self.id)
        if thread is None or row is None or row.thread != thread.thread:
            raise ThreadDeletedError(
                f"checkpoint {show_id(self.id)} was removed before it got its tag."
            )
        tag = TagRow(thread.thread, self.name, self.id, found.now)
        counted = thread._replace(tags=thread.tags + (found.tag is None))
        return Writes(thread=counted.touched(found.now), tag=tag, answer=found.tag)


@dataclass(frozen=True, slots=True)
class Untag(Repeatable):
    """Take a tag away; the checkpoint stays."""

    tenant: str
    thread: str
    name: str

    @property
    def scope(self) -> Scope:
        return Scope(self.tenant, self.thread, tag=self.name)

    def decide(self, found: Found, taken: Taken = NOTHING) -> Writes:  # noqa: ARG002
        if found.live is None or found.tag is None:
            return Writes(answer=False)
        counted = found.live._replace(tags=found.live.tags - 1)
        return Writes(thread=counted.touched(found.now), untagged=found.tag, answer=True)
