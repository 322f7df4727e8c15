"""Where fault tests make their stores: files in a directory, or schemas and databases on a server.

A base is a path, `files:` and a path, or the address of a PostgreSQL; a store is what
`BlockingClient.open` opens.
"""

import os
import shutil
from pathlib import Path
from typing import Any, Self
from urllib.parse import urlsplit, urlunsplit
from uuid import uuid4

import psycopg

from lastgood import BlockingClient, registry
from lastgood.backend import Backend


def is_server(base: str) -> bool:
    return base.startswith("postgresql:")


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

    def new(self, name: str) -> str:
        """The address of a store that is not there yet."""
        if is_files(self.base):
            return f"{self.base}/{name}"
        if not is_server(self.base):
            return f"sqlite:///{Path(self.base) / name}.db"
        schema = f"{self._prefix}_{name}".replace("-", "_")
        self._schemas.append(schema)
        return f"{self.base}{'&' if '?' in self.base else '?'}schema={schema}"

    def copied(self, url: str, name: str) -> str:
        """A copy of a whole store, which nobody uses now. Only of one that `alone` gave."""
        if is_files(self.base):
            shutil.copytree(url.removeprefix("files:"), self.new(name).removeprefix("files:"))
            return self.new(name)
        if not is_server(self.base):
            target = Path(self.base) / f"{name}.db"
            target.write_bytes(Path(url.removeprefix("sqlite:///")).read_bytes())
            return f"sqlite:///{target}"
        return self._database(name, f" TEMPLATE {_database_of(url)}{self._quickly()}")

    def alone(self, name: str) -> str:
        """The address of a store that can be copied."""
        return self._database(name) if is_server(self.base) else self.new(name)

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
        self.sql(*(f"DROP DATABASE IF EXISTS {name} WITH (FORCE)" for name in self._databases))
        self.sql(*(f"DROP SCHEMA IF EXISTS {name} CASCADE" for name in self._schemas))

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_raised: object) -> None:
        if self._databases or self._schemas:
            self.close()


def _database_of(url: str) -> str:
    return urlsplit(url).path.removeprefix("/")
