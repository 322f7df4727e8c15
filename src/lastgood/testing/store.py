"""What a case holds: clients in the colour under test over one set of data.

The one invariant: a body never learns its colour, except through `store.colour`.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Coroutine, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import AbstractContextManager
from typing import Any, Literal, TypeVar, Unpack, cast

import pytest

from lastgood.backend import Backend
from lastgood.client import BlockingClient, Client
from lastgood.codec import Codec
from lastgood.commits import Intent, Writes
from lastgood.core import Core
from lastgood.driver import run_blocking
from lastgood.model import Gap, Header, ThreadInfo
from lastgood.opening import ClientOptions
from lastgood.testing.colours import AwaitableClient
from lastgood.testing.harness import BackendHarness

T = TypeVar("T")
Colour = Literal["async", "blocking"]
COLOURS: tuple[Colour, ...] = ("async", "blocking")
PATIENCE = 15
"""How many seconds a case sleeps where a clock cannot be turned; for more it is skipped."""


class Store:
    """One set of data, and the clients that a case has opened on it."""

    def __init__(self, harness: BackendHarness, colour: Colour) -> None:
        self.harness = harness
        self.colour = colour
        self.clients: list[Client] = []

    def client(self, **options: Unpack[ClientOptions]) -> Client:
        """Another client, with nothing in its cache: as good as another process."""
        return self.client_on(self.harness.backend(), **options)

    def client_on(self, backend: Backend, **options: Unpack[ClientOptions]) -> Client:
        """A client on a backend that the case holds."""
        if self.colour == "async":
            made = Client.on(backend, **options)
        else:
            made = cast(Client, AwaitableClient(BlockingClient.on(backend, **options)))
        self.clients.append(made)
        return made

    async def reopen(self) -> Client:
        """Close every client and open the data anew."""
        await self.close()
        return self.client()

    async def close(self) -> None:
        """Close every client."""
        while self.clients:
            await self.clients.pop().close()

    async def together(self, calls: Sequence[Callable[[], Coroutine[Any, Any, T]]]) -> list[Any]:
        """Outcomes of calls made at once, by tasks or by threads; errors are given back."""
        if self.colour == "async":
            return list(await asyncio.gather(*(call() for call in calls), return_exceptions=True))
        loop = asyncio.get_running_loop()
        with ThreadPoolExecutor(len(calls)) as pool:
            jobs = [loop.run_in_executor(pool, _run_alone, call) for call in calls]
            return list(await asyncio.gather(*jobs, return_exceptions=True))

    async def pass_time(self, seconds: float) -> None:
        """Let the store's clock run on."""
        if self.harness.turns_clock:
            self.harness.time.shift += seconds
        elif seconds > PATIENCE:
            pytest.skip(
                f"{type(self.harness).__name__} cannot turn its clock by {seconds:g} seconds"
            )
        else:
            await asyncio.sleep(seconds)

    def full_disk(self, client: Client) -> AbstractContextManager[None]:
        """Within the block, what a client writes does not fit."""
        return self.harness.full_disk(core_of(client).backend)

    async def footprint(self) -> int:
        """Bytes that everything takes, after closing; the thread's own count where unknown."""
        measured = sum(info.size for info in await self.client().threads(limit=1000))
        await self.close()
        stored = self.harness.stored_bytes()
        return measured if stored is None else stored


def _run_alone(call: Callable[[], Coroutine[Any, Any, T]]) -> T:
    return asyncio.run(call())


def core_of(client: Client) -> Core:
    """What a client of either colour sits on."""
    twin = getattr(client, "twin", None)
    inner = client if twin is None else twin._direct
    core: Core = inner._core
    return core


async def driven(client: Client, operation: Coroutine[Any, Any, T]) -> T:
    """Run an operation of the core the way a client would."""
    if hasattr(client, "twin"):
        return run_blocking(operation)
    return await client._driver.run(operation)


async def committed(client: Client, intent: Intent) -> Writes:
    """Commit past the client's own methods: what a case cannot say through them."""
    return await driven(client, core_of(client).backend.commit(intent))


async def thread_info(client: Client, thread: str) -> ThreadInfo | None:
    """A thread as the list shows it."""
    return next(
        (info for info in await client.threads(limit=1000) if info.thread_id == thread), None
    )


async def status(client: Client, thread: str) -> str:
    """A thread's status."""
    info = await thread_info(client, thread)
    return "absent" if info is None else info.status


async def headers(client: Client, thread: str, **filters: Any) -> list[Header]:
    """All headers of a thread, newest first, page by page."""
    page = await client.log(thread, limit=200, **filters)
    found = list(page)
    while page.next is not None:
        page = await client.log(thread, limit=200, after=page.next, **filters)
        found += page
    return found


async def branches(client: Client, thread: str) -> set[str]:
    """The branches that a reader can see."""
    return {header.branch for header in await headers(client, thread)}


async def line(client: Client, ref: str, limit: int = 200) -> list[Header | Gap]:
    """A checkpoint and all that it follows, page by page."""
    page = await client.walk(ref, limit=limit)
    found = list(page)
    while page.next is not None:
        page = await client.walk(ref, limit=limit, after=page.next)
        found += page
    return found


async def reachable(client: Client, thread: str) -> set[str]:
    """Ids of all checkpoints that a walk from some branch's head comes to."""
    heads = [b.head.checkpoint_id for b in await client.branches(thread) if b.head is not None]
    lines = [await line(client, head) for head in heads]
    return {each.checkpoint_id for found in lines for each in found if isinstance(each, Header)}


async def current(client: Client, thread: str, agent: str = "a") -> str | None:
    """The branch that an agent follows."""
    found = await client.branches(thread, agent_id=agent)
    return next((branch.name for branch in found if branch.current), None)


async def head_state(client: Client, thread: str, agent: str = "a") -> Any:
    """The state at the head of an agent's current branch."""
    found = await client.latest(agent_id=agent, session_id=thread)
    return None if found is None else found.state


async def everything(client: Client, thread: str) -> dict[str, tuple[Header, bytes]]:
    """Headers and exact states of all checkpoints of a thread, by id."""
    codec = Codec()
    return {
        header.checkpoint_id: (
            header,
            codec.pack((await client.restore(header.checkpoint_id)).state),
        )
        for header in await headers(client, thread)
    }
