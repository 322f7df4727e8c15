"""The names of a LangGraph checkpoint that `fork` or `rewind` copied, without LangGraph.

A copy is what LangGraph's own copies are: another id beside the original, after the same parent.
So it has writes of its own, its nodes run again, and delta channels are computed as before.
"""

from __future__ import annotations

import os
import time
from collections.abc import Mapping
from typing import Any
from uuid import UUID

from lastgood.adapters.graph_names import Spot, namespace_of
from lastgood.alias_rules import Renamed

ORIGINAL = "copy_of"
"""In the context of a copy: the id of the checkpoint that it was made from."""
_SINCE_1582 = 0x01B21DD213814000


def renamed(
    thread: str, agent: str, context: Mapping[str, Any], metadata: Mapping[str, Any]
) -> Renamed | None:
    """What a copy says of itself, and its alias; None if no graph saved the original."""
    namespace = namespace_of(agent)
    if namespace is None or not context.keys() >= {"id", "parent_id"}:
        return None
    id = str(_new_id())
    return Renamed(
        {**context, "id": id, ORIGINAL: context["id"]},
        {**metadata, "source": "fork"},
        Spot(thread, namespace).alias(id),
    )


def _new_id() -> UUID:
    """A UUIDv6, as LangGraph makes them: its ids sort by time."""
    ticks = time.time_ns() // 100 + _SINCE_1582
    noise = 2 << 62 | int.from_bytes(os.urandom(8)) >> 2
    return UUID(int=(ticks >> 12) << 80 | 6 << 76 | (ticks & 0xFFF) << 64 | noise)
