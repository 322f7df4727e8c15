"""The history of delta channels: what was written since a value was last stored, along one line.

A delta channel is missing from most checkpoints. Its value is the nearest stored one among the
ancestors, and the writes from there on. Operations over a `Reading`.
"""

from __future__ import annotations

from collections.abc import AsyncIterator
from collections.abc import Sequence as Items
from typing import NamedTuple

import ormsgpack
from langgraph.checkpoint.base import DeltaChannelHistory

from lastgood.adapters.graph_names import Spot
from lastgood.adapters.langgraph.reading import Raw, Reading, Row, read_stub
from lastgood.adapters.langgraph.shapes import Write, read_writes
from lastgood.building import build
from lastgood.codec import Codec
from lastgood.core import Core
from lastgood.manifest import may_have
from lastgood.rows import ItemRow
from lastgood.tree import Fields, Leaf, Node, Sequence

BATCH = 100
"""The writes of so many ancestors are read at a time."""


class Visited(NamedTuple):
    """An ancestor and its writes."""

    source: Row | Raw
    writes: list[ItemRow]


class Walk(NamedTuple):
    """The ancestors that the channels of a checkpoint need, nearest first."""

    channels: tuple[str, ...]
    visited: list[Visited]
    seeds: dict[str, int]
    """Which of them stores a channel's value."""
    values: dict[str, Node]
    """The stored values, with their pages."""

    def histories(self, codec: Codec) -> dict[str, DeltaChannelHistory]:
        """The answer for each channel; on the caller's thread."""
        return {channel: self._history(codec, channel) for channel in self.channels}

    def _history(self, codec: Codec, channel: str) -> DeltaChannelHistory:
        last = self.seeds.get(channel, len(self.visited) - 1)
        writes = [write.pending for write in self.writes(codec, channel, last)]
        found: DeltaChannelHistory = {"writes": writes}
        if channel in self.seeds:
            found["seed"] = self.seed(codec, channel)
        return found

    def writes(self, codec: Codec, channel: str, last: int) -> list[Write]:
        """The writes of a channel from the last ancestor on, oldest first."""
        return [
            write
            for ancestor in reversed(self.visited[: last + 1])
            for write in read_writes(codec, ancestor.writes)
            if write.channel == channel
        ]

    def seed(self, codec: Codec, channel: str) -> object:
        """The stored value that the writes of a channel go on from."""
        node = self.values.get(channel)
        if node is not None:
            return build(codec, node)
        source = self.visited[self.seeds[channel]].source
        assert isinstance(source, Raw)
        return read_stub(codec, source.stub)[1][channel]


async def walk(
    core: Core,
    reading: Reading,
    spot: Spot,
    line: AsyncIterator[Row | Raw],
    channels: Items[str],
) -> Walk:
    """Go back on a line until every channel has a stored value, or to the beginning."""
    visited: list[Visited] = []
    seeds: dict[str, int] = {}
    values: dict[str, Node] = {}
    remaining = set(channels)
    if not remaining:
        return Walk((), [], {}, {})
    async for source in line:
        stored = await _stored(core, source, remaining)
        if stored and isinstance(source, Row):
            whole = (await core.load(source.located)).stored.tree
            values.update({channel: _child(core.codec, whole, channel) for channel in stored})
        seeds.update(dict.fromkeys(stored, len(visited)))
        visited.append(Visited(source, []))
        remaining -= stored
        if not remaining:
            break
    return Walk(tuple(channels), await _with_writes(reading, spot, visited), seeds, values)


async def _with_writes(reading: Reading, spot: Spot, visited: list[Visited]) -> list[Visited]:
    found: list[Visited] = []
    for first in range(0, len(visited), BATCH):
        some = visited[first : first + BATCH]
        writes = await reading.writes_of(spot, [one.source.context.id for one in some])
        found += [one._replace(writes=rows) for one, rows in zip(some, writes, strict=True)]
    return found


async def _stored(core: Core, source: Row | Raw, channels: set[str]) -> set[str]:
    """Those of some channels that an ancestor stores."""
    if isinstance(source, Raw):
        return channels & set(read_stub(core.codec, source.stub)[1])
    row = source.located.row
    if not any(may_have(row.manifest, channel) for channel in channels):
        return set()
    tree = (await core.sketch(row)).tree
    if isinstance(tree, Sequence):
        tree = (await core.load(source.located)).stored.tree
    return channels & _names(core.codec, tree)


def _names(codec: Codec, tree: Node) -> set[str]:
    """The keys of a state; values are not made where that can be helped."""
    if isinstance(tree, Fields):
        return {str(codec.unpack(name)) for name in tree.children}
    if isinstance(tree, Leaf):
        found = ormsgpack.unpackb(tree.data, ext_hook=_nothing)
        if isinstance(found, dict):
            return set(found)
    values = build(codec, tree)
    return set(values) if isinstance(values, dict) else set()


def _nothing(_code: int, _data: bytes) -> None:
    return None


def _child(codec: Codec, tree: Node, channel: str) -> Node:
    """One channel of a state, as a tree of its own."""
    if isinstance(tree, Fields):
        return tree.children[codec.pack(channel)]
    values = build(codec, tree)
    assert isinstance(values, dict)
    return Leaf(codec.pack(values[channel]))
