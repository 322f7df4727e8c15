"""To look at some rows of a thread costs neither what it holds nor what the store holds."""

from collections.abc import Iterator
from typing import Any
from uuid import uuid4

import psycopg
import pytest
from psycopg import ClientCursor

from lastgood import BlockingClient
from lastgood.backend import Listing, ThreadListing
from lastgood.backends.postgres_cursors import numbered
from lastgood.backends.postgres_queries import Questions
from lastgood.backends.queries import (
    AskCheckpoints,
    AskItemCount,
    AskScan,
    AskSeqs,
    AskThreads,
    Query,
    ThreadName,
)
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


@pytest.fixture(scope="module")
def among_short(postgres_url: str) -> Iterator[str]:
    """One long thread among many short ones: a plan for the usual thread does not fit it."""
    name = f"t_{uuid4().hex[:16]}"
    with BlockingClient.postgres(postgres_url, schema=name) as client:
        for number in range(LONG):
            client.save(f"agent {number % 3}", session_id="long", execution_state={"n": number})
        for number in range(COUNTED):
            client.save("a", session_id=f"short {number}", execution_state={})
    with psycopg.connect(postgres_url, autocommit=True) as connection:
        connection.execute(f"ANALYZE {name}.checkpoint")
        connection.execute(f"ANALYZE {name}.thread")
        yield name
        connection.execute(f"DROP SCHEMA {name} CASCADE")


@pytest.mark.parametrize(
    "question",
    [
        AskCheckpoints(ThreadName("default", "long"), (b"1" * 16, b"2" * 16)),
        AskThreads("default", ThreadListing(limit=10, sort="name")),
        AskScan(ThreadName("default", "long"), Listing("long", agent="nobody")),
    ],
    ids=["checkpoints by their ids", "a page of threads", "who is not there"],
)
def test_a_long_thread_is_not_read_whole(
    among_short: str, postgres_url: str, question: Query
) -> None:
    """Prepared, so the plan is made for whatever values."""
    statement = Questions(among_short).statement(question, 0)
    with psycopg.connect(postgres_url, cursor_factory=ClientCursor) as connection:
        connection.execute("SET plan_cache_mode = force_generic_plan")
        connection.execute(b"PREPARE explained AS " + numbered(statement.text))
        given = ", ".join(["%s"] * len(statement.values))
        explained = f"EXPLAIN (ANALYZE, FORMAT JSON) EXECUTE explained ({given})"
        (plan,) = connection.execute(explained, statement.values).fetchone()
    assert read(plan[0]["Plan"]) < LONG / 2
