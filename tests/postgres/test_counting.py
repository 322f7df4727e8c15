"""To look at some rows of a thread costs neither what it holds nor what the store holds."""

from collections.abc import Iterator
from typing import Any
from uuid import uuid4

import psycopg
import pytest
from psycopg import ClientCursor

from lastgood import BlockingClient
from lastgood.backend import Listing, ThreadListing
from lastgood.backends.postgres.cursors import numbered
from lastgood.backends.postgres.queries import Questions
from lastgood.backends.postgres.schema import COLUMNS
from lastgood.backends.remote.queries import (
    AskAncestors,
    AskCheckpoints,
    AskHeads,
    AskItemCount,
    AskLine,
    AskScan,
    AskSeqs,
    AskThreads,
    Query,
    ThreadName,
)
from lastgood.backends.tables import COUNTED
from lastgood.checkpointers import Message, PgCheckpointer
from lastgood.rows import CheckpointRow

pytestmark = pytest.mark.server("postgres")

LONG = 4 * COUNTED
ID = b"the last of long"


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


@pytest.fixture(scope="module", params=[1, 100], ids=["few others", "many others"])
def among_short(postgres_url: str, request: Any) -> Iterator[str]:
    """One long thread among short ones: a plan for the usual thread does not fit it."""
    name = f"t_{uuid4().hex[:16]}"
    with BlockingClient.postgres(postgres_url, schema=name) as client:
        for number in range(LONG):
            where = {"agent_id": f"agent {number % 3}", "session_id": "long"}
            last = LONG - number == 1
            client.save(**where, execution_state={}, checkpoint_id=ID.hex() if last else None)
        for number in range(COUNTED):
            client.save("a", session_id=f"short {number}", execution_state={})
    names = [*COLUMNS[CheckpointRow], "tenant"]
    others = {'"thread"': "c.thread + g * 100000", '"id"': "sha256(c.id || g::text::bytea)"}
    values = [others.get(column, f"c.{column}") for column in names]
    with psycopg.connect(postgres_url, autocommit=True) as connection:
        connection.execute(
            f"INSERT INTO {name}.checkpoint ({', '.join(names)}) SELECT {', '.join(values)}"
            f" FROM {name}.checkpoint c JOIN {name}.thread t ON t.thread = c.thread,"
            f" generate_series(2, {request.param}) g WHERE t.checkpoints = 1"
        )
        connection.execute(f"ANALYZE {name}.checkpoint")
        connection.execute(f"ANALYZE {name}.thread")
        yield name
        connection.execute(f"DROP SCHEMA {name} CASCADE")


@pytest.mark.parametrize(
    "question",
    [
        AskLine(ThreadName("default", "long"), "agent 1"),
        AskHeads(ThreadName("default", "long")),
        AskAncestors(ThreadName("default", "long"), ID, 3),
        AskCheckpoints(ThreadName("default", "long"), (ID, b"2" * 16)),
        AskThreads("default", ThreadListing(limit=10, sort="name")),
        AskScan(ThreadName("default", "long"), Listing("long", agent="nobody")),
    ],
    ids=lambda question: type(question).__name__,
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
