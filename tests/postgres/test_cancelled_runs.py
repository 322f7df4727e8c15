"""Runs whose callers are cancelled while the server does not answer: nobody waits for long, and
nobody stays inside. A lock of somebody else keeps the server from answering those who write.
"""

import asyncio
import time
from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager

import psycopg
import pytest

from lastgood import Client, lasting
from lastgood.testing.servers import PostgresServer

pytestmark = pytest.mark.server

HELD = "LOCK TABLE lastgood.thread IN EXCLUSIVE MODE"


@pytest.fixture(scope="module")
def server() -> Iterator[PostgresServer]:
    with PostgresServer() as made:
        yield made


@pytest.fixture(autouse=True)
def impatient(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(lasting, "MOMENT", 0.1)
    monkeypatch.setattr(lasting, "PATIENCE", 0.3)


@asynccontextmanager
async def held(server: PostgresServer) -> AsyncIterator[psycopg.AsyncConnection[object]]:
    """Nobody but who holds the lock can write until it ends."""
    async with await psycopg.AsyncConnection.connect(server.url) as other:
        await other.execute(HELD)
        yield other


async def waiting_in(server: PostgresServer) -> int:
    """How many sessions of the server wait for a lock."""
    async with await psycopg.AsyncConnection.connect(server.url) as other:
        found = await other.execute("SELECT count(*) FROM pg_locks WHERE NOT granted")
        row = await found.fetchone()
        return int(row[0]) if row else 0


async def until_waiting(server: PostgresServer, count: int) -> None:
    for _ in range(200):
        if await waiting_in(server) == count:
            return
        await asyncio.sleep(0.02)
    raise AssertionError(f"there are never {count} that wait")


async def cancelled(task: "asyncio.Task[None]", *, times: int) -> float:
    """Cancel a task for so long as it takes, or so often; how many seconds it took to end."""
    began = time.monotonic()
    while not task.done() and times:
        task.cancel()
        times -= 1
        await asyncio.sleep(0)
    await asyncio.wait([task], timeout=10)
    assert task.cancelled()
    return time.monotonic() - began


async def work(client: Client, thread: str, inside: asyncio.Event | None = None) -> None:
    async with client.run(thread, initial={"n": 0}):
        if inside is not None:
            inside.set()
        await asyncio.sleep(60)


async def status(client: Client, thread: str) -> str:
    found = [each.status for each in await client.threads(limit=1000) if each.thread_id == thread]
    return found[0] if found else "absent"


async def until_left(client: Client, thread: str) -> str:
    for _ in range(200):
        found = await status(client, thread)
        if found not in ("absent", "running"):
            break
        await asyncio.sleep(0.02)
    return found


@pytest.mark.parametrize("times", [1, -1], ids=["once", "at every await"])
def test_who_is_left_behind_while_a_run_is_entered_leaves_it(
    server: PostgresServer, times: int
) -> None:
    thread = f"entered{times}"

    async def body() -> None:
        async with Client.postgres(server.url) as client:
            await client.save("a", session_id="warm", execution_state={})
            async with held(server):
                task = asyncio.ensure_future(work(client, thread))
                await until_waiting(server, 1)
                assert await cancelled(task, times=times) < 5
                assert await waiting_in(server) == 1, "the commit goes its way"
            assert await until_left(client, thread) == "stale"

    asyncio.run(body())


@pytest.mark.parametrize("times", [1, -1], ids=["once", "at every await"])
def test_who_is_cancelled_once_more_while_a_run_is_left_leaves_it(
    server: PostgresServer, times: int
) -> None:
    thread = f"left{times}"

    async def body() -> None:
        async with Client.postgres(server.url, heartbeat_seconds=600) as client:
            inside = asyncio.Event()
            task = asyncio.ensure_future(work(client, thread, inside))
            await inside.wait()
            async with held(server):
                task.cancel()
                await until_waiting(server, 1)
                assert await cancelled(task, times=times) < 5
            assert await until_left(client, thread) == "stale"

    asyncio.run(body())


def test_a_client_does_not_wait_for_ever_for_what_was_left_behind(server: PostgresServer) -> None:
    async def body() -> None:
        async with Client.postgres(server.url) as client:
            await client.save("a", session_id="warm", execution_state={})
            async with held(server):
                task = asyncio.ensure_future(work(client, "closed"))
                await until_waiting(server, 1)
                await cancelled(task, times=1)
                began = time.monotonic()
                await client.close()
                assert time.monotonic() - began < 5
                assert await waiting_in(server) == 0, "it is cancelled in the server"
            assert await status(client, "closed") == "absent"
        assert len(asyncio.all_tasks()) == 1

    asyncio.run(body())


def test_on_a_connection_of_the_application_nothing_is_left_behind(server: PostgresServer) -> None:
    async def body() -> None:
        async with await psycopg.AsyncConnection.connect(server.url, autocommit=True) as mine:
            client = Client.postgres(mine)
            await client.save("a", session_id="warm", execution_state={})
            async with held(server):
                task = asyncio.ensure_future(work(client, "given"))
                await until_waiting(server, 1)
                await cancelled(task, times=1)
                await until_waiting(server, 0)
            assert await status(client, "given") == "absent"
            inside = asyncio.Event()
            task = asyncio.ensure_future(work(client, "given", inside))
            await inside.wait()
            await cancelled(task, times=-1)
            assert await status(client, "given") == "stale"

    asyncio.run(body())
