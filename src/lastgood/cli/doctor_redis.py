"""What the doctor looks at in a store on a Redis: whether it answers, and what it keeps."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any

from lastgood import BlockingClient
from lastgood.backends.redis.health import Info, Obstacle, names, obstacles
from lastgood.cli.doctor_checks import Finding, Level
from lastgood.driver import run_blocking
from lastgood.errors import LastgoodError
from lastgood.registry import open_url, shown

_KEPT: dict[str, tuple[Level, str]] = {
    "strict": ("ok", "every acknowledged save survives power loss"),
    "window": ("warning", "the last saves may be lost when the server stops"),
    "cache": ("warning", "nothing is kept when the server stops or its memory is full"),
    "unknown": ("warning", "the server does not tell"),
}
_ADVICE = (
    "For `strict`: appendonly yes, appendfsync always, no-appendfsync-on-rewrite no, "
    "maxmemory-policy noeviction. For records that must not be lost in a failover either: "
    "PostgreSQL or SQLite."
)


def redis_findings(place: str) -> Iterator[Finding]:
    """The store as a client sees it."""
    try:
        backend: Any = open_url(place)
        with BlockingClient.on(backend) as client:
            client.threads(limit=1)
            yield Finding("ok", "store", f"{client.url} answers")
            infos = run_blocking(backend.servers())
            yield server_finding(infos)
            yield from (write_finding(each) for info in infos for each in obstacles(info))
            yield durability_finding(client.durability, backend.settings)
    except (LastgoodError, ImportError, ValueError) as error:
        yield Finding("problem", "store", f"{shown(place)} cannot be used", str(error))


def server_finding(infos: Sequence[Info]) -> Finding:
    """Which server it is."""
    many = f", a Cluster of {len(infos)}" if infos[0].get("cluster_enabled") else ""
    return Finding("ok", "server", f"{names(infos)}{many}")


def write_finding(found: Obstacle) -> Finding:
    """Why a server takes no saves."""
    return Finding("problem", "writes", f"it refuses saves: {found.text}", found.advice)


def durability_finding(level: str, settings: str) -> Finding:
    """What a store keeps, by its own word."""
    how, meaning = _KEPT[level]
    text = f"{level}: {meaning} ({settings})"
    return Finding(how, "durability", text, _ADVICE if how == "warning" else "")
