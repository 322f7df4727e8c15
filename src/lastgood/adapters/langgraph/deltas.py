"""The history of delta channels: what was written since a value was last stored, along one line.

A delta channel is missing from most checkpoints. Its value is the nearest stored one among the
ancestors, and the writes from there on. Operations over a `Reading`.
"""

from __future__ import annotations

from collections.abc import Sequence as Items
from functools import lru_cache
from typing import NamedTuple

import ormsgpack
from langgraph.checkpoint.base import DeltaChannelHistory

from lastgood.adapters.graph_names import Spot
from lastgood.adapters.langgraph.reading import Raw, Reading, Row, read_stub
from lastgood.adapters.langgraph.shapes import Write, may_be_of, read_writes
from lastgood.building import build
from lastgood.checkpoints import read_mapping
from lastgood.codec import Codec
from lastgood.core import Core
from lastgood.errors import CheckpointNotFoundError
from lastgood.manifest import may_have, read
from lastgood.rows import ItemRow
from lastgood.tree import Fields, Leaf, Node, Sequence

DELTAS = "counters_since_delta_snapshot"
"""What LangGraph counts in the metadata: updates and steps since a channel was stored."""
BEHIND = "behind"
"""What a stub says of that: the channels that have writes at what it follows, or further back."""
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
        wanted, ancestors = may_be_of(codec, channel), self.visited[last::-1]
        rows = [list(filter(wanted, ancestor.writes)) for ancestor in ancestors]
        return [write for write in read_writes(codec, *rows) if write.channel == channel]

    def seed(self, codec: Codec, channel: str) -> object:
        """The stored value that the writes of a channel go on from."""
        node = self.values.get(channel)
        if node is not None:
            return build(codec, node)
        source = self.visited[self.seeds[channel]].source
        assert isinstance(source, Raw)
        return read_stub(codec, source.stub)[1][channel]


async def walk(
    core: Core, reading: Reading, start: Row | Raw, channels: Items[str], *, behind: bool = True
) -> Walk:
    """Go back on a line until every channel has a stored value, or to the beginning.

    The line begins `behind` a checkpoint, or with it. Raises CheckpointNotFoundError where it leads
    to one that is not there any more, and with which writes went.
    """
    sources: list[Row | Raw] = []
    seeds: dict[str, int] = {}
    values: dict[str, Node] = {}
    remaining = set(channels)
    if not remaining:
        return Walk((), [], {}, {})
    newer, wanted = start, start.context.parent if behind else start.context.id
    async for source in reading.ancestors(start) if behind else reading.line(start):
        if source.context.id != wanted:
            _check_lost(core.codec, newer, wanted, remaining)
        newer, wanted = source, source.context.parent
        stored = set() if _has_none(source, remaining) else await _stored(core, source, remaining)
        if stored and isinstance(source, Row):
            whole = (await core.load(source.located)).stored.tree
            values.update({channel: _child(core.codec, whole, channel) for channel in stored})
        seeds.update(dict.fromkeys(stored, len(sources)))
        sources.append(source)
        remaining -= stored
        if not remaining:
            break
    else:
        _check_lost(core.codec, newer, wanted, remaining)
    return Walk(tuple(channels), await _with_writes(reading, start.spot, sources), seeds, values)


def _check_lost(codec: Codec, newer: Row | Raw, gone: str | None, channels: set[str]) -> None:
    """Raise an error if a checkpoint counts writes, and the one is gone that they were made to."""
    lost = sorted(counted(codec, newer) & channels) if gone is not None else []
    if lost:
        raise CheckpointNotFoundError(
            f"in thread {newer.spot.thread!r}, {' and '.join(map(repr, lost))} of checkpoint"
            f" {newer.context.id} cannot be computed: {gone}, which it follows and which had a part"
            " of it, was removed or lost.",
            hint="Go on from a checkpoint before that one. What the saver itself removes (`prune`,"
            " `delete_for_runs`) takes nothing along that others need; `expire` does.",
        )


def counted(codec: Codec, source: Row | Raw) -> set[str]:
    """The channels that have writes further back than a checkpoint or a stub."""
    if isinstance(source, Raw):
        return set(read_stub(codec, source.stub)[2].get(BEHIND) or ())
    counters = read_mapping(codec, source.located.row.metadata).get(DELTAS) or {}
    return {channel for channel, (updates, _) in counters.items() if updates}


async def _with_writes(reading: Reading, spot: Spot, sources: Items[Row | Raw]) -> list[Visited]:
    writes: list[list[ItemRow]] = []
    for first in range(0, len(sources), BATCH):
        some = sources[first : first + BATCH]
        writes += await reading.writes_of(spot, [source.context.id for source in some])
    return list(map(Visited, sources, writes))


async def _stored(core: Core, source: Row | Raw, channels: set[str]) -> set[str]:
    """Those of some channels that an ancestor stores."""
    if isinstance(source, Raw):
        return channels & set(read_stub(core.codec, source.stub)[1])
    tree = (await core.sketch(source.located.row)).tree
    if isinstance(tree, Sequence):
        tree = (await core.load(source.located)).stored.tree
    return channels & _names(core.codec, tree)


def _has_none(source: Row | Raw, channels: set[str]) -> bool:
    """Whether it is certain that an ancestor stores none of some channels."""
    if isinstance(source, Raw):
        return False
    manifest = source.located.row.manifest
    if not any(may_have(manifest, channel) for channel in channels):
        return True
    names = _names_in(manifest)
    return names is not None and channels.isdisjoint(names)


@lru_cache(maxsize=1024)
def _names_in(manifest: bytes) -> frozenset[str] | None:
    """The keys of a small state, which is in its manifest; None of any other.

    What a turn of a conversation begins with has the channel in its input, so each of those would
    be read again by every turn.
    """
    node, is_skeleton = read(manifest)
    found = _plain(node.data) if isinstance(node, Leaf) and not is_skeleton else None
    return frozenset(found) if isinstance(found, dict) else None


def _names(codec: Codec, tree: Node) -> set[str]:
    """The keys of a state; values are not made where that can be helped."""
    if isinstance(tree, Fields):
        return {str(codec.unpack(name)) for name in tree.children}
    if isinstance(tree, Leaf):
        found = _plain(tree.data)
        if isinstance(found, dict):
            return set(found)
    values = build(codec, tree)
    return set(values) if isinstance(values, dict) else set()


def _plain(data: bytes) -> object:
    """A value of which all that is not plain was left out."""
    return ormsgpack.unpackb(data, ext_hook=lambda _code, _data: None)


def _child(codec: Codec, tree: Node, channel: str) -> Node:
    """One channel of a state, as a tree of its own."""
    if isinstance(tree, Fields):
        return tree.children[codec.pack(channel)]
    values = build(codec, tree)
    assert isinstance(values, dict)
    return Leaf(codec.pack(values[channel]))
