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
    """The framework that made a state; a plain string works wherever one of these does."""

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
    """A value that `on_unserializable="drop"` left out; the checkpoint records it."""

    path: str
    """Where the value was, such as `state.items[1].callback`."""
    type_name: str
    """The type of the value."""
    reason: str
    """Why the value cannot be stored."""


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
    """Everything about a checkpoint except its state; listing headers never loads a state."""

    checkpoint_id: str
    """The checkpoint's id: a UUID, chosen by the client."""
    agent_id: str
    """The agent in whose lane of the thread the checkpoint is."""
    session_id: str
    """The thread."""
    parent_id: str | None
    """The id of the checkpoint that this one follows; None for a root."""
    framework: str
    """The framework that made the state: a `Framework` or any text."""
    schema_version: str
    """The version of these fields, not of the state."""
    step_index: int
    """The number of the step: the parent's plus one, unless the save said otherwise."""
    step_name: str | None
    """The name of the step, if it has one."""
    agent_context: Mapping[str, object]
    """What was passed as `context` when it was saved."""
    metadata: Mapping[str, object]
    """What the checkpoint can be found by."""
    created_at: datetime
    """When the state was captured, by the clock of the client."""
    ttl_seconds: float | None
    """How long the checkpoint was to be kept, counted from its save; None means forever."""
    expires_at: datetime | None
    """When the checkpoint expires, by the clock of the store."""
    checksum: str
    """A SHA-256 over the content, which is the same in every store."""
    handoff_target: str | None
    """The agent that the state was handed to, if this is a handoff."""
    handoff_schema: str | None
    """The shape of the state, as the handoff named it."""
    seq: int
    """The checkpoint's number in the thread, given at the commit: the only order there is."""
    branch: str
    """The branch on which the checkpoint was saved."""
    size: int
    """The size of the encoded state, in bytes."""
    digest: str
    """16 bytes of a SHA-256 over the checksum, the expiry and the parent's digest: a chain."""
    losses: tuple[Loss, ...] = ()
    """What `on_unserializable="drop"` left out of the checkpoint."""

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
        """The checkpoint's short name, which is shown everywhere, such as `run-001@42`."""
        return short_name(self.session_id, self.seq)


@dataclass(frozen=True, slots=True)
class Page(Generic[T]):
    """One page of a listing; for the next page, pass `after=page.next` unless that is None."""

    items: Sequence[T]
    """The entries of this page; iterating over the page gives the same."""
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
    """One thread, as a list shows it or as a caller describes it.

    The constructor also takes `thread_name=` for the title and `user_id=` for the user.
    """

    thread_id: str
    """The id of the thread: its session id."""
    title: str
    """The name that was given to the thread; in a list, its id if it was given none."""
    status: str
    """The status of its newest run: `running`, `stale`, `failed`, `idle` or `done`. Or `damaged`:
    then only the name and the `error` are told; `verify` tells more."""
    checkpoints: int
    """How many checkpoints the thread has."""
    agents: tuple[str, ...]
    """The agents that have a lane in the thread."""
    branches: int
    """How many branches the thread has, counted over all agents."""
    last_step: str | None
    """The name of the newest step."""
    size: int
    """How many bytes the saves in the thread have stored."""
    created_at: datetime
    """When the thread began, by the clock of the store."""
    updated_at: datetime
    """When the thread last changed, by the clock of the store."""
    user: str | None
    """The user whose thread it is; None if it is nobody's."""
    error: str | None
    """How its newest run failed (type and message), why the run's result cannot be read here, or
    what is damaged."""
    result: object
    """What its newest run passed to `finish`."""
    metadata: Mapping[str, Any] | None
    """What was passed to `aput_thread`; checkpointers tell it, `Client.threads` does not."""

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
    """A place on a line where a checkpoint was that is not there any more."""

    checkpoint_id: str
    """The id of the checkpoint that was here."""
    reason: str
    """Why the checkpoint is gone: `removed` or `expired`."""


@dataclass(frozen=True, slots=True)
class BranchInfo:
    """A branch: a named line of an agent's lane, with the checkpoint at which it stands."""

    session_id: str
    """The thread."""
    agent_id: str
    """The agent to whose lane the branch belongs."""
    name: str
    """The name of the branch, such as `main`."""
    current: bool
    """Whether `latest`, addresses and runs follow this branch."""
    head: Header | None
    """The checkpoint at which the branch stands; None if everything on it is gone."""


@dataclass(frozen=True, slots=True)
class Move:
    """What `rewind`, `undo` or `switch` did: which branch the lane left, and which it follows."""

    kind: str
    """`rewind`, `undo` or `switch`."""
    session_id: str
    """The thread."""
    agent_id: str
    """The agent whose lane it is."""
    left: str
    """The branch that the lane followed before."""
    branch: str
    """The branch that the lane follows now."""
    head: Header | None
    """The checkpoint that is current now; None if that branch is empty."""

    def __str__(self) -> str:
        lane = f"{self.session_id}/{self.agent_id}"
        at = f" at @{self.head.seq}" if self.head else ", which is empty"
        if self.left == self.branch:
            return f"{lane} stays on {self.branch}{at}."
        return f"{lane} is on {self.branch}{at}; {self.left} stays as it was. undo() goes back."


@dataclass(frozen=True, slots=True)
class Blame:
    """The step that brought a value in."""

    path: str
    """Where the value is, with indices counted from the front."""
    value: Any
    """The value at that path."""
    header: Header
    """The checkpoint that brought it in; all from there to the one that was asked have it."""
    before: Header | None
    """The checkpoint before `header`, which does not have the value; None if there is none."""
    path_then: str
    """Where the value was in `header`; differs from `path` if list elements moved since."""

    def __str__(self) -> str:
        at = self.header
        step = at.step_name or f"step {at.step_index}"
        when = f"{at.created_at:%Y-%m-%d %H:%M:%S}"
        return f"{self.path} came in with {at.name} ({step}, {at.agent_id}, {at.branch}, {when})."


@dataclass(frozen=True, slots=True)
class Bisection:
    """Where a predicate began to hold on the current line."""

    first: Header | None
    """The first checkpoint where the predicate holds; None if it holds at none that was tried."""
    before: Header | None
    """The checkpoint before `first`; None if there is none."""
    tested: int
    """How many states were looked at."""
    flips: tuple[Header, ...] = ()
    """Every place at which the answer was seen to change: one, unless it flipped back."""

    @property
    def certain(self) -> bool:
        """Whether the answer was seen to flip at most once; if not, `first` is one of several."""
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
