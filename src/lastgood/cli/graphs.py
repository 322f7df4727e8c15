"""What LangGraph keeps beside a state, as people read it: next nodes, open questions, writes.

Reads the stored values in their text spelling, so it needs none of LangGraph's classes.
"""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from typing import Any, NamedTuple

from lastgood import BlockingClient, Checkpoint, Header, LastgoodError
from lastgood.adapters.graph_names import WRITES, Spot, namespace_of
from lastgood.backend import ItemListing
from lastgood.cli import values
from lastgood.codec.text import from_binary
from lastgood.driver import run_blocking
from lastgood.shelving import PAGE, list_items

_BRANCH, _START, _SENT = "branch:to:", "__start__", "__pregel_tasks"
_QUESTION, _ERROR = "__interrupt__", "__error__"
_UNFINISHED = {_QUESTION, _ERROR, "__resume__", "__scheduled__"}
"""Channels that a task may write to which is not through yet."""


class Write(NamedTuple):
    """A pending write of a task, its value spelled as text."""

    channel: str
    task: str
    path: str
    value: Any


def is_graphs(found: Header) -> bool:
    """Whether a checkpoint was saved by a graph."""
    return str(found.framework) == "langgraph" and "parent_id" in found.agent_context


def about(
    client: BlockingClient, found: Checkpoint, state: Any, *, head: bool
) -> Iterator[tuple[str, str]]:
    """Lines about a checkpoint of a graph. What was asked before the head has been answered."""
    parent = found.context["parent_id"]
    yield "graph", f"checkpoint {found.context['id']}" + (f", after {parent}" if parent else "")
    writes = _writes(client, found)
    upcoming = next_nodes(state)
    yield "next", _counted(upcoming) if upcoming else "nothing: the graph is through"
    for question in _open(writes) if head else _asked(writes):
        yield "waits for" if head else "asked", question
    for write in writes:
        if write.channel == _ERROR:
            yield "failed", write.value if isinstance(write.value, str) else json.dumps(write.value)
    if writes:
        yield "writes", _counted(write.channel for write in writes)


def questions(client: BlockingClient, head: Header) -> list[str]:
    """What a graph waits for at the head of its line; damage is told by `show` and `verify`."""
    try:
        return list(_open(_writes(client, head))) if is_graphs(head) else []
    except LastgoodError:
        return []


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


def _writes(client: BlockingClient, found: Header) -> list[Write]:
    spot = Spot(found.session_id, namespace_of(found.agent_id) or "")
    id = str(found.agent_context["id"])
    listing = ItemListing(spot.thread, WRITES, prefix=spot.prefix(id), limit=PAGE)
    (rows,) = run_blocking(list_items(client.aio._core, [listing]))
    return [Write(*json.loads(from_binary(row.value))) for row in rows]


def _open(writes: Sequence[Write]) -> Iterator[str]:
    """The questions of tasks that are not through."""
    through = {write.task for write in writes if write.channel not in _UNFINISHED}
    return _asked([write for write in writes if write.task not in through])


def _asked(writes: Sequence[Write]) -> Iterator[str]:
    for write in writes:
        if write.channel == _QUESTION:
            yield from _questions(write.value)


def _questions(value: Any) -> Iterator[str]:
    """What the interrupts of one write ask."""
    inner = values.opened(value)
    for _, item in inner.items if inner else []:
        fields = values.opened(item)
        asked = dict(fields.items).get("value") if fields else item
        yield ", ".join(line.strip() for line in values.tree(asked, values.Limits()))
