"""Who has seen a thread asks one short question, as long as nobody else writes to it."""

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import psycopg
import pytest

from lastgood import BlockingClient, CheckpointIntegrityError
from lastgood.backends.postgres.backend import PostgresBackend
from lastgood.backends.remote.queries import AskLine, AskVersion, Query

SHORT, FULL = [AskVersion], [AskLine]


@pytest.fixture
def client(postgres_url: str, schema: str) -> Iterator[BlockingClient]:
    with BlockingClient.postgres(postgres_url, schema=schema) as client:
        client.save("a", session_id="s", execution_state={"n": 0})
        yield client


@contextmanager
def asked(client: BlockingClient) -> Iterator[list[type]]:
    """The kinds of questions that are sent in the block."""
    backend: Any = client._core.backend
    kinds: list[type] = []
    ask = PostgresBackend.ask

    async def noting(queries: list[Query]) -> Any:
        kinds.extend(type(query) for query in queries)
        return await ask(backend, queries)

    backend.ask = noting
    yield kinds
    del backend.ask


def latest(client: BlockingClient) -> Any:
    found = client.latest(agent_id="a", session_id="s")
    return None if found is None else found.state


def test_what_was_saved_or_seen_is_not_read_again(
    client: BlockingClient, postgres_url: str, schema: str
) -> None:
    with asked(client) as kinds:
        assert latest(client) == {"n": 0}
    assert kinds == SHORT
    with BlockingClient.postgres(postgres_url, schema=schema) as other:
        for expected in (FULL, SHORT, SHORT):
            with asked(other) as kinds:
                assert latest(other) == {"n": 0}
            assert kinds == expected


def test_what_others_do_is_seen_at_once(
    client: BlockingClient, postgres_url: str, schema: str
) -> None:
    with BlockingClient.postgres(postgres_url, schema=schema) as other:
        other.save("a", session_id="s", execution_state={"n": 1})
        assert latest(client) == {"n": 1}
        first = other.log("s")[-1].checkpoint_id
        other.rewind("s", first)
        assert latest(client) == {"n": 0}
        other.fork(first, branch="idea", edits={"n": 5}, switch=True)
        assert latest(client) == {"n": 5}
        other.expire("s@")
        assert latest(client) == {"n": 0}
        other.delete("s")
        assert latest(client) is None
        other.save("a", session_id="s", execution_state={"n": 9})
        assert latest(client) == {"n": 9}


def test_a_thread_that_others_write_to_is_not_asked_for_twice_each_time(
    client: BlockingClient, postgres_url: str, schema: str
) -> None:
    with BlockingClient.postgres(postgres_url, schema=schema) as other:
        for expected in (SHORT + FULL, FULL, FULL):
            other.save("a", session_id="s", execution_state={})
            with asked(client) as kinds:
                latest(client)
            assert kinds == expected
    for expected in (FULL, SHORT):
        with asked(client) as kinds:
            latest(client)
        assert kinds == expected


def test_a_head_that_is_over_its_time(client: BlockingClient) -> None:
    client.save("a", session_id="s", execution_state={"n": 1}, ttl_seconds=3600)
    assert latest(client) == {"n": 1}
    backend: Any = client._core.backend
    backend._shift = lambda: 3700 * 1_000_000
    assert latest(client) == {"n": 0}


def test_a_thread_that_was_damaged_meanwhile(
    client: BlockingClient, postgres_url: str, schema: str
) -> None:
    with psycopg.connect(postgres_url, autocommit=True) as connection:
        connection.execute(f"UPDATE {schema}.thread SET seal = ''")
    with pytest.raises(CheckpointIntegrityError):
        latest(client)
