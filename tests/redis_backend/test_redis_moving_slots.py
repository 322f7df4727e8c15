"""A slot of a Cluster that is moved to another server key by key, while its threads are used."""

import asyncio
import threading
from collections.abc import Iterator
from typing import Any
from uuid import uuid4

import pytest
import redis

from lastgood import BlockingClient, Client
from lastgood.backends.redis.backend import RedisBackend
from lastgood.backends.redis.keys import Keys, tag_of
from lastgood.backends.remote.queries import ThreadName

pytestmark = pytest.mark.server("cluster")

LARGE = {"n": [("x" * 900) + str(number) for number in range(30)]}
FIRST = {
    "the row": ("",),
    "all but parts and links": ("", ":c", ":i", ":s", ":z"),
    "parts": (":c", ":p"),
}


class Slot:
    """That of one thread, on its way from one server to another."""

    def __init__(self, url: str, prefix: str, thread: str) -> None:
        cluster: Any = redis.RedisCluster.from_url(url)
        self.key = Keys(prefix).thread(tag_of(ThreadName("default", thread)))
        self.number = cluster.keyslot(self.key)
        source = cluster.get_node_from_key(self.key)
        self.source: Any = source.redis_connection
        self.all = [node.redis_connection for node in cluster.get_primaries()]
        self.node = next(node for node in cluster.get_primaries() if node.name != source.name)
        self.target: Any = self.node.redis_connection

    def begin(self, suffixes: tuple[str, ...]) -> None:
        """Move some keys."""
        self._is("IMPORTING", self.source, self.target)
        self._is("MIGRATING", self.target, self.source)
        self._move([self.key + suffix for suffix in suffixes])

    def end(self) -> None:
        """Move the others; whatever is there at the target is written over."""
        self._move(self.source.execute_command("CLUSTER GETKEYSINSLOT", self.number, 1000))
        for server in (self.target, self.source, *self.all):
            self._is("NODE", self.target, server)

    def _is(self, how: str, whose: Any, told: Any) -> None:
        told.execute_command(
            "CLUSTER SETSLOT", self.number, how, whose.execute_command("CLUSTER MYID")
        )

    def _move(self, keys: list[Any]) -> None:
        to = (self.node.host, self.node.port, "", 0, 5000)
        self.source.execute_command("MIGRATE", *to, "REPLACE", "KEYS", *keys)


@pytest.fixture
def prefix(cluster_url: str) -> Iterator[str]:
    name = f"moving_{uuid4().hex[:12]}"
    yield name
    raw: Any = redis.RedisCluster.from_url(cluster_url)
    for key in raw.scan_iter(f"{name}:*"):
        raw.unlink(key)


@pytest.mark.parametrize("moved", FIRST.values(), ids=FIRST)
def test_whoever_comes_while_a_slot_is_moved_waits(
    cluster_url: str, prefix: str, moved: tuple[str, ...]
) -> None:
    """What is acknowledged is there afterwards, and half a thread is not taken for damage."""
    with BlockingClient.redis(cluster_url, prefix=prefix) as client:
        first = client.save("a", session_id="s", execution_state=LARGE)
        slot = Slot(cluster_url, prefix, "s")
        slot.begin(moved)
        timer = threading.Timer(1, slot.end)
        timer.start()
        with client.run("s", agent_id="a") as run:
            second = run.append("n", "y" * 5000)
        timer.join()
    with BlockingClient.redis(cluster_url, prefix=prefix) as other:
        assert other.restore(first).state == LARGE
        assert other.restore(second).state == {"n": [*LARGE["n"], "y" * 5000]}
        assert [header.seq for header in other.log("s")] == [2, 1]
        assert other.verify(data=True).clean


def test_reads_wait_too(cluster_url: str, prefix: str) -> None:
    with BlockingClient.redis(cluster_url, prefix=prefix) as client:
        client.save("a", session_id="s", execution_state=LARGE)
        slot = Slot(cluster_url, prefix, "s")
        slot.begin(("",))
        timer = threading.Timer(1, slot.end)
        timer.start()
        assert client.restore("s@").state == LARGE
        timer.join()


def test_a_slot_that_never_arrives_is_told_as_that(
    cluster_url: str, prefix: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("lastgood.backends.remote.attempts.PATIENCE", 0.5)
    with BlockingClient.redis(cluster_url, prefix=prefix) as client:
        client.save("a", session_id="s", execution_state=LARGE)
        slot = Slot(cluster_url, prefix, "s")
        slot.begin((":c",))
        with pytest.raises(Exception, match="A slot of the Cluster is on its way; try again"):
            client.save("a", session_id="s", execution_state={})
        slot.end()
        assert client.latest(agent_id="a", session_id="s").state == LARGE


def test_tasks_whose_connections_are_closed_by_another_go_on(cluster_url: str, prefix: str) -> None:
    """As the driver does when one of them has met a few slots that were moved."""

    async def play() -> None:
        backend = RedisBackend(cluster_url, prefix=prefix)
        async with Client.on(backend) as client:
            await client.save("a", session_id="s", execution_state=LARGE)
            driver = await backend._clients.native()
            over = asyncio.Event()

            async def read() -> None:
                while not over.is_set():
                    found = await client.latest(agent_id="a", session_id="s")
                    assert found is not None

            async with asyncio.TaskGroup() as tasks:
                for _ in range(8):
                    tasks.create_task(read())
                for _ in range(60):
                    await driver.aclose()
                    await asyncio.sleep(0.005)
                over.set()

    asyncio.run(play())
