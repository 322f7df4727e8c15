"""How many connections a client has to a Cluster, however many use it at once; who gets one."""

import asyncio
import sys
import threading
from collections.abc import Iterator

import pytest

from lastgood import BlockingClient, Client
from lastgood.backends.redis.clients import Clients
from lastgood.testing.servers import ValkeyCluster, ValkeyServer

pytestmark = pytest.mark.server

LARGE = {"items": ["x" * 900] * 50}
MANY, SIZE = 40, 2
MOST = 2 * SIZE + 1
"""To one node: the driver also asks about commands, and looks at the nodes."""


@pytest.fixture
def cluster() -> Iterator[ValkeyCluster]:
    """One of our own, so that every connection is one of the case."""
    with ValkeyCluster() as one:
        yield one


def clients(cluster: ValkeyCluster) -> list[int]:
    """How many are connected to each node, who asks left out."""
    told = [node.ask("CLIENT", "LIST", "TYPE", "NORMAL") for node in cluster.nodes]
    return [len(lines.splitlines()) - 1 for lines in told if isinstance(lines, bytes)]


def test_threads_share_a_pool_of_the_size_that_was_given(cluster: ValkeyCluster) -> None:
    with BlockingClient.redis(cluster.url, pool_size=SIZE) as client:

        def work(number: int) -> None:
            for _ in range(3):
                client.save("a", session_id=f"s{number}", execution_state=LARGE)

        workers = [threading.Thread(target=work, args=(number,)) for number in range(MANY)]
        for worker in workers:
            worker.start()
        for worker in workers:
            worker.join()
        assert max(clients(cluster)) <= MOST
        assert len(client.threads()) == MANY


def test_and_so_do_tasks(cluster: ValkeyCluster) -> None:
    async def body() -> None:
        async with Client.redis(cluster.url, pool_size=SIZE) as client:
            saves = (
                client.save("a", session_id=f"s{number}", execution_state=LARGE)
                for number in range(MANY)
            )
            await asyncio.gather(*saves)
            assert max(clients(cluster)) <= MOST
            assert len(await client.threads()) == MANY

    asyncio.run(body())


@pytest.mark.parametrize("fewer", ["", "&max_connections=1", "&max_connections=0"])
def test_who_waits_for_a_connection_gets_one(fewer: str) -> None:
    """Tasks that are never at rest do not keep it from those that came after them."""
    saved = dict.fromkeys(range(4), 0)

    async def work(client: Client, number: int) -> None:
        while 0 in saved.values() and saved[number] < 500:
            await client.save("a", session_id=f"s{number}", execution_state={})
            saved[number] += 1

    async def body(url: str) -> None:
        async with Client.redis(url, pool_size=SIZE) as client:
            await client.threads()
            await asyncio.gather(*(work(client, number) for number in saved))

    with ValkeyServer() as server:
        asyncio.run(body(server.url + fewer))
    assert max(saved.values()) < 50


def test_event_loops_of_many_threads_come_and_go() -> None:
    """Who makes a client looks for loops that were closed, while others make theirs."""
    clients, failed = Clients("redis://localhost:1/0", 4), list[BaseException]()

    async def made() -> None:
        await clients.native()

    def work() -> None:
        for _ in range(60):
            try:
                asyncio.run(made())
            except RuntimeError as error:
                failed.append(error)

    before = sys.getswitchinterval()
    sys.setswitchinterval(1e-6)
    try:
        threads = [threading.Thread(target=work) for _ in range(16)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
    finally:
        sys.setswitchinterval(before)
    assert failed == []
