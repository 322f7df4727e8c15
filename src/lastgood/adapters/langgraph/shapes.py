"""LangGraph's checkpoints as ours, and back.

The channel values are the state; everything else of a checkpoint is its context; the metadata is
the metadata. Pure. The one invariant: what is read equals what was put, key for key.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from functools import cached_property
from typing import Any, NamedTuple, cast

from langchain_core.runnables import RunnableConfig
from langgraph.checkpoint.base import (
    WRITES_IDX_MAP,
    Checkpoint,
    CheckpointMetadata,
    CheckpointTuple,
    PendingWrite,
    writes_sort_key,
)

from lastgood.adapters.graph_copies import ORIGINAL
from lastgood.adapters.graph_names import WRITES, Spot, namespace_of
from lastgood.adapters.langgraph.versions import shortened, whole
from lastgood.backend import Located
from lastgood.checkpoints import read_mapping
from lastgood.codec import Codec
from lastgood.errors import CheckpointIntegrityError, SerializationError
from lastgood.ids import check_name
from lastgood.item_rules import ItemDraft
from lastgood.rows import CheckpointRow, ItemRow

FRAMEWORK = "langgraph"
PARENT = "parent_id"
_OURS = (PARENT, ORIGINAL)
_INNER = ("__input__", "__interrupt__", "__start__", "__snapshot_bumps__")


def spot_of(config: RunnableConfig) -> Spot:
    """The thread and the namespace that a config names."""
    configurable = config.get("configurable") or {}
    if configurable.get("thread_id") is None:
        raise ValueError('the config names no thread: {"configurable": {"thread_id": ...}}.')
    thread = check_name(str(configurable["thread_id"]), "thread_id")
    return Spot(thread, str(configurable.get("checkpoint_ns") or ""))


def id_of(config: RunnableConfig) -> str | None:
    """The checkpoint that a config names; None and "" count as absent, as LangGraph takes them."""
    found = config["configurable"].get("checkpoint_id")
    return None if found is None or found == "" else str(found)


def config_of(spot: Spot, id: str) -> RunnableConfig:
    """The config that names a checkpoint."""
    named = {"thread_id": spot.thread, "checkpoint_ns": spot.namespace, "checkpoint_id": id}
    return {"configurable": named}


@dataclass(frozen=True)
class Context:
    """What a checkpoint has beside its channel values."""

    given: Mapping[str, Any]
    short: bool = False
    """Whether versions are spelled as they are kept; who follows a line never asks for them."""

    @cached_property
    def fields(self) -> Mapping[str, Any]:
        """As LangGraph has them."""
        return whole(self.given) if self.short else self.given

    @classmethod
    def of(cls, checkpoint: Checkpoint, parent: str | None) -> Context:
        """Of a checkpoint on its way."""
        fields = {key: value for key, value in checkpoint.items() if key != "channel_values"}
        return cls({**fields, PARENT: parent})

    @classmethod
    def read(cls, codec: Codec, row: CheckpointRow) -> Context:
        """Of a stored checkpoint; raises CheckpointIntegrityError where there is none."""
        fields = read_mapping(codec, row.context)
        if "id" not in fields or PARENT not in fields:
            raise CheckpointIntegrityError(f"checkpoint {row.label} was not saved by LangGraph.")
        return cls(fields, short=True)

    def stored(self) -> dict[str, Any]:
        """As it is kept."""
        return shortened(self.fields)

    @property
    def id(self) -> str:
        return str(self.given["id"])

    @property
    def parent(self) -> str | None:
        return cast("str | None", self.given[PARENT])

    @property
    def versions(self) -> Mapping[str, Any]:
        """The versions of its channels."""
        return self.fields.get("channel_versions") or {}

    @property
    def seen(self) -> Mapping[str, Any]:
        """Which versions each node has seen."""
        return self.fields.get("versions_seen") or {}

    def checkpoint(self, values: Any) -> Checkpoint:
        """The checkpoint with its channel values."""
        fields = {key: value for key, value in self.fields.items() if key not in _OURS}
        return cast(Checkpoint, {**fields, "channel_values": values})


def is_ours(found: Located) -> bool:
    """Whether a graph saved it; agents of other names may have been given its states."""
    return found.row.framework == FRAMEWORK and namespace_of(found.agent) is not None


def unchanged(checkpoint: Checkpoint, new_versions: Any, base: Mapping[str, Any]) -> set[str]:
    """The channels whose values are those of the checkpoint before."""
    versions = checkpoint["channel_versions"]
    return {
        name
        for name in checkpoint["channel_values"]
        if name not in new_versions and name in base and base[name] == versions.get(name)
    }


def step_name(metadata: Mapping[str, Any], seen: Mapping[str, Any], before: Any) -> str | None:
    """What people call the step: the nodes that ran, or where the checkpoint comes from."""
    source = metadata.get("source")
    if source != "loop" or before is None:
        return source if isinstance(source, str) else None
    ran = [node for node in seen if node not in _INNER and seen[node] != before.get(node)]
    return ", ".join(ran)[:200] or "start"


# writes


class NewWrite(NamedTuple):
    """A write of a task on its way."""

    task: str
    path: str
    number: int
    channel: str
    value: Any


def new_writes(writes: Iterable[tuple[str, Any]], task: str, path: str) -> list[NewWrite]:
    """The writes of a task. Of an error its text is kept, as by LangGraph's own savers."""
    return [
        NewWrite(
            task,
            path,
            WRITES_IDX_MAP.get(channel, number),
            channel,
            repr(value) if isinstance(value, BaseException) else value,
        )
        for number, (channel, value) in enumerate(writes)
    ]


def write_draft(codec: Codec, spot: Spot, id: str, write: NewWrite) -> ItemDraft | None:
    """A write, encoded: of ordinary ones the first stays, of special ones the last.

    None if it cannot be kept and may be left out.
    """
    task, path, number, channel, value = write
    try:
        data = codec.pack_parts((channel, task, path, value), f"writes.{channel}")
    except SerializationError:
        if codec.on_unserializable == "raise":
            raise
        return None
    special = channel in WRITES_IDX_MAP
    return ItemDraft(WRITES, spot.write(id, task, number), data, first_wins=not special)


class Write(NamedTuple):
    """A stored write."""

    channel: str
    task: str
    path: str
    value: Any
    number: int
    row: ItemRow

    @property
    def order(self) -> tuple[str, str, int]:
        return writes_sort_key(self.path, self.task, self.number)

    @property
    def pending(self) -> PendingWrite:
        """As LangGraph knows it."""
        return self.task, self.channel, self.value


def read_writes(codec: Codec, rows: Iterable[ItemRow]) -> list[Write]:
    """Stored writes of one checkpoint, in the order in which a step applies them."""
    return sorted((_read_write(codec, row) for row in rows), key=lambda write: write.order)


def _read_write(codec: Codec, row: ItemRow) -> Write:
    channel, task, path, value = cast("list[Any]", codec.unpack(row.value))
    index = int.from_bytes(row.key[-4:]) - (1 << 31)
    return Write(channel, task, path, value, index, row)


class Shape(NamedTuple):
    """All parts of a tuple."""

    spot: Spot
    context: Context
    values: Any
    metadata: Mapping[str, Any]
    writes: list[Write]
    parent: str | None

    def tuple(self) -> CheckpointTuple:
        """As LangGraph knows it."""
        return CheckpointTuple(
            config=config_of(self.spot, self.context.id),
            checkpoint=self.context.checkpoint(self.values),
            metadata=cast(CheckpointMetadata, self.metadata),
            parent_config=config_of(self.spot, self.parent) if self.parent else None,
            pending_writes=[write.pending for write in self.writes],
        )
