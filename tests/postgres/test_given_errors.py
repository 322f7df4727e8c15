"""Errors and cancels on pools and connections that the application owns: they come back as they
were given, and say what happened."""

import asyncio
import threading
import time
from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager, contextmanager
from typing import Any
from uuid import uuid4

import psycopg
import pytest
from psycopg import AsyncConnection, Connection
from psycopg.pq import TransactionStatus
from psycopg_pool import AsyncConnectionPool, ConnectionPool

from lastgood import BackendConnectionError, BlockingClient, Client, TransientStorageError
from lastgood.backends.postgres import wire
from lastgood.backends.remote import attempts

pytestmark = pytest.mark.server("postgres")

IDLE = TransactionStatus.IDLE
IMPATIENT = {"options": "-c lock_timeout=100ms"}


@pytest.fixture
def schema(postgres_url: str) -> Iterator[str]:
    name = f"given_{uuid4().hex[:12]}"
    with BlockingClient.postgres(postgres_url, schema=name) as client:
        client.save("a", session_id="s", execution_state={"n": 0})
    yield name
    with psycopg.connect(postgres_url, autocommit=True) as connection:
        connection.execute(f"DROP SCHEMA IF EXISTS {name} CASCADE")


@contextmanager
def locked(url: str, schema: str, seconds: float) -> Iterator[None]:
    """Nobody can read the threads for a while."""
    with psycopg.connect(url) as other:
        other.execute(f"LOCK TABLE {schema}.thread IN ACCESS EXCLUSIVE MODE")
        timer = threading.Timer(seconds, other.rollback)
        timer.start()
        yield
        timer.join()


@contextmanager
def one_of_a_pool(url: str, autocommit: bool) -> Iterator[tuple[Any, Connection[Any]]]:
    kwargs = {**IMPATIENT, "autocommit": autocommit}
    with ConnectionPool(url, min_size=1, max_size=1, kwargs=kwargs, open=True) as pool:
        with pool.connection() as connection:
            pass
        yield pool, connection


@contextmanager
def one_by_itself(url: str, autocommit: bool) -> Iterator[tuple[Any, Connection[Any]]]:
    with psycopg.connect(url, autocommit=autocommit, **IMPATIENT) as connection:
        yield connection, connection


@pytest.mark.parametrize("autocommit", [False, True])
@pytest.mark.parametrize("given", [one_of_a_pool, one_by_itself])
def test_a_read_that_fails_leaves_nothing_open_and_is_tried_again(
    postgres_url: str, schema: str, given: Any, autocommit: bool
) -> None:
    with given(postgres_url, autocommit) as (source, connection):
        client = BlockingClient.postgres(source, schema=schema)
        client.threads()
        with locked(postgres_url, schema, 0.4):
            assert len(client.log("s")) == 1
        assert connection.autocommit is autocommit
        assert connection.info.transaction_status == IDLE
        assert connection.execute("SELECT 1").fetchone() == (1,)


@asynccontextmanager
async def one_of_an_async_pool(url: str) -> AsyncIterator[tuple[Any, AsyncConnection[Any]]]:
    async with AsyncConnectionPool(url, min_size=1, max_size=1, open=False) as pool:
        async with pool.connection() as connection:
            pass
        yield pool, connection


@asynccontextmanager
async def one_async_by_itself(url: str) -> AsyncIterator[tuple[Any, AsyncConnection[Any]]]:
    async with await AsyncConnection.connect(url) as connection:
        yield connection, connection


@pytest.mark.parametrize("given", [one_of_an_async_pool, one_async_by_itself])
def test_a_read_that_is_cancelled_says_so_and_leaves_nothing_open(
    postgres_url: str, schema: str, given: Any
) -> None:
    async def body() -> None:
        async with given(postgres_url) as (source, connection):
            client = Client.postgres(source, schema=schema)
            await client.threads()
            with locked(postgres_url, schema, 0.6):
                task = asyncio.ensure_future(client.log("s"))
                await asyncio.sleep(0.2)
                task.cancel()
                with pytest.raises(asyncio.CancelledError):
                    await task
            assert connection.autocommit is False
            assert connection.info.transaction_status == IDLE
            await client.save("a", session_id="s", execution_state={"n": 1})
            assert (await client.latest(agent_id="a", session_id="s")).state == {"n": 1}

    asyncio.run(body())


def test_a_connection_that_is_lost_in_a_read_says_that(postgres_url: str, schema: str) -> None:
    """What could not be undone any more does not hide why."""
    with psycopg.connect(postgres_url) as connection:
        client = BlockingClient.postgres(connection, schema=schema)
        client.threads()
        pid = connection.info.backend_pid
        with psycopg.connect(postgres_url, autocommit=True) as other:
            end = threading.Timer(
                0.2, lambda: other.execute("SELECT pg_terminate_backend(%s)", (pid,))
            )
            end.start()
            with locked(postgres_url, schema, 0.5), pytest.raises(Exception, match="is closed"):
                client.log("s")
            end.join()


def test_a_transaction_that_must_begin_anew_is_told_so_at_once(
    postgres_url: str, schema: str
) -> None:
    """Another writer was faster than one that sees one moment only: to try again is in vain."""
    with (
        psycopg.connect(postgres_url) as connection,
        BlockingClient.postgres(postgres_url, schema=schema) as other,
    ):
        connection.isolation_level = psycopg.IsolationLevel.REPEATABLE_READ
        client = BlockingClient.postgres(connection, schema=schema)
        client.threads()
        for thread in ("s", "new"):
            with connection.transaction():
                client.latest(agent_id="a", session_id=thread)
                other.save("a", session_id=thread, execution_state={"n": 1})
                with pytest.raises(Exception, match=r"Roll back your transaction and run it again"):
                    client.save("a", session_id=thread, execution_state={"n": 2})
                assert connection.execute("SELECT 1").fetchone() == (1,)
            with connection.transaction():
                client.save("a", session_id=thread, execution_state={"n": 2})
            assert other.latest(agent_id="a", session_id=thread).state == {"n": 2}


def test_of_two_transactions_that_wait_for_each_other_one_is_told_at_once(
    postgres_url: str, schema: str
) -> None:
    with BlockingClient.postgres(postgres_url, schema=schema) as client:
        client.save("a", session_id="t", execution_state={"n": 0})
    both, told = threading.Barrier(2), []

    def work(*threads: str) -> None:
        with psycopg.connect(postgres_url) as connection:
            client = BlockingClient.postgres(connection, schema=schema)
            try:
                with connection.transaction():
                    client.save("a", session_id=threads[0], execution_state={"n": 1})
                    both.wait(10)
                    client.save("a", session_id=threads[1], execution_state={"n": 1})
            except Exception as error:
                told.append(str(error))

    began = time.monotonic()
    workers = [threading.Thread(target=work, args=order) for order in ("st", "ts")]
    for worker in workers:
        worker.start()
    for worker in workers:
        worker.join()
    assert [text.endswith("Roll back your transaction and run it again.") for text in told] == [
        True
    ]
    assert time.monotonic() - began < 20, "not for as long as a server may be away"


def test_a_pipeline_of_the_application_is_refused(postgres_url: str, schema: str) -> None:
    """No answer comes inside of it: a save was kept and raised an IndexError."""
    with psycopg.connect(postgres_url) as connection:
        client = BlockingClient.postgres(connection, schema=schema)
        with (
            connection.pipeline(),
            pytest.raises(BackendConnectionError, match=r"pipeline mode.* before the pipeline"),
        ):
            client.save("a", session_id="s", execution_state={"n": 1})
        assert client.latest(agent_id="a", session_id="s").state == {"n": 0}


def test_so_it_is_for_async_callers(postgres_url: str, schema: str) -> None:
    async def body() -> None:
        async with await AsyncConnection.connect(postgres_url) as connection:
            client = Client.postgres(connection, schema=schema)
            async with connection.pipeline():
                with pytest.raises(BackendConnectionError, match="pipeline mode"):
                    await client.save("a", session_id="s", execution_state={"n": 1})
            assert (await client.latest(agent_id="a", session_id="s")).state == {"n": 0}

    asyncio.run(body())


def test_who_waits_for_an_open_transaction_is_told_what_it_may_be(
    postgres_url: str, schema: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(attempts, "PATIENCE", 1.0)
    monkeypatch.setattr(wire, "SILENCE_SECONDS", 0.5)
    with psycopg.connect(postgres_url) as connection, connection.transaction():
        inside = BlockingClient.postgres(connection, schema=schema)
        inside.save("a", session_id="s", execution_state={"n": 1})
        with (
            BlockingClient.postgres(postgres_url, schema=schema) as other,
            pytest.raises(TransientStorageError, match="in a transaction that is still open"),
        ):
            other.save("a", session_id="s", execution_state={"n": 2})
