"""Statements are prepared where a session is our own, and nowhere else."""

import asyncio
import os
from typing import Any

import psycopg
import pytest

from lastgood import BlockingClient, Client
from lastgood.backends.postgres import exchange
from lastgood.backends.postgres.connections import BoundConnection
from lastgood.backends.postgres.cursors import numbered
from lastgood.backends.postgres.exchange import Parcel
from lastgood.driver import run_blocking
from lastgood.item_rules import ChangeItems, ItemDraft

SAVES = 8
"""More than the driver's threshold."""


def _saves(client: BlockingClient) -> None:
    for number in range(SAVES):
        client.save("a", session_id="s", execution_state={"n": number})


def prepared(client: BlockingClient) -> int:
    """How many statements a session of the client's pool knows."""
    with _pools(client).blocking() as connection:
        found = connection.execute("SELECT count(*) FROM pg_prepared_statements", prepare=False)
        return int(found.fetchone()[0])


def _pools(client: BlockingClient) -> Any:
    return client._core.backend._pools  # type: ignore[attr-defined]


def test_directly(postgres_url: str, schema: str) -> None:
    with BlockingClient.postgres(postgres_url, schema=schema, pool_size=1) as client:
        _saves(client)
        assert prepared(client) > 0


def test_few_whatever_is_written(postgres_url: str, schema: str) -> None:
    """A server keeps some hundred kilobytes for each, in every session."""
    with BlockingClient.postgres(postgres_url, schema=schema, pool_size=1) as client:
        core = client._core
        for count in (*range(1, 40), *range(1, 40)):
            drafts = tuple(ItemDraft("shelf", os.urandom(8), b"") for _ in range(count))
            intent = ChangeItems(core.tenant, "s", puts=drafts, novel=True)
            run_blocking(core.backend.commit(intent))
        assert prepared(client) < 10


def test_not_behind_a_pooler(pgbouncer_url: str, schema: str) -> None:
    with BlockingClient.postgres(pgbouncer_url, schema=schema, pool_size=1) as client:
        _saves(client)
        assert prepared(client) == 0
        assert not _pools(client).direct


def test_not_on_a_connection_that_is_told_not_to(postgres_url: str, schema: str) -> None:
    with psycopg.connect(postgres_url, autocommit=True, prepare_threshold=None) as connection:
        client = BlockingClient.postgres(connection, schema=schema)
        _saves(client)
        assert prepared(client) == 0


def test_a_session_that_does_not_know_them(postgres_url: str, schema: str) -> None:
    """A pooler that nobody recognised: nothing fails, nothing is written twice."""
    with BlockingClient.postgres(postgres_url, schema=schema, pool_size=1) as client:
        _saves(client)
        with _pools(client).blocking() as connection:
            connection.pgconn.exec_(b"DEALLOCATE ALL")  # which the driver does not see
        client.save("a", session_id="s", execution_state={"n": "last"})
        assert not _pools(client).direct
        assert [each.seq for each in client.log("s")] == list(range(SAVES + 1, 0, -1))
        assert client.restore("s@").state == {"n": "last"}


def test_the_same_in_async_code(postgres_url: str, schema: str) -> None:
    async def body() -> None:
        client = Client.postgres(postgres_url, schema=schema, pool_size=1)
        for number in range(SAVES):
            await client.save("a", session_id="s", execution_state={"n": number})
        async with _pools(client.blocking).native() as connection:
            connection.pgconn.exec_(b"DEALLOCATE ALL")
        await client.save("a", session_id="s", execution_state={"n": "last"})
        assert not _pools(client.blocking).direct
        assert (await client.restore("s@")).state == {"n": "last"}
        assert len(await client.log("s")) == SAVES + 1
        await client.close()

    asyncio.run(body())


def test_rows_of_an_application_that_wants_dicts(postgres_url: str, schema: str) -> None:
    with psycopg.connect(postgres_url, row_factory=psycopg.rows.dict_row) as connection:
        client = BlockingClient.postgres(connection, schema=schema)
        id = client.save("a", session_id="s", execution_state={"n": [1] * 5000})
        assert client.restore(id).state == {"n": [1] * 5000}


def test_placeholders_are_numbered() -> None:
    assert numbered("SELECT 1") == b"SELECT 1"
    assert numbered("a = %s AND b = ANY(%s)") == b"a = $1 AND b = ANY($2)"


def _exchanged(connection: Any, *statements: tuple[bytes, tuple[object, ...]]) -> Any:
    """The rows of statements as a client sends them."""
    parcel = Parcel(connection.pgconn, connection.info)
    return connection.wait(connection.repertoire.exchanged(parcel, statements, prepares=True))


def test_a_statement_that_fails_while_it_is_prepared(postgres_url: str) -> None:
    """What stands behind it was not carried out, and what stands before it was."""
    half = (b"SELECT 1 / $1::bigint", (0,))
    with BoundConnection.connect(postgres_url, autocommit=True) as connection:
        for _ in range(4):
            with pytest.raises(psycopg.errors.DivisionByZero):
                _exchanged(connection, half)
            with pytest.raises(psycopg.errors.DivisionByZero):
                _exchanged(connection, half, (b"SELECT 'behind'", ()))
            connection.rollback()
        behind = _exchanged(connection, (half[0], (1,)), (b"SELECT 'behind'", ()))
        assert behind == [[(1,)], [("behind",)]]


def test_one_statement_several_times_in_a_round_trip(postgres_url: str) -> None:
    several = [(b"SELECT $1::bigint", (number,)) for number in range(4)]
    with BoundConnection.connect(postgres_url, autocommit=True) as connection:
        for _ in range(3):
            assert _exchanged(connection, *several) == [[(0,)], [(1,)], [(2,)], [(3,)]]


def test_values_of_another_type_are_another_statement(postgres_url: str) -> None:
    with BoundConnection.connect(postgres_url, autocommit=True) as connection:
        for value in (1, None, b"a", [1, 2], [b"a"], 1.5) * 3:
            assert _exchanged(connection, (b"SELECT $1", (value,))) in ([[(value,)]], [[(None,)]])


def test_a_session_forgets_what_it_learned_first(
    postgres_url: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(exchange, "MOST", 5)
    with BoundConnection.connect(postgres_url, autocommit=True) as connection:
        for number in (*range(20), *range(20)) * 2:
            text = f"SELECT {number}".encode()
            assert _exchanged(connection, (text, ())) == [[(number,)]]
            assert _exchanged(connection, (text, ()), (b"SELECT 99", ())) == [[(number,)], [(99,)]]
        found = connection.execute("SELECT count(*) FROM pg_prepared_statements", prepare=False)
        assert found.fetchone() == (5,)
