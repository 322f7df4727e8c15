"""A store that cannot be opened says so at once, and shows no secret: not in the error, not in its
cause, not in a log, not in anything that can be printed.
"""

import asyncio
import logging
import socket
import time
import traceback
from collections.abc import Iterator
from typing import Any
from urllib.parse import quote

import pytest

from lastgood import BackendConnectionError, BlockingClient, Client, LastgoodError
from lastgood.testing.servers import PostgresServer
from lastgood.testing.store import COLOURS, Colour

SECRET = "hunter2@the/gate#1"
PIECES = (SECRET, quote(SECRET, safe=""), "hunter2", "the/gate")

pytestmark = pytest.mark.server


@pytest.fixture(scope="module")
def guarded() -> Iterator[PostgresServer]:
    """A server that asks for a password, and has another one."""
    with PostgresServer(password="right") as server:
        yield server


@pytest.fixture
def silent() -> Iterator[int]:
    """A port on which somebody listens and never says a word."""
    with socket.socket() as listener:
        listener.bind(("127.0.0.1", 0))
        listener.listen(8)
        yield listener.getsockname()[1]


@pytest.fixture
def closed() -> int:
    """A port on which nobody listens."""
    with socket.socket() as listener:
        listener.bind(("127.0.0.1", 0))
        return listener.getsockname()[1]


def tried(source: str, colour: Colour) -> LastgoodError:
    """The error of the first call."""
    if colour == "blocking":
        with pytest.raises(LastgoodError) as caught:
            BlockingClient.postgres(source).threads()
        return caught.value

    async def call() -> None:
        client = Client.postgres(source)
        try:
            await client.threads()
        finally:
            await client.close()

    with pytest.raises(LastgoodError) as caught:
        asyncio.run(call())
    return caught.value


def dsn(style: str, **parts: Any) -> str:
    """A connection string with a password, as a URL or as words."""
    if style == "words":
        return " ".join(f"{name}='{value}'" for name, value in parts.items())
    host = quote(str(parts["host"]), safe="")
    login = f"{parts['user']}:{quote(parts['password'], safe='')}"
    return f"postgresql://{login}@{host}:{parts['port']}/{parts['dbname']}"


def shows(text: str) -> list[str]:
    return [piece for piece in PIECES if piece in text]


@pytest.mark.parametrize("colour", COLOURS)
@pytest.mark.parametrize("style", ["url", "words"])
@pytest.mark.parametrize(
    "wrong", ["password", "database", "user", "port", "name", "silent", "socket"]
)
def test_a_wrong_address_is_told_at_once_and_without_a_secret(
    wrong: str,
    style: str,
    colour: Colour,
    guarded: PostgresServer,
    silent: int,
    closed: int,
    caplog: pytest.LogCaptureFixture,
) -> None:
    good = {"host": guarded.directory, "port": 5432, "user": "postgres", "dbname": "postgres"}
    changed: dict[str, Any] = {
        "password": {"password": SECRET},
        "database": {"password": "right", "dbname": "nowhere"},
        "user": {"user": "nobody", "password": SECRET},
        "port": {"host": "127.0.0.1", "port": closed, "password": SECRET},
        "name": {"host": "no.such.host.invalid", "password": SECRET},
        "silent": {"host": "127.0.0.1", "port": silent, "password": SECRET},
        "socket": {"host": "/nowhere", "password": SECRET},
    }
    says = {
        "password": 'password authentication failed for user "postgres"',
        "database": 'database "nowhere" does not exist',
        "user": 'password authentication failed for user "nobody"',
        "port": "Connection refused",
        "name": "no.such.host.invalid",
        "silent": "timeout",
        "socket": "No such file or directory",
    }
    with caplog.at_level(logging.DEBUG):
        began = time.monotonic()
        error = tried(dsn(style, **{**good, **changed[wrong]}), colour)
        assert time.monotonic() - began < 6
    assert isinstance(error, BackendConnectionError)
    assert says[wrong] in str(error)
    assert str(error).startswith("postgresql://")
    assert ". Check the address" in str(error)
    told = "".join(traceback.format_exception(error)) + caplog.text + repr(error)
    assert shows(told) == []


@pytest.mark.parametrize(
    "source",
    [
        f"postgresql://me:{SECRET}@host/db",
        "postgresql://me:hunter2@gate@host:5432/db",
        "postgresql://me:hunter2/gate@host/db",
        "postgresql://me:hunt%zzer2@host/db",
        "host=here password=x hunter2",
        "host=here password='hunter2",
        "hunter2",
    ],
)
def test_a_connection_string_that_cannot_be_read_is_not_quoted(source: str) -> None:
    with pytest.raises(ValueError, match="not one that PostgreSQL understands") as caught:
        BlockingClient.postgres(source)
    assert shows("".join(traceback.format_exception(caught.value))) == []


@pytest.mark.parametrize(
    ("source", "reason"),
    [
        ("postgresql://me:right@host:5432/db?schema=team", "Pass schema=... beside it, or use"),
        ("postgresql://me:right@host:5432/db?pool_size=5", "Client.open, which takes ?pool_size="),
        ("postgresql://me:right@host:5432/db?sslmod=require", "knows no option 'sslmod'"),
        ("postgresql+psycopg://me:right@host/db", "begins with postgresql://"),
        ("postgresql://me:hunter2?the=gate", "password='...'."),
    ],
)
def test_what_is_wrong_with_it_is_told_where_that_is_no_secret(source: str, reason: str) -> None:
    with pytest.raises(ValueError, match="not one that PostgreSQL understands") as caught:
        BlockingClient.postgres(source)
    assert str(caught.value).endswith(reason) or reason in str(caught.value).split("'...'.")[1]
    assert shows(str(caught.value)) == []


@pytest.mark.parametrize(
    "url",
    [
        "postgres+psycopg://me:hunter2@host/db",
        "mysql://me:hunter2@host/db",
        "postgresql:me:hunter2@host",
    ],
)
def test_an_address_of_another_kind_is_not_quoted(url: str) -> None:
    with pytest.raises(ValueError) as caught:
        BlockingClient.open(url)
    assert shows("".join(traceback.format_exception(caught.value))) == []


@pytest.mark.parametrize("style", ["url", "words"])
def test_nothing_that_can_be_printed_shows_the_secret(style: str, caplog: Any) -> None:
    parts = {"host": "here", "port": 5432, "user": "me", "dbname": "db", "password": SECRET}
    client = BlockingClient.postgres(dsn(style, **parts))
    backend = client._direct._core.backend
    assert backend.url == "postgresql://me@here:5432/db"
    things = (client, client.aio, backend, backend._pools, backend.url, client._direct._core)
    assert shows(" ".join(f"{thing!r} {thing}" for thing in things)) == []


def test_what_a_pool_logs_shows_no_secret(
    guarded: PostgresServer, caplog: pytest.LogCaptureFixture
) -> None:
    """While the server is away the pool tries again and says so; in every detail it logs."""
    with caplog.at_level(logging.DEBUG), PostgresServer(password=SECRET) as server:
        client = BlockingClient.open(server.url)
        client.save("a", session_id="s", execution_state={})
        server.restart()
        client.save("a", session_id="s", execution_state={})
        client.close()
    assert "psycopg.pool" in caplog.text
    assert shows(caplog.text) == []
