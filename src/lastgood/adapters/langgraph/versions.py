"""The versions of channels, spelled short: each once, without its zeros. Pure.

A checkpoint names the same few versions many times, in 50 characters each: half of a small step.
The one invariant: what is read equals what was given, type for type.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from functools import lru_cache
from typing import Any

VERSIONS, SEEN, TABLE = "channel_versions", "versions_seen", "versions"
_WIDTH = 32
_PADDED = re.compile(r"(\d{32})\.(.*)", re.DOTALL)


def shortened(fields: Mapping[str, Any]) -> dict[str, Any]:
    """The fields of a checkpoint with numbers in the place of versions, and a table of those."""
    table: dict[tuple[type, Any], int] = {}

    def number(version: Any) -> int:
        return table.setdefault((type(version), version), len(table))

    found = dict(fields)
    if VERSIONS in found:
        found[VERSIONS] = _mapped(found[VERSIONS], number)
    if SEEN in found:
        found[SEEN] = {node: _mapped(seen, number) for node, seen in found[SEEN].items()}
    found[TABLE] = [_short(version) for _, version in table]
    return found


def whole(fields: Mapping[str, Any]) -> dict[str, Any]:
    """The inverse of `shortened`."""
    found = dict(fields)
    table = [_long(version) for version in found.pop(TABLE, ())]
    if VERSIONS in found:
        found[VERSIONS] = _mapped(found[VERSIONS], table.__getitem__)
    if SEEN in found:
        found[SEEN] = {node: _mapped(seen, table.__getitem__) for node, seen in found[SEEN].items()}
    return found


def _mapped(versions: Any, change: Any) -> Any:
    return {name: change(version) for name, version in versions.items()}


@lru_cache(maxsize=1024, typed=True)
def _short(version: Any) -> Any:
    if not isinstance(version, str):
        return version
    padded = _PADDED.fullmatch(version)
    return f"{int(padded[1])}.{padded[2]}" if padded else f"={version}"


def _long(version: Any) -> Any:
    if not isinstance(version, str):
        return version
    if version.startswith("="):
        return version[1:]
    number, _, rest = version.partition(".")
    return f"{number:0>{_WIDTH}}.{rest}"
