"""The checkpoint as users hold it, and the builder that makes one without a store.

Owns the public fields, their checksum and the plain-dict form. Knows the codec and the tree (for
the content root), no store. The one invariant: `checksum` follows from the fields alone, so
`verify_integrity` works anywhere.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import MISSING, dataclass, field, fields, replace
from datetime import UTC, datetime, timedelta
from typing import Any, Self

from lastgood.building import build
from lastgood.codec import Codec, Dropped, Loss
from lastgood.errors import IncompatibleCheckpointError, SerializationError, an
from lastgood.ids import check_name, new_id, read_id, show_id
from lastgood.integrity import content_checksum
from lastgood.losses import pack_losses
from lastgood.model import SCHEMA_VERSION, Framework, Header, check_step, micros, seconds
from lastgood.splitting import split
from lastgood.tree import Node

_PLAIN = Codec()


def state_tree(codec: Codec, state: object) -> Node:
    """The tree of a state that has to be kept whole."""
    tree = split(codec.encoder(), state)
    if isinstance(tree, Dropped):
        raise SerializationError(f"{an(type(state).__name__)} cannot be a state.", path="state")
    return tree


@dataclass(frozen=True, slots=True, kw_only=True)
class Checkpoint(Header):
    """One immutable snapshot of an agent: its state, and everything about it."""

    execution_state: Any
    """The state, as it was saved."""
    codec: Codec = field(default=_PLAIN, repr=False, compare=False)

    @property
    def state(self) -> Any:
        """The same as `execution_state`."""
        return self.execution_state

    def is_expired(self) -> bool:
        """Whether its time to live is over, by the clock of this host."""
        expiry = self.expires_at
        if expiry is None and self.ttl_seconds is not None:
            expiry = self.created_at + timedelta(seconds=self.ttl_seconds)
        return expiry is not None and expiry <= datetime.now(UTC)

    def verify_integrity(self) -> bool:
        """Whether the fields still match the checksum; this needs no store."""
        root = state_tree(self.codec, self.execution_state).hash
        return checksum_of(self, root, self.codec).hex() == self.checksum

    def as_dict(self) -> dict[str, Any]:
        """Return all fields as a plain dict, with times as ISO 8601 text."""
        values = {f.name: getattr(self, f.name) for f in fields(self) if f.name != "codec"}
        values["agent_context"] = dict(self.agent_context)
        values["metadata"] = dict(self.metadata)
        values["losses"] = [[loss.path, loss.type_name, loss.reason] for loss in self.losses]
        values["created_at"] = self.created_at.isoformat()
        values["expires_at"] = self.expires_at.isoformat() if self.expires_at else None
        return values

    def __reduce__(self) -> tuple[Any, ...]:
        """Travels between processes as its plain fields; the codec stays behind."""
        return type(self).from_dict, (self.as_dict(),)

    @classmethod
    def from_dict(cls, values: Mapping[str, Any]) -> Self:
        """Make a checkpoint from a dict that `as_dict` returned.

        Raises IncompatibleCheckpointError for a dict of another schema version, and for one in
        which a field is missing or a time cannot be read.
        """
        version = values.get("schema_version")
        if version != SCHEMA_VERSION:
            raise IncompatibleCheckpointError(
                f"a checkpoint of schema {version!r} cannot be read; this version reads "
                f"{SCHEMA_VERSION!r}."
            )
        known = [f for f in fields(cls) if f.name != "codec"]
        missing = [f.name for f in known if f.default is MISSING and f.name not in values]
        if missing:
            raise _incomplete(f"{', '.join(missing)} missing")
        given = {f.name: values[f.name] for f in known if f.name in values}
        given["created_at"] = _time(values, "created_at")
        if values["expires_at"]:
            given["expires_at"] = _time(values, "expires_at")
        given["losses"] = tuple(Loss(*loss) for loss in values.get("losses", ()))
        return cls(**given)


def _time(values: Mapping[str, Any], name: str) -> datetime:
    try:
        return datetime.fromisoformat(values[name])
    except (TypeError, ValueError):
        raise _incomplete(f"{name} is no time: {values[name]!r:.60}") from None


def _incomplete(why: str) -> IncompatibleCheckpointError:
    return IncompatibleCheckpointError(
        f"these are not the fields of a checkpoint: {why}.", hint="Pass all that as_dict() gave."
    )


def checksum_of(header: Header, root: bytes, codec: Codec = _PLAIN) -> bytes:
    """The public checksum of a checkpoint's fields and the content root of its state."""
    parent = read_id(header.parent_id) if header.parent_id else b""
    content = (
        read_id(header.checkpoint_id),
        header.agent_id,
        parent,
        header.step_index,
        header.step_name,
        str(getattr(header.framework, "value", header.framework)),
        micros(header.created_at),
        header.ttl_seconds,
        pack_mapping(codec, header.agent_context, "context")[0],
        pack_mapping(codec, header.metadata, "metadata")[0],
        header.handoff_target,
        header.handoff_schema,
        pack_losses(header.losses),
    )
    return content_checksum(content, root)


def pack_mapping(
    codec: Codec, values: Mapping[str, Any] | None, root: str
) -> tuple[bytes, list[Loss]]:
    """Context or metadata as stored (nothing takes no bytes), and what had to be left out."""
    if values is not None and not isinstance(values, Mapping):
        raise TypeError(f"{root} must be a mapping, not {type(values).__name__}")
    if not values:
        return b"", []
    encoder = codec.encoder(root)
    data = encoder.pack(dict(values))
    assert isinstance(data, bytes), "a dict can always be kept"
    return data, encoder.losses


def read_mapping(codec: Codec, data: bytes) -> dict[str, Any]:
    """The inverse of `pack_mapping`."""
    return codec.unpack(data) if data else {}  # type: ignore[return-value]


class CheckpointBuilder:
    """Makes a `Checkpoint` step by step and without a store; `client.put` stores the result."""

    def __init__(self, agent_id: str, framework: Framework | str = Framework.CUSTOM) -> None:
        self._values: dict[str, Any] = {
            "agent_id": check_name(agent_id, "agent_id"),
            "framework": check_name(getattr(framework, "value", framework), "framework"),
            "session_id": None,
            "parent_id": None,
            "step_index": 0,
            "step_name": None,
            "ttl_seconds": None,
            "handoff_target": None,
            "handoff_schema": None,
        }
        self._state: Any = {}
        self._context: dict[str, Any] = {}
        self._metadata: dict[str, Any] = {}

    def _set(self, **values: Any) -> Self:
        self._values |= values
        return self

    def session(self, session_id: str) -> Self:
        """Set the thread that the checkpoint belongs to; by default it begins a new one."""
        return self._set(session_id=check_name(session_id, "session_id"))

    def parent(self, parent_id: str) -> Self:
        """Set the id of the checkpoint that it follows; by default it follows none."""
        if read_id(parent_id) is None:
            raise ValueError(f"parent_id {parent_id!r} is not a checkpoint id")
        return self._set(parent_id=parent_id)

    def step(self, index: int, name: str | None = None) -> Self:
        """Set the number of the step, 0 by default, and the name of the step."""
        named = None if name is None else check_name(name, "step_name")
        return self._set(step_index=check_step(index), step_name=named)

    def execution_state(self, state: Any) -> Self:
        """Set the state, which `build` copies; by default it is an empty dict."""
        self._state = state
        return self

    def context(self, values: Mapping[str, Any]) -> Self:
        """Set the context: small facts to keep beside the state."""
        self._context = dict(values)
        return self

    def tag(self, **metadata: Any) -> Self:
        """Add metadata, by which the checkpoint can be found."""
        self._metadata |= metadata
        return self

    def ttl(self, ttl: float | timedelta) -> Self:
        """Set how long the checkpoint is kept, in seconds or as a timedelta."""
        return self._set(ttl_seconds=seconds(ttl))

    def handoff(self, target: str, schema: str | None = None) -> Self:
        """Set the agent that the checkpoint is meant for, and the name of the state's shape."""
        named = None if schema is None else check_name(schema, "schema")
        return self._set(handoff_target=check_name(target, "target"), handoff_schema=named)

    def build(self) -> Checkpoint:
        """Return the checkpoint: a copy of the state as it is now, with its checksum."""
        tree = state_tree(_PLAIN, self._state)
        values = {**self._values, "session_id": self._values["session_id"] or show_id(new_id())}
        made = Checkpoint(
            **values,
            checkpoint_id=show_id(new_id()),
            schema_version=SCHEMA_VERSION,
            execution_state=build(_PLAIN, tree),
            agent_context=read_mapping(_PLAIN, pack_mapping(_PLAIN, self._context, "context")[0]),
            metadata=read_mapping(_PLAIN, pack_mapping(_PLAIN, self._metadata, "metadata")[0]),
            created_at=datetime.now(UTC),
            expires_at=None,
            checksum="",
            seq=0,
            branch="",
            size=tree.size,
            digest="",
        )
        return replace(made, checksum=checksum_of(made, tree.hash).hex())
