"""A server or role whose transactions are SERIALIZABLE unless told otherwise."""

import threading
from collections.abc import Iterator
from uuid import uuid4

import psycopg
import pytest

from lastgood import BlockingClient

WRITERS = 6


@pytest.fixture
def strict_url(postgres_url: str) -> Iterator[str]:
    name = f"t_{uuid4().hex[:12]}"
    option = "-c%20default_transaction_isolation%3Dserializable"
    yield f"{postgres_url}&options={option}&schema={name}"
    with psycopg.connect(postgres_url, autocommit=True) as connection:
        connection.execute(f"DROP SCHEMA IF EXISTS {name} CASCADE")


def test_many_come_at_once_to_a_store_that_is_not_there_yet(strict_url: str) -> None:
    """One makes the tables, and the others see them; then they share a thread."""
    failures: list[Exception] = []

    def write(writer: int) -> None:
        try:
            with BlockingClient.open(strict_url) as client:
                for number in range(20):
                    state = {"writer": writer, "number": number, "text": ["x" * 500] * 30}
                    client.save("a", session_id="shared", execution_state=state)
        except Exception as error:
            failures.append(error)

    threads = [threading.Thread(target=write, args=(writer,)) for writer in range(WRITERS)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert failures == []
    with BlockingClient.open(strict_url) as client:
        assert client.threads()[0].checkpoints == WRITERS * 20
        assert client.verify().clean
