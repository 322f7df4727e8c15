"""An async client that nobody closes, and that nobody has any more, ends without a sound."""

import subprocess
import sys

import pytest
import redis

from lastgood.testing.servers import ValkeyServer

pytestmark = pytest.mark.server("cluster")

FORGOTTEN = """
import asyncio, gc, sys
from lastgood import Client

async def use(way):
    client = Client.redis(sys.argv[1], prefix=sys.argv[2])
    await asyncio.gather(*(client.threads() for _ in range(5)))
    if way == "blocking":
        client.blocking.close()

async def main():
    for way in ("blocking", "not at all"):
        await use(way)
        for _ in range(20):
            gc.collect()
            await asyncio.sleep(0.01)
        print(len(asyncio.all_tasks()))
        input()

asyncio.run(main())
"""


def forgotten(url: str) -> "subprocess.Popen[str]":
    command = [sys.executable, "-X", "dev", "-c", FORGOTTEN, url, "forgotten"]
    pipe = subprocess.PIPE
    return subprocess.Popen(command, stdin=pipe, stdout=pipe, stderr=pipe, text=True)


def complaints(process: "subprocess.Popen[str]") -> list[str]:
    """What it says on its way to the end, but for what is slow."""
    _, told = process.communicate("\n\n", timeout=60)
    assert process.returncode == 0
    return [line for line in told.splitlines() if "Executing <" not in line]


def test_it_closes_its_connections_and_complains_of_nothing() -> None:
    with ValkeyServer() as server, redis.Redis.from_url(server.url) as watcher:
        process = forgotten(server.url)
        assert process.stdout is not None
        assert process.stdout.readline() == "1\n"
        assert len(watcher.client_list()) == 1
        assert complaints(process) == []


def test_so_does_one_of_a_cluster(cluster_url: str) -> None:
    assert complaints(forgotten(cluster_url)) == []
