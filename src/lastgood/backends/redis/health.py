"""What Redis servers say about themselves, for who looks after them: which they are, and why they
would take no saves.

Pure; the sections of `INFO` are given, a mapping for each server.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any, NamedTuple

Info = Mapping[str, Any]


class Obstacle(NamedTuple):
    """Why saves are refused, and what to do."""

    text: str
    advice: str


def names(infos: Sequence[Info]) -> str:
    """Names and versions."""
    return " and ".join(sorted({_name(each) for each in infos}))


def _name(told: Info) -> str:
    """A server's name and version; Valkey also gives the Redis that it is like."""
    valkey = told.get("valkey_version")
    return f"Valkey {valkey}" if valkey else f"Redis {told.get('redis_version', '')}"


def obstacles(told: Info) -> Iterator[Obstacle]:
    """All that one server has."""
    if told.get("role") == "slave" and int(told.get("slave_read_only", 1)):
        primary = f"{told.get('master_host')}:{told.get('master_port')}"
        yield Obstacle(f"it is a replica of {primary}", "Use the address of the primary.")
    if told.get("min_slaves_good_slaves") == 0:
        advice = "Look after the replicas, or at min-replicas-to-write."
        yield Obstacle("no replica follows it, and it is set to need some", advice)
    if "err" in (told.get("rdb_last_bgsave_status"), told.get("aof_last_write_status")):
        yield Obstacle("it cannot write to its disk", "Look at the disk and the log of the server.")
    most, used = int(told.get("maxmemory", 0)), int(told.get("used_memory", 0))
    if 0 < most <= used and told.get("maxmemory_policy", "noeviction") == "noeviction":
        advice = "Give it more memory, or free some: `lastgood sweep`."
        yield Obstacle(f"its memory is full ({used:,} of {most:,} bytes)", advice)
