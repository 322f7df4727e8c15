"""The classes of LangChain and LangGraph that graphs keep in their state, under tags of ours.

A tag outlives a class that is moved or renamed. Data classes are stored field by field like any
other; the few that are not have their two functions here. Nothing that is stored is ever imported.

Where what cannot be kept is dropped, a task or a question goes on with None in its place: without
it, nobody could make the object again, and the graph would have lost its way.
"""

from __future__ import annotations

import ipaddress
import re
from collections.abc import Callable
from typing import Any

from langchain_core import documents, messages
from langchain_core.messages.base import TextAccessor
from langchain_core.runnables import AddableDict
from langgraph import types
from langgraph.checkpoint.serde.types import _DeltaSnapshot
from langgraph.store.base import GetOp, Item, SearchItem

from lastgood.codec import Codec, Registry
from lastgood.codec.labels import find
from lastgood.codec.registry import DEFAULT

_MESSAGES = (
    "AIMessage AIMessageChunk BaseMessage BaseMessageChunk ChatMessage ChatMessageChunk "
    "FunctionMessage FunctionMessageChunk HumanMessage HumanMessageChunk RemoveMessage "
    "SystemMessage SystemMessageChunk ToolMessage ToolMessageChunk"
)
_TYPES = "Command Interrupt Overwrite PregelTask StateSnapshot TimeoutPolicy"
_DATA: dict[str, type] = {
    **{f"lc.{name}": getattr(messages, name) for name in _MESSAGES.split()},
    **{f"lg.{name}": getattr(types, name) for name in _TYPES.split() if hasattr(types, name)},
    "lc.Document": documents.Document,
    "lg.DeltaSnapshot": _DeltaSnapshot,
    "lg.GetOp": GetOp,
}
_SPELLED: tuple[type, ...] = (
    ipaddress.IPv4Address,
    ipaddress.IPv4Interface,
    ipaddress.IPv4Network,
    ipaddress.IPv6Address,
    ipaddress.IPv6Interface,
    ipaddress.IPv6Network,
)


def _send(sent: types.Send) -> object:
    return [sent.node, sent.arg, getattr(sent, "timeout", None)]


def _sent(stored: Any) -> types.Send:
    node, arg, timeout = stored
    return types.Send(node, arg) if timeout is None else types.Send(node, arg, timeout=timeout)


_ITEM = ("value", "key", "namespace", "created_at", "updated_at")
_CUSTOM: dict[str, tuple[type, Callable[[Any], object], Callable[[Any], object]]] = {
    # What `message.text` gives. LangGraph's own savers give the text back, too.
    "lc.Text": (TextAccessor, str, str),
    # What the pieces of a streamed chain add up to.
    "lc.AddableDict": (AddableDict, dict, AddableDict),
    "lg.Send": (types.Send, _send, _sent),
    "lg.Item": (
        Item,
        lambda item: {name: getattr(item, name) for name in _ITEM},
        lambda stored: Item(**stored),
    ),
    # What a search of the store gives: nodes keep it in the state as it is.
    "lg.SearchItem": (
        SearchItem,
        lambda item: {name: getattr(item, name) for name in (*_ITEM, "score")},
        lambda stored: SearchItem(**stored),
    ),
    "re.Pattern": (
        re.Pattern,
        lambda found: [found.pattern, found.flags],
        lambda stored: re.compile(*stored),
    ),
}

_GAPS = frozenset(
    {"lc.AddableDict", "lg.Interrupt", "lg.Item", "lg.Overwrite", "lg.SearchItem", "lg.Send"}
)


def _register() -> None:
    """Once, for the whole process: any client then reads what a graph has stored."""
    for tag, cls in _DATA.items():
        DEFAULT.register(cls, tag, gaps=tag in _GAPS)
    for tag, (cls, encode, decode) in _CUSTOM.items():
        DEFAULT.register(cls, tag, encode=encode, decode=decode, gaps=tag in _GAPS)
    for cls in _SPELLED:  # the codec has words of its own for them
        DEFAULT.read_only(f"net.{cls.__name__}", cls, cls)


_register()


def narrowed(codec: Codec, allowed: Any) -> Codec:
    """The codec that accepts these classes, and what is registered, and no other."""
    registry = Registry(parent=codec.registry)
    for cls in map(_class_of, allowed):
        if cls is not None:
            try:
                registry.register(cls)
            except ValueError:
                continue  # not a data class: it could not be stored anyway
    return Codec(registry, strict_types=True, on_unserializable=codec.on_unserializable)


def _class_of(entry: Any) -> type | None:
    """The class behind an entry of an allowlist: itself, or the names of its module and its own.

    Raises TypeError for what is neither; None for a class whose module was not imported.
    """
    if isinstance(entry, type):
        return entry
    listed = isinstance(entry, tuple | list) and len(entry) > 1
    if not listed or not all(isinstance(name, str) for name in entry):
        raise TypeError(
            f"an entry of the allowlist is a class, or names such as ('shop.models', 'Order'), "
            f"not {entry!r:.60}."
        )
    module, *names = entry
    return find(f"{module}:{'.'.join(names)}")
