"""Every statement that the library sends uses an index, in a store with 100,000 checkpoints.

The statements are those that the contract makes: they are collected while its cases run, then
explained on a large store with the values that they were sent with.
"""

import re
from collections.abc import Iterator, Sequence
from typing import Any, get_args
from uuid import uuid4

import psycopg
import pytest
from psycopg import ClientCursor

from lastgood.backend import Sort
from lastgood.backends.postgres import backend as postgres
from lastgood.backends.postgres import surveys
from lastgood.backends.postgres.cursors import numbered
from lastgood.backends.remote.queries import Query
from lastgood.driver import run_blocking
from lastgood.testing import contract_cases, run_case
from lastgood.testing.postgres_harness import PostgresHarness

pytestmark = [pytest.mark.server("postgres"), pytest.mark.slow]

TOPICS = (
    "alias_cases", "forks", "histories", "items_cases", "lines", "lists", "moves", "new_items",
    "operations", "owners", "refs_cases",
    "removal", "run_cases", "searches", "sweeps", "tenancy", "verification", "watches", "sizes",
    "conflicts",
)  # fmt: skip
FEW = 10
"""So many cases of each topic make every statement there is."""
LONG = "watches.watching_from_a_place"
"""The one that lists a thread too long to be accounted for as a whole."""
TENANTS, THREADS, CHECKPOINTS, USERS = 200, 10, 50, 5
SMALL = {"meta"}

FILL = f"""
CREATE FUNCTION pg_temp.some(text, int DEFAULT 16) RETURNS bytea LANGUAGE sql IMMUTABLE
AS $$ SELECT substring(sha256(convert_to($1, 'UTF8')) FROM 1 FOR $2) $$;
INSERT INTO thread SELECT t,
    CASE t % {TENANTS} WHEN 0 THEN 'default' ELSE 'tenant ' || t % {TENANTS} END ::bytea,
    CASE t WHEN 0 THEN 's' ELSE 'thread ' || t END ::bytea, 1, 0, t, '',
    ('user ' || t / {TENANTS} % {USERS})::bytea, {CHECKPOINTS}, {CHECKPOINTS},
    pg_temp.some('c' || t || '/50'), 0, 1, 1, 1, 1, 20, 1000,
    NULL, t, t, '', 1, 0 FROM generate_series(0, {TENANTS * THREADS - 1}) t;
INSERT INTO lane SELECT thread, 1, 'a', 'main', 0, '' FROM thread;
INSERT INTO branch SELECT thread, 1, 'main', newest, '' FROM thread;
INSERT INTO move SELECT thread, 1, 1, newest, 'save', 'main', 'main', 1, '' FROM thread;
INSERT INTO tag SELECT thread, 'good', newest, 1, '' FROM thread;
INSERT INTO run SELECT thread, 1, newest, 1, 1, 'idle', 1, 1, 1, 1, NULL, NULL, '', '' FROM thread;
INSERT INTO item SELECT thread, 'shelf', pg_temp.some('i' || thread || '/' || i), '', 'text', 1, 1,
    NULL, '' FROM thread, generate_series(1, 20) i;
INSERT INTO checkpoint SELECT thread, n, pg_temp.some('c' || thread || '/' || n), 1, 'main',
    pg_temp.some('c' || thread || '/' || n - 1), '', 0, '', n, 'step', 'custom', n, NULL, NULL, '',
    '', NULL, NULL, NULL, '', '', '', 10, '', '', '', tenant
    FROM thread, generate_series(1, {CHECKPOINTS}) n;
INSERT INTO stream SELECT thread, thread * 4 + s FROM thread, generate_series(0, 3) s;
INSERT INTO part SELECT thread, stream, n, 1, pg_temp.some('p' || stream || '/' || n), 'data'
    FROM stream, generate_series(1, 25) n;
INSERT INTO large SELECT thread, pg_temp.some('l' || stream), stream, 1 FROM stream;
ANALYZE;
"""


@pytest.fixture(scope="module")
def big(postgres_url: str) -> Iterator[str]:
    """The name of a schema with much in it; its rows are not whole, only many."""
    name = f"big_{uuid4().hex[:10]}"
    with psycopg.connect(postgres_url, autocommit=True) as connection:
        backend = postgres.PostgresBackend(postgres_url, schema=name)
        run_blocking(backend.setup())
        run_blocking(backend.close())
        connection.execute(f"SET search_path = {name}")
        for statement in FILL.split(";\n"):
            if statement.strip():
                connection.execute(statement)
        yield name
        connection.execute(f"DROP SCHEMA {name} CASCADE")


@pytest.fixture(scope="module")
def sent(
    postgres_url: str, tmp_path_factory: pytest.TempPathFactory
) -> tuple[dict[str, Sequence[object]], set[type]]:
    """Statements by their text, with values; and the kinds of questions that were asked."""
    found: dict[str, Sequence[object]] = {}
    asked: set[type] = set()
    with pytest.MonkeyPatch.context() as patch:
        whole, ask = postgres.send, postgres.PostgresBackend.ask

        async def send(pools: Any, statements: Any, **options: Any) -> Any:
            for text, values in statements:
                found.setdefault(re.sub(r'"?t_[0-9a-f]{16}"?', "SCHEMA", text), values)
            return await whole(pools, statements, **options)

        async def noted(self: Any, queries: Any) -> Any:
            asked.update(type(query) for query in queries)
            return await ask(self, queries)

        patch.setattr(postgres, "send", send)
        patch.setattr(postgres.PostgresBackend, "ask", noted)
        for topic in TOPICS:
            cases = [c for c in contract_cases() if c.name.startswith(f"{topic}.")]
            quick = [case for case in cases if not case.slow or case.name == LONG]
            for case in sorted(quick, key=lambda case: case.name != LONG)[:FEW]:
                harness = PostgresHarness(tmp_path_factory.mktemp("plans"), postgres_url)
                harness.reuse()
                run_case(case, harness, "blocking")
    return found, asked


def nodes(plan: Any) -> Iterator[dict[str, Any]]:
    """All steps of a plan."""
    if isinstance(plan, list):
        for each in plan:
            yield from nodes(each)
    elif isinstance(plan, dict):
        yield plan
        for value in plan.values():
            if isinstance(value, list | dict):
                yield from nodes(value)


def scans(plan: Any) -> Iterator[str]:
    """The tables that a plan reads from one end to the other."""
    return (node["Relation Name"] for node in nodes(plan) if node.get("Node Type") == "Seq Scan")


class Generic:
    """Explains statements as they are carried out once they are prepared: for whatever values."""

    def __init__(self, connection: psycopg.Connection[Any], schema: str) -> None:
        self._run = connection.execute
        self._schema = schema
        self._run("SET plan_cache_mode = force_generic_plan")

    def plan(self, text: str) -> Any:
        made = numbered(text.replace("SCHEMA", self._schema))
        self._run(b"PREPARE explained AS " + made)
        given = ", ".join(["NULL"] * text.count("%s"))
        values = f"({given})" if given else ""
        (plan,) = self._run(f"EXPLAIN (FORMAT JSON) EXECUTE explained{values}").fetchone()
        self._run("DEALLOCATE explained")
        return plan


def test_every_statement_uses_an_index(
    big: str, sent: tuple[dict[str, Sequence[object]], set[type]], postgres_url: str
) -> None:
    statements, asked = sent
    assert asked == set(get_args(Query)), "every question was asked"
    assert len(statements) > 60
    audits = {text for text, _ in surveys.checks("SCHEMA")}
    assert audits <= statements.keys(), "these read whole tables: that is their task"
    slow: dict[str, set[str]] = {}
    with psycopg.connect(postgres_url, cursor_factory=ClientCursor) as connection:
        rows = connection.execute(f"SELECT count(*) FROM {big}.checkpoint").fetchone()
        assert rows == (TENANTS * THREADS * CHECKPOINTS,)
        for text, values in statements.items():
            if text in audits:
                continue
            explained = f"EXPLAIN (FORMAT JSON) {text.replace('SCHEMA', big)}"
            (plan,) = connection.execute(explained, values).fetchone()
            if found := set(scans(plan)) - SMALL:
                slow[text] = found
    assert slow == {}


def test_so_does_every_statement_that_is_prepared(
    big: str, sent: tuple[dict[str, Sequence[object]], set[type]], postgres_url: str
) -> None:
    """Its plan is made without looking at the values."""
    statements, _ = sent
    audits = {text for text, _ in surveys.checks("SCHEMA")}
    with psycopg.connect(postgres_url) as connection:
        generic = Generic(connection, big)
        plans = {text: generic.plan(text) for text in statements.keys() - audits}
    slow = {text: found for text, plan in plans.items() if (found := set(scans(plan)) - SMALL)}
    assert slow == {}


def test_no_plan_of_an_empty_store_reads_a_tenant(
    sent: tuple[dict[str, Sequence[object]], set[type]], postgres_url: str
) -> None:
    """A session keeps its plans while the store grows, until somebody runs ANALYZE."""
    statements, _ = sent
    audits = {text for text, _ in surveys.checks("SCHEMA")}
    counts = {text for text in statements if "count(*)" in text}
    name = f"empty_{uuid4().hex[:10]}"
    backend = postgres.PostgresBackend(postgres_url, schema=name)
    run_blocking(backend.setup())
    run_blocking(backend.close())
    with psycopg.connect(postgres_url) as connection:
        generic = Generic(connection, name)
        plans = {text: generic.plan(text) for text in statements.keys() - audits - counts}
        connection.execute(f"DROP SCHEMA {name} CASCADE")
    read = {
        text: node["Index Name"]
        for text, plan in plans.items()
        for node in nodes(plan)
        if re.fullmatch(r"\(tenant = \S+\)", node.get("Index Cond", ""))
    }
    assert read == {}


def test_each_tenant_is_looked_up_and_not_its_threads(big: str, postgres_url: str) -> None:
    text, values = surveys.tenants(big)
    with psycopg.connect(postgres_url) as connection:
        assert len(connection.execute(text, values).fetchall()) == TENANTS
        (plan,) = connection.execute(f"EXPLAIN (ANALYZE, FORMAT JSON) {text}", values).fetchone()
    read = [node for node in nodes(plan) if node.get("Relation Name") == "thread"]
    assert sum(node["Actual Rows"] * node["Actual Loops"] for node in read) <= 2 * TENANTS + 1


def test_items_are_looked_up_by_their_keys_where_most_threads_have_few(
    big: str, sent: tuple[dict[str, Sequence[object]], set[type]], postgres_url: str
) -> None:
    """A plan for the usual thread would read all items of a long one."""
    keyed = [text for text in sent[0] if "x.key =" in text]
    assert any("NOT EXISTS" in text for text in keyed)
    assert len(keyed) > 3
    with psycopg.connect(postgres_url) as connection:
        connection.execute(f"DELETE FROM {big}.item WHERE thread % 3 > 0 OR get_byte(key, 0) < 200")
        connection.execute(f"ANALYZE {big}.item")
        generic = Generic(connection, big)
        for text in keyed:
            read = [node for node in nodes(generic.plan(text)) if node.get("Alias") == "x"]
            bounds = [node.get("Index Cond", "") for node in read if "item" in str(node)]
            assert any("key" in each for each in bounds), text
        connection.rollback()


def test_a_users_list_reads_the_users_threads(
    big: str, sent: tuple[dict[str, Sequence[object]], set[type]], postgres_url: str
) -> None:
    lists = [text for text in sent[0] if "t.owner = " in text]
    assert len(lists) == len(get_args(Sort)), "one for each order"
    with psycopg.connect(postgres_url) as connection:
        generic = Generic(connection, big)
        for text in lists:
            used = {node.get("Index Name") for node in nodes(generic.plan(text))}
            assert "thread_owner" in used, text


def test_a_list_by_age_reads_no_more_than_a_page(
    big: str, sent: tuple[dict[str, Sequence[object]], set[type]], postgres_url: str
) -> None:
    lists = [text for text in sent[0] if "ORDER BY t.created_at DESC" in text]
    assert lists
    with psycopg.connect(postgres_url) as connection:
        generic = Generic(connection, big)
        for text in lists:
            used = {node.get("Index Name") for node in nodes(generic.plan(text))}
            assert "thread_age" in used, text


def test_a_scan_would_be_noticed(big: str, postgres_url: str) -> None:
    with psycopg.connect(postgres_url) as connection:
        text = f"EXPLAIN (FORMAT JSON) SELECT * FROM {big}.checkpoint WHERE step_name = 'step'"
        (plan,) = connection.execute(text).fetchone()
        assert set(scans(plan)) == {"checkpoint"}
