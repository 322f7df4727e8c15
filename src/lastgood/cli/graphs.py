"""What LangGraph keeps beside a state, as people read it: next nodes, open questions, writes.

Reads the stored values in their text spelling, so it needs none of LangGraph's classes.
"""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Iterator
from typing import Any

from lastgood import BlockingClient, Checkpoint
from lastgood.adapters.graph_names import WRITES, Spot, namespace_of
from lastgood.backend import ItemListing
from lastgood.cli import values
from lastgood.codec.text import from_binary
from lastgood.driver import run_blocking
from lastgood.shelving import PAGE, list_items

_BRANCH, _START, _QUESTION = "branch:to:", "__start__", "__interrupt__"


def is_graphs(found: Checkpoint) -> bool:
    """Whether a checkpoint was saved by a graph."""
    return str(found.framework) == "langgraph" and "parent_id" in found.context


def about(client: BlockingClient, found: Checkpoint, state: Any) -> Iterator[tuple[str, str]]:
    """Lines about a checkpoint of a graph."""
    parent = found.context["parent_id"]
    yield "graph", f"checkpoint {found.context['id']}" + (f", after {parent}" if parent else "")
    writes = _writes(client, found)
    waiting = [value for channel, value in writes if channel == _QUESTION]
    upcoming = next_nodes(state)
    yield "next", ", ".join(upcoming) if upcoming else "nothing: the graph is through"
    for value in waiting:
        yield from (("waits for", question) for question in _questions(value))
    if writes:
        counts = Counter(channel for channel, _ in writes)
        yield "writes", ", ".join(f"{name} ({n})" if n > 1 else name for name, n in counts.items())


def next_nodes(state: Any) -> list[str]:
    """The nodes that run next, as far as the channels tell."""
    names = [key.removeprefix("$") for key in state] if isinstance(state, dict) else []
    found = [name.removeprefix(_BRANCH) for name in names if name.startswith(_BRANCH)]
    return [*found, *(name for name in names if name == _START)]


def _writes(client: BlockingClient, found: Checkpoint) -> list[tuple[str, Any]]:
    """Channels and spelled values of the pending writes."""
    spot = Spot(found.session_id, namespace_of(found.agent_id) or "")
    listing = ItemListing(
        spot.thread, WRITES, prefix=spot.prefix(str(found.context["id"])), limit=PAGE
    )
    (rows,) = run_blocking(list_items(client.aio._core, [listing]))
    spelled = [json.loads(from_binary(row.value)) for row in rows]
    return [(str(channel), value) for channel, _, _, value in spelled]


def _questions(value: Any) -> Iterator[str]:
    """What the interrupts of one write ask."""
    inner = values.opened(value)
    for _, item in inner.items if inner else []:
        fields = values.opened(item)
        asked = dict(fields.items).get("value") if fields else item
        yield ", ".join(line.strip() for line in values.tree(asked, values.Limits()))
