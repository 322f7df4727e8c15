"""An async client that nobody closes, and that nobody has any more, ends without a sound."""

import subprocess
import sys

import pytest

pytestmark = pytest.mark.server("postgres")

FORGOTTEN = """
import asyncio, gc, sys
from lastgood import Client

url, schema = sys.argv[1:]

async def use(way):
    client = Client.postgres(url, schema=schema)
    await asyncio.gather(*(client.threads() for _ in range(5)))
    if way == "blocking":
        client.blocking.close()

async def sessions(watcher):
    asked = "SELECT count(*) FROM pg_stat_activity WHERE application_name = 'forgotten'"
    return (await (await watcher.execute(asked)).fetchone())[0]

async def main():
    import psycopg
    watcher = await psycopg.AsyncConnection.connect(url, autocommit=True)
    for way in ("blocking", "not at all"):
        await use(way)
        for _ in range(200):
            gc.collect()
            await asyncio.sleep(0.01)
            if not await sessions(watcher):
                break
        print(await sessions(watcher), len(asyncio.all_tasks()))
    await watcher.close()

asyncio.run(main())
"""


def test_it_closes_its_connections_and_complains_of_nothing(postgres_url: str, schema: str) -> None:
    url = f"{postgres_url}{'&' if '?' in postgres_url else '?'}application_name=forgotten"
    watching = FORGOTTEN.replace("connect(url,", f"connect({postgres_url!r},")
    command = [sys.executable, "-X", "dev", "-c", watching, url, schema]
    done = subprocess.run(command, capture_output=True, text=True, timeout=60, check=True)
    assert done.stdout.split() == ["0", "1", "0", "1"]
    told = [line for line in done.stderr.splitlines() if "Executing <" not in line]
    assert told == []
