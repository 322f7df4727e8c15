"""Who is cancelled cancels in the server, but not through a pooler: a PgBouncer may end of that."""

import asyncio
import random
from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager, suppress

import psycopg
import pytest

from lastgood import Client
from lastgood.backends.postgres import connections
from lastgood.testing.servers import PgBouncer, PostgresServer

pytestmark = pytest.mark.server

HELD = "LOCK TABLE lastgood.thread IN ACCESS EXCLUSIVE MODE"


@pytest.fixture
def pooler() -> Iterator[PgBouncer]:
    """One of its own, that a test may end, in front of a server of its own."""
    with PostgresServer() as server, PgBouncer(server) as bouncer:
        yield bouncer


async def cancelled_twice(client: Client, number: int) -> None:
    """A save that is cancelled, and once more while the first cancel is on its way."""
    chance = random.Random(number)
    state = {"text": "x" * chance.choice([10, 20_000])}
    saving = asyncio.ensure_future(client.save("a", session_id="s", execution_state=state))
    for seconds in (0.02, 0.003):
        await asyncio.sleep(chance.uniform(0, seconds))
        saving.cancel()
    with suppress(asyncio.CancelledError):
        await saving


def test_a_pooler_survives_those_who_are_cancelled(pooler: PgBouncer) -> None:
    async def body() -> None:
        async with Client.postgres(pooler.url) as client:
            await client.save("a", session_id="s", execution_state={})
            for first in range(0, 600, 12):
                calls = (cancelled_twice(client, number) for number in range(first, first + 12))
                await asyncio.gather(*calls)
            saved = await client.save("a", session_id="s", execution_state={"n": 1})
            assert (await client.restore(saved)).state == {"n": 1}

    asyncio.run(body())
    assert pooler.running
    assert "cancel request" not in pooler.log.read_text()


@asynccontextmanager
async def held_up(client: Client, server: PostgresServer) -> AsyncIterator[asyncio.Task[str]]:
    """A save that waits for somebody else's lock."""
    await client.save("a", session_id="s", execution_state={})
    async with await psycopg.AsyncConnection.connect(server.url) as other:
        await other.execute(HELD)
        saving = asyncio.ensure_future(client.save("a", session_id="s", execution_state={"n": 1}))
        for _ in range(2):
            await asyncio.sleep(0.2)
            assert not saving.done()
        saving.cancel()
        yield saving


async def waiting_in(server: PostgresServer) -> int:
    """How many sessions of the server wait for a lock."""
    async with await psycopg.AsyncConnection.connect(server.url) as other:
        found = await other.execute("SELECT count(*) FROM pg_locks WHERE NOT granted")
        row = await found.fetchone()
        return int(row[0]) if row else 0


def test_without_a_pooler_the_server_stops(pooler: PgBouncer) -> None:
    async def body() -> None:
        async with Client.postgres(pooler.server.url) as client:
            async with held_up(client, pooler.server) as saving:
                with pytest.raises(asyncio.CancelledError):
                    await saving
                assert await waiting_in(pooler.server) == 0
            head = await client.latest(agent_id="a", session_id="s")
            assert head is not None
            assert head.state == {}

    asyncio.run(body())


def test_with_a_pooler_a_cancelled_save_has_an_end(
    pooler: PgBouncer, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(connections, "WIND_UP_SECONDS", 0.3)

    async def body() -> None:
        async with Client.postgres(pooler.url) as client:
            async with held_up(client, pooler.server) as saving:
                assert await asyncio.wait([saving], timeout=10) == ({saving}, set())
                assert saving.cancelled()
            saved = await client.save("a", session_id="s", execution_state={"n": 2})
            assert (await client.restore(saved)).state == {"n": 2}

    asyncio.run(body())
