"""The rows that every backend keeps, and the seal that each carries.

A row is a frozen dataclass whose fields, in order, are its stored columns; `columns()` gives them
with the seal at the end, `read()` takes them back and raises CheckpointIntegrityError when they
were changed by anything but us. Rows know no SQL and no store. A thread key of 0 means "the thread
that this commit opens": `bound()` fills it in.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, fields, replace
from functools import lru_cache
from operator import attrgetter
from typing import ClassVar, Self

import ormsgpack

from lastgood.errors import CheckpointIntegrityError
from lastgood.ids import show_id
from lastgood.integrity import chained_digest, content_checksum, seal
from lastgood.manifest import Slot

LIVE, DELETED = 0, 1


@lru_cache(maxsize=None)
def _getter(cls: type) -> attrgetter[tuple[object, ...]]:
    return attrgetter(*(field.name for field in fields(cls)))


class Row:
    """What all rows share."""

    __slots__ = ()
    table: ClassVar[str]

    def columns(self) -> tuple[object, ...]:
        """The values to store, seal last."""
        values = _getter(type(self))(self)
        return (*values, seal(self.table, values))

    @classmethod
    def read(cls, columns: Sequence[object]) -> Self:
        """The row behind stored values."""
        try:
            intact = seal(cls.table, tuple(columns[:-1])) == columns[-1]
        except TypeError:
            intact = False
        if not intact:
            raise CheckpointIntegrityError(
                f"a stored {cls.table} row was changed outside of Lastgood: {columns[:3]!r:.120}",
                hint="Run a verify to see what else is damaged, and restore from a copy.",
            )
        return cls(*columns[:-1])

    @classmethod
    def names(cls) -> tuple[str, ...]:
        """Column names in stored order, seal last."""
        return (*(field.name for field in fields(cls)), "seal")  # type: ignore[arg-type]

    def bound(self, thread: int) -> Self:
        """The row with the key of its thread filled in."""
        return replace(self, thread=thread)  # type: ignore[type-var, call-arg]


@dataclass(frozen=True, slots=True)
class ThreadRow(Row):
    """One incarnation of a thread. `lanes`, `branches` and `count` say what else must be there."""

    table: ClassVar[str] = "thread"
    thread: int
    tenant: str
    name: str
    incarnation: int
    state: int
    title: str
    owner: str | None
    seq: int
    count: int
    newest: bytes
    lanes: int
    branches: int
    size: int
    last_step: str | None
    created_at: int
    updated_at: int

    @property
    def live(self) -> bool:
        return self.state == LIVE


@dataclass(frozen=True, slots=True)
class LaneRow(Row):
    """An agent's lane in a thread, and the branch that it follows."""

    table: ClassVar[str] = "lane"
    thread: int
    number: int
    agent: str
    current: str


@dataclass(frozen=True, slots=True)
class BranchRow(Row):
    """A named line and its newest checkpoint; an empty head means that all of it is gone."""

    table: ClassVar[str] = "branch"
    thread: int
    lane: int
    name: str
    head: bytes


@dataclass(frozen=True, slots=True)
class RunRow(Row):
    """One unit of work on a lane; `closed` when it was left without an error."""

    table: ClassVar[str] = "run"
    thread: int
    lane: int
    id: bytes
    number: int
    closed: int
    status: str
    attempt: int
    started_at: int
    beat_at: int
    step: str | None
    error: str | None
    result: bytes


@dataclass(frozen=True, slots=True)
class CheckpointRow(Row):
    """One immutable snapshot without its pages. Only `parent_gone` ever changes."""

    table: ClassVar[str] = "checkpoint"
    thread: int
    seq: int
    id: bytes
    lane: int
    branch: str
    parent: bytes
    parent_digest: bytes
    parent_gone: int
    step: int
    step_name: str | None
    framework: str
    created_at: int
    ttl: float | None
    expires_at: int | None
    context: bytes
    metadata: bytes
    target: str | None
    schema: str | None
    source_lane: int | None
    losses: bytes
    root: bytes
    digest: bytes
    size: int
    manifest: bytes
    slots: bytes

    def checksum(self, agent: str) -> bytes:
        """The public checksum; the agent's name is in the lane's row."""
        content = (
            self.id,
            agent,
            self.parent,
            self.step,
            self.step_name,
            self.framework,
            self.created_at,
            self.ttl,
            self.context,
            self.metadata,
            self.target,
            self.schema,
            self.losses,
        )
        return content_checksum(content, self.root)

    def chained(self, agent: str) -> bytes:
        """The digest that this row must carry."""
        return chained_digest(self.checksum(agent), self.expires_at, self.parent_digest)

    def expired(self, now: int) -> bool:
        return self.expires_at is not None and self.expires_at <= now

    @property
    def label(self) -> str:
        return show_id(self.id)


def pack_slots(slots: Sequence[Slot]) -> bytes:
    """The streams of a row as one column."""
    return ormsgpack.packb([number for slot in slots for number in slot]) if slots else b""


def read_slots(column: bytes) -> tuple[Slot, ...]:
    """The inverse of `pack_slots`."""
    flat = ormsgpack.unpackb(column) if column else []
    return tuple(Slot(*pair) for pair in zip(flat[::2], flat[1::2], strict=True))
