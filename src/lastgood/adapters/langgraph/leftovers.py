"""Channels that have no new version: they stay what is stored, whatever a graph gives for them.

LangGraph gives the values of the channels that a graph has, and the versions of all that the thread
has had. What is not given was put by another graph of the thread, or by another version of it, and
stays, as in LangGraph's savers that keep values by their versions. That holds for what a delta
channel had stored, too: to who forks from there without having the channel, the ancestors would
tell of writes that are another branch's.

What is given are the graph's own objects. The next step may have changed them in place (a `Topic`,
who has come to a join) by the time that they are encoded: what is stored for the version is not
what they are, but what they were. Pure.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping
from typing import Any, cast

from langgraph.checkpoint.base import Checkpoint

from lastgood.building import build
from lastgood.codec import Codec, entries
from lastgood.splitting import FIELDS, short_name
from lastgood.tree import Fields, Leaf, Node, Sequence


def staying(
    checkpoint: Checkpoint, values: Collection[str], new_versions: Mapping[str, Any]
) -> frozenset[str]:
    """The channels that are not new in this step; not those that a hook left out of the values."""
    hidden = checkpoint["channel_values"].keys() - values
    versions = checkpoint["channel_versions"]
    return frozenset(versions.keys() - new_versions.keys() - hidden)


def as_before(
    names: Collection[str], versions: Mapping[str, Any], base: Mapping[str, Any]
) -> set[str]:
    """Those of some channels that are as in the checkpoint before."""
    return {name for name in names if name in base and base[name] == versions[name]}


def brought(
    codec: Codec, tree: Node, names: Collection[str], values: Mapping[str, Any]
) -> dict[str, Any]:
    """All values, where some are to be those of a state.

    A value whose node can be taken over as it is need not be decoded.
    """
    apart = not isinstance(tree, Sequence) and len(values) <= FIELDS
    if apart:
        found = kept(codec, tree, [name for name in names if name not in values])
        if len(values) + len(found) <= FIELDS:
            return {**values, **found}
    return {**values, **kept(codec, tree, names)}


def kept(codec: Codec, tree: Node, names: Collection[str]) -> dict[str, Any]:
    """What a state has of some channels."""
    nodes = _nodes(tree, names)
    if nodes is not None:
        return {name: build(codec, node) for name, node in nodes.items()}
    values = cast("dict[str, Any]", build(codec, tree))
    return {name: values[name] for name in names if name in values}


def differing(codec: Codec, tree: Node, base: Node, names: Collection[str]) -> dict[str, Any]:
    """What a state has of some channels, without those that are the same in another one."""
    given, stored = _nodes(tree, names), _nodes(base, names)
    if given is not None and stored is not None:
        names = [n for n, node in stored.items() if n not in given or given[n].hash != node.hash]
    return kept(codec, base, names)


def _nodes(tree: Node, names: Collection[str]) -> dict[str, Node] | None:
    """The same as nodes; None where a state has so many channels that it is one sequence."""
    if isinstance(tree, Fields):
        keys = {name: short_name(name) for name in names}
        return {name: tree.children[key] for name, key in keys.items() if key in tree.children}
    if isinstance(tree, Leaf):
        # Many are channels that a node has consumed: their names are not in it.
        names = [name for name in names if not name.isascii() or name.encode() in tree.data]
        found = entries(tree.data, names) if names else {}
        return {name: Leaf(data) for name, data in found.items()}
    return None
