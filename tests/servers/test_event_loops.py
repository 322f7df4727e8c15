"""A client that serves one event loop after another keeps nothing of those that ended."""

import asyncio
import gc
import weakref
from uuid import uuid4

import psycopg
import pytest
import redis

from lastgood import Client
from lastgood.testing.servers import ValkeyServer

LOOPS = 5


def serve(client: Client) -> list[weakref.ref[asyncio.AbstractEventLoop]]:
    """A save in each of some event loops."""
    loops = []

    async def body(number: int) -> None:
        loops.append(weakref.ref(asyncio.get_running_loop()))
        await asyncio.gather(
            client.save("a", session_id=f"s{number}", execution_state={"n": ["x" * 100] * 1000}),
            client.save("b", session_id=f"s{number}", execution_state={"n": 2}),
        )
        await client.latest(agent_id="a", session_id=f"s{number}")

    for number in range(LOOPS):
        asyncio.run(body(number))
    gc.collect()
    return loops


@pytest.mark.server("postgres", "valkey")
def test_on_postgres_with_a_cache(postgres_url: str) -> None:
    name = f"t_{uuid4().hex[:16]}"
    dsn = f"{postgres_url}&application_name={name}"
    with ValkeyServer() as server, redis.Redis.from_url(server.url) as raw:
        client = Client.postgres(dsn, schema=name, cache=server.url, cache_bytes=0)
        assert [loop() for loop in serve(client)] == [None] * LOOPS
        assert raw.dbsize()
        assert len(raw.client_list()) == 1
    with psycopg.connect(postgres_url, autocommit=True) as connection:
        text = "SELECT count(*) FROM pg_stat_activity WHERE application_name = %s"
        assert connection.execute(text, [name]).fetchone() == (0,)
        connection.execute(f"DROP SCHEMA {name} CASCADE")


@pytest.mark.server("valkey")
def test_on_valkey() -> None:
    """On a server of its own: nobody else is counted."""
    with ValkeyServer() as server, redis.Redis.from_url(server.url) as raw:
        assert [loop() for loop in serve(Client.redis(server.url))] == [None] * LOOPS
        assert len(raw.client_list()) == 1
