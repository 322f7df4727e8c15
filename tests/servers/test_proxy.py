"""The proxy that fails on purpose does what it says, between real clients and real servers."""

import os
import socket
import threading
import time
import uuid
from collections.abc import Callable, Iterator

import psycopg
import pytest
import redis
from redis.backoff import NoBackoff
from redis.retry import Retry

from lastgood.testing.faults.endpoints import endpoint_of
from lastgood.testing.faults.proxy import Proxy
from lastgood.testing.servers import ValkeyServer

Connect = Callable[..., redis.Redis]
CUT = (redis.ConnectionError, ConnectionError)


@pytest.fixture
def key() -> str:
    return f"proxy:{uuid.uuid4()}"


@pytest.fixture
def valkey(valkey_url: str) -> Iterator[Proxy]:
    with Proxy(valkey_url) as proxy:
        yield proxy


@pytest.fixture
def connect(valkey_url: str) -> Iterator[Connect]:
    """Clients that never try again by themselves; straight to the server if no url is given."""
    clients = []

    def make(url: str = valkey_url, **options: float) -> redis.Redis:
        clients.append(redis.Redis.from_url(url, retry=Retry(NoBackoff(), 0), **options))
        clients[-1].ping()
        return clients[-1]

    yield make
    for client in clients:
        client.close()


@pytest.fixture
def table(postgres_url: str) -> Iterator[str]:
    name = f"proxy_{uuid.uuid4().hex}"
    with psycopg.connect(postgres_url, autocommit=True) as connection:
        connection.execute(f"CREATE TABLE {name} (x int)")
        yield name
        connection.execute(f"DROP TABLE {name}")
    connection.close()


@pytest.fixture
def postgres(postgres_url: str, table: str) -> Iterator[Proxy]:
    with Proxy(postgres_url) as proxy:
        yield proxy


def rows(url: str, table: str) -> list[int]:
    with psycopg.connect(url) as connection:
        found = [row[0] for row in connection.execute(f"SELECT x FROM {table} ORDER BY x")]
    connection.close()
    return found


def insert_pipelined(connection: psycopg.Connection, table: str) -> None:
    with connection.pipeline():
        connection.execute("BEGIN")
        connection.execute(f"INSERT INTO {table} VALUES (1), (2)")
        connection.execute("COMMIT")


class TestWithoutFaults:
    def test_everything_arrives_unchanged(self, valkey: Proxy, connect: Connect, key: str) -> None:
        client, value = connect(valkey.url), bytes(range(256)) * 8192
        client.set(key, value)
        assert client.get(key) == connect().getdel(key) == value

    def test_a_large_reply_of_postgres_arrives_unchanged(self, postgres: Proxy) -> None:
        with psycopg.connect(postgres.url) as connection:
            found = connection.execute("SELECT repeat('x', 3000000)").fetchone()
        connection.close()
        assert found == ("x" * 3_000_000,)

    @pytest.mark.server
    def test_a_server_on_a_port_gets_a_proxy_on_a_port(self, connect: Connect) -> None:
        with ValkeyServer(tcp=True, password="s:e/c@") as server, Proxy(server.url) as proxy:
            assert endpoint_of(proxy.url).port not in (0, server.port)
            assert connect(proxy.url).set("a", "b")
            assert server.ask("GET", "a") == b"b"

    @pytest.mark.server
    def test_the_end_of_the_server_ends_the_connection(self, connect: Connect) -> None:
        with ValkeyServer() as server, Proxy(server.url) as proxy:
            client = connect(proxy.url)
            server.kill()
            with pytest.raises(CUT):
                client.ping()
            server.start()
            assert client.ping()

    def test_nothing_is_left_when_it_is_closed(self, valkey_url: str, connect: Connect) -> None:
        with Proxy(valkey_url) as proxy:
            client = connect(proxy.url)
            door = endpoint_of(proxy.url).path
        assert door is not None
        assert not door.parent.exists()
        assert "proxy" not in {thread.name for thread in threading.enumerate()}
        with pytest.raises(CUT):
            client.ping()


class TestCountsRoundTrips:
    def test_of_redis(self, valkey: Proxy, connect: Connect, key: str) -> None:
        client = connect(valkey.url)
        before = valkey.round_trips
        for _ in range(3):
            client.incr(key)
        assert valkey.round_trips - before == 3

    def test_a_pipeline_is_one(self, valkey: Proxy, connect: Connect, key: str) -> None:
        client = connect(valkey.url)
        before = valkey.round_trips
        pipeline = client.pipeline(transaction=True)
        for number in range(100):
            pipeline.set(key, b"x" * number)
        pipeline.execute()
        assert valkey.round_trips - before == 1

    def test_a_request_in_many_pieces_is_one(
        self, valkey: Proxy, connect: Connect, key: str
    ) -> None:
        client = connect(valkey.url)
        before = valkey.round_trips
        client.set(key, b"x" * 5_000_000)
        client.delete(key)
        assert valkey.round_trips - before == 2

    def test_of_postgres(self, postgres: Proxy, table: str) -> None:
        with psycopg.connect(postgres.url, autocommit=True) as connection:
            before = postgres.round_trips
            connection.execute("SELECT 1")
            assert postgres.round_trips - before == 1
            with connection.pipeline():
                connection.execute("BEGIN")
                for number in range(20):
                    connection.execute(f"INSERT INTO {table} VALUES (%s)", [number])
                connection.execute("COMMIT")
            assert postgres.round_trips - before == 2
        connection.close()

    def test_and_connections(self, valkey: Proxy, connect: Connect) -> None:
        connect(valkey.url)
        connect(valkey.url)
        assert valkey.connections == 2


class TestDelays:
    @pytest.mark.parametrize("way", ["to_server", "to_client"])
    def test_one_direction(self, way: str, valkey: Proxy, connect: Connect) -> None:
        client = connect(valkey.url)
        valkey.delay(**{way: 0.1})
        began = time.monotonic()
        client.ping()
        assert time.monotonic() - began >= 0.1

    def test_until_healed(self, valkey: Proxy, connect: Connect) -> None:
        client = connect(valkey.url, socket_timeout=5)
        valkey.delay(to_server=60)
        valkey.heal()
        assert client.ping()


class TestCuts:
    def test_before_a_request_nothing_was_done(
        self, valkey: Proxy, connect: Connect, key: str
    ) -> None:
        client = connect(valkey.url)
        valkey.cut_before()
        with pytest.raises(CUT):
            client.incr(key)
        assert connect().get(key) is None
        assert client.incr(key) == 1, "the order was for one request"
        assert valkey.cuts == 1

    def test_after_its_reply_all_was_done(self, valkey: Proxy, connect: Connect, key: str) -> None:
        client = connect(valkey.url)
        valkey.cut_after()
        with pytest.raises(CUT):
            client.incr(key)
        assert connect().get(key) == b"1"
        assert valkey.cuts == 1

    def test_at_the_nth_request(self, valkey: Proxy, connect: Connect, key: str) -> None:
        client = connect(valkey.url)
        valkey.cut_before(3)
        assert [client.incr(key), client.incr(key)] == [1, 2]
        with pytest.raises(CUT):
            client.incr(key)
        assert connect().get(key) == b"2"

    def test_after_the_whole_reply_of_a_pipeline(
        self, valkey: Proxy, connect: Connect, key: str
    ) -> None:
        client = connect(valkey.url)
        pipeline = client.pipeline(transaction=True)
        for number in range(200):
            pipeline.set(f"{key}:{number}", b"x" * 10_000)
        valkey.cut_after(match=b"EXEC")
        with pytest.raises(CUT):
            pipeline.execute()
        assert connect().exists(*(f"{key}:{number}" for number in range(200))) == 200

    def test_only_the_connection_that_asked(
        self, valkey: Proxy, connect: Connect, key: str
    ) -> None:
        one, other = connect(valkey.url), connect(valkey.url)
        valkey.cut_before(match=b"INCR")
        assert one.get(key) is None
        with pytest.raises(CUT):
            one.incr(key)
        made = valkey.connections
        assert other.incr(key) == 1
        assert valkey.connections == made

    @pytest.mark.parametrize(("order", "kept"), [("cut_before", []), ("cut_after", [1])])
    def test_at_a_commit_of_postgres(
        self, order: str, kept: list[int], postgres: Proxy, postgres_url: str, table: str
    ) -> None:
        connection = psycopg.connect(postgres.url)
        connection.execute(f"INSERT INTO {table} VALUES (1)")
        getattr(postgres, order)(match=b"COMMIT")
        with pytest.raises(psycopg.OperationalError):
            connection.commit()
        assert connection.broken
        connection.close()
        assert rows(postgres_url, table) == kept

    @pytest.mark.parametrize(("order", "kept"), [("cut_before", []), ("cut_after", [1, 2])])
    def test_at_a_pipelined_transaction_of_postgres(
        self, order: str, kept: list[int], postgres: Proxy, postgres_url: str, table: str
    ) -> None:
        connection = psycopg.connect(postgres.url, autocommit=True)
        getattr(postgres, order)()
        with pytest.raises(psycopg.OperationalError):
            insert_pipelined(connection, table)
        connection.close()
        assert rows(postgres_url, table) == kept

    def test_after_the_whole_reply_although_it_began_before_the_commit(
        self, postgres: Proxy, postgres_url: str, table: str
    ) -> None:
        connection = psycopg.connect(postgres.url)
        postgres.cut_after(match=b"COMMIT")
        with pytest.raises(psycopg.OperationalError):
            connection.execute(
                "SELECT repeat('x', 100000); SELECT pg_sleep(0.5);"
                f"INSERT INTO {table} VALUES (1); COMMIT"
            )
        connection.close()
        assert rows(postgres_url, table) == [1]

    def test_all_connections_at_once(self, valkey: Proxy, connect: Connect) -> None:
        clients = [connect(valkey.url), connect(valkey.url)]
        made = valkey.connections
        valkey.cut()
        assert [client.ping() for client in clients] == [True, True]
        assert valkey.connections == made + 2

    def test_a_session_of_postgres_in_the_middle(self, postgres: Proxy) -> None:
        connection = psycopg.connect(postgres.url)
        connection.execute("SELECT 1")
        postgres.cut()
        with pytest.raises(psycopg.OperationalError):
            connection.execute("SELECT 1")
        connection.close()


class TestBlackHole:
    def test_nothing_gets_through_until_it_heals(
        self, valkey: Proxy, connect: Connect, key: str
    ) -> None:
        client = connect(valkey.url, socket_timeout=0.2)
        valkey.black_hole()
        with pytest.raises(redis.TimeoutError):
            client.incr(key)
        assert connect().get(key) is None
        valkey.heal()
        assert client.ping()

    def test_the_reply_alone_is_swallowed(self, valkey: Proxy, connect: Connect, key: str) -> None:
        client = connect(valkey.url, socket_timeout=0.2)
        valkey.black_hole("to_client")
        with pytest.raises(redis.TimeoutError):
            client.incr(key)
        assert connect().get(key) == b"1"

    def test_a_session_stays_open_behind_it(
        self, postgres: Proxy, postgres_url: str, table: str
    ) -> None:
        """The server does not hear that its client is gone, and keeps the lock."""
        connection = psycopg.connect(postgres.url)
        connection.execute(f"LOCK TABLE {table}")
        postgres.black_hole()
        with socket.socket(fileno=os.dup(connection.fileno())) as end:
            end.shutdown(socket.SHUT_RDWR)
        connection.close()
        with psycopg.connect(postgres_url) as other:
            other.execute("SET lock_timeout = '100ms'")
            with pytest.raises(psycopg.errors.LockNotAvailable):
                other.execute(f"LOCK TABLE {table}")
            other.rollback()
            postgres.heal()
            other.execute("SET lock_timeout = '20s'")
            other.execute(f"LOCK TABLE {table}")
        other.close()


class TestRefuses:
    def test_everybody_until_it_heals(self, valkey: Proxy, connect: Connect) -> None:
        client = connect(valkey.url)
        valkey.refuse()
        for _ in range(2):
            with pytest.raises(CUT):
                client.ping()
        valkey.heal()
        assert client.ping()

    def test_postgres_too(self, postgres: Proxy) -> None:
        postgres.refuse()
        with pytest.raises(psycopg.OperationalError, match="Is the server running"):
            psycopg.connect(postgres.url)
        postgres.heal()
        psycopg.connect(postgres.url).close()
