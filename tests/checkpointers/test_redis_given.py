"""A Redis of yours as the cache of a checkpointer: found by its address, or refused."""

import ssl
from pathlib import Path
from typing import Any
from uuid import uuid4

import pytest
import redis
import redis.asyncio
from redis.connection import parse_url
from redis.sentinel import Sentinel

from lastgood.checkpointers import PgCheckpointer
from lastgood.checkpointers.redis_given import redis_address

CONFIG = {"thread_id": "t"}


@pytest.mark.parametrize(
    "address",
    [
        "redis://localhost:6379/0",
        "redis://ann:s%2Fcret@cache:6380/3",
        "redis://[::1]:6380/1",
        "redis://[fe80::1%25eth0]:6379/0",
        "rediss://:secret@cache:6380/0",
        "rediss://cache:6379/0?ssl_ca_certs=%2Fetc%2Fca+1.pem&ssl_cert_reqs=optional",
        "rediss://cache:6379/0?ssl_check_hostname=False",
        "unix:///run/redis.sock?db=2",
        "unix://ann:secret@/run/a%20b%3Fc%23d%40e.sock?db=0",
    ],
)
def test_its_address_is_found(address: str) -> None:
    from redis.asyncio import ConnectionPool

    for owner in (redis.Redis.from_url(address), ConnectionPool.from_url(address)):
        assert redis_address(owner) == address
    PgCheckpointer("postgresql://x", redis_url=address)


@pytest.mark.parametrize(
    "options",
    [
        {"host": "::1", "port": 6390, "db": 2},
        {"unix_socket_path": "/tmp/a b?c#d.sock", "username": "u ser", "password": "p@:/?#%"},
        {"ssl": True},
        {"ssl": True, "ssl_ca_certs": "/etc/ca.pem", "ssl_check_hostname": False},
    ],
)
def test_an_address_leads_where_its_owner_goes(options: dict[str, Any]) -> None:
    for driver in (redis, redis.asyncio):
        owner: Any = driver.Redis(**options)
        found = parse_url(redis_address(owner) or "")  # type: ignore[no-untyped-call]
        kind = found.pop("connection_class", redis.Connection)
        about = owner.connection_pool.connection_kwargs
        assert kind.__name__ == owner.connection_pool.connection_class.__name__
        assert found == {name: about[name] for name in found}
        wanted = {"unix_socket_path": "path"}
        given = {wanted.get(name, name) for name in options} - {"ssl"}
        assert given <= found.keys()


def test_no_redis_has_no_address() -> None:
    assert redis_address(None) is None


def credentials() -> Any:
    return redis.UsernamePasswordCredentialProvider("ann", "secret")


@pytest.mark.parametrize(
    ("owner", "error", "text"),
    [
        ("redis://:secret@localhost", TypeError, "not str.*redis_url"),
        (5, TypeError, "redis_url"),
        (Sentinel([("10.0.0.1", 26379)]).master_for("main"), TypeError, "SentinelManaged"),
        (redis.Redis(credential_provider=credentials()), ValueError, "credential_provider"),
        (redis.Redis(redis_connect_func=print), ValueError, "redis_connect_func"),
        (redis.Redis(ssl=True, ssl_cert_reqs=ssl.CERT_NONE), ValueError, "ssl_cert_reqs"),
        (redis.Redis(ssl=True, ssl_validate_ocsp=True), ValueError, "ssl_validate_ocsp"),
    ],
)
def test_what_has_no_address_is_refused(owner: Any, error: type[Exception], text: str) -> None:
    for given in ("redis", "redis_pool"):
        with pytest.raises(error, match=text) as caught:
            PgCheckpointer("postgresql://x", **{given: owner})
        assert "redis_url" in str(caught.value)
        assert "secret" not in str(caught.value)


def test_a_client_is_no_address() -> None:
    with pytest.raises(TypeError, match="by its address"):
        PgCheckpointer("postgresql://x", redis_url=redis.Redis())  # type: ignore[arg-type]


def test_a_class_of_your_own_is_not_taken_for_another() -> None:
    class Connection(redis.Connection):
        """Goes somewhere else."""

    owner = redis.ConnectionPool(connection_class=Connection)
    with pytest.raises(TypeError, match="Connection, which has no address"):
        redis_address(owner)


def is_kept(server: Any, mark: str) -> bool:
    """Whether a text is anywhere in the cache, which other tests use too."""
    hashes = [key for key in server.scan_iter("lastgood-cache:*") if server.type(key) == b"hash"]
    return any(mark.encode() in value for key in hashes for value in server.hvals(key))


@pytest.mark.server("postgres", "valkey")
@pytest.mark.parametrize("given", ["redis_url", "redis", "redis_pool"])
def test_states_are_cached_in_redis(
    postgres_url: str, valkey_url: str, tmp_path: Path, given: str
) -> None:
    """What one process has read is there for the next; what was deleted is gone for both."""
    from redis import ConnectionPool, Redis

    from lastgood.testing.postgres_harness import PostgresHarness

    harness, server = PostgresHarness(tmp_path), Redis.from_url(valkey_url)
    made = {"redis_url": valkey_url, "redis": server, "redis_pool": server.connection_pool}
    assert isinstance(made["redis_pool"], ConnectionPool)
    mark = uuid4().hex
    state = {"texts": [f"{mark} {number}" * 20 for number in range(500)]}
    first, second = (
        PgCheckpointer[Any](postgres_url, schema=harness.schema, **{given: made[given]})
        for _ in range(2)
    )
    first.put_state(CONFIG, state)
    assert second.get_state(CONFIG) == state
    assert is_kept(server, mark)
    assert second.delete_thread(CONFIG)
    assert not is_kept(server, mark)
    assert first.get_state(CONFIG) is None
    for each in (first, second):
        each.release()
    server.close()
    harness.close()
