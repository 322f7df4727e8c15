"""Whatever a connection makes of text and numbers, and however a schema is called."""

import asyncio
from collections.abc import Iterator
from typing import Any
from urllib.parse import quote, urlsplit, urlunsplit
from uuid import uuid4

import psycopg
import pytest
from psycopg import AsyncRawCursor, RawCursor
from psycopg.adapt import Loader
from psycopg.pq import Format
from psycopg.rows import dict_row
from psycopg_pool import AsyncConnectionPool, ConnectionPool

from lastgood import BackendConnectionError, BlockingClient, Client
from lastgood.cli import main

pytestmark = pytest.mark.server("postgres")

STATE = {"text": "ü😀\x00\udc80", "messages": [{"n": n, "text": f"{n} " * 200} for n in range(60)]}
NAMES = ["o'brien", "100%", "a%%b", "%s", "%(x)s", 'a"b', "back\\slash'", "Mixed Case", "ü😀", "$1"]


def database(server: str, encoding: str) -> Iterator[str]:
    name = f"db_{uuid4().hex[:12]}"
    with psycopg.connect(server, autocommit=True) as connection:
        connection.execute(
            f"CREATE DATABASE {name} ENCODING '{encoding}' TEMPLATE template0"
            " LC_COLLATE 'C' LC_CTYPE 'C'"
        )
    yield urlunsplit(urlsplit(server)._replace(path=f"/{name}"))
    with psycopg.connect(server, autocommit=True) as connection:
        connection.execute(f"DROP DATABASE {name} WITH (FORCE)")


@pytest.fixture(scope="module")
def without(postgres_url: str) -> Iterator[str]:
    """A database that has no encoding."""
    yield from database(postgres_url, "SQL_ASCII")


@pytest.fixture(scope="module")
def latin(postgres_url: str) -> Iterator[str]:
    yield from database(postgres_url, "LATIN1")


@pytest.fixture(scope="module")
def unicode(postgres_url: str) -> Iterator[str]:
    yield from database(postgres_url, "UTF8")


@pytest.fixture
def schema() -> str:
    return f"e_{uuid4().hex[:12]}"


def encoded(url: str, encoding: str) -> str:
    mark = "&" if "?" in url else "?"
    return f"{url}{mark}client_encoding={encoding}"


def work(client: BlockingClient) -> None:
    """A bit of everything, in both directions."""
    with client.run("ü😀", initial=STATE) as run:
        run.append("messages", "one more")
    client.tag("ü😀@1", "good")
    assert client.latest(agent_id="agent", session_id="ü😀").state["text"] == STATE["text"]
    assert [info.thread_id for info in client.threads()] == ["ü😀"]
    assert client.verify(data=True).clean
    client.delete("ü😀")


async def work_native(client: Client) -> None:
    async with client.run("ü😀", initial=STATE) as run:
        await run.append("messages", "one more")
    found = await client.latest(agent_id="agent", session_id="ü😀")
    assert found.state["text"] == STATE["text"]
    assert (await client.verify(data=True)).clean


# encodings


def test_a_database_without_an_encoding(without: str) -> None:
    with BlockingClient.postgres(without) as client:
        work(client)

    async def body() -> None:
        async with Client.postgres(without, schema="other") as client:
            await work_native(client)

    asyncio.run(body())
    assert main(["doctor", "--store", without]) == 0


@pytest.mark.parametrize("encoding", ["SQL_ASCII", "LATIN1", "UTF8"])
def test_a_connection_with_an_encoding_of_its_own(unicode: str, encoding: str, schema: str) -> None:
    with BlockingClient.postgres(encoded(unicode, encoding), schema=schema) as client:
        work(client)
    pool = ConnectionPool(encoded(unicode, encoding), min_size=1, max_size=2, open=True)
    with pool, BlockingClient.postgres(pool, schema=schema) as client:
        work(client)


def test_a_role_with_an_encoding_of_its_own(unicode: str, schema: str) -> None:
    role = f"rôle_{schema}"
    with psycopg.connect(unicode, autocommit=True) as connection:
        connection.execute(f'CREATE ROLE "{role}" SUPERUSER LOGIN')
        connection.execute(f"ALTER ROLE \"{role}\" SET client_encoding = 'SQL_ASCII'")
    url = unicode.replace("postgres@", f"{quote(role)}@")
    try:
        with BlockingClient.postgres(url, schema=schema) as client:
            work(client)
    finally:
        with psycopg.connect(unicode, autocommit=True) as connection:
            connection.execute(f'REASSIGN OWNED BY "{role}" TO postgres')
            connection.execute(f'DROP ROLE "{role}"')


@pytest.mark.parametrize("encoding", ["SQL_ASCII", "LATIN1"])
def test_a_schema_is_the_same_one_in_every_encoding(unicode: str, encoding: str) -> None:
    name = f"ü_{uuid4().hex[:12]}"
    with BlockingClient.postgres(unicode, schema=name) as client:
        client.save("a", session_id="s", execution_state={})
    with BlockingClient.postgres(encoded(unicode, encoding), schema=name) as client:
        assert len(client.threads()) == 1


@pytest.mark.parametrize("encoding", ["SQL_ASCII", "LATIN1", "UTF8"])
def test_so_it_is_where_the_database_has_none(without: str, encoding: str) -> None:
    name = f"ü_{uuid4().hex[:12]}"
    with BlockingClient.postgres(without, schema=name) as client:
        client.save("a", session_id="s", execution_state={})
    with BlockingClient.postgres(encoded(without, encoding), schema=name) as client:
        assert len(client.threads()) == 1


def test_a_schema_that_an_encoding_cannot_hold(unicode: str, latin: str) -> None:
    """The connection's, or the database's."""
    for url in (encoded(unicode, "LATIN1"), latin, encoded(latin, "SQL_ASCII")):
        with (
            BlockingClient.postgres(url, schema="š😀") as client,
            pytest.raises(BackendConnectionError, match=r"encoding.*schema"),
        ):
            client.threads()
    with BlockingClient.postgres(latin, schema="ü") as client:
        work(client)
    with (
        BlockingClient.postgres(encoded(latin, "UTF8"), schema="š😀") as client,
        pytest.raises(BackendConnectionError, match=r"encoding.*schema"),
    ):
        client.threads()


# what an application does to its connections


class Strange(Loader):
    """Reads nothing as it is."""

    def load(self, data: Any) -> Any:
        return ("strange", bytes(data))


class StrangeBinary(Strange):
    format = Format.BINARY


def estrange(connection: Any) -> None:
    for name in ("text", "name", "bytea", "int2", "int4", "int8", "bool", "float8"):
        connection.adapters.register_loader(name, Strange)
        connection.adapters.register_loader(name, StrangeBinary)


async def estrange_native(connection: Any) -> None:
    estrange(connection)


def test_a_pool_with_loaders_and_cursors_of_its_own(postgres_url: str, schema: str) -> None:
    options: dict[str, Any] = {"cursor_factory": RawCursor, "row_factory": dict_row}
    pool = ConnectionPool(
        postgres_url, min_size=1, max_size=2, kwargs=options, configure=estrange, open=True
    )
    with pool, BlockingClient.postgres(pool, schema=schema) as client:
        work(client)
        client.threads()


def test_an_async_pool_with_loaders_and_cursors_of_its_own(postgres_url: str, schema: str) -> None:
    options: dict[str, Any] = {"cursor_factory": AsyncRawCursor, "row_factory": dict_row}

    async def body() -> None:
        pool = AsyncConnectionPool(
            postgres_url, min_size=1, kwargs=options, configure=estrange_native, open=False
        )
        async with pool:
            await work_native(Client.postgres(pool, schema=schema))

    asyncio.run(body())


# names of schemas


@pytest.mark.parametrize("name", NAMES)
def test_a_schema_may_be_called_as_you_like(unicode: str, name: str) -> None:
    with BlockingClient.postgres(unicode, schema=name) as client:
        work(client)
        client.save("a", session_id="s", execution_state={})
    with psycopg.connect(unicode) as connection:
        found = connection.execute("SELECT 1 FROM pg_namespace WHERE nspname = %s", (name,))
        assert found.fetchone() == (1,)
    with BlockingClient.open(f"{unicode}&schema={quote(name)}") as client:
        assert len(client.threads()) == 1
        assert next(iter(client.watch("s", after=0))).seq == 1


@pytest.mark.parametrize("name", NAMES)
def test_what_db_sql_prints_makes_that_schema(
    name: str, postgres_url: str, capsys: pytest.CaptureFixture[str]
) -> None:
    for url in database(postgres_url, "UTF8"):
        assert main(["db", "sql", "--schema", name, "--role", "postgres"]) == 0
        with psycopg.connect(url, autocommit=True) as connection:
            connection.execute(capsys.readouterr().out)
        assert main(["db", "status", "--store", url, "--schema", name]) == 0
        with BlockingClient.postgres(url, schema=name) as client:
            client.save("a", session_id="s", execution_state={})
