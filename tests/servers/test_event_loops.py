"""A client that serves one event loop after another keeps nothing of those that ended."""

import asyncio
import gc
import subprocess
import sys
import weakref
from uuid import uuid4

import psycopg
import pytest
import redis

from lastgood import Client
from lastgood.testing.servers import PostgresServer, ValkeyServer

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


CLOSING = """
import asyncio, gc, os, sys, weakref
from lastgood import Client

client = Client.open(sys.argv[1])
loops, files = [], []
for number in range(6):
    loop = asyncio.new_event_loop()
    loop.run_until_complete(client.save("a", session_id="s", execution_state={"n": number}))
    loop.close()
    loops.append(weakref.ref(loop))
    del loop
    gc.collect()
    files.append(len(os.listdir("/proc/self/fd")))
client.blocking.close()
gc.collect()
print(len(set(files)) == 1, sum(loop() is not None for loop in loops))
"""


@pytest.mark.server
@pytest.mark.parametrize("kind", ["postgres", "valkey"])
def test_event_loops_that_are_closed_without_an_end_are_let_go(kind: str) -> None:
    """`loop.close()` alone ends nothing that stands in it."""
    with {"postgres": PostgresServer, "valkey": ValkeyServer}[kind]() as server:
        program = [sys.executable, "-c", CLOSING, server.url]
        done = subprocess.run(program, capture_output=True, text=True, timeout=30, check=False)
    assert (done.returncode, done.stdout) == (0, "True 0\n"), done.stderr


LEAVING = """
import asyncio, sys
from lastgood import Client

client = Client.open(sys.argv[1])

async def leave(number):
    saves = [
        asyncio.create_task(client.save("a", session_id=f"{number}-{each}", execution_state=each))
        for each in range(10)
    ]
    await asyncio.sleep(0.002 * (number % 5))

asyncio.run(client.threads())
for number in range(20):
    asyncio.run(leave(number))
print(len(asyncio.run(client.threads())) >= 0)
"""


@pytest.mark.server
@pytest.mark.parametrize("kind", ["postgres", "valkey"])
def test_an_event_loop_ends_with_saves_under_way(kind: str) -> None:
    """Nobody awaits them or closes the client: connections that are being made end too."""
    with {"postgres": PostgresServer, "valkey": ValkeyServer}[kind]() as server:
        program = [sys.executable, "-c", LEAVING, server.url]
        done = subprocess.run(program, capture_output=True, text=True, timeout=30, check=False)
    assert (done.returncode, done.stdout) == (0, "True\n"), done.stderr
