"""The servers of the run, at the addresses that tests are given."""

import os

import psycopg
import pytest
import redis

from lastgood.testing.servers import VARIABLES, ServerMissing, address


def test_postgres_is_new_enough_and_keeps_a_schema_of_ours(postgres_url: str) -> None:
    with psycopg.connect(postgres_url) as connection:
        assert connection.info.server_version >= 140000
        assert connection.execute("SHOW fsync").fetchone() == ("off",)
        connection.execute("CREATE SCHEMA addresses CREATE TABLE t (x int)")
        connection.rollback()
    connection.close()


def test_pgbouncer_gives_another_session_to_another_transaction(pgbouncer_url: str) -> None:
    with (
        psycopg.connect(pgbouncer_url, prepare_threshold=None, autocommit=True) as one,
        psycopg.connect(pgbouncer_url, prepare_threshold=None) as other,
    ):
        before = backend(one)
        assert backend(other) == before, "one session is enough for two idle clients"
        assert backend(one) != before, "the other client is inside its transaction"
    one.close()
    other.close()


def backend(connection: psycopg.Connection) -> int:
    return connection.execute("SELECT pg_backend_pid()").fetchone()[0]


def test_valkey_answers(valkey_url: str) -> None:
    with redis.Redis.from_url(valkey_url) as client:
        assert client.info("server")["server_name"] == "valkey"


def test_redis_is_the_oldest_that_we_support(redis62_url: str) -> None:
    with redis.Redis.from_url(redis62_url) as client:
        assert client.info("server")["redis_version"].startswith("6.2.")


def test_a_cluster_of_three_takes_keys_of_every_slot(cluster_url: str) -> None:
    with redis.RedisCluster.from_url(cluster_url) as client:
        assert len(client.get_primaries()) == 3
        keys = [f"addresses:{number}" for number in range(50)]
        assert all(client.set(key, key) for key in keys)
        assert {client.get_node_from_key(key).port for key in keys} == {
            node.port for node in client.get_primaries()
        }
        client.delete(*keys)


@pytest.mark.server("postgres", "valkey")
def test_harnesses_find_the_addresses_in_the_environment() -> None:
    assert address("postgres") == os.environ["LASTGOOD_TEST_POSTGRES_URL"]
    assert address("valkey") == os.environ["LASTGOOD_TEST_REDIS_URL"]


def test_a_test_without_the_mark_is_told_what_to_write(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv(VARIABLES["postgres"], raising=False)
    with pytest.raises(ServerMissing, match=r"pytest.mark.server\('postgres'\)"):
        address("postgres")
