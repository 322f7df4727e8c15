"""What LangGraph keeps beside a state, as people read it: next nodes, open questions, writes.

Reads the stored values in their text spelling, so it needs none of LangGraph's classes.
"""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Iterable, Iterator
from typing import Any

from lastgood import BlockingClient, Checkpoint
from lastgood.adapters.graph_names import WRITES, Spot, namespace_of
from lastgood.backend import ItemListing
from lastgood.cli import values
from lastgood.codec.text import from_binary
from lastgood.driver import run_blocking
from lastgood.shelving import PAGE, list_items

_BRANCH, _START, _SENT = "branch:to:", "__start__", "__pregel_tasks"
_QUESTION, _ERROR = "__interrupt__", "__error__"


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
    yield "next", _counted(upcoming) if upcoming else "nothing: the graph is through"
    for value in waiting:
        yield from (("waits for", question) for question in _questions(value))
    for channel, value in writes:
        if channel == _ERROR:
            yield "failed", value if isinstance(value, str) else json.dumps(value)
    if writes:
        yield "writes", _counted(channel for channel, _ in writes)


def next_nodes(state: Any) -> list[str]:
    """The nodes that run next, as far as the channels tell."""
    names = [key.removeprefix("$") for key in state] if isinstance(state, dict) else []
    found = [name.removeprefix(_BRANCH) for name in names if name.startswith(_BRANCH)]
    return [*found, *_sent(state), *(name for name in names if name == _START)]


def _sent(state: Any) -> Iterator[str]:
    """The nodes that `Send` named, once for each of their tasks."""
    waiting = values.opened(state.get(_SENT)) if isinstance(state, dict) else None
    for _, task in waiting.items if waiting else []:
        match task:
            case {"v": [str(), [str(node), *_]]}:
                yield node


def _counted(names: Iterable[str]) -> str:
    counts = Counter(names)
    return ", ".join(f"{name} ({n})" if n > 1 else name for name, n in counts.items())


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
