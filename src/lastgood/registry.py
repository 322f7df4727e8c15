"""Which backend serves which address, and which framework names its checkpoints by ids of its own.

The lists to extend. A module is loaded when it is first needed, so `import lastgood` loads no
driver and no adapter.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from importlib import import_module
from typing import Any, NamedTuple
from urllib.parse import quote, unquote, unquote_plus

from lastgood.alias_rules import Renamed
from lastgood.backend import Backend
from lastgood.errors import an


class MissingExtraError(ImportError):
    """The driver of a store is not installed; the text says how to."""


class Entry(NamedTuple):
    """A backend: where its class is, and how an address becomes its arguments."""

    module: str
    name: str
    arguments: Callable[[str], dict[str, Any]]
    contract: bool = True
    """Whether it promises what `lastgood.testing` checks; the null backend promises nothing."""
    options: tuple[str, ...] = ()
    """What can be said beside the address."""
    in_query: tuple[str, ...] = ()
    """What of ours can stand in the query of the address."""
    extra: str = ""
    """The extra that brings its driver."""


_IN_POSTGRES = ("schema", "pool_size")
_IN_REDIS = ("prefix", "pool_size")


def in_address(path: str) -> str:
    """A path as it is written in an address, from which `unquote` gives it back.

    Two slashes at its beginning mean no more than one, and in an address they begin a host.
    """
    path = path[1:] if path.startswith("//") and not path.startswith("///") else path
    return path.replace("%", "%25").replace("?", "%3F").replace("#", "%23")


def _sqlite_path(url: str) -> dict[str, Any]:
    """`sqlite:///rel.db` is relative, `sqlite:////abs.db` is absolute."""
    rest = url.removeprefix("sqlite:")
    if rest in ("", "//", "///"):
        return {}
    if not rest.startswith("///") or "?" in rest or "#" in rest:
        raise ValueError(
            f"{url!r} is not the address of a SQLite file. Write sqlite:///rel.db or "
            "sqlite:////abs.db, without options; for a store in memory: memory:"
        )
    return {"path": unquote(rest[3:])}


def _postgres(url: str) -> dict[str, Any]:
    """A connection string as libpq takes it, and what is ours in its query."""
    if _WORDS.match(url):
        return {"source": url}
    source, ours = _parted(url, _IN_POSTGRES)
    return {"source": source, **ours}


def _parted(url: str, options: tuple[str, ...]) -> tuple[str, dict[str, Any]]:
    """An address of a server as its driver takes it, and what is ours in its query."""
    found: dict[str, Any] = {}
    for option in options:
        url, ours = _without(url, option)
        found |= ours
    if "pool_size" in found:
        found["pool_size"] = _count(found["pool_size"])
    return url, found


def _count(text: str) -> int:
    """What is no number is not quoted: it may be the end of a password that was cut."""
    if not re.fullmatch("[1-9][0-9]{0,8}", text):
        raise ValueError("pool_size= in the address of the store must be a number, 1 or more.")
    return int(text)


def _without(url: str, option: str) -> tuple[str, dict[str, str]]:
    """An address as it is but for an option of its query, and that option."""
    address, _, query = url.partition("?")
    pieces = [(piece.partition("="), piece) for piece in query.split("&")]
    ours = [unquote_plus(value) for (name, _, value), _ in pieces if name == option]
    if len(ours) > 1:
        raise ValueError(f"the address of the store has {option}= twice: write it once.")
    rest = "&".join(piece for (name, *_), piece in pieces if name != option)
    given = {option: ours[0]} if ours else {}
    return f"{address}?{rest}" if rest else address, given


def _directory(url: str) -> dict[str, Any]:
    """`files:rel/dir` is relative, `files:/abs/dir` is absolute."""
    rest = url.removeprefix("files:")
    if "?" in rest or "#" in rest:
        raise ValueError(f"{url!r} has options; the address of a directory is files:DIR")
    if rest.startswith("//") and not rest.startswith("///"):
        raise ValueError(
            f"{url!r} names a host; the address of a directory is files:DIR or files:/abs/DIR"
        )
    return {"directory": unquote(rest)} if rest else {}


def _redis(url: str) -> dict[str, Any]:
    """An address as redis-py takes it, and what is ours in its query."""
    query = url.partition("?")[2]
    if "@" in query or "#" in query:
        return {"url": url}  # a password that was cut: refused as it is
    address, ours = _parted(url, _IN_REDIS)
    return {"url": address, **ours}


def _nothing(_url: str) -> dict[str, Any]:
    return {}


BACKENDS: dict[str, Entry] = {
    "sqlite": Entry(
        "lastgood.backends.sqlite.backend", "SqliteBackend", _sqlite_path, options=("durability",)
    ),
    "memory": Entry("lastgood.backends.memory.backend", "MemoryBackend", _nothing),
    "files": Entry(
        "lastgood.backends.files.backend", "FilesBackend", _directory, options=("durability",)
    ),
    "postgresql": Entry(
        "lastgood.backends.postgres.backend",
        "PostgresBackend",
        _postgres,
        options=("durability", "schema"),
        in_query=_IN_POSTGRES,
        extra="postgres",
    ),
    "redis": Entry(
        "lastgood.backends.redis.backend",
        "RedisBackend",
        _redis,
        options=("durability", "prefix"),
        in_query=_IN_REDIS,
        extra="redis",
    ),
    "null": Entry("lastgood.backends.null", "NullBackend", _nothing, contract=False),
}


_WORDS = re.compile(r"\s*(host|hostaddr|port|dbname|user|password|service|sslmode)\s*=")
"""How a connection string for PostgreSQL begins that is no URL."""
# A password may have any character in it, so it ends at the last @.
_SECRET_LOGIN = re.compile(r"(://[^:/?#@]*):.*@")
_LONE_LOGIN = re.compile(r"^(rediss?|unix)://[^:/?#@]*@")
"""Of Redis, where a login without a colon is more likely a password than a user who has none."""
_SECRET_OPTION = re.compile(r"([?&])(\w*password)=[^&]*")
ALIASES = {"postgres": "postgresql", "rediss": "redis", "unix": "redis"}
CACHES = ("redis://", "rediss://", "unix://")
TITLES = {"postgres": "PostgreSQL", "redis": "Redis"}


RENAMING = {"langgraph": "lastgood.adapters.graph_copies"}
"""Frameworks whose checkpoints have aliases: the module that gives a copy one of its own."""


def renamed(
    framework: str,
    thread: str,
    agent: str,
    context: Mapping[str, Any],
    metadata: Mapping[str, Any],
) -> Renamed | None:
    """The names of a copy of a checkpoint, if its framework has such; needs no extra."""
    module = RENAMING.get(framework)
    if module is None:
        return None
    found: Renamed | None = _loaded(module, "").renamed(thread, agent, context, metadata)
    return found


def make(scheme: str, **arguments: Any) -> Backend:
    """A backend by its scheme."""
    entry = BACKENDS[scheme]
    backend: Backend = getattr(_loaded(entry.module, entry.extra), entry.name)(**arguments)
    return backend


def behind_cache(record: Backend, url: str, ttl: int) -> Backend:
    """A backend whose parts are also kept in a cache, by the address of that."""
    if not isinstance(url, str):
        raise TypeError(
            f"the cache is given by its address, such as redis://localhost:6379, not by "
            f"{an(type(url).__name__)}"
        )
    if not url.startswith(CACHES):
        raise ValueError(
            f"cache={shown(url)!r} is not the address of a cache. Use redis://, rediss:// or "
            "unix://, for example redis://localhost:6379"
        )
    cache = _loaded("lastgood.backends.redis.cache", "redis").RedisCache(url, ttl=ttl)
    backend: Backend = _loaded("lastgood.backends.cached", "").CachedBackend(record, cache)
    return backend


def _loaded(module: str, extra: str) -> Any:
    try:
        return import_module(module)
    except ModuleNotFoundError as error:
        if not extra or str(error.name).startswith("lastgood"):
            raise
        raise MissingExtraError(
            f'{TITLES[extra]} support is not installed: pip install "lastgood[{extra}]"'
        ) from error


def shown(url: str) -> str:
    """An address as it may be printed: without a password."""
    if "://" not in url:
        return "(a connection string)" if "=" in url or "@" in url else url
    known_login = _LONE_LOGIN.sub(r"\1://", url)
    shown_login = _SECRET_LOGIN.sub(r"\1@", known_login).replace("://@", "://")
    return _SECRET_OPTION.sub(r"\1\2=***", shown_login)


def scheme_of(url: str) -> str:
    """The scheme by which a backend is registered."""
    if _WORDS.match(str(url)):
        return "postgresql"
    scheme = str(url).partition(":")[0]
    return ALIASES.get(scheme, scheme)


def open_url(url: str, **options: Any) -> Backend:
    """A backend by its address, such as `sqlite:///agent.db` or `memory:`."""
    scheme = scheme_of(url)
    if scheme not in BACKENDS:
        known = ", ".join(f"{name}:" for name in BACKENDS)
        plain = scheme.partition("+")[0]
        example = "sqlite:///lastgood.db"
        if scheme == str(url) == shown(scheme) and "." in scheme:  # a path
            example = f"sqlite:///{quote(scheme)}"
        elif ALIASES.get(plain, plain) in BACKENDS:
            example = f"{plain}://..., without the + and the name of a driver"
        raise ValueError(
            f"{shown(str(url))!r} is not an address that Lastgood knows. Use one of {known} "
            f"for example {example}"
        )
    unknown = sorted(options.keys() - set(BACKENDS[scheme].options))
    if unknown:
        raise ValueError(f"{scheme}: takes no {', '.join(unknown)}.")
    return make(scheme, **BACKENDS[scheme].arguments(url), **options)
