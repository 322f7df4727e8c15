"""The built-in checkpointers, one for each kind of store."""

from __future__ import annotations

import os
from collections.abc import Mapping
from inspect import signature
from typing import Any, Literal, Unpack

from lastgood import arguments
from lastgood.checkpointers.base import StateT
from lastgood.checkpointers.client_checkpointer import ClientCheckpointer
from lastgood.checkpointers.redis_given import redis_address
from lastgood.checkpointers.stored import DAY
from lastgood.client import Client
from lastgood.opening import OF_STORES, ClientOptions, about_unknown

IdType = Literal["string", "int", "bigint"]
POOL_OPTIONS = ("min_size", "max_size")


class InMemoryCheckpointer(ClientCheckpointer[StateT]):
    """Keeps threads in memory until the process ends: for tests and single-process jobs."""

    def __init__(
        self,
        *,
        cache_ttl: float = DAY,
        enforce_user_isolation: bool = True,
        **options: Unpack[ClientOptions],
    ) -> None:
        super().__init__(
            Client.memory(**_checked(InMemoryCheckpointer, options)),
            cache_ttl=cache_ttl,
            enforce_user_isolation=enforce_user_isolation,
        )


class SqliteCheckpointer(ClientCheckpointer[StateT]):
    """Keeps threads in one SQLite file, for any number of processes on one machine."""

    def __init__(
        self,
        db_path: str | os.PathLike[str] = "./lastgood.db",
        *,
        cache_ttl: float = DAY,
        enforce_user_isolation: bool = True,
        **options: Unpack[ClientOptions],
    ) -> None:
        if db_path in (None, "", ":memory:"):
            raise ValueError(
                f"db_path={db_path!r} is no file. For threads in memory: InMemoryCheckpointer()."
            )
        super().__init__(
            Client.sqlite(db_path, **_checked(SqliteCheckpointer, options)),
            cache_ttl=cache_ttl,
            enforce_user_isolation=enforce_user_isolation,
        )


class PgCheckpointer(ClientCheckpointer[StateT]):
    """Keeps threads in PostgreSQL, for any number of machines.

    Pass a connection string as `postgres_dsn`, or a psycopg 3 pool that you own as `pg_pool`. With
    a connection string, `pool_config` may set the `max_size` of the pool that is made. With a
    Redis, given by its address, its client or its pool, states that were read are kept there for
    `cache_ttl` seconds. Ids of all types are kept as text, so `id_type` and `user_id_type` change
    nothing.
    """

    def __init__(
        self,
        postgres_dsn: str | None = None,
        pg_pool: Any = None,
        pool_config: Mapping[str, Any] | None = None,
        redis_url: str | None = None,
        redis: Any = None,
        redis_pool: Any = None,
        *,
        cache_ttl: float = DAY,
        schema: str = "lastgood",
        id_type: IdType = "string",
        user_id_type: IdType = "string",
        enforce_user_isolation: bool = True,
        **options: Unpack[ClientOptions],
    ) -> None:
        for name, value in (("id_type", id_type), ("user_id_type", user_id_type)):
            arguments.one_of(value, ("string", "int", "bigint"), name)
        how: dict[str, Any] = {**_pool_size(pool_config), **_checked(PgCheckpointer, options)}
        cache = redis_url or redis_address(redis if redis_pool is None else redis_pool)
        if cache is not None:
            how |= {"cache": cache, "cache_ttl": cache_ttl}
        super().__init__(
            Client.postgres(_source(postgres_dsn, pg_pool), schema=schema, **how),
            cache_ttl=cache_ttl,
            enforce_user_isolation=enforce_user_isolation,
        )


class RedisCheckpointer(ClientCheckpointer[StateT]):
    """Keeps threads in Redis or Valkey; `client.durability` tells how durable they are there."""

    def __init__(
        self,
        redis_url: str = "redis://localhost:6379",
        *,
        prefix: str = "lastgood",
        cache_ttl: float = DAY,
        enforce_user_isolation: bool = True,
        **options: Unpack[ClientOptions],
    ) -> None:
        super().__init__(
            Client.redis(redis_url, prefix=prefix, **_checked(RedisCheckpointer, options)),
            cache_ttl=cache_ttl,
            enforce_user_isolation=enforce_user_isolation,
        )


def _checked(made: type, options: ClientOptions) -> ClientOptions:
    """Raise for an option that is none, with all that there are; those of its store are, too."""
    for name in options.keys() - {*ClientOptions.__annotations__, *OF_STORES}:
        own = [each for each in signature(made).parameters if each != "options"]
        raise TypeError(f"{made.__name__}: {about_unknown(name, own)}")
    return options


def _source(dsn: str | None, pool: Any) -> Any:
    if (dsn is None) == (pool is None):
        raise ValueError(
            "PgCheckpointer needs either postgres_dsn or pg_pool: "
            'PgCheckpointer(postgres_dsn="postgresql://user@host:5432/db")'
        )
    if pool is None:
        return str(dsn).replace("postgresql+asyncpg://", "postgresql://", 1)
    if type(pool).__module__.partition(".")[0] == "asyncpg":
        raise TypeError(
            "pg_pool is a pool of asyncpg. Lastgood speaks to PostgreSQL through psycopg: pass a "
            "psycopg_pool.AsyncConnectionPool or ConnectionPool, or postgres_dsn."
        )
    return pool


def _pool_size(config: Mapping[str, Any] | None) -> dict[str, Any]:
    """What a pool is to have; connections are made when they are needed, so there is no minimum."""
    unknown = sorted(set(config or {}) - set(POOL_OPTIONS))
    if unknown:
        known = ", ".join(POOL_OPTIONS)
        raise ValueError(
            f"pool_config has {', '.join(unknown)}, which is not one of {known}. "
            "For other settings make a psycopg_pool and pass it as pg_pool."
        )
    return {"pool_size": int(config["max_size"])} if config and "max_size" in config else {}
