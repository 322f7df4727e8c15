"""A client that was at work and is let in no more says why, and what to do about it."""

import asyncio
import threading
from collections.abc import Callable, Iterator
from typing import Any

import psycopg
import pytest
from psycopg import errors

from lastgood import (
    BackendConnectionError,
    BlockingClient,
    Client,
    LastgoodError,
    TransientStorageError,
)
from lastgood.backends.postgres import pools
from lastgood.backends.postgres.refusals import translation
from lastgood.backends.remote import attempts
from lastgood.testing.servers import PostgresServer
from lastgood.testing.store import COLOURS, Colour

pytestmark = pytest.mark.server
END_ALL = "SELECT pg_terminate_backend(pid) FROM pg_stat_activity WHERE usename = 'app'"
Sql = Callable[[str], Any]


@pytest.fixture(scope="module")
def server() -> Iterator[PostgresServer]:
    with PostgresServer(password="right") as one:
        yield one


@pytest.fixture
def sql(server: PostgresServer) -> Iterator[Sql]:
    """Statements of an administrator, and a role `app` that goes with them."""
    with psycopg.connect(server.url, autocommit=True) as connection:
        connection.execute("CREATE ROLE app LOGIN PASSWORD 'first'")
        connection.execute("CREATE SCHEMA lastgood AUTHORIZATION app")
        yield connection.execute
        connection.execute(END_ALL)
        connection.execute("DROP OWNED BY app CASCADE; DROP ROLE app")


@pytest.fixture
def app(server: PostgresServer) -> str:
    return server.url.replace("postgres:right@", "app:first@")


@pytest.fixture(autouse=True)
def _hurried(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(attempts, "PATIENCE", 1.0)
    monkeypatch.setattr(pools, "CONNECT_SECONDS", 1)


def second_call(colour: Colour, url: str, between: Callable[[], Any]) -> LastgoodError:
    """What a client is told that has saved before."""
    state = {"agent_id": "a", "session_id": "s", "execution_state": 1}

    async def calls() -> None:
        async with Client.postgres(url) as client:
            await client.save(**state)
            between()
            await client.save(**state)

    def blocking_calls() -> None:
        with BlockingClient.postgres(url) as client:
            client.save(**state)
            between()
            client.save(**state)

    with pytest.raises(LastgoodError) as caught:
        asyncio.run(calls()) if colour == "async" else blocking_calls()
    return caught.value


@pytest.mark.parametrize("colour", COLOURS)
@pytest.mark.parametrize(
    ("change", "said", "hint"),
    [
        ("PASSWORD 'second'", 'password authentication failed for user "app"', "Check the address"),
        ("NOLOGIN", 'role "app" is not permitted to log in', "Check the address"),
        ("CONNECTION LIMIT 0", 'too many connections for role "app"', "a smaller pool_size"),
        ("SET default_transaction_read_only = on", "session is read-only", "It only reads"),
    ],
)
def test_a_role_that_is_let_in_no_more(
    colour: Colour, change: str, said: str, hint: str, app: str, sql: Sql
) -> None:
    def shut() -> None:
        sql(f"ALTER ROLE app {change}")
        sql(END_ALL)

    error = second_call(colour, app, shut)
    assert isinstance(error, TransientStorageError)
    assert said in error.message
    assert error.hint.startswith(hint) or hint in error.hint
    with pytest.raises(BackendConnectionError) as caught:
        BlockingClient.postgres(app).threads()
    assert said in caught.value.message
    assert caught.value.hint.startswith(hint) or hint in caught.value.hint, "and so is a new one"


@pytest.mark.parametrize("setting", ["statement_timeout", "lock_timeout", "transaction_timeout"])
def test_a_limit_of_the_role_is_named(
    setting: str, server: PostgresServer, app: str, sql: Sql
) -> None:
    if not sql("SELECT 1 FROM pg_settings WHERE name = %s", (setting,)).fetchone():
        pytest.skip(f"this server knows no {setting}")
    sql(f"ALTER ROLE app SET {setting} = '200ms'")
    with psycopg.connect(server.url) as holder:
        lock = "SELECT 1 FROM lastgood.thread FOR UPDATE"
        error = second_call("blocking", app, lambda: holder.execute(lock))
    assert isinstance(error, TransientStorageError)
    assert f"`{setting}`" in error.hint
    assert setting == "transaction_timeout" or not error.in_doubt, "that one ends the session"


def test_a_limit_of_idle_transactions_is_not_taken_for_one_of_all() -> None:
    said = "terminating connection due to idle-in-transaction timeout"
    error = translation(errors.IdleInTransactionSessionTimeout(said), "postgresql://")
    assert "`idle_in_transaction_session_timeout`" in error.hint


def test_a_pooler_that_has_no_transactions_is_no_server_that_starts() -> None:
    said = "transaction blocks not allowed in statement pooling mode"
    error = translation(errors.ProtocolViolation(said), "postgresql://")
    assert isinstance(error, BackendConnectionError)
    assert "`pool_mode = transaction`" in error.hint


def test_a_limit_of_files_is_no_server_that_starts(app: str, sql: Sql) -> None:
    """Nor does it help to wait."""
    sql("ALTER ROLE app SET temp_file_limit = 0")
    sql("ALTER ROLE app SET work_mem = '64kB'")
    with BlockingClient.postgres(app) as client:
        with pytest.raises(BackendConnectionError, match="temp_file_limit") as caught:
            client.save("a", session_id="s", execution_state={"text": "x" * 1_000_000})
        assert not caught.value.in_doubt
        assert client.latest(session_id="s") is None


def test_a_pool_that_is_too_small(server: PostgresServer, app: str, sql: Sql) -> None:
    with BlockingClient.postgres(app, pool_size=1) as client:
        client.save("a", session_id="s", execution_state=1)
        with psycopg.connect(server.url) as holder:
            holder.execute("SELECT 1 FROM lastgood.thread FOR UPDATE")
            save = {"agent_id": "a", "session_id": "s", "execution_state": 2}
            thread = threading.Thread(target=lambda: client.save(**save))
            thread.start()
            while not sql(
                "SELECT 1 FROM pg_stat_activity WHERE wait_event_type = 'Lock'"
            ).fetchone():
                pass
            with pytest.raises(TransientStorageError, match="larger pool_size"):
                client.threads()
        thread.join()


POLICIES = "ALTER TABLE lastgood.thread ENABLE ROW LEVEL SECURITY, FORCE ROW LEVEL SECURITY"
READING = "CREATE POLICY reading ON lastgood.thread FOR SELECT USING (true)"


@pytest.mark.parametrize(
    ("policies", "hint"),
    [(POLICIES, "A policy of the table"), (f"{POLICIES}; {READING}", "a policy or a trigger")],
)
def test_a_role_that_policies_keep_from_rows(policies: str, hint: str, app: str, sql: Sql) -> None:
    """To give it more rights would not help."""
    error = second_call("blocking", app, lambda: sql(policies))
    assert hint in error.hint
