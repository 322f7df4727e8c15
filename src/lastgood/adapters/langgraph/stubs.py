"""What a removal leaves of delta channels: operations over a `Reading`.

A delta channel is computed from what its ancestors stored. Where such an ancestor goes, it is kept
under its alias as a stub, which no list shows: a saver has no reducers, so it cannot compute the
value itself. The one invariant: a stub is the parent of a checkpoint that is there, and follows
none but such, so whatever is removed next, the stubs are made from all that lies before.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from itertools import takewhile
from typing import NamedTuple

from lastgood.adapters.graph_names import WRITES, Spot
from lastgood.adapters.langgraph import deltas
from lastgood.adapters.langgraph.reading import Raw, Reading, Row
from lastgood.adapters.langgraph.shapes import PARENT, Write, read_writes
from lastgood.alias_rules import Alias
from lastgood.checkpoints import read_mapping
from lastgood.codec import Codec
from lastgood.commits import Place
from lastgood.core import Core
from lastgood.item_rules import ItemDraft


class Change(NamedTuple):
    """The items of stubs that are to be put and dropped."""

    puts: list[ItemDraft]
    drops: list[Place]


class Needed(NamedTuple):
    """What goes, or is a stub already, and is the parent of a checkpoint that is left."""

    source: Row | Raw
    channels: tuple[str, ...]


class Stubs:
    """Makes stubs for one store."""

    def __init__(self, core: Core, reading: Reading) -> None:
        self._core = core
        self._reading = reading

    async def change(
        self, thread: str, left: Sequence[Row], gone: set[Place], aliases: Mapping[Place, Alias]
    ) -> Change:
        """The stubs that those need which are left, and the end of all others."""
        old = {place for place, alias in aliases.items() if alias.stub}
        away = gone | old
        needed = await self._needed(left, away)
        kept = {place for place in needed if place in old and _is_done(needed[place], away)}
        puts: list[ItemDraft] = []
        for place in needed.keys() - kept:
            puts += await self._made(needed[place], away)
        ended = list(old - kept)
        return Change(puts, [*ended, *await self._reading.write_places(thread, ended)])

    async def _needed(self, left: Sequence[Row], away: set[Place]) -> dict[Place, Needed]:
        found: dict[Place, tuple[Spot, str]] = {}
        for row in left:
            parent = await self._reading.parent_of(row)
            if parent is not None and (place := row.spot.alias(parent)) in away:
                found[place] = row.spot, parent
        channels = self.channels(left, {spot for spot, _ in found.values()})
        needed: dict[Place, Needed] = {}
        for place, (spot, id) in found.items():
            source = await self._reading.named(spot, id) if channels[spot] else None
            if source is not None:
                needed[place] = Needed(source, channels[spot])
        return needed

    def channels(self, left: Sequence[Row], spots: set[Spot]) -> dict[Spot, tuple[str, ...]]:
        """The delta channels of namespaces; a checkpoint names none that it stores itself."""
        found: dict[Spot, dict[str, None]] = {spot: {} for spot in spots}
        for row in left:
            if row.spot in spots:
                found[row.spot].update(dict.fromkeys(self._counters(row)))
        return {spot: tuple(names) for spot, names in found.items()}

    def _counters(self, row: Row) -> Mapping[str, object]:
        """The delta channels that a checkpoint leaves to its ancestors."""
        metadata = read_mapping(self._core.codec, row.located.row.metadata)
        return metadata.get(deltas.DELTAS) or {}

    async def grounds(self, left: Sequence[Row], away: set[Place]) -> dict[Place, set[str]]:
        """The checkpoints that are left, and which delta channels of others their writes make."""
        there = {_place(row) for row in left}
        found: dict[Place, set[str]] = {}
        for row in left:
            parent, names = row.context.parent, deltas.counted(self._core.codec, row)
            if parent is not None and names and row.spot.alias(parent) not in there:
                parent = await self._left(row, away)
            if parent is not None and names:
                found.setdefault(row.spot.alias(parent), set()).update(names)
        return found

    async def _made(self, needed: Needed, away: set[Place]) -> list[ItemDraft]:
        """One stub for all that goes up to the first ancestor that is left: values and writes."""
        codec, (source, channels), spot = self._core.codec, needed, needed.source.spot
        walk = await deltas.walk(self._core, self._reading, source, channels, behind=False)
        lost = list(takewhile(lambda each: _place(each.source) in away, walk.visited))
        seeds = {name: walk.seed(codec, name) for name, at in walk.seeds.items() if at < len(lost)}
        writes = [
            write
            for number, each in reversed(list(enumerate(lost)))
            for write in read_writes(codec, each.writes)
            if write.channel in channels and number <= walk.seeds.get(write.channel, number)
        ]
        last = lost[-1].source
        parent = await self._left(last, away)
        fields = {**source.context.fields, PARENT: parent}
        behind = sorted(deltas.counted(codec, last) - seeds.keys()) if parent else []
        about = {"source": "stub", "step": -2, deltas.BEHIND: behind}
        stub = codec.pack([fields, seeds, about])
        alias = ItemDraft(*_place(source), Alias(b"", 0, stub).packed())
        return [alias, *_moved(codec, spot, source.context.id, writes)]

    async def _left(self, source: Row | Raw, away: set[Place]) -> str | None:
        """The nearest ancestor that does not go."""
        async for each in self._reading.ancestors(source):
            if _place(each) not in away:
                return each.context.id
        return None


def _is_done(needed: Needed, away: set[Place]) -> bool:
    """Whether a stub is as it has to be: what it follows is left."""
    parent = needed.source.context.parent
    return parent is None or needed.source.spot.alias(parent) not in away


def _place(source: Row | Raw) -> Place:
    return source.spot.alias(source.context.id)


def _moved(codec: Codec, spot: Spot, id: str, writes: Sequence[Write]) -> list[ItemDraft]:
    """Writes as those of a stub, in their order."""
    drafts: list[ItemDraft] = []
    for number, write in enumerate(writes):
        task = f"{number:010}"
        data = codec.pack([write.channel, task, f"~~{task}", write.value])
        drafts.append(ItemDraft(WRITES, spot.write(id, task, write.number), data))
    return drafts
