"""Channels that a graph does not have: another graph of the thread put them, or another version.

LangGraph gives the values of the channels that a graph has, and the versions of all that the thread
has had. What is not given and has not changed stays, as in LangGraph's savers that keep values by
their versions. That holds for what a delta channel had stored, too: to who forks from there without
having the channel, the ancestors would tell of writes that are another branch's. Pure.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping
from typing import Any, cast

from langgraph.checkpoint.base import Checkpoint

from lastgood.building import build
from lastgood.codec import Codec, entries
from lastgood.splitting import short_name
from lastgood.tree import Fields, Leaf, Node


def left_out(checkpoint: Checkpoint, new_versions: Mapping[str, Any]) -> frozenset[str]:
    """The channels that have not changed in this step, and come without a value."""
    values = checkpoint["channel_values"]
    versions = checkpoint["channel_versions"]
    return frozenset(name for name in versions if name not in values and name not in new_versions)


def as_before(
    names: Collection[str], versions: Mapping[str, Any], base: Mapping[str, Any]
) -> set[str]:
    """Those of some channels that are as in the checkpoint before."""
    return {name for name in names if name in base and base[name] == versions[name]}


def kept(codec: Codec, tree: Node, names: Collection[str]) -> dict[str, Any]:
    """What a state has of some channels."""
    if isinstance(tree, Fields):
        keys = {name: short_name(name) for name in names}
        nodes = {name: tree.children[key] for name, key in keys.items() if key in tree.children}
        return {name: build(codec, node) for name, node in nodes.items()}
    if isinstance(tree, Leaf):
        # Mostly these are channels that a node has consumed: their names are not in it.
        names = [name for name in names if not name.isascii() or name.encode() in tree.data]
        found = entries(tree.data, names) if names else {}
        return {name: codec.unpack(data) for name, data in found.items()}
    values = cast("dict[str, Any]", build(codec, tree))
    return {name: values[name] for name in names if name in values}
