"""Pools and connections that the application owns."""

import asyncio
import itertools
import threading
from types import ModuleType
from typing import Any
from uuid import uuid4

import psycopg
import pytest
from psycopg import AsyncConnection, Connection
from psycopg_pool import AsyncConnectionPool, ConnectionPool

from lastgood import BackendConnectionError, BlockingClient, Client, StorageError
from lastgood.backends.postgres import setup

pytestmark = pytest.mark.server("postgres")

LARGE = {"messages": [{"n": n, "text": f"{n} " * 200} for n in range(60)]}


def work(client: BlockingClient) -> None:
    """A bit of everything."""
    with client.run("s", initial=LARGE) as run:
        run.append("messages", "one more")
        run.save({**run.state, "n": 1})
    client.fork("s@1", branch="idea")
    client.tag("s@2", "good")
    assert len(client.log("s")) == 4
    assert client.latest(agent_id="agent", session_id="s").state["n"] == 1
    assert client.verify(data=True).clean


async def work_async(client: Client) -> None:
    async with client.run("s", initial=LARGE) as run:
        await run.append("messages", "one more")
        await run.save({**run.state, "n": 1})
    await client.fork("s@1", branch="idea")
    await client.tag("s@2", "good")
    assert len(await client.log("s")) == 4
    assert (await client.latest(agent_id="agent", session_id="s")).state["n"] == 1
    assert (await client.verify(data=True)).clean


def threads_of(url: str, schema: str) -> int:
    """How many there are for everybody else."""
    with BlockingClient.postgres(url, schema=schema) as client:
        return len(client.threads())


@pytest.mark.parametrize("autocommit", [False, True])
def test_a_pool(postgres_url: str, schema: str, autocommit: bool) -> None:
    kwargs = {"autocommit": autocommit}
    with ConnectionPool(postgres_url, min_size=1, max_size=3, kwargs=kwargs, open=True) as pool:
        client = BlockingClient.postgres(pool, schema=schema)
        assert client.url.startswith("postgresql://postgres@/")
        work(client)
        client.close()
        with pool.connection() as connection:
            assert connection.autocommit is autocommit, "it is handed back as it was"
            connection.execute("SELECT 1")
        with pytest.raises(TypeError, match=r"a blocking pool, which async callers cannot use"):
            asyncio.run(client.aio.threads())
    assert threads_of(postgres_url, schema) == 1


@pytest.mark.parametrize("autocommit", [False, True])
def test_an_async_pool(postgres_url: str, schema: str, autocommit: bool) -> None:
    async def body() -> None:
        kwargs = {"autocommit": autocommit}
        pool = AsyncConnectionPool(postgres_url, min_size=1, max_size=3, kwargs=kwargs, open=False)
        async with pool:
            client = Client.postgres(pool, schema=schema)
            await work_async(client)
            await asyncio.gather(*(client.log("s") for _ in range(20)))
            await client.close()
            async with pool.connection() as connection:
                assert connection.autocommit is autocommit
            with pytest.raises(TypeError, match="an async pool, which blocking callers cannot use"):
                client.blocking.threads()

    asyncio.run(body())
    assert threads_of(postgres_url, schema) == 1


@pytest.mark.parametrize("autocommit", [False, True])
def test_a_connection_outside_of_a_transaction_commits_at_once(
    postgres_url: str, schema: str, autocommit: bool
) -> None:
    with psycopg.connect(postgres_url, autocommit=autocommit) as connection:
        client = BlockingClient.postgres(connection, schema=schema)
        work(client)
        assert connection.autocommit is autocommit
        assert threads_of(postgres_url, schema) == 1, "before the application commits anything"
        client.close()
        assert not connection.closed
        with pytest.raises(TypeError, match="Give it an AsyncConnection, or a DSN"):
            asyncio.run(client.aio.threads())


@pytest.mark.parametrize("autocommit", [False, True])
def test_an_async_connection(postgres_url: str, schema: str, autocommit: bool) -> None:
    async def body() -> None:
        async with await AsyncConnection.connect(postgres_url, autocommit=autocommit) as connection:
            client = Client.postgres(connection, schema=schema)
            await work_async(client)
            assert threads_of(postgres_url, schema) == 1
            await asyncio.gather(*(client.log("s") for _ in range(20)))
            async with connection.transaction(force_rollback=True):
                await client.save("a", session_id="t", execution_state=LARGE)
                assert len(await client.threads()) == 2
            assert len(await client.threads()) == 1

    asyncio.run(body())


def test_a_save_inside_of_the_applications_transaction_goes_with_it(
    postgres_url: str, schema: str
) -> None:
    """Rolled back with it, committed with it, invisible to others until then."""
    with psycopg.connect(postgres_url) as connection:
        client = BlockingClient.postgres(connection, schema=schema)
        first = client.save("a", session_id="s", execution_state={"n": 0})
        connection.execute(f"CREATE TABLE {schema}.orders (n int)")
        connection.commit()

        connection.execute(f"INSERT INTO {schema}.orders VALUES (1)")
        lost = client.save("a", session_id="s", execution_state=LARGE)
        assert client.latest(agent_id="a", session_id="s").checkpoint_id == lost
        connection.rollback()
        assert client.latest(agent_id="a", session_id="s").checkpoint_id == first

        connection.execute(f"INSERT INTO {schema}.orders VALUES (2)")
        kept = client.save("a", session_id="s", execution_state={"n": 2})
        with BlockingClient.postgres(postgres_url, schema=schema) as other:
            assert other.latest(agent_id="a", session_id="s").checkpoint_id == first
            connection.commit()
            found = other.latest(agent_id="a", session_id="s")
            assert (found.checkpoint_id, found.parent_id) == (kept, first)
            assert other.verify(data=True).clean
        assert connection.execute(f"SELECT n FROM {schema}.orders").fetchall() == [(2,)]


def test_what_was_rolled_back_is_not_built_upon(postgres_url: str, schema: str) -> None:
    """Another writer takes the place of a save that was rolled back; then we go on."""
    with psycopg.connect(postgres_url) as connection:
        client = BlockingClient.postgres(connection, schema=schema)
        client.save("a", session_id="s", execution_state={"n": 0})
        with BlockingClient.postgres(postgres_url, schema=schema) as other:
            for number in range(5):
                connection.execute("SELECT 1")
                client.save("a", session_id="s", execution_state={"lost": number})
                connection.rollback()
                theirs = other.save("a", session_id="s", execution_state={"theirs": number})
                ours = client.save("a", session_id="s", execution_state={"ours": number})
                assert client.resolve(ours).parent_id == theirs
            assert other.verify(data=True).clean
            assert len(other.log("s")) == 11


@pytest.mark.parametrize("looks", [False, True])
def test_what_a_rolled_back_transaction_had_set_up_is_made_again(
    postgres_url: str, looks: bool
) -> None:
    name = f"t_{uuid4().hex[:16]}"
    with psycopg.connect(postgres_url) as connection:
        client = BlockingClient.postgres(connection, schema=name)
        for _ in range(2):
            with connection.transaction(force_rollback=True):
                if looks:
                    assert client.latest(agent_id="a", session_id="s") is None
                client.save("a", session_id="s", execution_state={"n": 1})
                client.save("a", session_id="s", execution_state={"n": 2})
        assert client.latest(agent_id="a", session_id="s") is None
        with connection.transaction():
            client.save("a", session_id="s", execution_state={"n": 3})
        assert client.latest(agent_id="a", session_id="s").state == {"n": 3}
        connection.commit()
        connection.execute(f"DROP SCHEMA {name} CASCADE")


def test_what_a_transaction_had_set_up_and_kept_is_looked_at_once(
    postgres_url: str, schema: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Also by an application that never calls us outside of a transaction."""
    setups: list[None] = []
    whole = setup.migrate

    async def counted(*given: Any, **options: Any) -> Any:
        setups.append(None)
        return await whole(*given, **options)

    monkeypatch.setattr(setup, "migrate", counted)
    with psycopg.connect(postgres_url) as connection:
        client = BlockingClient.postgres(connection, schema=schema)
        for number in range(3):
            with connection.transaction():
                client.save("a", session_id="s", execution_state={"n": number})
        setups.clear()
        with connection.transaction():
            client.save("a", session_id="s", execution_state={"n": 3})
        assert setups == []
        assert len(client.log("s")) == 4


def test_a_refused_save_leaves_the_applications_transaction_usable(
    postgres_url: str, schema: str
) -> None:
    with psycopg.connect(postgres_url) as connection:
        client = BlockingClient.postgres(connection, schema=schema)
        first = client.save("a", session_id="s", execution_state={"n": 0})
        second = client.save("a", session_id="s", execution_state={"n": 1})
        with connection.transaction():
            with pytest.raises(Exception, match="moved on"):
                client.save(
                    "a",
                    session_id="s",
                    execution_state={},
                    parent_id=first,
                    on_conflict="reject",
                )
            client.save("a", session_id="s", execution_state={"n": 2})
        assert client.latest(agent_id="a", session_id="s").parent_id == second
        with pytest.raises(psycopg.Error):
            connection.execute("SELECT 1 / 0")
        with pytest.raises(StorageError, match="transaction"):
            client.save("a", session_id="s", execution_state={"n": 3})
        connection.rollback()
        client.save("a", session_id="s", execution_state={"n": 3})


def test_a_connection_that_is_closed_says_so(postgres_url: str, schema: str) -> None:
    connection: Connection[Any] = psycopg.connect(postgres_url)
    client = BlockingClient.postgres(connection, schema=schema)
    client.threads()
    connection.close()
    with pytest.raises(BackendConnectionError, match="was given is closed"):
        client.threads()


def test_reads_inside_of_a_transaction_while_others_write(postgres_url: str, schema: str) -> None:
    """Each statement there sees another moment; that must not look like damage."""
    stop = threading.Event()
    saved = itertools.count().__next__

    def write() -> None:
        with BlockingClient.postgres(postgres_url, schema=schema) as writer:
            while not stop.wait(0.03):
                writer.save("ab"[saved() % 2], session_id="s", execution_state={"n": 0})

    with psycopg.connect(postgres_url) as connection:
        client = BlockingClient.postgres(connection, schema=schema)
        client.save("a", session_id="s", execution_state={"n": 0})
        thread = threading.Thread(target=write)
        thread.start()
        try:
            connection.execute("SELECT 1")
            for _ in range(100):
                client.log("s", limit=5)
                client.branches("s")
                client.latest(agent_id="a", session_id="s")
            client.save("a", session_id="s", execution_state={"n": "ours"})
            connection.commit()
        finally:
            stop.set()
            thread.join()
    assert saved() > 5, "they did"


@pytest.mark.parametrize("name", ["asyncpg.pool.Pool", "sqlalchemy.engine.base.Engine"])
def test_what_is_of_another_library_is_told_what_to_pass(name: str) -> None:
    module, _, kind = name.rpartition(".")
    stranger = type(kind, (), {"__module__": ModuleType(module).__name__})()
    for client in (Client, BlockingClient):
        with pytest.raises(TypeError) as caught:
            client.postgres(stranger)
        assert name in str(caught.value)
        assert "psycopg_pool.ConnectionPool, AsyncConnectionPool" in str(caught.value)
        assert "'postgresql://user@host/db'" in str(caught.value)


def test_a_pool_that_is_not_open_is_told_at_once(postgres_url: str, schema: str) -> None:
    """Nobody but the application will open it: there is nothing to wait for."""
    pool = ConnectionPool(postgres_url, open=False)
    with pytest.raises(BackendConnectionError, match=r"not open\. Open it first \(pool\.open\(\)"):
        BlockingClient.postgres(pool, schema=schema).threads()

    async def body() -> None:
        other = AsyncConnectionPool(postgres_url, open=False)
        with pytest.raises(BackendConnectionError, match=r"\(await pool\.open\(\)"):
            await Client.postgres(other, schema=schema).threads()
        await other.open()
        await work_async(Client.postgres(other, schema=schema))
        await other.close()
        with pytest.raises(BackendConnectionError, match="not open"):
            await Client.postgres(other, schema=schema).threads()

    asyncio.run(body())


def test_a_connection_that_was_closed_before(postgres_url: str, schema: str) -> None:
    connection = psycopg.connect(postgres_url)
    connection.close()
    with pytest.raises(BackendConnectionError, match="was given is closed"):
        BlockingClient.postgres(connection, schema=schema).threads()


def test_a_transaction_that_failed_before(postgres_url: str, schema: str) -> None:
    with psycopg.connect(postgres_url) as connection:
        client = BlockingClient.postgres(connection, schema=schema)
        client.threads()
        with pytest.raises(psycopg.errors.DivisionByZero):
            connection.execute("SELECT 1 / 0")
        with pytest.raises(StorageError, match="roll it back first"):
            client.save("a", session_id="s", execution_state={})
        connection.rollback()
        client.save("a", session_id="s", execution_state={})


def test_a_connection_that_only_reads_is_not_written_to(postgres_url: str, schema: str) -> None:
    """Nor by us: PostgreSQL itself would refuse the application's own statement."""
    with BlockingClient.postgres(postgres_url, schema=schema) as writer:
        writer.save("a", session_id="s", execution_state=LARGE)
    with psycopg.connect(postgres_url) as connection:
        connection.read_only = True
        client = BlockingClient.postgres(connection, schema=schema)
        assert client.latest(agent_id="a", session_id="s").state == LARGE
        for thread in ("s", "new"):
            with pytest.raises(BackendConnectionError, match="only reads"):
                client.save("a", session_id=thread, execution_state={})
        with connection.transaction():
            with pytest.raises(BackendConnectionError, match="only reads"):
                client.delete("s")
            assert len(client.log("s")) == 1, "the transaction goes on"
        connection.read_only = None
        client.save("a", session_id="s", execution_state={})
    assert threads_of(postgres_url, schema) == 1


def test_nor_is_one_whose_session_or_pool_only_reads(postgres_url: str, schema: str) -> None:
    def configure(connection: Connection[Any]) -> None:
        connection.read_only = True

    async def body() -> None:
        connection = await AsyncConnection.connect(
            postgres_url, options="-c default_transaction_read_only=on"
        )
        async with connection:
            client = Client.postgres(connection, schema=schema)
            assert len(await client.threads()) == 1
            with pytest.raises(BackendConnectionError, match=r"read-only.*only reads"):
                await client.save("a", session_id="s", execution_state={})

    pool = ConnectionPool(postgres_url, min_size=1, configure=configure, open=True)
    with pool, BlockingClient.postgres(pool, schema=schema) as client:
        with pytest.raises(BackendConnectionError, match=r"read-only.*only reads"):
            client.threads()
        assert threads_of(postgres_url, schema) == 0
        with BlockingClient.postgres(postgres_url, schema=schema) as writer:
            writer.save("a", session_id="s", execution_state={})
        assert len(client.threads()) == 1
        with pytest.raises(BackendConnectionError, match="only reads"):
            client.save("a", session_id="s", execution_state={})
    asyncio.run(body())
