"""Questions and answers that a rollback leaves at older checkpoints: operations over a `Reading`.

A task keeps all of its answers in one write, which is of the run that gave the last of them. The
one invariant: a question that is shown is the one that the next answer is taken for. Of the graphs
and tasks around a task that is so too, for they show its questions as theirs.
"""

from __future__ import annotations

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
                    lost.append(Lost(at, around, answer.task, answer.path, several))
        for at in {around for each in lost for around in (each.at, *each.around)} & sources.keys():
            rows = (await self._reading.writes_of(at.spot, [at.id]))[0]
            asked_at = [w for w in read_writes(self._core.codec, rows) if w.channel == INTERRUPT]
            stay = [w for w in asked_at if w.row.place not in dropped]
            stale = set(_stale(at, stay, lost, texts))
            tasks = {write.task for write in stay if write.row.place not in stale}
            if stale or len(stay) < len(asked_at) or _is_silent(at, lost, tasks):
                found.drops.extend(write.row.place for write in asked_at)
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


def _stale(
    at: At, questions: Sequence[Write], lost: Sequence[Lost], texts: Collection[str]
) -> Iterator[Place]:
    """The questions at a checkpoint that are not the next ones any more."""
    for write in questions:
        of_run = write.row.text in texts
        if any((of_run or each.several) and _shows(at, write, each) for each in lost):
            yield write.row.place


def _is_silent(at: At, lost: Sequence[Lost], tasks: Collection[str]) -> bool:
    """Whether a task at a checkpoint has lost its answers, and asks nothing there."""
    return any(each.task not in tasks for each in lost if each.at == at and each.task)


def _shows(at: At, write: Write, lost: Lost) -> bool:
    """Whether a task shows the questions of what is lost: its own, or those of what it calls."""
    if at == lost.at:
        return bool(lost.task) and (write.task == lost.task or f"{write.path}, " in lost.path)
    if at not in lost.around:
        return False
    outer, inner = _calls(at.spot), _calls(lost.at.spot)
    name, _, task = "".join(inner[len(outer) : len(outer) + 1]).partition(":")
    # A subgraph that goes on from call to call has no task in its name.
    return write.task == task if task else write.path.endswith(f", {name}") or "push" in write.path


def _calls(spot: Spot) -> list[str]:
    """The nodes that lead to a subgraph, from the graph on: not which of their calls it was."""
    return [part for part in spot.namespace.split("|") if part and not part.isdigit()]
