"""What a Redis server really keeps, as far as it tells.

    strict   every write is on disk before it is acknowledged
    window   writes of about the last second (AOF), or since the last snapshot, may be lost
    cache    nothing is written to disk, or keys are thrown away when memory runs out
    unknown  the server does not say

Of a Cluster, that of its weakest node. A failover to a replica may lose acknowledged writes at
every level: replication is asynchronous.
"""

from __future__ import annotations

from typing import Any, NamedTuple

from lastgood.backend import Durability
from lastgood.backends.redis.wire import Wire, is_refusal
from lastgood.errors import BackendConnectionError, StorageError

_ORDER: tuple[Durability, ...] = ("cache", "unknown", "window", "strict")
_PAUSES = "no-appendfsync-on-rewrite"
"""With this, `appendfsync always` too syncs nothing while a snapshot or a rewrite is made."""
_NAMES = ("appendonly", "*appendfsync*", "save", "maxmemory", "maxmemory-policy")


class Kept(NamedTuple):
    """What a server keeps, and the settings that say so."""

    level: Durability
    settings: str


async def weakest(wire: Wire) -> Kept:
    """Of the weakest server."""
    try:
        found = [await wire.everywhere("CONFIG GET", name) for name in _NAMES]
    except StorageError as error:
        if not is_refusal(error):
            raise
        infos = await wire.everywhere("INFO")
        return min((Kept(_by_info(each), "CONFIG is forbidden") for each in infos), key=_rank)
    servers = [_merged(told) for told in zip(*found, strict=True)]
    return min((Kept(judged(each), _in_words(each)) for each in servers), key=_rank)


def _rank(kept: Kept) -> int:
    return _ORDER.index(kept.level)


def _in_words(settings: dict[str, str]) -> str:
    """Those settings that the level depends on."""
    names = ["appendonly", "appendfsync" if settings.get("appendonly") == "yes" else "save"]
    if settings.get(_PAUSES) == "yes":
        names.append(_PAUSES)
    if settings.get("maxmemory", "0") != "0":
        names += ["maxmemory", "maxmemory-policy"]
    return ", ".join(f"{name} {settings.get(name) or '(empty)'}" for name in names)


def _merged(told: tuple[Any, ...]) -> dict[str, str]:
    return {_text(name): _text(value) for each in told for name, value in each.items()}


def _text(value: object) -> str:
    return value.decode() if isinstance(value, bytes) else str(value)


def judged(settings: dict[str, str]) -> Durability:
    """The level that a server's settings come to."""
    evicts = settings.get("maxmemory-policy", "noeviction") != "noeviction"
    if evicts and settings.get("maxmemory", "0") != "0":
        return "cache"
    if settings.get("appendonly") == "yes":
        always = settings.get("appendfsync") == "always" and settings.get(_PAUSES) != "yes"
        return "strict" if always else "window"
    return "window" if settings.get("save") else "cache"


def _by_info(told: dict[str, Any]) -> Durability:
    """What can be told of a server that keeps its settings to itself."""
    evicts = told.get("maxmemory_policy", "noeviction") != "noeviction"
    return "cache" if evicts and int(told.get("maxmemory", 0)) else "unknown"


def demand(found: Durability, label: str) -> None:
    """Refuse a server that cannot keep every acknowledged save."""
    if found != "strict":
        raise BackendConnectionError(
            f"{label} keeps at most {found!r}, not 'strict'.",
            hint="Set `appendonly yes`, `appendfsync always`, `no-appendfsync-on-rewrite no` and "
            "`maxmemory-policy noeviction` on the server, or leave out durability= if this is "
            "enough.",
        )
