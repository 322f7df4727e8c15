"""A connection that is on its way back into its pool arrives there, whoever is cancelled."""

import asyncio
from typing import Any

import pytest
from psycopg_pool import AsyncConnectionPool

from lastgood import Client

pytestmark = pytest.mark.server("postgres")


async def cancelled_while_giving_back(client: Client, pool: Any) -> None:
    """A read that is cancelled while it hands its connection on to another one; all is well then.

    There is one connection, so the second read waits for what the first has.
    """
    putconn = pool.putconn

    def read() -> asyncio.Task[Any]:
        return asyncio.create_task(client.latest(agent_id="a", session_id="s"))

    async def in_the_middle(connection: Any) -> None:
        pool.putconn = putconn
        assert pool.get_stats()["requests_waiting"]
        asyncio.get_running_loop().call_soon(first.cancel)
        await putconn(connection)

    pool.putconn = in_the_middle
    first, second = read(), read()
    await asyncio.wait([first])
    assert first.cancelled()
    assert (await second).state == {"n": 1}
    assert (await read()).state == {"n": 1}
    stats = pool.get_stats()
    assert (stats["pool_size"], stats["pool_available"]) == (1, 1)


def test_of_the_application(postgres_url: str, schema: str) -> None:
    async def body() -> None:
        pool = AsyncConnectionPool(postgres_url, min_size=1, max_size=1, timeout=5, open=False)
        async with pool:
            client = Client.postgres(pool, schema=schema)
            await client.save("a", session_id="s", execution_state={"n": 1})
            await cancelled_while_giving_back(client, pool)

    asyncio.run(body())


def test_of_our_own(postgres_url: str, schema: str, monkeypatch: pytest.MonkeyPatch) -> None:
    made: list[Any] = []
    begin = AsyncConnectionPool.__init__

    def noted(pool: Any, *args: Any, **options: Any) -> None:
        made.append(pool)
        begin(pool, *args, **options)

    monkeypatch.setattr(AsyncConnectionPool, "__init__", noted)

    async def body() -> None:
        async with Client.postgres(postgres_url, schema=schema, pool_size=2) as client:
            await client.save("a", session_id="s", execution_state={"n": 1})
            await made[0].resize(0, 1)  # the second one waits as if its connection were being made
            await cancelled_while_giving_back(client, made[0])

    asyncio.run(body())
