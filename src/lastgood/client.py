"""The client: the five operations, runs, and looking at what is there.

`Client` is async; `BlockingClient` is its twin, one line per method. Both hold nothing but a
`Core` and a driver. Every method captures what it was given before it suspends.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from datetime import timedelta
from typing import Any, Self, TypedDict, TypeVar, Unpack, overload

from lastgood import arguments, operations
from lastgood.backend import Listing
from lastgood.blocking_runs import BlockingRun
from lastgood.checkpoints import Checkpoint
from lastgood.colours import BlockingOnly
from lastgood.comparison import Comparing
from lastgood.copies import Copying
from lastgood.core import About, Core
from lastgood.driver import Direct, Driver, iterated
from lastgood.driver import blocking as twin
from lastgood.errors import CheckpointIntegrityError
from lastgood.ids import LANE_LIMIT, check_name
from lastgood.inspecting import Inspecting
from lastgood.looking import Looking
from lastgood.model import HEAD, INHERIT, Framework, Header, Sentinel, check_step, seconds
from lastgood.moves import Moving
from lastgood.opening import Opener
from lastgood.refs import Address
from lastgood.rules import OnConflict, Save
from lastgood.run_rules import Expect, Place
from lastgood.runs import Run
from lastgood.sweeping import Sweeping

S = TypeVar("S")

SAVE_OPTIONS = frozenset(
    "agent_id execution_state framework session_id parent_id context step_index step_name "
    "ttl_seconds branch on_conflict checkpoint_id metadata".split()
)


class RunOptions(TypedDict, total=False):
    """How a run is entered, besides its thread and its initial state."""

    agent_id: str
    branch: str | None
    expect: Expect | None
    ttl_seconds: float | timedelta | None


class Client(Opener, Looking, Moving, Comparing, Inspecting, Sweeping, Copying):
    """Durable state for agents; every method is a coroutine.

    Bound to no event loop, usable from any number of tasks and threads. `with Client.sqlite()`
    gives the blocking twin; `client.blocking` does so at any time, over the same store.
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
        """The same store for code without async."""
        return BlockingClient(self._core)

    @property
    def aio(self) -> Client:
        """This client; of a `BlockingClient`, the same store for async code."""
        return self

    @property
    def durability(self) -> str:
        """What the store really keeps: `strict` survives power loss."""
        return self._core.backend.durability

    @property
    def url(self) -> str:
        """The address of the store, without any secret."""
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
        """Let go of the store; the next call would open it again."""
        await self._driver.run(self._core.backend.close())
        self._core.driver.rest()

    # the five operations

    async def save(
        self,
        /,
        agent_id: str,
        *,
        execution_state: Mapping[str, Any],
        framework: Framework | str = Framework.CUSTOM,
        session_id: str | None = None,
        parent_id: str | Sentinel | None = HEAD,
        context: Mapping[str, Any] | None = None,
        step_index: int | None = None,
        step_name: str | None = None,
        ttl_seconds: float | timedelta | None = None,
        branch: str | None = None,
        on_conflict: OnConflict = "branch",
        checkpoint_id: str | None = None,
        metadata: Mapping[str, Any] | None = None,
        **tags: Any,
    ) -> str:
        """Persist an agent's state; returns the checkpoint's id.

        Without `parent_id` it follows whatever the head is when it commits, which cannot notice a
        lost update inside the state: use `run()` for that. With one that is no longer the head, it
        becomes a visible branch of its own, or raises StaleWriterError (`on_conflict="reject"`).
        Raises SerializationError with the path of a value that cannot be kept.
        """
        thread, agent = arguments.session(session_id), check_name(agent_id, "agent_id")
        parent = arguments.parent(parent_id, thread)
        about = About(
            agent=agent,
            id=arguments.chosen_id(checkpoint_id),
            framework=arguments.framework(framework),
            step=check_step(step_index),
            step_name=arguments.name(step_name, "step_name"),
            ttl=seconds(ttl_seconds),
            context=context,
            metadata=arguments.merged(metadata, tags, SAVE_OPTIONS),
        )
        arguments.conflict_policy(on_conflict)
        base = parent if isinstance(parent, bytes) else b""
        captured = self._core.capture(execution_state, thread, agent, base)
        intent = Save(
            tenant=self._core.tenant,
            thread=thread,
            draft=self._core.draft(captured, about),
            branch=arguments.name(branch, "branch"),
            parent=HEAD if isinstance(parent, Address) else parent,
            on_conflict=on_conflict,
            owner=self._core.options.user,
        )
        named = parent if isinstance(parent, Address) else None
        return await self._driver.run(operations.save(self._core, intent, named))

    async def restore(self, ref: str, verify: bool = True) -> Checkpoint:
        """The checkpoint, its state equal to what was saved, type for type.

        Raises CheckpointNotFoundError, CheckpointExpiredError, CheckpointIntegrityError.
        """
        found = await self._driver.run(operations.restore(self._core, ref, verify=verify))
        return self._core.built(found)

    async def handoff(
        self,
        ref: str,
        target_agent_id: str,
        schema: str | None = None,
        *,
        note: str | None = None,
        ttl_seconds: float | timedelta | Sentinel | None = INHERIT,
    ) -> str:
        """Give a state to another agent: a new checkpoint at the head of the target's lane.

        Its parent is the source, so the chain is kept; it shows in both timelines. What is left of
        the source's time is inherited unless `ttl_seconds` says otherwise.
        """
        target = check_name(target_agent_id, "target_agent_id")
        arguments.name(schema, "schema")
        arguments.text(note, "note")
        ttl = ttl_seconds if isinstance(ttl_seconds, Sentinel) else seconds(ttl_seconds)
        return await operations.handoff(
            self._core, self._driver, ref, target, schema=schema, note=note, ttl=ttl
        )

    async def timeline(
        self, agent_id: str, session_id: str, limit: int = 50, *, shared: bool = False
    ) -> list[Checkpoint]:
        """An agent's checkpoints with their states, newest first.

        With `shared`, a large part that did not change from state to state is one object in all of
        them: many states take the time and memory of one. Look at them, but change none.
        """
        listing = Listing(
            thread=check_name(session_id, "session_id"),
            agent=check_name(agent_id, "agent_id", LANE_LIMIT),
            limit=arguments.limit(limit),
        )
        found = await self._driver.run(operations.timeline(self._core, listing))
        return self._core.built_line(found, shared=shared)

    async def expire(self, ref: str) -> bool:
        """Remove a checkpoint now; False if it is not there. Its neighbours stay."""
        return await self._driver.run(operations.expire(self._core, ref))

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
        """A unit of work that goes on from its last good step: `async with client.run(...)`.

        `initial` is used only where the lane is empty; give a function if it costs something.
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

    # looking

    async def put(self, checkpoint: Checkpoint) -> str:
        """Store a checkpoint made by `CheckpointBuilder`; doing it again changes nothing."""
        arguments.built(checkpoint)
        if not checkpoint.verify_integrity():
            raise CheckpointIntegrityError(
                f"checkpoint {checkpoint.checkpoint_id}: its fields do not give its checksum.",
                hint="Build it anew; a checkpoint is not changed after build().",
            )
        intent = self._core.put_intent(checkpoint)
        return await self._driver.run(operations.save(self._core, intent))

    async def delete(self, session_id: str) -> bool:
        """Remove a thread and everything in it; False if it is not there.

        A writer that still holds a part of it gets ThreadDeletedError; a new root save or a new
        run begins the id anew.
        """
        thread = check_name(session_id, "session_id")
        return await self._driver.run(operations.delete(self._core, thread))


class BlockingClient(BlockingOnly, Opener):
    """The blocking twin of `Client`: the same methods without await, from any thread."""

    def __init__(self, core: Core) -> None:
        arguments.made_by_factory(core, Core, type(self))
        self._core = core
        self._direct = Client(core, Direct())

    @classmethod
    def over(cls, core: Core) -> Self:
        return cls(core)

    @property
    def aio(self) -> Client:
        """The same store for async code."""
        return Client(self._core)

    @property
    def blocking(self) -> BlockingClient:
        """This client; of a `Client`, the same store for code without async."""
        return self

    @property
    def durability(self) -> str:
        """What the store really keeps: `strict` survives power loss."""
        return self._direct.durability

    @property
    def url(self) -> str:
        """The address of the store, without any secret."""
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
        """A unit of work that goes on from its last good step: `with client.run(...)`."""
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
    sweep = twin(Client.sweep)
    copy_to = twin(Client.copy_to)

    def watch(
        self, session_id: str, *, agent_id: str | None = None, after: int | None = None
    ) -> Iterator[Header]:
        """New checkpoints of a thread as they come; see `Client.watch`."""
        return iterated(self._direct.watch(session_id, agent_id=agent_id, after=after))
