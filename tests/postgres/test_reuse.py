"""What a case leaves to the next one on the same server: tables as they were made."""

from pathlib import Path
from typing import Any

import psycopg
import pytest

from lastgood import BlockingClient
from lastgood.testing.postgres_harness import PostgresHarness

pytestmark = pytest.mark.server("postgres")


def tables(url: str, schema: str) -> list[str]:
    text = f"SELECT relname FROM pg_class WHERE relnamespace = to_regnamespace('{schema}')"
    return [name for (name,) in asked(url, f"{text} AND relkind IN ('r', 'S')")]


def content(url: str, schema: str) -> dict[str, list[Any]]:
    """Every row of every table and sequence, but for when the store was made."""
    found = {name: asked(url, f"SELECT * FROM {schema}.{name}") for name in tables(url, schema)}
    found["meta"] = [row for row in found["meta"] if row[0] != "created_at"]
    return found


def asked(url: str, text: str) -> list[Any]:
    with psycopg.connect(url, autocommit=True) as connection:
        return connection.execute(text).fetchall()


def used(directory: Path, url: str) -> PostgresHarness:
    """One with a schema of its own, and something in every table."""
    harness = PostgresHarness(directory, url)
    harness.reuse()
    with BlockingClient.on(harness.backend()) as client:
        client.threads()
        new = content(url, harness.schema)
        with client.run("s", initial={"m": ["x" * 300] * 200}) as run:
            run.save({"m": ["y" * 300] * 400, "image": bytes(200_000)})
            client.tag(run.base, "good")
        client.fork("s@", branch="idea")
        client.switch("s", "idea")
    harness._sql(f"INSERT INTO {harness.schema}.item VALUES (1, '', '', '', '', 1, 1, 1, '')")
    assert [name for name, rows in content(url, harness.schema).items() if rows == new[name]] == [
        "meta"
    ]
    return harness


def test_a_schema_that_is_left_is_as_it_was_made(tmp_path: Path, postgres_url: str) -> None:
    fresh = PostgresHarness(tmp_path, postgres_url)
    with BlockingClient.on(fresh.backend()) as client:
        client.threads()
    first = used(tmp_path, postgres_url)
    first.close()
    second = PostgresHarness(tmp_path, postgres_url)
    second.reuse()
    assert second.schema == first.schema
    assert content(postgres_url, second.schema) == content(postgres_url, fresh.schema)
    second.close()
    fresh.close()


def test_a_schema_that_other_processes_know_is_not_used_again(
    tmp_path: Path, postgres_url: str
) -> None:
    harness = used(tmp_path, postgres_url)
    assert harness.schema in harness.address
    harness.close()
    assert tables(postgres_url, harness.schema) == []
