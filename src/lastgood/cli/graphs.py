"""What LangGraph keeps beside a state, as people read it: next nodes, open questions, writes.

Reads the stored values in their text spelling, so it needs none of LangGraph's classes.
"""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Collection, Iterable, Iterator, Sequence
from contextlib import suppress
from typing import Any, NamedTuple

from lastgood import BlockingClient, BranchInfo, Checkpoint, Header, LastgoodError
from lastgood.adapters.graph_copies import ORIGINAL
from lastgood.adapters.graph_names import ROOT, WRITES, Spot, namespace_of
from lastgood.backend import ItemListing
from lastgood.cli import values
from lastgood.cli.cleaning import shortened
from lastgood.codec.text import from_binary
from lastgood.driver import run_blocking
from lastgood.rows import ItemRow
from lastgood.shelving import every_item

_BRANCH, _JOIN, _START, _SENT = "branch:to:", "join:", "__start__", "__pregel_tasks"
_PULLED, _PUSHED = "~__pregel_pull, ", "~__pregel_push, "
"""What the paths of tasks begin with: those of a node, and those of a `Send`, by its number."""
_DIGITS = 10
_QUESTION, _ANSWER, _ERROR = "__interrupt__", "__resume__", "__error__"
_UNFINISHED = {_QUESTION, _ANSWER, _ERROR, "__error_source_node__", "__scheduled__"}
"""Channels that a task may write to which is not through yet."""
_NOBODY = "00000000-0000-0000-0000-000000000000"
"""The task of an answer that is for whoever asked."""
_ROOM = 200


class Write(NamedTuple):
    """A pending write of a task, its value spelled as text."""

    channel: str
    task: str
    path: str
    value: Any
    changed: int
    """When, by the clock of the store."""


def is_graphs(found: Header) -> bool:
    """Whether a checkpoint was saved by a graph."""
    return str(found.framework) == "langgraph" and found.agent_context.keys() >= {"id", "parent_id"}


def about(
    client: BlockingClient, found: Checkpoint, state: Any, *, head: bool, waits: bool
) -> Iterator[tuple[str, str]]:
    """Lines about a checkpoint of a graph. What was asked before the head has been answered.

    What has run at the head does not run again; who goes on from before it runs all of its nodes.
    """
    parent = found.context["parent_id"]
    yield "graph", f"checkpoint {found.context['id']}" + (f", after {parent}" if parent else "")
    writes = _writes(client, found)
    yield "next", _next(state, writes if head else ())
    for question in _waits_for(client, found, writes) if waits else _asked(writes):
        yield "waits for" if waits else "asked", readable(question)
    for write in writes:
        if write.channel == _ERROR:
            yield "failed", _text(write)
    if writes:
        yield "writes", _counted(write.channel for write in writes)


class Standing(NamedTuple):
    """Why a graph does not go on by itself."""

    questions: list[Any]
    """What it waits for, spelled."""
    errors: list[str]
    """How tasks of it failed that will run again."""


def standing(client: BlockingClient, branches: Sequence[BranchInfo]) -> dict[str, Standing]:
    """How the graph of a thread stands, by the id of the head where it does not go on.

    What a subgraph asks is asked by the graph around it, too. One write that cannot be read takes
    no list away: `show` and `verify` tell what is wrong.
    """
    heads = [b.head for b in branches if b.current and b.head and b.agent_id == ROOT]
    found: dict[str, Standing] = {}
    for head in filter(is_graphs, heads):
        with suppress(LastgoodError, ValueError, TypeError, LookupError, RecursionError):
            writes = _writes(client, head)
            questions = list(_waits_for(client, head, writes))
            through = _through(writes)
            errors = [each for each in writes if each.channel == _ERROR]
            failed = [_text(each) for each in errors if each.task not in through]
            found[head.checkpoint_id] = Standing(questions, failed)
    return {id: each for id, each in found.items() if any(each)}


def waiting(client: BlockingClient, branches: Sequence[BranchInfo]) -> dict[str, list[Any]]:
    """What the graph of a thread waits for, by the id of the head where it does."""
    found = standing(client, branches)
    return {id: each.questions for id, each in found.items() if each.questions}


def readable(question: Any) -> str:
    """A question in one line."""
    lines = values.tree(question, values.Limits())
    return shortened(", ".join(line.strip() for line in lines).replace(":, ", ": "), _ROOM)


def _text(write: Write) -> str:
    return write.value if isinstance(write.value, str) else json.dumps(write.value)


def _next(state: Any, writes: Sequence[Write]) -> str:
    """What runs when a graph goes on that has these writes already."""
    nodes = next_nodes(state)
    if not nodes:
        return "nothing: the graph is through"
    left = next_nodes(state, _paths_through(writes))
    if left == [_START]:  # an entrypoint has a name of its own, which its tasks tell
        paths = (write.path for write in writes if write.path.startswith(_PULLED))
        left = list(dict.fromkeys(path.removeprefix(_PULLED) for path in paths)) or left
    return _counted(left) if left else f"what follows {_counted(nodes)}"


def next_nodes(state: Any, through: Collection[str] = ()) -> list[str]:
    """The nodes that run next, as far as the channels tell, without the tasks of some paths."""
    inner = values.opened(state)
    channels = {str(name): value for name, value in inner.items} if inner else {}
    due = dict.fromkeys(node for name in channels for node in _due(name, channels[name]))
    pulled = [*due, *(name for name in channels if name == _START)]
    numbers = {path.removeprefix(_PUSHED)[:_DIGITS] for path in through}
    return [
        *(node for node in pulled if _PULLED + node not in through),
        *(node for number, node in _sent(channels) if number not in numbers),
    ]


def _due(name: str, value: Any) -> Iterator[str]:
    """The node that a channel leads to, if it is its turn."""
    held, is_time = _held(value)
    if is_time and name.startswith(_BRANCH):
        yield name.removeprefix(_BRANCH)
    elif is_time and name.startswith(_JOIN):
        awaited, _, node = name.removeprefix(_JOIN).rpartition(":")
        # By length: a name may have a plus in it, and those that have come are among the awaited.
        if len("+".join(map(str, _elements(held)))) == len(awaited):
            yield node


def _held(value: Any) -> tuple[Any, bool]:
    """What a channel holds, and whether the time of a deferred node has come."""
    match _elements(value):
        case [held, bool() as is_time]:
            return held, is_time
    return value, True


def _elements(value: Any) -> list[Any]:
    inner = values.opened(value)
    return [item for _, item in inner.items] if inner else []


def _sent(channels: dict[str, Any]) -> Iterator[tuple[str, str]]:
    """The nodes that `Send` named, once for each of their tasks, and its number in the path."""
    for number, task in enumerate(_elements(channels.get(_SENT))):
        match task:
            case {"v": [str(), [str(node), *_]]}:
                yield f"{number:0{_DIGITS}}", node


def _counted(names: Iterable[str]) -> str:
    counts = Counter(names)
    return ", ".join(f"{name} ({n})" if n > 1 else name for name, n in counts.items())


def _writes(client: BlockingClient, found: Header, name: str = "id") -> list[Write]:
    """The writes of a checkpoint, or of the one that its context has under another name."""
    spot = Spot(found.session_id, namespace_of(found.agent_id) or "")
    id = str(found.agent_context[name])
    listing = ItemListing(spot.thread, WRITES, prefix=spot.prefix(id))

    async def read() -> list[Write]:
        return [_write(row) async for row in every_item(client.aio._core, listing)]

    return run_blocking(read())


def _write(row: ItemRow) -> Write:
    channel, task, path, value = json.loads(from_binary(row.value))
    return Write(str(channel), str(task), path, value, row.updated_at)


def _waits_for(client: BlockingClient, found: Header, writes: Sequence[Write]) -> Iterator[Any]:
    """The questions that a head waits with; a copy that did not run yet will ask them again."""
    if writes or ORIGINAL not in found.agent_context:
        return _open(writes)
    return _asked(_writes(client, found, ORIGINAL))


def _open(writes: Sequence[Write]) -> Iterator[Any]:
    """The questions of tasks that are not through and were not answered since."""
    through = _through(writes)
    answered = {write.task: write.changed for write in writes if write.channel == _ANSWER}
    for_all = answered.get(_NOBODY, 0)
    return _asked(
        [
            write
            for write in writes
            if write.task not in through
            and write.changed >= max(for_all, answered.get(write.task, 0))
        ]
    )


def _through(writes: Sequence[Write]) -> set[str]:
    """The tasks that have ended: they do not run again when the graph goes on."""
    return {write.task for write in writes if write.channel not in _UNFINISHED}


def _paths_through(writes: Sequence[Write]) -> set[str]:
    """The paths of those."""
    through = _through(writes)
    return {write.path for write in writes if write.task in through}


def _asked(writes: Sequence[Write]) -> Iterator[Any]:
    """Questions, each once: what a task of an entrypoint asks, the entrypoint asks too."""
    asked = (write.value for write in writes if write.channel == _QUESTION)
    known: set[str] = set()
    for id, question in (each for value in asked for each in _questions(value)):
        if id is None or id not in known:
            yield question
        known.add(str(id))


def _questions(value: Any) -> Iterator[tuple[Any, Any]]:
    """What the interrupts of one write ask, with their ids."""
    for item in _elements(value):
        fields = values.opened(item)
        named = dict(fields.items) if fields else {"value": item}
        yield named.get("id"), named.get("value")
