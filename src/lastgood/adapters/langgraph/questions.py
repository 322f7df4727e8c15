"""Questions and answers that a rollback leaves at older checkpoints: operations over a `Reading`.

A task keeps all of its answers in one write, which is of the run that gave the last of them. The
one invariant: a question that is shown is the one that the next answer is taken for. Of the graphs
and tasks around a task that is so too, for they show its questions as theirs.
"""

from __future__ import annotations

import math
from collections.abc import Collection, Iterator, Mapping, Sequence
from typing import NamedTuple

from langgraph.checkpoint.serde.types import INTERRUPT, RESUME

from lastgood.adapters.graph_names import WRITES, Spot
from lastgood.adapters.langgraph.reading import Reading, Row
from lastgood.adapters.langgraph.shapes import NO_TASK, Write, read_writes
from lastgood.checkpoints import read_mapping
from lastgood.commits import Place
from lastgood.core import Core
from lastgood.item_rules import ItemDraft

_CALL = "~__pregel_push, "


class At(NamedTuple):
    """A checkpoint by its names."""

    spot: Spot
    id: str


class Lost(NamedTuple):
    """What goes: the answers of a task, or a whole checkpoint of a subgraph."""

    at: At
    around: list[At]
    task: str = ""
    path: str = ""
    several: bool = False
    """Whether also what others have asked behind the first answer is asked no more."""
    since: float = math.inf
    """When the answers were written: who has asked later may have asked behind them."""


class Change(NamedTuple):
    """The writes that are to be put and dropped."""

    puts: list[ItemDraft]
    drops: list[Place]


class Questions:
    """Keeps the questions of one store in step with its answers."""

    def __init__(self, core: Core, reading: Reading) -> None:
        self._core = core
        self._reading = reading

    async def change(
        self,
        left: Mapping[Place, Row],
        gone: Sequence[Row],
        dropped: Collection[Place],
        texts: Collection[str],
    ) -> Change:
        """What else becomes of the writes at checkpoints that are left.

        Some checkpoints are gone, and the writes of some runs at others are dropped.
        """
        sources = {At(row.spot, row.context.id): row for row in left.values()}
        writes = await self._writes(sources, [key for shelf, key in dropped if shelf == WRITES])
        found = Change([], [])
        lost = [Lost(At(r.spot, r.context.id), self._around(r)) for r in gone if r.spot.namespace]
        for at, each in writes.items():
            asked = {write.task: write for write in each if write.channel == INTERRUPT}
            for answer in each:
                if _is_answer(answer) and answer.row.place in dropped:
                    several = self._shorten(found, answer, asked.get(answer.task), texts)
                    around = self._around(sources[at])
                    since = answer.row.updated_at
                    lost.append(Lost(at, around, answer.task, answer.path, several, since))
        for at in {around for each in lost for around in (each.at, *each.around)} & sources.keys():
            rows = (await self._reading.writes_of(at.spot, [at.id]))[0]
            found.drops.extend(
                _unasked(at, read_writes(self._core.codec, rows), lost, dropped, texts)
            )
        return found

    async def _writes(
        self, sources: Collection[At], dropped: Sequence[bytes]
    ) -> dict[At, list[Write]]:
        """The writes of the checkpoints at which some are dropped."""
        prefixes = {at.spot.prefix(at.id): at for at in sources}
        lengths = {len(prefix) for prefix in prefixes}
        touched = {key[:length] for key in dropped for length in lengths} & prefixes.keys()
        found: dict[At, list[Write]] = {}
        for at in (prefixes[prefix] for prefix in touched):
            rows = (await self._reading.writes_of(at.spot, [at.id]))[0]
            found[at] = read_writes(self._core.codec, rows)
        return found

    def _around(self, row: Row) -> list[At]:
        """The checkpoints of the graphs around a subgraph."""
        if not row.spot.namespace:
            return []
        parents = read_mapping(self._core.codec, row.located.row.metadata).get("parents") or {}
        return [At(Spot(row.spot.thread, str(name)), str(id)) for name, id in parents.items()]

    def _shorten(
        self, found: Change, answer: Write, question: Write | None, texts: Collection[str]
    ) -> bool:
        """Leave a task the answers that it had when it asked what it is asked now.

        A run gives a task one answer at most. Gives whether there were several, and all go.
        """
        given = answer.value if isinstance(answer.value, list) else [answer.value]
        asker = None if question is None else question.row.text
        if len(given) == 1:
            return False
        if question is None or asker in texts or len(texts) > 1:
            return True
        parts = [answer.channel, answer.task, answer.path, given[:-1]]
        data = self._core.codec.pack(parts)
        found.puts.append(ItemDraft(*answer.row.place, data, asker))
        return False


def _is_answer(write: Write) -> bool:
    return write.channel == RESUME and write.task != NO_TASK


def _unasked(
    at: At,
    writes: Sequence[Write],
    lost: Sequence[Lost],
    dropped: Collection[Place],
    texts: Collection[str],
) -> set[Place]:
    """What is asked no more at a checkpoint: all of it where a node has yet to ask again.

    An answer to what others ask, if it names no question, would be taken for one to that, too.
    """
    stale = set(_stale(at, writes, lost, texts))
    asked = {write.row.place: _node(write.path) for write in writes if write.channel == INTERRUPT}
    shown = {node for place, node in asked.items() if place not in dropped and place not in stale}
    unanswered = {_node(each.path) for each in lost if each.at == at and each.task}
    return stale if unanswered.union(asked.values()) <= shown else stale.union(asked)


def _stale(
    at: At, writes: Sequence[Write], lost: Sequence[Lost], texts: Collection[str]
) -> Iterator[Place]:
    """The questions at a checkpoint that are not the next ones any more.

    Whatever a node asks behind an answer it asks again, by whichever of the tasks that it calls.
    And a later answer that names no question would be taken for one to the first.
    """
    for each in lost:
        nodes = {_node(path) for path in _paths(at, writes, each)}
        for write in writes if nodes else ():
            later = write.row.updated_at > each.since
            behind = each.several or later or write.row.text in texts
            asked = write.channel == INTERRUPT and behind and _node(write.path) in nodes
            if asked or (later and write.channel == RESUME and write.task == NO_TASK):
                yield write.row.place


def _paths(at: At, writes: Sequence[Write], lost: Lost) -> list[str]:
    """The tasks that show the questions of what is lost: its own, or that call a subgraph."""
    if at == lost.at:
        return [lost.path] if lost.task else []
    if at not in lost.around:
        return []
    outer, inner = _calls(at.spot), _calls(lost.at.spot)
    name, _, task = "".join(inner[len(outer) : len(outer) + 1]).partition(":")
    if task:
        return [write.path for write in writes if write.task == task]
    # A subgraph that goes on from call to call has no task in its name.
    return [w.path for w in writes if w.path.endswith(f", {name}") or w.path.startswith(_CALL)]


def _node(path: str) -> str:
    """The path of the node in which a task was called, or that it is.

    A call is spelled around the path of its caller: what it is, the caller, and two numbers.
    """
    depth = 0
    while path.startswith(f"{_CALL}~"):
        path, depth = path.removeprefix(_CALL), depth + 1
    return path.rsplit(", ", 2 * depth)[0]


def _calls(spot: Spot) -> list[str]:
    """The nodes that lead to a subgraph, from the graph on: not which of their calls it was."""
    return [part for part in spot.namespace.split("|") if part and not part.isdigit()]
