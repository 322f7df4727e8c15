"""To account for the rows of a thread costs neither what it holds nor what the store holds."""

from collections.abc import Iterator
from typing import Any
from uuid import uuid4

import psycopg
import pytest
from psycopg import ClientCursor

from lastgood.backends.postgres_queries import Questions
from lastgood.backends.queries import AskItemCount, AskSeqs, ThreadName
from lastgood.backends.tables import COUNTED
from lastgood.checkpointers import Message, PgCheckpointer

pytestmark = pytest.mark.server("postgres")

LONG = 4 * COUNTED


@pytest.fixture(scope="module")
def store(postgres_url: str) -> Iterator[str]:
    """Two long threads, and a short one that began after them."""
    name = f"t_{uuid4().hex[:16]}"
    checkpointer = PgCheckpointer(postgres_url, schema=name)
    for thread, size in (("a", LONG), ("b", LONG), ("short", 3)):
        config = {"thread_id": thread}
        checkpointer.put_messages(config, [Message("user", "x" * 100) for _ in range(size)])
        for number in range(size):
            checkpointer.put_state(config, {"n": number})
    checkpointer.release()
    yield name
    with psycopg.connect(postgres_url, autocommit=True) as connection:
        connection.execute(f"DROP SCHEMA {name} CASCADE")


@pytest.mark.parametrize("known", [False, True], ids=["without statistics", "with statistics"])
@pytest.mark.parametrize("thread", ["a", "b", "short"])
@pytest.mark.parametrize("question", [AskItemCount, AskSeqs])
def test_few_rows_are_read(
    store: str, postgres_url: str, question: Any, thread: str, known: bool
) -> None:
    statement = Questions(store).statement(question(ThreadName("default", thread)), 0)
    with psycopg.connect(postgres_url, cursor_factory=ClientCursor) as connection:
        for table in ("item", "checkpoint"):
            if known:
                connection.execute(f"ANALYZE {store}.{table}")
        explained = f"EXPLAIN (ANALYZE, FORMAT JSON) {statement.text}"
        (plan,) = connection.execute(explained, statement.values).fetchone()
        connection.rollback()  # without the statistics
    assert read(plan[0]["Plan"]) <= COUNTED + 2


def test_those_of_a_short_thread_are_counted(store: str, postgres_url: str) -> None:
    place = ThreadName("default", "short")
    with psycopg.connect(postgres_url, cursor_factory=ClientCursor) as connection:
        for question, expected in ((AskSeqs(place), [1, 2, 3]), (AskItemCount(place), 7)):
            text, values, parse = Questions(store).statement(question, 0)
            rows = connection.execute(text, values).fetchall()
            assert parse([row[1:] for row in rows]) == expected


def read(node: dict[str, Any]) -> int:
    """How many rows the scans of a plan have looked at, those in a bitmap too."""
    rows = (
        node["Actual Rows"] + node.get("Rows Removed by Filter", 0) if "Scan" in kind(node) else 0
    )
    return max(rows * node["Actual Loops"], *map(read, node.get("Plans", ())), 0)


def kind(node: dict[str, Any]) -> str:
    return str(node["Node Type"])
