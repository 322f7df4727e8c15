"""Runs whose callers are cancelled: once, as by a timeout, or at every await, as by a scope of
anyio. Nobody stays inside of a run.
"""

from __future__ import annotations

import asyncio
import time
from typing import Any

from lastgood.client import Client
from lastgood.testing.cases import case
from lastgood.testing.operations import save
from lastgood.testing.store import Store, thread_info

OFTEN: dict[str, bool] = {"once": False, "at every await": True}
ENTRIES = 40
STEP_SECONDS = 0.0001
PATIENCE = 15


class Custom(Exception):
    """Raised inside of a run by who is cancelled there."""


async def _cancelled(task: asyncio.Task[Any], often: bool) -> None:
    """Cancel a task, and wait for it to end."""
    task.cancel()
    while often and not task.done():
        await asyncio.sleep(0)
        task.cancel()
    await asyncio.wait([task])


async def _left(client: Client, thread: str) -> tuple[str, str | None]:
    """Status and error of a thread whose run is left, at the latest a while from now: on a busy
    server nobody who is cancelled waits for the end of that.
    """
    until = time.monotonic() + PATIENCE
    while True:
        info = await thread_info(client, thread)
        if info is None:
            return "absent", None
        if info.status != "running" or time.monotonic() > until:
            return info.status, info.error
        await asyncio.sleep(0.05)


async def _working(client: Client, inside: asyncio.Event, error: Exception | None = None) -> None:
    async with client.run("s", initial={"n": 0}) as run:
        await run.save({"n": 1})
        run.state = {"n": "never saved"}
        inside.set()
        try:
            await asyncio.sleep(60)
        except asyncio.CancelledError:
            if error is not None:
                raise error from None
            raise


@case("S27", each=OFTEN)
async def a_run_whose_caller_is_cancelled(store: Store, often: bool) -> None:
    """It reads as stale, and who enters it goes on with it from its last step."""
    client, inside = store.client(), asyncio.Event()
    task = asyncio.ensure_future(_working(client, inside))
    await inside.wait()
    await _cancelled(task, often)
    assert task.cancelled()
    assert await _left(client, "s") == ("stale", "CancelledError")
    async with store.client().run("s") as again:
        assert (again.state, again.resumed, again.attempt) == ({"n": 1}, True, 2)


@case("S27", each=OFTEN)
async def a_failure_below_a_cancel(store: Store, often: bool) -> None:
    """What ends the block is recorded, also where its caller is cancelled meanwhile."""
    client, inside = store.client(), asyncio.Event()
    task = asyncio.ensure_future(_working(client, inside, Custom("the cause")))
    await inside.wait()
    await _cancelled(task, often)
    assert task.cancelled() or isinstance(task.exception(), Custom)
    assert await _left(client, "s") == ("failed", "Custom: the cause")


@case("S27", each=OFTEN)
async def a_caller_cancelled_while_it_enters(store: Store, often: bool) -> None:
    """Wherever it is then, nobody is in the run afterwards, and the next one enters it."""
    client = store.client()
    await save(client, "warm", {"n": 0})

    async def enter(thread: str) -> None:
        async with client.run(thread, initial={"n": 0}):
            await asyncio.sleep(60)

    for number in range(ENTRIES):
        task = asyncio.ensure_future(enter(f"s{number}"))
        await asyncio.sleep(number * STEP_SECONDS)
        await _cancelled(task, often)
        assert task.cancelled()
    for number in range(ENTRIES):
        found = await _left(client, f"s{number}")
        assert found in {("absent", None), ("stale", "CancelledError")}
        async with client.run(f"s{number}", initial={"n": 0}) as again:
            attempt = 1 if found[0] == "absent" else 2
            assert (again.state, again.attempt) == ({"n": 0}, attempt)
