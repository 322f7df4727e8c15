"""Opening a store: the factories that both colours of a client share, and their options."""

from __future__ import annotations

import difflib
import os
from abc import abstractmethod
from collections.abc import Callable, Iterable, Sequence
from datetime import timedelta
from typing import Any, Literal, Self, TypedDict, Unpack

from lastgood import arguments, registry
from lastgood.backend import Backend
from lastgood.codec import Codec, Registry
from lastgood.core import Core, Options
from lastgood.ids import check_name


class ClientOptions(TypedDict, total=False):
    """The same on every factory."""

    tenant: str
    user: str | None
    types: Iterable[type]
    strict_types: bool
    on_unserializable: Literal["raise", "drop"]
    max_state_bytes: int
    before_save: Callable[[Any], Any] | None
    heartbeat_seconds: float
    stale_after_seconds: float
    cache_bytes: int


OF_STORES = ("durability", "schema", "prefix", "pool_size", "cache", "cache_ttl")
"""Options of some factories, beside those of all."""
_CHECKS: dict[str, Callable[[Any, str], object]] = {
    "tenant": check_name,
    "user": arguments.name,
    "strict_types": arguments.flag,
    "on_unserializable": lambda value, what: arguments.one_of(value, ("raise", "drop"), what),
    "max_state_bytes": arguments.limit,
    "before_save": arguments.hook,
    "heartbeat_seconds": arguments.period,
    "stale_after_seconds": arguments.patience,
    "cache_bytes": arguments.size,
}
"""What raises a TypeError or ValueError that names the option."""


def make_core(backend: Backend, options: ClientOptions) -> Core:
    """A core over a backend; raises TypeError for an option that does not exist.

    What an option cannot be is told here, and not by the first operation or by none.
    """
    given: dict[str, Any] = dict(options)
    for option in given.keys() - ClientOptions.__annotations__.keys():
        raise TypeError(_about_unknown(option))
    for option in filter(_CHECKS.get, given):
        _CHECKS[option](given[option], option)
    codec = Codec(
        Registry(arguments.classes(given.pop("types", ()), "types")),
        strict_types=given.pop("strict_types", False),
        on_unserializable=given.pop("on_unserializable", "raise"),
    )
    return Core(backend, codec, Options(**given))


def _about_unknown(option: str) -> str:
    if option in OF_STORES:
        return f"this kind of store takes no {option!r}."
    return about_unknown(option)


def _about_opening(option: str, url: str) -> str:
    scheme = registry.scheme_of(url)
    if scheme in registry.BACKENDS and option in registry.BACKENDS[scheme].in_query:
        return f"Client.open() takes no {option!r}: write it into the address, as ?{option}=..."
    if scheme == "postgresql" and option in ("cache", "cache_ttl"):
        return f"Client.open() takes no {option!r}: Client.postgres(..., {option}=...) does."
    return _about_unknown(option)


def about_unknown(option: str, own: Sequence[str] = ()) -> str:
    """What to say of an option that nobody has, where there are some of its own beside all."""
    known = [*own, *sorted(ClientOptions.__annotations__)]
    near = difflib.get_close_matches(option, [*known, *OF_STORES], 1, 0.7)
    meant = f": did you mean {near[0]}?" if near else "."
    return f"unknown option {option!r}{meant} There are: {', '.join(known)}."


class Opener:
    """Factories. A client opens at its first call and needs no `with`."""

    @classmethod
    @abstractmethod
    def over(cls, core: Core) -> Self:
        """A client over a core."""

    @classmethod
    def on(cls, backend: Backend, **options: Unpack[ClientOptions]) -> Self:
        """Return a client for a backend of your own."""
        return cls.over(make_core(backend, options))

    @classmethod
    def sqlite(
        cls,
        path: str | os.PathLike[str] = "./lastgood.db",
        *,
        durability: Literal["strict", "relaxed"] = "strict",
        **options: Unpack[ClientOptions],
    ) -> Self:
        """Return a client for a store in one SQLite file.

        With `durability="relaxed"` the last saves may be lost at power loss, but not when the
        process is killed.
        """
        arguments.file(path, "path")
        _no_address(path)
        arguments.one_of(durability, ("strict", "relaxed"), "durability")
        return cls.on(registry.make("sqlite", path=path, durability=durability), **options)

    @classmethod
    def files(
        cls,
        directory: str | os.PathLike[str] = "./lastgood",
        *,
        durability: Literal["strict", "relaxed"] = "strict",
        **options: Unpack[ClientOptions],
    ) -> Self:
        """Return a client for a store of plain files, in a directory.

        Each checkpoint is one readable JSON file, complete in itself. Every save writes the whole
        state, so a large state makes every save expensive. `durability="relaxed"` is faster, and
        may lose the last saves at power loss.
        """
        arguments.directory(directory, "directory")
        _no_address(directory)
        arguments.one_of(durability, ("strict", "relaxed"), "durability")
        made = registry.make("files", directory=directory, durability=durability)
        return cls.on(made, **options)

    @classmethod
    def memory(cls, **options: Unpack[ClientOptions]) -> Self:
        """Return a client for a store in memory, which behaves like the others.

        The store is gone when the process ends.
        """
        return cls.on(registry.make("memory"), **options)

    @classmethod
    def postgres(
        cls,
        source: Any,
        *,
        schema: str = "lastgood",
        durability: Literal["strict"] | None = None,
        pool_size: int = 20,
        cache: str | None = None,
        cache_ttl: float | timedelta = 86400,
        **options: Unpack[ClientOptions],
    ) -> Self:
        """Return a client for a store in PostgreSQL.

        `source` is a connection string, or a psycopg 3 pool or connection that you own. The tables
        are created at the first use, in a schema of their own, which `schema` names. With
        `durability="strict"`, a server that may lose an acknowledged save in a crash is refused.
        `cache` is the address of a Redis or Valkey server that keeps copies of what was restored,
        for at most `cache_ttl` seconds.
        """
        check_name(schema, "schema")
        if durability is not None:
            arguments.one_of(durability, ("strict",), "durability")
        backend = registry.make(
            "postgresql",
            source=source,
            schema=schema,
            durability=durability,
            pool_size=arguments.limit(pool_size, "pool_size"),
        )
        if cache is not None:
            backend = registry.behind_cache(backend, cache, arguments.whole_seconds(cache_ttl))
        return cls.on(backend, **options)

    @classmethod
    def redis(
        cls,
        url: str = "redis://localhost:6379",
        *,
        prefix: str = "lastgood",
        durability: Literal["strict"] | None = None,
        pool_size: int = 20,
        **options: Unpack[ClientOptions],
    ) -> Self:
        """Return a client for a store in Redis or Valkey, on one server or on a Cluster.

        `url` is an address in the form that redis-py takes: `redis://`, `rediss://` or `unix://`.
        All keys begin with `prefix`. With `durability="strict"`, a server that may lose an
        acknowledged save at power loss is refused; `client.durability` tells what the server keeps.
        """
        if durability is not None:
            arguments.one_of(durability, ("strict",), "durability")
        backend = registry.make(
            "redis",
            url=url,
            prefix=prefix,
            durability=durability,
            pool_size=arguments.limit(pool_size, "pool_size"),
        )
        return cls.on(backend, **options)

    @classmethod
    def null(cls, **options: Unpack[ClientOptions]) -> Self:
        """Return a client that keeps nothing: stateless mode, behind the same interface."""
        return cls.on(registry.make("null"), **options)

    @classmethod
    def open(
        cls,
        url: str,
        *,
        durability: Literal["strict", "relaxed"] | None = None,
        **options: Unpack[ClientOptions],
    ) -> Self:
        """Return a client for the store at an address.

        Addresses are `sqlite:///rel.db`, `sqlite:////abs.db`, `files:rel/dir`, `files:/abs/dir`,
        `memory:`, `postgresql://user@host/db?schema=name` (also `host=... dbname=...`) and
        `redis://host:6379/0?prefix=name` (also `rediss://` and `unix://`). The address of a server
        also takes `pool_size=5`. How durable a server is cannot be chosen here:
        `durability="strict"` refuses a server that may lose an acknowledged save.
        """
        for option in options.keys() & set(OF_STORES):
            raise TypeError(_about_opening(option, url))
        if durability is not None:
            arguments.one_of(durability, ("strict", "relaxed"), "durability")
        how = {} if durability is None else {"durability": durability}
        return cls.on(registry.open_url(url, **how), **options)


def _no_address(path: object) -> None:
    """A file or directory of that name would be made, or an error about it show its password."""
    text = path if isinstance(path, str) else ""
    if "://" in text or (":" in text and registry.scheme_of(text) in registry.BACKENDS):
        raise ValueError(
            f"{registry.shown(text)!r} is an address, not a path. Addresses are for Client.open()."
        )
