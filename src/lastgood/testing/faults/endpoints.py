"""Where a server listens, by its address, and the same address with another endpoint in it.

An endpoint is a unix socket or a host with a port. User, password, database and options of an
address stay as they are.
"""

from __future__ import annotations

from pathlib import Path
from typing import NamedTuple
from urllib.parse import parse_qsl, quote, unquote, urlencode, urlsplit

PORTS = {"postgresql": 5432, "postgres": 5432, "redis": 6379}


class Endpoint(NamedTuple):
    """A unix socket, if `path` is set, else a host and a port."""

    path: Path | None = None
    host: str = ""
    port: int = 0


def endpoint_of(url: str) -> Endpoint:
    """Where the server of an address listens."""
    parts = urlsplit(url)
    if parts.scheme == "unix":
        return Endpoint(Path(unquote(parts.path)))
    options = dict(parse_qsl(parts.query))
    host = parts.hostname or options.get("host", "")
    port = parts.port or int(options.get("port", PORTS[parts.scheme]))
    if host.startswith("/"):
        return Endpoint(Path(host) / f".s.PGSQL.{port}", host, port)
    return Endpoint(None, host or "127.0.0.1", port)


def moved(url: str, endpoint: Endpoint) -> str:
    """An address that leads to another endpoint of the same kind."""
    parts = urlsplit(url)
    login = "".join(parts.netloc.rpartition("@")[:2])
    place, path, query = login, parts.path, parts.query
    if endpoint.path is None:
        place = f"{login}{endpoint.host}:{endpoint.port}"
    elif parts.scheme == "unix":
        path = quote(str(endpoint.path))
    else:
        options = dict(parse_qsl(query))
        query = urlencode({**options, "host": endpoint.host, "port": endpoint.port})
    return f"{parts.scheme}://{place}{path}" + (f"?{query}" if query else "")
