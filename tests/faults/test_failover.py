"""A failover that lost commits: a writer that remembers them must not build on what is gone."""

import psycopg
import pytest

from lastgood import BlockingClient

TABLES = ("thread", "lane", "branch", "run", "checkpoint", "stream", "part")

pytestmark = pytest.mark.fault


def keep(url: str, schema: str) -> None:
    """What an asynchronous replica has got so far."""
    with psycopg.connect(url, autocommit=True) as connection:
        for table in TABLES:
            connection.execute(f"CREATE TABLE {schema}.old_{table} AS TABLE {schema}.{table}")


def fail_over(url: str, schema: str) -> None:
    """Go on with that."""
    with psycopg.connect(url) as connection:
        for table in TABLES:
            connection.execute(f"DELETE FROM {schema}.{table}")
            connection.execute(f"INSERT INTO {schema}.{table} TABLE {schema}.old_{table}")


def test_versions_that_come_again_are_not_taken_for_the_same(
    postgres_url: str, schema: str
) -> None:
    with (
        BlockingClient.postgres(postgres_url, schema=schema) as one,
        BlockingClient.postgres(postgres_url, schema=schema) as other,
    ):
        one.save("a", session_id="s", execution_state={"n": 1})
        keep(postgres_url, schema)
        lost = one.save("a", session_id="s", execution_state={"n": 2})
        fail_over(postgres_url, schema)
        kept = other.save("a", session_id="s", execution_state={"n": 3})
        last = one.save("a", session_id="s", execution_state={"n": 4})
        shown = [(header.checkpoint_id, header.parent_id) for header in other.log("s")]
        assert shown[0] == (last, kept)
        assert lost not in [id for id, _ in shown]
        assert other.verify().clean


def test_nor_is_what_else_is_remembered_of_the_thread(postgres_url: str, schema: str) -> None:
    """A look finds the version that our lost commit had: what that wrote is gone all the same."""
    with (
        BlockingClient.postgres(postgres_url, schema=schema) as one,
        BlockingClient.postgres(postgres_url, schema=schema) as other,
    ):
        one.save("a", session_id="s", execution_state={"n": 1})
        kept = one.save("b", session_id="s", execution_state={"n": 2})
        keep(postgres_url, schema)
        one.save("b", session_id="s", execution_state={"n": 3})
        fail_over(postgres_url, schema)
        other.save("a", session_id="s", execution_state={"n": 4})
        assert one.latest(agent_id="a", session_id="s").state == {"n": 4}
        last = one.save("b", session_id="s", execution_state={"n": 5})
        shown = {header.checkpoint_id: header.parent_id for header in other.log("s")}
        assert shown[last] == kept
        assert other.verify().clean


def test_nor_where_it_wrote_after_the_failover(postgres_url: str, schema: str) -> None:
    """The same, with a commit in the place of the look."""
    with (
        BlockingClient.postgres(postgres_url, schema=schema) as one,
        BlockingClient.postgres(postgres_url, schema=schema) as other,
    ):
        one.save("a", session_id="s", execution_state={"n": 1})
        kept = one.save("b", session_id="s", execution_state={"n": 2})
        keep(postgres_url, schema)
        one.save("b", session_id="s", execution_state={"n": 3})
        fail_over(postgres_url, schema)
        other.save("a", session_id="s", execution_state={"n": 4})
        one.save("c", session_id="s", execution_state={"n": 5})
        last = one.save("b", session_id="s", execution_state={"n": 6})
        shown = {header.checkpoint_id: header.parent_id for header in other.log("s")}
        assert shown[last] == kept
        assert other.verify().clean
