"""The client in both colours, and runs.

`Client` is async and is put together from its halves; `BlockingClient` is its twin, one line per
method. Both hold nothing but a `Core` and a driver.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from datetime import timedelta
from typing import Any, Self, TypedDict, TypeVar, Unpack, overload

from lastgood import arguments
from lastgood.blocking_runs import BlockingRun
from lastgood.colours import BlockingOnly
from lastgood.comparison import Comparing
from lastgood.copies import Copying
from lastgood.core import Core
from lastgood.driver import Direct, Driver, iterated
from lastgood.driver import blocking as twin
from lastgood.ids import check_name
from lastgood.inspecting import Inspecting
from lastgood.looking import Looking
from lastgood.model import Header, seconds
from lastgood.moves import Moving
from lastgood.opening import Opener
from lastgood.run_rules import Expect, Place
from lastgood.runs import Run
from lastgood.saving import Saving
from lastgood.sweeping import Sweeping

S = TypeVar("S")


class RunOptions(TypedDict, total=False):
    """How a run is entered, besides its thread and its initial state."""

    agent_id: str
    branch: str | None
    expect: Expect | None
    ttl_seconds: float | timedelta | None


class Client(Opener, Saving, Looking, Moving, Comparing, Inspecting, Sweeping, Copying):
    """Durable state for agents, for async code.

    A client is not bound to an event loop and can be used from any number of tasks and threads.
    Operations are awaited; `run` goes with `async with`, and `watch` with `async for`. To get the
    blocking client of the same store, use `with Client.sqlite() as client`, or `client.blocking`
    at any time.
    """

    def __init__(self, core: Core, driver: Driver | None = None) -> None:
        arguments.made_by_factory(core, Core, type(self))
        self._core = core
        self._driver: Driver = driver or core.driver

    @classmethod
    def over(cls, core: Core) -> Self:
        return cls(core)

    @property
    def blocking(self) -> BlockingClient:
        """The blocking client of the same store, for code without async."""
        return BlockingClient(self._core)

    @property
    def aio(self) -> Client:
        """This client itself; on a `BlockingClient`, the async client of the same store."""
        return self

    @property
    def durability(self) -> str:
        """How durable the store really is; `strict` means that saves survive power loss."""
        return self._core.backend.durability

    @property
    def url(self) -> str:
        """The address of the store, without any secrets."""
        return self._core.backend.url

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(self, *_: object) -> None:
        await self.close()

    def __enter__(self) -> BlockingClient:
        return self.blocking

    def __exit__(self, *_: object) -> None:
        self.blocking.close()

    __reduce__ = arguments.not_picklable

    async def close(self) -> None:
        """Release the store; the next call opens it again."""
        await self._driver.close(self._core.backend.close)
        self._core.driver.rest()

    # runs

    @overload
    def run(
        self,
        session_id: str | None = ...,
        *,
        initial: dict[str, Any] | Callable[[], dict[str, Any]],
        **how: Unpack[RunOptions],
    ) -> Run[dict[str, Any]]: ...
    @overload
    def run(
        self, session_id: str | None = ..., *, initial: Callable[[], S], **how: Unpack[RunOptions]
    ) -> Run[S]: ...
    @overload
    def run(
        self, session_id: str | None = ..., *, initial: S, **how: Unpack[RunOptions]
    ) -> Run[S]: ...
    @overload
    def run(
        self, session_id: str | None = ..., *, initial: None = ..., **how: Unpack[RunOptions]
    ) -> Run[Any]: ...
    def run(
        self,
        session_id: str | None = None,
        *,
        agent_id: str = "agent",
        initial: Any = None,
        branch: str | None = None,
        expect: Expect | None = None,
        ttl_seconds: float | timedelta | None = None,
    ) -> Run[Any]:
        """A unit of work that continues from its last good step: `async with client.run(...)`.

        - `session_id`: the thread. By default a new one is created; `run.session_id` names it.
        - `agent_id`: the agent that does the work. Each agent has a lane of its own in a thread.
        - `initial`: the state to begin with, used only if the lane is empty. Pass a function if
          making the state is expensive.
        - `branch`: the branch to work on; by default the current one.
        - `expect`: "new" raises CheckpointConflictError if the lane already has checkpoints,
          "existing" raises CheckpointNotFoundError if it has none.
        - `ttl_seconds`: the time to live of every step that is saved in this run.
        """
        arguments.expectation(expect)
        place = Place(
            session_id=arguments.session(session_id),
            agent_id=check_name(agent_id, "agent_id"),
            branch=arguments.name(branch, "branch"),
            expect=expect,
            ttl=seconds(ttl_seconds),
        )
        return Run(self._core, self._driver, place, initial)


class BlockingClient(BlockingOnly, Opener):
    """The blocking twin of `Client`: the same methods without `await`, from any thread."""

    def __init__(self, core: Core) -> None:
        arguments.made_by_factory(core, Core, type(self))
        self._core = core
        self._direct = Client(core, Direct())

    @classmethod
    def over(cls, core: Core) -> Self:
        return cls(core)

    @property
    def aio(self) -> Client:
        """The async client of the same store."""
        return Client(self._core)

    @property
    def blocking(self) -> BlockingClient:
        """This client itself; on a `Client`, the blocking client of the same store."""
        return self

    @property
    def durability(self) -> str:
        """How durable the store really is; `strict` means that saves survive power loss."""
        return self._direct.durability

    @property
    def url(self) -> str:
        """The address of the store, without any secrets."""
        return self._direct.url

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    __reduce__ = arguments.not_picklable

    @overload
    def run(
        self,
        session_id: str | None = ...,
        *,
        initial: dict[str, Any] | Callable[[], dict[str, Any]],
        **how: Unpack[RunOptions],
    ) -> BlockingRun[dict[str, Any]]: ...
    @overload
    def run(
        self, session_id: str | None = ..., *, initial: Callable[[], S], **how: Unpack[RunOptions]
    ) -> BlockingRun[S]: ...
    @overload
    def run(
        self, session_id: str | None = ..., *, initial: S, **how: Unpack[RunOptions]
    ) -> BlockingRun[S]: ...
    @overload
    def run(
        self, session_id: str | None = ..., *, initial: None = ..., **how: Unpack[RunOptions]
    ) -> BlockingRun[Any]: ...
    def run(
        self,
        session_id: str | None = None,
        *,
        agent_id: str = "agent",
        initial: Any = None,
        branch: str | None = None,
        expect: Expect | None = None,
        ttl_seconds: float | timedelta | None = None,
    ) -> BlockingRun[Any]:
        """A unit of work that continues from its last good step: `with client.run(...)`."""
        return BlockingRun(
            self._direct.run(
                session_id,
                agent_id=agent_id,
                initial=initial,
                branch=branch,
                expect=expect,
                ttl_seconds=ttl_seconds,
            )
        )

    close = twin(Client.close)
    save = twin(Client.save)
    restore = twin(Client.restore)
    handoff = twin(Client.handoff)
    timeline = twin(Client.timeline)
    expire = twin(Client.expire)
    put = twin(Client.put)
    delete = twin(Client.delete)
    latest = twin(Client.latest)
    log = twin(Client.log)
    walk = twin(Client.walk)
    resolve = twin(Client.resolve)
    threads = twin(Client.threads)
    branches = twin(Client.branches)
    tags = twin(Client.tags)
    tag = twin(Client.tag)
    untag = twin(Client.untag)
    blame = twin(Client.blame)
    bisect = twin(Client.bisect)
    diff = twin(Client.diff)
    fork = twin(Client.fork)
    rewind = twin(Client.rewind)
    undo = twin(Client.undo)
    switch = twin(Client.switch)
    verify = twin(Client.verify)
    stats = twin(Client.stats)
    tenants = twin(Client.tenants)
    sweep = twin(Client.sweep)
    copy_to = twin(Client.copy_to)

    def watch(
        self, session_id: str, *, agent_id: str | None = None, after: int | None = None
    ) -> Iterator[Header]:
        """New checkpoints of a thread as they come; see `Client.watch`."""
        return iterated(self._direct.watch(session_id, agent_id=agent_id, after=after))
