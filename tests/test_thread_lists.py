"""What looking costs on SQLite: statements, counted and explained by SQLite itself."""

import sqlite3
from collections.abc import Iterator
from contextlib import closing, contextmanager
from pathlib import Path
from typing import Any

import pytest

from lastgood import BlockingClient
from lastgood.backends.sqlite.backend import SqliteBackend
from lastgood.backends.sqlite.threads import FEW
from lastgood.watching import PAGE


class Statements:
    """Every statement that any connection of a backend runs."""

    def __init__(self) -> None:
        self.seen: list[str] = []

    def connect(self, path: str) -> sqlite3.Connection:
        made = sqlite3.connect(path, isolation_level=None, check_same_thread=False)
        made.set_trace_callback(self.seen.append)
        return made

    @contextmanager
    def counted(self) -> Iterator[list[str]]:
        """The queries of the block, without the brackets of its transaction."""
        before, found = len(self.seen), list[str]()
        yield found
        found += [s for s in self.seen[before:] if s.startswith(("SELECT", "WITH"))]


@pytest.fixture(scope="module")
def crowd(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A store with more threads than are checked one by one; every third has a time to live."""
    path = tmp_path_factory.mktemp("crowd") / "crowd.db"
    client = BlockingClient.on(SqliteBackend(path, durability="relaxed"))
    hers = BlockingClient.on(SqliteBackend(path, durability="relaxed"), user="ada")
    for number in range(FEW + 76):
        whose = client if number % 100 else hers
        for agent in "ab"[: 1 + number % 2]:
            whose.save(
                agent,
                session_id=f"thread {number:04}",
                execution_state={},
                ttl_seconds=1000 if number % 3 == 0 else None,
                metadata={"odd": number % 2 == 1},
            )
    client.close()
    hers.close()
    return path


def opened(path: Path) -> tuple[BlockingClient, Statements]:
    statements = Statements()
    client = BlockingClient.on(SqliteBackend(path, connect=statements.connect))
    client.threads(limit=1)  # opens the file
    return client, statements


@pytest.mark.scenario("S70")
@pytest.mark.parametrize("sort", ["updated", "created", "name"])
@pytest.mark.parametrize("limit", [1, 20, 400])
def test_a_page_takes_two_queries_and_one_for_lifetimes(crowd: Path, sort: Any, limit: int) -> None:
    client, statements = opened(crowd)
    after, pages, found = None, 0, []
    while pages < 3:
        with statements.counted() as queries:
            page = client.threads(sort=sort, limit=limit, after=after)
        lifetimes = [query for query in queries if query.startswith("WITH")]
        assert len(queries) - len(lifetimes) <= 2, queries
        assert len(lifetimes) <= 1 + limit // 166, queries
        found += [info.thread_id for info in page]
        assert all(info.title and info.status == "idle" for info in page)
        after, pages = page.next, pages + 1
        if after is None:
            break
    client.close()
    assert len(found) == len(set(found)) == min(3 * limit, FEW + 76)


@pytest.mark.scenario("S70")
def test_a_filter_on_metadata_takes_no_query_more(crowd: Path) -> None:
    client, statements = opened(crowd)
    with statements.counted() as queries:
        page = client.threads(metadata={"odd": True}, limit=50)
    assert len(page) == 50
    assert len([query for query in queries if query.startswith("SELECT")]) == 4, "two pages"
    client.close()


def test_a_filter_with_a_small_limit_reads_larger_pages(crowd: Path) -> None:
    client, statements = opened(crowd)
    with statements.counted() as queries:
        assert len(client.threads(search="nowhere", limit=1)) == 0
    assert len(queries) < 60, "1, 2, 4 ... threads at a time, not one"
    with statements.counted() as queries:
        assert len(client.threads(search="thread 0000", sort="created", limit=1)) == 1
    assert len(queries) < 60
    client.close()


def test_headers_take_the_same_statements_on_any_state(tmp_path: Path) -> None:
    path = tmp_path / "s.db"
    writer = BlockingClient.on(SqliteBackend(path))
    for number in range(30):
        writer.save("a", session_id="small", execution_state={"n": number})
        writer.save("a", session_id="large", execution_state={"n": number, "t": "x" * 500_000})
    writer.close()
    client, statements = opened(path)
    costs = []
    for thread in ("small", "large"):
        with statements.counted() as queries:
            assert len(client.log(thread, limit=20)) == 20
        assert not [query for query in queries if "lastgood_part" in query]
        costs.append(len(queries))
    client.close()
    assert costs[0] == costs[1]


LOOKED_UP = ("l", "b", "c", "r", "lastgood_lane", "lastgood_branch", "lastgood_checkpoint")


@pytest.mark.parametrize(
    "look",
    [
        lambda client: client.latest(agent_id="b", session_id="thread 0007"),
        lambda client: client.save("b", session_id="thread 0007", execution_state={"n": 1}),
        lambda client: client.resolve("thread 0007/b@"),
        lambda client: client.log("thread 0007", agent_id="b"),
        lambda client: client.threads(limit=20),
        lambda client: client.threads(limit=20, metadata={"odd": True}),
    ],
    ids=["latest", "save", "resolve", "log", "threads", "threads by metadata"],
)
def test_nothing_is_looked_up_by_going_through_a_table(crowd: Path, look: Any) -> None:
    client, statements = opened(crowd)
    with statements.counted() as queries:
        look(client)
    client.close()
    assert queries
    for query in queries:
        for step in steps(crowd, query):
            how, table, *_ = step.split()
            assert how != "SCAN" or table not in LOOKED_UP, query


def steps(path: Path, query: str) -> list[str]:
    """How SQLite goes about it."""
    other = sqlite3.connect(path)
    found = [step for *_, step in other.execute(f"EXPLAIN QUERY PLAN {query}")]
    other.close()
    return found


@pytest.mark.scenario("S70")
@pytest.mark.parametrize("sort", ["updated", "created", "name"])
def test_the_threads_of_a_user_are_found_by_their_index(crowd: Path, sort: Any) -> None:
    client, statements = opened(crowd)
    with statements.counted() as queries:
        assert len(client.threads(user="ada", sort=sort)) == 4
    client.close()
    assert "lastgood_thread_owner" in steps(crowd, queries[0])[0], queries[0]


def test_saving_in_a_users_thread_does_not_write_the_index_of_users(tmp_path: Path) -> None:
    path = tmp_path / "s.db"
    client = BlockingClient.on(SqliteBackend(path), user="ada")
    client.save("a", session_id="s", execution_state={})
    statements = Statements()
    again = BlockingClient.on(SqliteBackend(path, connect=statements.connect))
    again.save("a", session_id="s", execution_state={"n": 1})
    updates = [each for each in statements.seen if each.startswith("UPDATE lastgood_thread")]
    assert len(updates) == 1
    assert "owner" not in updates[0]
    assert client.threads()[0].user == "ada"
    client.close()
    again.close()


def test_watching_a_long_thread_from_its_beginning_reads_a_page_at_a_time(tmp_path: Path) -> None:
    path = tmp_path / "s.db"
    writer = BlockingClient.on(SqliteBackend(path, durability="relaxed"))
    for number in range(2 * PAGE + 10):
        writer.save("a", session_id="s", execution_state={"n": number})
    writer.close()
    client, statements = opened(path)
    watch = client.watch("s", after=0)
    with statements.counted() as queries:
        assert next(watch).seq == 1
    assert len([query for query in queries if f"LIMIT {PAGE}" in query]) == 1, queries
    assert [next(watch).seq for _ in range(2 * PAGE + 9)] == list(range(2, 2 * PAGE + 11))
    client.close()


def test_a_list_by_age_is_read_by_an_index_where_there_are_many(
    crowd: Path, tmp_path: Path
) -> None:
    """A store with few threads has none: it would take a page of its file."""
    with BlockingClient.sqlite(tmp_path / "few.db") as few:
        few.save("a", session_id="s", execution_state={})
    plans = []
    for path in (crowd, tmp_path / "few.db"):
        client, statements = opened(path)
        with statements.counted() as queries:
            client.threads(sort="created", limit=5)
        client.close()
        with closing(sqlite3.connect(path)) as connection:
            steps = connection.execute(f"EXPLAIN QUERY PLAN {queries[0]}").fetchall()
        plans.append([step[-1] for step in steps])
    assert any("lastgood_thread_age" in step for step in plans[0])
    assert not any("TEMP B-TREE" in step for step in plans[0])
    assert not any("lastgood_thread_age" in step for step in plans[1])
