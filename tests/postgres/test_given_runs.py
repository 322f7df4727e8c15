"""The heartbeats of runs on pools and connections that the application owns."""

import asyncio
import time
from typing import Any

import psycopg
import pytest
from psycopg import AsyncConnection
from psycopg_pool import AsyncConnectionPool, ConnectionPool

from lastgood import BlockingClient, Client

pytestmark = pytest.mark.server("postgres")

OFTEN: dict[str, Any] = {"heartbeat_seconds": 0.05, "stale_after_seconds": 0.5}


def status(url: str, schema: str) -> str:
    """What others see of the only thread."""
    with BlockingClient.postgres(url, schema=schema, **OFTEN) as other:
        return other.threads()[0].status


def test_no_heartbeat_comes_between_the_applications_own_statements(
    postgres_url: str, schema: str
) -> None:
    """Nobody but the caller uses a connection: all that was acknowledged is there."""
    with psycopg.connect(postgres_url) as connection:
        client = BlockingClient.postgres(connection, schema=schema, heartbeat_seconds=0.01)
        with client.run("s", initial={"n": 0}) as run:
            connection.execute(f"CREATE TABLE {schema}.orders (n int)")
            connection.commit()
            for number in range(200):
                with connection.transaction():
                    connection.execute(f"INSERT INTO {schema}.orders VALUES (%s)", (number,))
                    connection.execute("SELECT pg_sleep(0.001)")
                if number % 20 == 0:
                    run.save({"n": number})
        connection.rollback()
        with psycopg.connect(postgres_url) as other:
            assert other.execute(f"SELECT count(*) FROM {schema}.orders").fetchall() == [(200,)]
    with BlockingClient.postgres(postgres_url, schema=schema) as other:
        assert other.latest(agent_id="agent", session_id="s").state == {"n": 180}


def test_on_a_connection_steps_are_the_signs_of_life(postgres_url: str, schema: str) -> None:
    """A run that saves is running; one that does not for long shows as stale, until it does."""
    with psycopg.connect(postgres_url, autocommit=True) as connection:
        client = BlockingClient.postgres(connection, schema=schema, **OFTEN)
        with client.run("s", initial={"n": 0}) as run:
            for number in range(6):
                time.sleep(0.15)
                run.save({"n": number})
            assert status(postgres_url, schema) == "running"
            time.sleep(0.7)
            assert status(postgres_url, schema) == "stale"
            run.save({"n": 7})
            assert status(postgres_url, schema) == "running"
        assert status(postgres_url, schema) == "idle"


def test_the_same_on_an_async_connection(postgres_url: str, schema: str) -> None:
    async def body() -> None:
        async with await AsyncConnection.connect(postgres_url) as connection:
            client = Client.postgres(connection, schema=schema, **OFTEN)
            async with client.run("s", initial={"l": []}) as run:
                for number in range(6):
                    await asyncio.sleep(0.15)
                    await run.append("l", number)
                assert await asyncio.to_thread(status, postgres_url, schema) == "running"

    asyncio.run(body())


def test_a_run_on_an_async_pool_beats(postgres_url: str, schema: str) -> None:
    """And no more once it was left."""

    async def body() -> None:
        async with AsyncConnectionPool(postgres_url, min_size=1, open=False) as pool:
            client = Client.postgres(pool, schema=schema, **OFTEN)
            async with client.run("s", initial={}):
                await asyncio.sleep(1.2)
                assert await asyncio.to_thread(status, postgres_url, schema) == "running"
            await asyncio.sleep(0.2)
            assert "lastgood-pulse" not in {task.get_name() for task in asyncio.all_tasks()}
            assert await asyncio.to_thread(status, postgres_url, schema) == "idle"

    asyncio.run(body())


def test_a_run_on_a_blocking_pool_beats(postgres_url: str, schema: str) -> None:
    with ConnectionPool(postgres_url, min_size=1, max_size=2, open=True) as pool:
        client = BlockingClient.postgres(pool, schema=schema, **OFTEN)
        with client.run("s", initial={}):
            time.sleep(1.2)
            assert status(postgres_url, schema) == "running"
