"""From a stored row to what callers see of it, one field at a time, when it is asked for.

A list shows a few fields of many checkpoints; what nobody looks at is not decoded and not hashed.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import NamedTuple

from lastgood.backend import Located
from lastgood.checkpoints import Checkpoint, read_losses, read_mapping
from lastgood.codec import Codec
from lastgood.ids import show_id
from lastgood.model import SCHEMA_VERSION, Header, moment


class Source(NamedTuple):
    """What a header is made from."""

    located: Located
    codec: Codec

    def field(self, name: str) -> object:
        """The value of one field."""
        made = _MADE.get(name)
        return getattr(self.located.row, name) if made is None else made(self)


def _expiry(source: Source) -> object:
    expires_at = source.located.row.expires_at
    return None if expires_at is None else moment(expires_at)


def _parent(source: Source) -> str | None:
    parent = source.located.row.parent
    return show_id(parent) if parent else None


_MADE: dict[str, Callable[[Source], object]] = {
    "checkpoint_id": lambda source: source.located.row.label,
    "agent_id": lambda source: source.located.agent,
    "session_id": lambda source: source.located.session,
    "parent_id": _parent,
    "schema_version": lambda _: SCHEMA_VERSION,
    "step_index": lambda source: source.located.row.step,
    "agent_context": lambda source: read_mapping(source.codec, source.located.row.context),
    "metadata": lambda source: read_mapping(source.codec, source.located.row.metadata),
    "created_at": lambda source: moment(source.located.row.created_at),
    "ttl_seconds": lambda source: source.located.row.ttl,
    "expires_at": _expiry,
    "checksum": lambda source: source.located.row.checksum(source.located.agent).hex(),
    "handoff_target": lambda source: source.located.row.target,
    "handoff_schema": lambda source: source.located.row.schema,
    "digest": lambda source: source.located.row.digest.hex(),
    "losses": lambda source: read_losses(source.located.row.losses),
}


def header_of(located: Located, codec: Codec) -> Header:
    """The header of a checkpoint."""
    return Header.later(Source(located, codec).field)


def checkpoint_of(located: Located, codec: Codec, state: object) -> Checkpoint:
    """The checkpoint with its state; what needs users' decoders is decoded now."""
    return Checkpoint.later(
        Source(located, codec).field,
        execution_state=state,
        codec=codec,
        agent_context=read_mapping(codec, located.row.context),
        metadata=read_mapping(codec, located.row.metadata),
    )
