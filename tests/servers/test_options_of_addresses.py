"""What an address of a server says beside the server is checked, and shown without a secret."""

from concurrent.futures import ThreadPoolExecutor
from typing import Any

import psycopg
import pytest

from lastgood import BlockingClient, Client
from lastgood.cli import main
from lastgood.registry import BACKENDS, shown
from lastgood.testing.servers import ValkeyServer

SECRET = "hunter2"
WRONG = {
    f"redis://:{SECRET}@localhost?prefix=": "prefix is empty",
    f"redis://:{SECRET}@localhost?prefix=%00": "prefix .* contains",
    f"redis://:{SECRET}@localhost?prefix=a%0Ab": "prefix .* contains",
    f"redis://:{SECRET}@localhost?prefix=a&prefix=b": "prefix= twice",
    f"redis://:{SECRET}@localhost/x": "database .* is a number",
    f"rediss://:{SECRET}@localhost/0x?prefix=a": "database .* is a number",
    f"redis://:{SECRET}@localhost/2?db=3": "two databases",
    f"redis://:{SECRET}@localhost?credential_provider=x": "no option 'credential_provider'",
    f"redis://:{SECRET}@localhost?redis_connect_func=x": "no option 'redis_connect_func'",
    f"redis://:{SECRET}@localhost?parser_class=x": "no option 'parser_class'",
    f"redis://:{SECRET}@localhost?event_dispatcher=x": "no option 'event_dispatcher'",
    f"redis://:{SECRET}@localhost?retry_on_error=x": "no option 'retry_on_error'",
    f"redis://:{SECRET}@localhost?legacy_responses=no": "Leave 'legacy_responses' out",
    f"redis://:{SECRET}@localhost?socket_timeout=-1": "socket_timeout .* number of seconds",
    f"redis://:{SECRET}@localhost?socket_connect_timeout=nan": "number of seconds",
    f"redis://:{SECRET}@[::1/0": "not the address of a Redis server",
    f"postgres://u:{SECRET}@[::1/db": "not one that PostgreSQL understands",
    f"postgresql://u:{SECRET}@localhost/db?schema=a&schema=b": "schema= twice",
    f"postgresql://u:{SECRET}@localhost/db?schema=": "schema is empty",
    f"postgresql://u:{SECRET}@localhost/db?schema=a%0Ab": "schema .* contains",
    f"postgresql://u:{SECRET}@localhost/db?pool_size=0": "pool_size= .* a number",
    f"postgresql://u:{SECRET}@localhost/db?schema=a&pool_size=ten": "pool_size= .* a number",
    f"postgresql://u:p?pool_size={SECRET}@localhost/db": "pool_size= .* a number",
    f"redis://:{SECRET}@localhost?pool_size=-1": "pool_size= .* a number",
    f"redis://:{SECRET}@localhost?pool_size=1&pool_size=2": "pool_size= twice",
}


@pytest.mark.parametrize(("url", "words"), WRONG.items())
def test_what_makes_no_sense_is_told(
    url: str, words: str, capsys: pytest.CaptureFixture[str]
) -> None:
    for client in (Client, BlockingClient):
        with pytest.raises(ValueError, match=words) as caught:
            client.open(url)
        assert SECRET not in str(caught.value)
    for command in ("threads", "doctor"):
        assert main([command, "--store", url]) in (1, 2)
        told = capsys.readouterr()
        assert SECRET not in told.out + told.err
        assert "Traceback" not in told.err


@pytest.mark.parametrize(
    ("scheme", "url", "expected"),
    [
        ("redis", "redis://h/0/?prefix=a%20b", {"url": "redis://h/0/", "prefix": "a b"}),
        ("redis", "redis://h?db=2&prefix=p&x=1", {"url": "redis://h?db=2&x=1", "prefix": "p"}),
        ("redis", "unix:///tmp/r.sock?prefix=p", {"url": "unix:///tmp/r.sock", "prefix": "p"}),
        (
            "postgresql",
            "postgresql://u@h/db?application_name=a%20b+c&schema=x%26y",
            {"source": "postgresql://u@h/db?application_name=a%20b+c", "schema": "x&y"},
        ),
        ("postgresql", "postgres:///db?schema=s", {"source": "postgres:///db", "schema": "s"}),
        ("postgresql", "postgresql://u@h/db", {"source": "postgresql://u@h/db"}),
        (
            "postgresql",
            "postgresql://u@h/db?pool_size=5&application_name=a",
            {"source": "postgresql://u@h/db?application_name=a", "pool_size": 5},
        ),
        ("redis", "redis://h/0?pool_size=2", {"url": "redis://h/0", "pool_size": 2}),
    ],
)
def test_what_is_not_ours_is_passed_on_as_it_is(
    scheme: str, url: str, expected: dict[str, Any]
) -> None:
    assert BACKENDS[scheme].arguments(url) == expected


def saved_at_once(client: BlockingClient) -> int:
    """Twelve threads save, each in a thread of its own."""
    with ThreadPoolExecutor(12) as pool:
        for number in range(48):
            pool.submit(client.save, "a", session_id=f"s{number}", execution_state={})
    return len(client.threads())


def test_the_pool_is_as_large_as_the_address_says(postgres_url: str, schema: str) -> None:
    mark = "&" if "?" in postgres_url else "?"
    options = f"schema={schema}&application_name={schema}&pool_size=2"
    count = "SELECT count(*) FROM pg_stat_activity WHERE application_name = %s"
    with (
        psycopg.connect(postgres_url) as session,
        BlockingClient.open(f"{postgres_url}{mark}{options}") as client,
    ):
        assert saved_at_once(client) == 48
        assert session.execute(count, (schema,)).fetchone() == (2,)


def test_and_so_it_is_on_redis() -> None:
    with ValkeyServer() as server:
        mark = "&" if "?" in server.url else "?"
        with BlockingClient.open(f"{server.url}{mark}pool_size=2") as client:
            assert saved_at_once(client) == 48
            told = server.ask("CLIENT", "LIST", "TYPE", "NORMAL")
            assert isinstance(told, bytes)
            assert len(told.splitlines()) == 2 + 1  # who asks


def test_the_database_is_shown_wherever_it_is_named() -> None:
    """Two stores on one server are told apart by it."""
    assert BlockingClient.redis("redis://h?db=3").url == "redis://h/3"
    assert BlockingClient.redis("redis://h/2").url == BlockingClient.redis("redis://h/2?db=2").url


@pytest.mark.parametrize("kind", ["redis://{}h:6379/0", "rediss://{}h/0", "unix://{}/run/r.sock"])
def test_a_password_without_its_colon_is_not_shown(kind: str) -> None:
    """It stands where a user does."""
    url, expected = kind.format("hush@"), kind.format("")
    assert BlockingClient.redis(url).url == expected
    assert shown(url) == expected
    named = kind.format("joe:hush@")
    assert BlockingClient.redis(named).url == shown(named) == kind.format("joe@")
