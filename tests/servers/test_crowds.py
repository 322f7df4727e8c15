"""Many more calls at once than there are connections: all get their turn, however long it takes."""

import asyncio
import random
import threading
from collections.abc import Callable, Iterator
from typing import Any
from uuid import uuid4

import pytest

from lastgood import BlockingClient, Client
from lastgood.backends.postgres import pools
from lastgood.backends.redis import clients
from lastgood.backends.remote import attempts, turns
from lastgood.backends.remote.room import Room
from lastgood.testing.faults.proxy import Proxy
from lastgood.testing.servers import PostgresServer, ValkeyServer

pytestmark = pytest.mark.server("postgres", "valkey")

CROWD = 60
SLOW, SHORT = 0.01, 0.7
"""A save takes at least two round trips, so the last one waits for longer than is short."""

Opened = Callable[[type[Any]], Any]


@pytest.fixture(params=["postgres", "redis"])
def opened(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> Iterator[Opened]:
    """A client with one connection, which is slow."""
    for module, name in ((pools, "CONNECT_SECONDS"), (clients, "CONNECT_SECONDS")):
        monkeypatch.setattr(module, name, SHORT)
    for module in (attempts, turns):
        monkeypatch.setattr(module, "PATIENCE", SHORT)
    made = {"postgres": PostgresServer, "redis": ValkeyServer}[request.param]
    with made() as server, Proxy(server.url) as proxy:

        def client(kind: type[Any]) -> Any:
            factory = getattr(kind, request.param)
            return factory(proxy.url, pool_size=1)

        proxy.delay(to_server=SLOW)
        yield client


Named = Callable[[], str]


def lonely() -> str:
    return uuid4().hex


def shared() -> str:
    return "s"


@pytest.mark.parametrize("named", [lonely, shared])
def test_of_tasks(opened: Opened, named: Named) -> None:
    async def body() -> None:
        async with opened(Client) as client:
            await client.save("a", session_id="s", execution_state={})
            saves = (client.save("a", session_id=named(), execution_state={}) for _ in range(CROWD))
            await asyncio.gather(*saves)
            assert await stored(client) == CROWD + 1

    asyncio.run(body())


async def stored(client: Client) -> int:
    return sum(thread.checkpoints for thread in await client.threads(limit=500))


@pytest.mark.parametrize("named", [lonely, shared])
def test_of_threads(opened: Opened, named: Named) -> None:
    with opened(BlockingClient) as client:
        client.save("a", session_id="s", execution_state={})
        failed: list[Exception] = []

        def work() -> None:
            try:
                client.save("a", session_id=named(), execution_state={})
            except Exception as error:
                failed.append(error)

        threads = [threading.Thread(target=work) for _ in range(CROWD)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        assert failed == []


def test_no_place_is_lost_by_who_is_cancelled() -> None:
    async def call(room: Room) -> None:
        async with room.native():
            await asyncio.sleep(random.uniform(0, 0.002))

    async def body() -> None:
        room = Room(3, 60.0, lambda: RuntimeError("full"))
        for _ in range(20):
            tasks = [asyncio.create_task(call(room)) for _ in range(30)]
            for task in random.sample(tasks, 15):
                await asyncio.sleep(0)
                asyncio.get_running_loop().call_later(random.uniform(0, 0.005), task.cancel)
            await asyncio.gather(*tasks, return_exceptions=True)
        async with asyncio.timeout(5), room.native(), room.native(), room.native():
            pass

    asyncio.run(body())


def test_nobody_waits_where_nobody_is_served() -> None:
    async def body() -> None:
        room = Room(1, 0.05, lambda: RuntimeError("full"))

        async def call() -> None:
            async with room.native():
                pass

        async with room.native():
            found = await asyncio.gather(*(call() for _ in range(9)), return_exceptions=True)
        assert [type(each) for each in found] == [RuntimeError] * 9
        await call()

    asyncio.run(body())


def test_who_waits_now_does_not_pay_for_who_waited_before() -> None:
    async def call(room: Room, seconds: float) -> None:
        async with room.native():
            await asyncio.sleep(seconds)

    async def body() -> None:
        room = Room(1, 0.2, lambda: RuntimeError("full"))
        await asyncio.gather(call(room, 0), call(room, 0))
        await asyncio.sleep(0.15)
        await asyncio.gather(call(room, 0.12), call(room, 0))

    asyncio.run(body())
