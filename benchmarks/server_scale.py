"""What one PostgreSQL holds: saves per second, bytes per 1,000 steps, and times in a full store.

    python -m benchmarks.server_scale

Starts a server of its own with its default durability, fills it, and prints the tables of
`docs/explanation/scale.md`.
"""

from __future__ import annotations

import asyncio
import statistics
import time
from collections.abc import Callable
from typing import Any

import psycopg

from benchmarks.data import Message, conversation
from lastgood import BlockingClient, Client
from lastgood.testing.servers import PostgresServer

STEPS = 1000
SECONDS = 8.0
FULL = 1_000_000
MESSAGES: list[Message] = [each for pair in conversation(STEPS // 2) for each in pair]
TABLES = ("checkpoint", "part", "thread", "branch", "run", "lane", "stream")

FILL = """
INSERT INTO {schema}.thread SELECT t, 'other'::bytea, ('thread ' || t)::bytea, 1, 1, t, '', NULL,
    100, 100, '', 0, 1, 1, 0, 0, 0, 1000, NULL, t, t, '', 1, 0
    FROM generate_series({low}, {high}) t;
INSERT INTO {schema}.checkpoint SELECT t, n, sha256(('c' || t || '/' || n)::bytea), 1, 'main', '',
    '', 0, '', n, 'step', 'custom', n, NULL, NULL, '', '', NULL, NULL, NULL, '', '', '', 10,
    decode(repeat('00', 200), 'hex'), '', '', 'other'
    FROM generate_series({low}, {high}) t, generate_series(1, 100) n;
INSERT INTO {schema}.part SELECT t, t, n, 1, decode(repeat('00', 16), 'hex'),
    decode(repeat('00', 1000), 'hex')
    FROM generate_series({low}, {high}) t, generate_series(1, 40) n;
"""


def main() -> None:
    """Measure and print."""
    with PostgresServer(fsync=True) as server:
        BlockingClient.open(server.url).threads()
        print(_version(server.url))
        print("\nwriters | saves/s | median ms")
        for writers in (1, 8, 32, 100):
            count, median = asyncio.run(_many(server.url, writers))
            print(f"{writers:7} | {count / SECONDS:7,.0f} | {median:6.1f}")
        print("\nsteps | bytes of rows | bytes with indexes | bytes of states")
        print(" | ".join(f"{value:,}" for value in _sizes(server.url)))
        print("\ncheckpoints | save ms | restore ms | latest ms | log ms | threads ms")
        for filled in (0, FULL):
            if filled:
                _fill(server.url, filled)
            times = _times(server.url, f"in {filled}")
            print(f"{filled:,} | " + " | ".join(f"{value:.2f}" for value in times))


def _version(url: str) -> str:
    with psycopg.connect(url) as connection:
        found = connection.execute("SELECT version()").fetchone()
        return str(found[0] if found else "")


async def _many(url: str, writers: int) -> tuple[int, float]:
    """How many saves all of them made, and how long one took."""
    taken: list[float] = []
    until = time.monotonic() + SECONDS

    async def write(client: Client, writer: int) -> None:
        state = {"messages": MESSAGES[:8], "n": 0}
        async with client.run(f"w{writers}-{writer}", initial=state) as run:
            while time.monotonic() < until:
                began = time.monotonic()
                run.state["n"] += 1
                await run.save()
                taken.append(time.monotonic() - began)

    async with Client.open(url) as client:
        await asyncio.gather(*(write(client, writer) for writer in range(writers)))
    return len(taken), statistics.median(taken) * 1000


def _sizes(url: str) -> tuple[int, int, int, int]:
    """What a conversation of so many steps takes in a store of its own."""
    with BlockingClient.open(f"{url}&schema=sizes") as client:
        with client.run("chat", initial={"messages": []}) as run:
            for number in range(STEPS):
                run.append("messages", MESSAGES[number])
        logical = client.stats("chat").logical
    with psycopg.connect(url, autocommit=True) as connection:
        connection.execute("VACUUM ANALYZE")
        rows = _sum(connection, "sum(pg_column_size(x.*))", "FROM sizes.{table} x")
        whole = _sum(connection, "pg_total_relation_size('sizes.{table}')", "")
    return STEPS, rows, whole, logical


def _sum(connection: psycopg.Connection[Any], what: str, rest: str) -> int:
    total = 0
    for table in TABLES:
        found = connection.execute(f"SELECT {what} {rest}".format(table=table)).fetchone()
        total += int((found or (0,))[0] or 0)
    return total


def _fill(url: str, checkpoints: int) -> None:
    with psycopg.connect(url, autocommit=True) as connection:
        low = 1 << 40
        for statement in FILL.format(
            schema="lastgood", low=low, high=low + checkpoints // 100 - 1
        ).split(";\n"):
            if statement.strip():
                connection.execute(statement)
        connection.execute("VACUUM ANALYZE")


def _times(url: str, thread: str) -> list[float]:
    """Medians in milliseconds, each of a client that has nothing in its cache."""
    state = {"messages": MESSAGES[:40], "n": 0}
    with BlockingClient.open(url) as client, client.run(thread, initial=state) as run:
        saves = [_timed(lambda: run.append("messages", MESSAGES[1])) for _ in range(100)]
        head = str(run.base)
    with BlockingClient.open(url, cache_bytes=0) as reader:
        calls: list[Callable[[], object]] = [
            lambda: reader.restore(head),
            lambda: reader.latest(agent_id="agent", session_id=thread),
            lambda: reader.log(thread),
            reader.threads,
        ]
        others = [statistics.median(_timed(call) for _ in range(60)) for call in calls]
    return [statistics.median(saves), *others]


def _timed(call: Callable[[], object]) -> float:
    began = time.perf_counter()
    call()
    return (time.perf_counter() - began) * 1000


if __name__ == "__main__":
    main()
