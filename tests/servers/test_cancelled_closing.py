"""A client that is closed where every await is cancelled, as below a scope of anyio."""

import subprocess
import sys

import pytest

from lastgood.testing.servers import PostgresServer, ValkeyServer

CLOSING = """
import asyncio, gc, sys
from contextlib import suppress
from lastgood import Client

async def main():
    client = Client.open(sys.argv[1])
    await asyncio.gather(*(client.threads() for _ in range(3)))
    closing = asyncio.create_task(client.close())
    await asyncio.sleep(0)
    while not closing.done():
        closing.cancel()
        await asyncio.sleep(0)
    del client, closing
    for _ in range(5):
        gc.collect()
        await asyncio.sleep(0.01)
    print(len(asyncio.all_tasks()))

loop = asyncio.new_event_loop()
loop.run_until_complete(main())
loop.close()
gc.collect()
"""


@pytest.mark.server
@pytest.mark.parametrize("kind", ["postgres", "valkey"])
def test_it_closes_its_connections_and_complains_of_nothing(kind: str) -> None:
    with {"postgres": PostgresServer, "valkey": ValkeyServer}[kind]() as server:
        program = [sys.executable, "-X", "dev", "-c", CLOSING, server.url]
        done = subprocess.run(program, capture_output=True, text=True, timeout=30, check=False)
    told = [line for line in done.stderr.splitlines() if "Executing <" not in line]
    assert (done.returncode, done.stdout, told) == (0, "1\n", [])
