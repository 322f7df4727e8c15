"""LangGraph's checkpoints as ours, and back.

The channel values are the state; everything else of a checkpoint is its context; the metadata is
the metadata. Pure. The one invariant: what is read equals what was put, key for key.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from functools import lru_cache
from itertools import chain, islice
from operator import attrgetter
from typing import Any, NamedTuple, cast
from uuid import UUID

import ormsgpack
from langchain_core.runnables import RunnableConfig
from langgraph.checkpoint.base import (
    WRITES_IDX_MAP,
    Checkpoint,
    CheckpointMetadata,
    CheckpointTuple,
    PendingWrite,
    writes_sort_key,
)
from langgraph.checkpoint.serde.types import ERROR

from lastgood.adapters.graph_copies import ORIGINAL
from lastgood.adapters.graph_names import WRITES, Spot, namespace_of
from lastgood.adapters.langgraph.versions import shortened, whole
from lastgood.backend import Located
from lastgood.checkpoints import read_mapping
from lastgood.codec import Codec, Encoder
from lastgood.errors import CheckpointIntegrityError, SerializationError
from lastgood.ids import check_name
from lastgood.item_rules import ItemDraft
from lastgood.rows import CheckpointRow, ItemRow

FRAMEWORK = "langgraph"
PARENT = "parent_id"
NO_TASK = str(UUID(int=0))
"""Under it stands what a run was resumed with, before a task takes it for its answer."""
_OURS = (PARENT, ORIGINAL)
_PARENT = ormsgpack.packb(PARENT)
_TEXT = frozenset((*range(0xA0, 0xC0), 0xD9, 0xDA, 0xDB))
"""The first bytes of texts in msgpack."""
_NO_WRITES, _RETURN = "__no_writes__", "__return__"
_SILENT = {*WRITES_IDX_MAP, _NO_WRITES}
"""Where a task writes to no channel."""
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


class Context:
    """What a checkpoint has beside its channel values.

    Of a stored one only the names are read, until somebody asks for more: who follows a line never
    does.
    """

    __slots__ = ("_codec", "_fields", "_packed", "id", "parent")

    def __init__(
        self, id: str, parent: str | None, fields: Mapping[str, Any] | None = None
    ) -> None:
        self.id = id
        self.parent = parent
        self._fields = fields
        self._codec: Codec | None = None
        self._packed = b""

    @property
    def fields(self) -> Mapping[str, Any]:
        """As LangGraph has them."""
        if self._fields is None:
            assert self._codec is not None
            self._fields = whole(read_mapping(self._codec, self._packed))
        return self._fields

    @classmethod
    def given(cls, fields: Mapping[str, Any]) -> Context:
        """Of fields that are there."""
        return cls(str(fields["id"]), fields[PARENT], fields)

    @classmethod
    def of(cls, checkpoint: Checkpoint, parent: str | None) -> Context:
        """Of a checkpoint on its way."""
        fields = {key: value for key, value in checkpoint.items() if key != "channel_values"}
        fields[PARENT] = parent
        return cls.given(fields)

    @classmethod
    def read(cls, codec: Codec, row: CheckpointRow) -> Context:
        """Of a stored checkpoint; raises CheckpointIntegrityError where there is none."""
        names = _names(row.context)
        if names is not None:
            found = cls(*names)
            found._codec, found._packed = codec, row.context
            return found
        fields = read_mapping(codec, row.context)
        if "id" not in fields or PARENT not in fields:
            raise CheckpointIntegrityError(f"checkpoint {row.label} was not saved by LangGraph.")
        return cls.given(whole(fields))

    def stored(self) -> dict[str, Any]:
        """As it is kept."""
        return shortened(self.fields)

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


@lru_cache(maxsize=2048)
def _names(context: bytes) -> tuple[str, str | None] | None:
    """The id of a checkpoint and that of its parent, where nothing but text has to be decoded."""
    try:
        fields = ormsgpack.unpackb(context, ext_hook=lambda _code, _data: None)
        id, parent = fields["id"], fields[PARENT]
    except (KeyError, TypeError, ValueError):
        return None
    plain = type(id) is str and (parent is None or type(parent) is str)
    return (id, parent) if plain else None


def is_ours(found: Located) -> bool:
    """Whether a graph saved it: others may have its states, or have saved in its lane."""
    named = namespace_of(found.agent) is not None and _PARENT in found.row.context
    return named and found.row.framework == FRAMEWORK


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
    """The writes of a task. Of an error that it raised its text is kept, as by LangGraph's own."""
    return [
        NewWrite(
            task,
            path,
            WRITES_IDX_MAP.get(channel, number),
            channel,
            repr(value) if channel == ERROR and isinstance(value, BaseException) else value,
        )
        for number, (channel, value) in enumerate(writes)
    ]


def run_of(config: RunnableConfig) -> str | None:
    """The run that somebody acts for, spelled as in the metadata of its checkpoints."""
    places = (config.get("metadata"), config.get("configurable"))
    found = next((place["run_id"] for place in places if place and "run_id" in place), None)
    return found.replace("\x00", "") if isinstance(found, str) else None


def text_of(run: str) -> str:
    """A run as the text of its writes."""
    return run.encode("utf-8", "backslashreplace").decode()


def in_its_place(write: NewWrite) -> NewWrite | None:
    """What is stored in the place of a write that is left out.

    LangGraph's word for a task that wrote nothing: without it, one that is through and wrote
    nothing else would run again. A task of an entrypoint does run again, or the entrypoint would go
    on with another value.
    """
    if write.channel in (*WRITES_IDX_MAP, _RETURN):
        return None
    return write._replace(channel=_NO_WRITES, value=None)


def write_drafts(
    codec: Codec, spot: Spot, id: str, writes: Iterable[NewWrite], run: str | None
) -> tuple[ItemDraft, ...]:
    """Writes, encoded, without those that cannot be kept and may be left out.

    Of ordinary ones the first stays, of special ones the last. Their text is the run, for a list
    to find: of what a task says again, the one in which it said so first.
    """
    encoder = codec.encoder()
    text = None if run is None else text_of(run)
    packed = [found for write in writes if (found := _packed(codec, encoder, write))]
    told = {write.task for write, _ in packed if write.channel not in _SILENT}
    drafts = list[ItemDraft]()
    for write, data in packed:
        if write.channel == _NO_WRITES and write.task in told:
            continue
        key, special = spot.write(id, write.task, write.number), write.channel in WRITES_IDX_MAP
        said = special and write.task != NO_TASK
        drafts.append(ItemDraft(WRITES, key, data, text, first_wins=not special, same_stays=said))
    return tuple(drafts)


def _packed(codec: Codec, encoder: Encoder, write: NewWrite) -> tuple[NewWrite, bytes] | None:
    """A write or what stands in its place, encoded; None if nothing does."""
    parts = [write.channel, write.task, write.path, write.value]
    data = encoder.pack_at_once(parts) or _walked(codec, parts, f"writes.{write.channel}")
    if data is not None:
        return write, data
    other = in_its_place(write)
    return None if other is None else _packed(codec, encoder, other)


def _walked(codec: Codec, parts: list[Any], root: str) -> bytes | None:
    try:
        return codec.pack_parts(parts, root)
    except SerializationError:
        if codec.on_unserializable == "raise":
            raise
        return None


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


def read_writes(codec: Codec, *checkpoints: Sequence[ItemRow]) -> list[Write]:
    """Stored writes, of each checkpoint in the order in which a step applies them."""
    found = iter(_read_each(codec, list(chain.from_iterable(checkpoints))))
    return [
        write
        for rows in checkpoints
        for write in sorted(islice(found, len(rows)), key=attrgetter("order"))
    ]


def _read_each(codec: Codec, rows: Sequence[ItemRow]) -> list[Write]:
    """In one call: there are many, and most are small."""
    if not rows:
        return []
    found = cast(
        "list[list[Any]]", codec.unpack_array(len(rows), b"".join([r.value for r in rows]))
    )
    return [
        Write(channel, task, path, value, int.from_bytes(row.key[-4:]) - (1 << 31), row)
        for row, (channel, task, path, value) in zip(rows, found, strict=True)
    ]


def may_be_of(codec: Codec, channel: str) -> Callable[[ItemRow], bool]:
    """Whether a stored write may be one to a channel; that it is not takes no decoding.

    The name stands at its front, as it is unless it is of another type than text.
    """
    front = b"\x94" + codec.pack(channel)

    def test(row: ItemRow) -> bool:
        return row.value.startswith(front) or row.value[1] not in _TEXT

    return test


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
