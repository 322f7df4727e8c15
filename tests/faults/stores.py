"""Where fault tests make their stores: files in a directory, or schemas, databases and prefixes on
a server.

A base is a path, `files:` and a path, or the address of a PostgreSQL or a Redis; a store is what
`BlockingClient.open` opens.
"""

import os
import shutil
from pathlib import Path
from typing import Any, Self
from urllib.parse import urlsplit, urlunsplit
from uuid import uuid4

import psycopg
import redis

from lastgood import BlockingClient, registry
from lastgood.backend import Backend


def is_server(base: str) -> bool:
    return base.startswith("postgresql:") or is_redis(base)


def is_redis(base: str) -> bool:
    return base.startswith(("redis:", "unix:"))


def is_files(base: str) -> bool:
    return base.startswith("files:")


def is_plain(base: str) -> bool:
    """Whether stores are SQLite files, which are quick enough to try everything often."""
    return not is_server(base) and not is_files(base)


def backend(url: str, **options: Any) -> Backend:
    return registry.open_url(url, **options)


def opened(url: str) -> BlockingClient:
    """A client whose runs never go stale."""
    return BlockingClient.on(backend(url), stale_after_seconds=1e12)


class Stores:
    """Stores that are made one after the other, and removed together."""

    def __init__(self, base: str) -> None:
        self.base = base
        self._prefix = f"lg_{os.getpid()}_{uuid4().hex[:6]}"
        self._schemas: list[str] = []
        self._databases: list[str] = []
        self._prefixes: list[str] = []

    def new(self, name: str) -> str:
        """The address of a store that is not there yet."""
        if is_files(self.base):
            return f"{self.base}/{name}"
        if not is_server(self.base):
            return f"sqlite:///{Path(self.base) / name}.db"
        mark = "&" if "?" in self.base else "?"
        if is_redis(self.base):
            self._prefixes.append(f"{self._prefix}_{name}")
            return f"{self.base}{mark}prefix={self._prefixes[-1]}"
        schema = f"{self._prefix}_{name}".replace("-", "_")
        self._schemas.append(schema)
        return f"{self.base}{mark}schema={schema}"

    def copied(self, url: str, name: str) -> str:
        """A copy of a whole store, which nobody uses now. Only of one that `alone` gave."""
        if is_files(self.base):
            shutil.copytree(url.removeprefix("files:"), self.new(name).removeprefix("files:"))
            return self.new(name)
        if not is_server(self.base):
            target = Path(self.base) / f"{name}.db"
            target.write_bytes(Path(url.removeprefix("sqlite:///")).read_bytes())
            return f"sqlite:///{target}"
        if is_redis(self.base):
            return self._prefixed(url, self.new(name))
        return self._database(name, f" TEMPLATE {_database_of(url)}{self._quickly()}")

    def alone(self, name: str) -> str:
        """The address of a store that can be copied."""
        shared = is_server(self.base) and not is_redis(self.base)
        return self._database(name) if shared else self.new(name)

    def _prefixed(self, source: str, target: str) -> str:
        """No key has its own name in its value, so a copy of all keys is a copy of the store."""
        old, new = (url.rpartition("prefix=")[2].encode() for url in (source, target))
        with redis.Redis.from_url(self.base) as client:
            for key in client.scan_iter(old + b":*", count=1000):
                client.copy(key, new + key.removeprefix(old))
        return target

    def _database(self, name: str, source: str = "") -> str:
        database = f"{self._prefix}_{name}".replace("-", "_")
        self._databases.append(database)
        self.sql(f"CREATE DATABASE {database}{source}")
        return urlunsplit(urlsplit(self.base)._replace(path=f"/{database}"))

    def _quickly(self) -> str:
        """By copying files, which PostgreSQL 14 always does: quicker for small ones."""
        with psycopg.connect(self.base) as connection:
            return " STRATEGY file_copy" if connection.info.server_version >= 150000 else ""

    def sql(self, *statements: str) -> None:
        with psycopg.connect(self.base, autocommit=True) as connection:
            for statement in statements:
                connection.execute(statement)

    def close(self) -> None:
        """Leave nothing on a server; a directory is for others to remove."""
        if is_redis(self.base):
            with redis.Redis.from_url(self.base) as client:
                for key in client.scan_iter(f"{self._prefix}_*", count=1000):
                    client.unlink(key)
            return
        self.sql(*(f"DROP DATABASE IF EXISTS {name} WITH (FORCE)" for name in self._databases))
        self.sql(*(f"DROP SCHEMA IF EXISTS {name} CASCADE" for name in self._schemas))

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_raised: object) -> None:
        if self._databases or self._schemas or self._prefixes:
            self.close()


def _database_of(url: str) -> str:
    return urlsplit(url).path.removeprefix("/")
