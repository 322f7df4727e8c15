"""Where connections to Redis come from: clients of both colours to one server or one Cluster.

A connection is taken for one round trip and given back. Which client serves whom is told in
`redis.loops`.

The driver must not repeat a command by itself: whether a commit that nobody heard of again took
place is for the intent to find out.
"""

from __future__ import annotations

from inspect import signature
from typing import Any
from urllib.parse import parse_qsl, urlsplit

import redis
import redis.asyncio
from redis.asyncio.retry import Retry as AsyncRetry
from redis.backoff import NoBackoff
from redis.connection import URL_QUERY_ARGUMENT_PARSERS, parse_url
from redis.retry import Retry

from lastgood.backends.redis.loops import LoopClients
from lastgood.backends.remote.room import Room
from lastgood.driver import is_blocking

CONNECT_SECONDS = 5
"""How long an attempt to connect may take, and the wait for a free one while nobody is served."""
REPLY_SECONDS = 10
"""How long a server may be silent."""


class Clients(LoopClients):
    """Clients for one address."""

    def __init__(self, url: str, size: int) -> None:
        super().__init__()
        self.label = shown(checked(url))
        self.cluster = False
        """Whether the server turned out to be one of a Cluster."""
        parse: Any = parse_url
        most = int(parse(url).get("max_connections", 0)) or size
        self.room = Room(most, CONNECT_SECONDS, _full)
        """In which commands are sent. The driver's clients of one server wait for a free
        connection, but a task that asks for one again is served before those that wait, who may
        wait for ever; those of a Cluster make another one, or fail. Who is in has one connection to
        a node, and in a Cluster now and then another, on which the driver asks about commands."""
        self._url = url
        self._size = size

    def _made(self, driver: Any, retry: object) -> Any:
        options = self._options(retry)
        if self.cluster:
            return driver.RedisCluster.from_url(self._url, **options)
        if driver is redis:
            pool = driver.ConnectionPool.from_url(self._url, **options)
        else:
            pool = driver.BlockingConnectionPool.from_url(
                self._url, max_connections=self._size, timeout=CONNECT_SECONDS, **options
            )
        return driver.Redis(connection_pool=pool)

    def abandon(self) -> None:
        super().abandon()
        self.room.begin()

    async def apart(self, key: str, seconds: float) -> Any:
        """A connection that no pool knows, to the server that has a key; not opened yet.

        Async code bounds its replies by itself: the driver's way swallows cancels on Python 3.11.
        """
        driver: Any = redis if is_blocking() else redis.asyncio
        retry = (Retry if is_blocking() else AsyncRetry)(NoBackoff(), 0)
        pool = driver.ConnectionPool.from_url(self._url, **self._options(retry))
        options = {**pool.connection_kwargs, "protocol": 2}
        options["socket_connect_timeout"] = min(CONNECT_SECONDS, seconds)
        options["socket_timeout"] = min(REPLY_SECONDS, seconds) if is_blocking() else None
        if self.cluster:
            client = self.blocking() if is_blocking() else await self.native()
            node = client.get_node_from_key(key)
            options.update(host=node.host, port=node.port)
        return pool.connection_class(**options)

    def _options(self, retry: object) -> dict[str, Any]:
        return {
            "protocol": 2,
            "socket_timeout": REPLY_SECONDS,
            "socket_connect_timeout": CONNECT_SECONDS,
            "retry": retry,
        }

    async def look(self) -> None:
        """Learn whether the server is one of a Cluster, by a connection of its own."""
        if is_blocking():
            options = self._options(Retry(NoBackoff(), 0))
            with redis.Redis.from_url(self._url, **options) as client:
                told: Any = client.info("cluster")
        else:
            options = self._options(AsyncRetry(NoBackoff(), 0))
            async with redis.asyncio.Redis.from_url(self._url, **options) as other:
                told = await other.info("cluster")
        self.cluster = int(told.get("cluster_enabled", 0)) == 1


def _full() -> Exception:
    return redis.ConnectionError("No connection available.")


_UNREADABLE = (
    "this is not the address of a Redis server (it is not shown here: it may hold a password). "
    "Write redis://user:password@host:port/0, rediss://... or unix:///path/to/socket, with "
    "@ / : ? # and % in a password as %40 %2F %3A %3F %23 and %25."
)


def checked(url: str) -> str:
    """An address that the driver can read; raises ValueError, without quoting any of it."""
    if not isinstance(url, str):
        raise TypeError(
            f"Client.redis() takes an address such as redis://localhost:6379, not "
            f"{type(url).__module__}.{type(url).__qualname__}."
        )
    place, _, options = url.partition("://")[2].partition("?")
    authority, _, path = place.partition("/")
    try:
        parse: Any = parse_url
        found = parse(url)
        shown(url)
        str(found.get("host", "")).encode("idna")  # a name that no resolver takes
    except (ValueError, TypeError):
        raise ValueError(_UNREADABLE) from None
    if authority.count("@") > 1 or "@" in path + options or "#" in url:
        raise ValueError(_UNREADABLE)  # the end of a password that was not quoted
    database = "" if url.startswith("unix:") else path.rstrip("/")
    if database and not database.isdecimal():
        raise ValueError(
            "the database in the address of a Redis server is a number: redis://host:6379/0"
        )
    if database and int(database) != found.get("db"):
        raise ValueError("the address of a Redis server names two databases: leave out one.")
    _expect_options(found)
    return url


_OURS = {
    *("decode_responses", "encoding", "encoding_errors", "legacy_responses"),
    *("protocol", "retry", "timeout"),
}
"""Options that replies could not be read with, or that are given in another way."""
_TEXTS = {"client_name", "host", "lib_name", "lib_version", "password", "path", "port", "username"}
_OBJECTS = {"retry_on_error", "ssl_ocsp_context"}
"""Options that no text can give, whatever the driver makes of one."""
_SECONDS = ("socket_timeout", "socket_connect_timeout")


def _expect_options(found: dict[str, Any]) -> None:
    """Raises ValueError for an option that the driver does not know, which it would say later, and
    for one that we set.
    """
    kind = found.pop("connection_class", redis.Connection)
    known = {name for each in kind.__mro__ for name in signature(each.__init__).parameters}
    ours = sorted(found.keys() & _OURS)
    if ours:
        raise ValueError(f"Leave {ours[0]!r} out of the address: Lastgood sets it by itself.")
    known &= _TEXTS | URL_QUERY_ARGUMENT_PARSERS.keys() | {n for n in known if n[:4] == "ssl_"}
    unknown = sorted(found.keys() - (known - _OBJECTS) - {"max_connections"})
    for name in ("prefix", "pool_size"):
        if name in unknown:
            hint = f"Pass {name}=... beside it, or use Client.open, which takes ?{name}= in it."
            raise ValueError(hint)
    if unknown:
        raise ValueError(f"redis-py knows no option {unknown[0]!r} of an address.")
    for name in _SECONDS:
        if not 0 < found.get(name, 1) < float("inf"):
            raise ValueError(f"{name} in the address of a Redis server is a number of seconds.")


def shown(url: str) -> str:
    """An address without a secret; a user without a password is more likely one by mistake."""
    parts = urlsplit(url)
    user = f"{parts.username}@" if parts.username and parts.password else ""
    if parts.scheme == "unix":
        return f"unix://{user}{parts.path}"
    port = f":{parts.port}" if parts.port else ""
    database = dict(parse_qsl(parts.query)).get("db")
    path = f"/{database}" if database and not parts.path.strip("/") else parts.path
    host = parts.hostname or ""
    if ":" in host:
        host = f"[{host}]"
    return f"{parts.scheme}://{user}{host}{port}{path}"
