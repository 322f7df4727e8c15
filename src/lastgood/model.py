"""Plain values that cross the public interface: what a header, a page and a thread look like.

Nothing here reads or writes; stdlib only.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from enum import Enum
from functools import lru_cache
from typing import Any, Final, Generic, TypeVar

from lastgood.refs import short_name

T = TypeVar("T")

DEFAULT_TENANT: Final = "default"
MAIN: Final = "main"
"""The name of the first branch of every lane."""

SCHEMA_VERSION: Final = "1.0"
"""Version of the checkpoint's envelope, as in the fields of `Checkpoint.as_dict()`."""


class Framework(str, Enum):
    """Who made the state. A plain string works wherever one of these does."""

    LANGGRAPH = "langgraph"
    CREWAI = "crewai"
    AUTOGEN = "autogen"
    CUSTOM = "custom"


class Sentinel(Enum):
    """Defaults that mean more than None."""

    HEAD = "head"
    """`parent_id`: whatever the head is when the save commits."""
    KEEP = "keep"
    """`run.save()`: the run's working copy."""
    INHERIT = "inherit"
    """`handoff(ttl_seconds=)`: what is left of the source's time."""


HEAD: Final = Sentinel.HEAD
KEEP: Final = Sentinel.KEEP
INHERIT: Final = Sentinel.INHERIT


@dataclass(frozen=True, slots=True)
class Loss:
    """A value that `on_unserializable="drop"` left out, recorded on its checkpoint."""

    path: str
    """Where it was in the state."""
    type_name: str
    """The type of what was left out."""
    reason: str
    """Why it cannot be stored."""


_set = object.__setattr__
"""For values that are frozen to everybody else."""


class Later:
    """A value object whose fields may be computed when they are first asked for.

    One that is made without its fields asks `_source` for each by its name, once.
    """

    __slots__ = ("_source",)
    _source: Callable[[str], object]

    def __getattr__(self, name: str) -> Any:
        if name not in type(self).__dataclass_fields__:  # type: ignore[attr-defined]
            raise AttributeError(f"a {type(self).__name__} has no {name!r}", name=name, obj=self)
        value = self._source(name)
        _set(self, name, value)
        return value


@dataclass(frozen=True, slots=True, repr=False)
class Header(Later):
    """Everything about a checkpoint except its state; listing headers never loads states."""

    checkpoint_id: str
    """A UUID; the client chooses it."""
    agent_id: str
    """Whose lane of the thread it is in."""
    session_id: str
    """The thread."""
    parent_id: str | None
    """The checkpoint that it follows; None for a root."""
    framework: str
    """Who made the state: a `Framework` or any text."""
    schema_version: str
    """Of these fields, not of the state."""
    step_index: int
    """The parent's and one more, unless the save said otherwise."""
    step_name: str | None
    """What the step was called."""
    agent_context: Mapping[str, object]
    """What was saved as `context`."""
    metadata: Mapping[str, object]
    """What it can be found by."""
    created_at: datetime
    """When the state was captured, by the clock of the client."""
    ttl_seconds: float | None
    """How long it was to stay, from its save on; None for ever."""
    expires_at: datetime | None
    """When its time is over, by the clock of the store."""
    checksum: str
    """SHA-256 over the content, the same in every store."""
    handoff_target: str | None
    """The agent that it was handed to."""
    handoff_schema: str | None
    """The shape of the state, as the handoff named it."""
    seq: int
    """Its number in the thread, from the commit: the only order there is."""
    branch: str
    """The line on which it was saved."""
    size: int
    """Bytes of the encoded state."""
    digest: str
    """16 bytes of a SHA-256 over the checksum, the expiry and the parent's digest: a chain."""
    losses: tuple[Loss, ...] = ()
    """What `on_unserializable="drop"` left out."""

    def __repr__(self) -> str:
        step = f"step {self.step_index}" + (f" {self.step_name!r}" if self.step_name else "")
        when = f"{self.created_at:%Y-%m-%d %H:%M:%S}"
        return f"<{type(self).__name__} {self.name} {self.agent_id} {self.branch} {step} {when}>"

    @property
    def context(self) -> Mapping[str, object]:
        """The same as `agent_context`."""
        return self.agent_context

    @property
    def name(self) -> str:
        """The short name shown everywhere, such as `run-001@42`."""
        return short_name(self.session_id, self.seq)


@dataclass(frozen=True, slots=True)
class Page(Generic[T]):
    """One page of a listing; pass `after=page.next` to go on, None means that was all."""

    items: Sequence[T]
    """The rows of this page."""
    next: str | None = None
    """What to pass as `after`; None on the last page."""

    def __iter__(self) -> Iterator[T]:
        return iter(self.items)

    def __len__(self) -> int:
        return len(self.items)

    def __getitem__(self, index: int) -> T:
        return self.items[index]


STATUSES = ("running", "stale", "failed", "idle", "done", "damaged")
"""What a list says of a thread."""


@dataclass(frozen=True, slots=True, init=False)
class ThreadInfo:
    """One thread as a list shows it, or as a caller describes it.

    Who makes one may also say `thread_name=` for the title and `user_id=` for the user.
    """

    thread_id: str
    """The session id."""
    title: str
    """What it was named; where a list shows it, its id if it was not."""
    status: str
    """`running`, `stale`, `failed`, `idle` or `done`: its newest run's. Or `damaged`: then nothing
    else is told but the name; `verify` tells more."""
    checkpoints: int
    """How many are there."""
    agents: tuple[str, ...]
    """Those that have a lane in it."""
    branches: int
    """How many lines it has, of all agents."""
    last_step: str | None
    """The name of its newest step."""
    size: int
    """Bytes that its saves have stored."""
    created_at: datetime
    """When it began, by the clock of the store."""
    updated_at: datetime
    """When it last changed, by the same clock."""
    user: str | None
    """Whose it is."""
    error: str | None
    """How its newest run failed: type and message. Or why its result cannot be read here."""
    result: object
    """What its newest run was finished with."""
    metadata: Mapping[str, Any] | None
    """What `aput_thread` was given; told by checkpointers, not by `Client.threads`."""

    def __init__(
        self,
        thread_id: str,
        title: str = "",
        status: str = "idle",
        checkpoints: int = 0,
        agents: tuple[str, ...] = (),
        branches: int = 0,
        last_step: str | None = None,
        size: int = 0,
        created_at: datetime | None = None,
        updated_at: datetime | None = None,
        user: str | None = None,
        error: str | None = None,
        result: object = None,
        metadata: Mapping[str, Any] | None = None,
        *,
        thread_name: str | None = None,
        user_id: str | None = None,
    ) -> None:
        now = datetime.now(UTC)
        values = (thread_id, title or thread_name or "", status, checkpoints, agents, branches)
        values += (last_step, size, created_at or now, updated_at or now)  # type: ignore[assignment]
        values += (user if user_id is None else user_id, error, result, metadata)  # type: ignore[assignment]
        for name, value in zip(self.__slots__, values, strict=True):
            _set(self, name, value)

    @property
    def thread_name(self) -> str:
        """The same as `title`."""
        return self.title

    @property
    def user_id(self) -> str | None:
        """The same as `user`."""
        return self.user


@dataclass(frozen=True, slots=True)
class Gap:
    """A place on a line where a checkpoint was, and is not any more."""

    checkpoint_id: str
    """Of the checkpoint that was here."""
    reason: str
    """`removed` or `expired`."""


@dataclass(frozen=True, slots=True)
class BranchInfo:
    """A named line of an agent's lane, and the checkpoint that it reads as."""

    session_id: str
    """The thread."""
    agent_id: str
    """Whose line it is."""
    name: str
    """What it is called, such as `main`."""
    current: bool
    """Whether `latest`, addresses and runs follow it."""
    head: Header | None
    """None if everything on it is gone."""


@dataclass(frozen=True, slots=True)
class Move:
    """What `rewind`, `undo` or `switch` did: which branch the lane left, and which it follows."""

    kind: str
    """`rewind`, `undo` or `switch`."""
    session_id: str
    """The thread."""
    agent_id: str
    """Whose lane it is."""
    left: str
    """The branch that it followed before."""
    branch: str
    """The branch that it follows now."""
    head: Header | None
    """What is current now."""

    def __str__(self) -> str:
        lane = f"{self.session_id}/{self.agent_id}"
        at = f" at @{self.head.seq}" if self.head else ", which is empty"
        if self.left == self.branch:
            return f"{lane} stays on {self.branch}{at}."
        return f"{lane} is on {self.branch}{at}; {self.left} stays as it was. undo() goes back."


@dataclass(frozen=True, slots=True)
class Blame:
    """Which step brought a value in."""

    path: str
    """Where it stands, indices counted from the front."""
    value: Any
    """What stands there."""
    header: Header
    """The first checkpoint of the line that has it, from then until the one that was asked."""
    before: Header | None
    """The checkpoint before, which does not have it; None if there is none."""
    path_then: str
    """Where it stood then, which differs if list elements moved since."""

    def __str__(self) -> str:
        at = self.header
        step = at.step_name or f"step {at.step_index}"
        when = f"{at.created_at:%Y-%m-%d %H:%M:%S}"
        return f"{self.path} came in with {at.name} ({step}, {at.agent_id}, {at.branch}, {when})."


@dataclass(frozen=True, slots=True)
class Bisection:
    """Where a predicate began to hold on the current line."""

    first: Header | None
    """The first checkpoint at which it holds; None if it holds at none that was tried."""
    before: Header | None
    """The checkpoint before that one."""
    tested: int
    """How many states were looked at."""
    flips: tuple[Header, ...] = ()
    """Every place at which the answer was seen to change; one, unless it flipped back."""

    @property
    def certain(self) -> bool:
        """Whether it was seen to flip at most once; if not, `first` is only one of several."""
        return len(self.flips) <= 1

    def __str__(self) -> str:
        if self.first is None:
            return f"It holds at none of the {self.tested} checkpoints that were tried."
        text = f"It holds from {self.first.name} on ({self.tested} states were looked at)."
        if self.certain:
            return text
        places = ", ".join(flip.name for flip in self.flips)
        return f"{text} But it does not flip once: it changes at {places}."


_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)


@lru_cache(maxsize=1024)
def moment(micros: int) -> datetime:
    """Turn stored microseconds since 1970 into an aware datetime."""
    return _EPOCH + timedelta(0, 0, micros)


def micros(when: datetime) -> int:
    """The inverse of `moment`; a naive time is taken as UTC."""
    aware = when if when.tzinfo else when.replace(tzinfo=UTC)
    return (aware - _EPOCH) // timedelta(microseconds=1)


def check_step(index: int | None) -> int | None:
    """Accept a step number."""
    if index is None:
        return None
    if isinstance(index, bool) or not isinstance(index, int):
        raise TypeError(f"step_index must be an int, not {type(index).__name__}")
    if not 0 <= index < 1 << 62:
        raise ValueError(f"step_index must be from 0 to 2**62, not {index}")
    return index


LONGEST_TTL = 3e10
"""Seconds, 950 years and some days: the end of such a time is one that a datetime can tell."""


INSTEAD_OF_A_TTL = "Leave it out to keep the checkpoint, or call expire() to remove one."


def seconds(
    ttl: float | timedelta | None, name: str = "ttl_seconds", hint: str = INSTEAD_OF_A_TTL
) -> float | None:
    """Accept a TTL in either spelling; it must be finite and greater than zero."""
    if ttl is None:
        return None
    if isinstance(ttl, bool) or not isinstance(ttl, int | float | timedelta):
        raise TypeError(f"{name} must be a number or a timedelta, not {type(ttl).__name__}")
    value = ttl.total_seconds() if isinstance(ttl, timedelta) else ttl
    if not 0 < value < LONGEST_TTL:
        raise ValueError(
            f"{name} must be greater than 0 and less than 950 years, not {ttl!r:.60}. {hint}"
        )
    return float(value)
