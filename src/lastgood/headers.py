"""From a stored row to what callers see of it, one field at a time, when it is asked for.

A list shows a few fields of many checkpoints; what nobody looks at is not decoded and not hashed.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import partial

from lastgood.backend import Located
from lastgood.checkpoints import Checkpoint, read_mapping
from lastgood.codec import Codec
from lastgood.ids import show_id
from lastgood.losses import read_losses
from lastgood.model import SCHEMA_VERSION, Header, Later, moment


def _field(located: Located, codec: Codec, name: str) -> object:
    """The value of one field."""
    made = _MADE.get(name)
    return getattr(located.row, name) if made is None else made(located, codec)


def _expiry(located: Located, _: Codec) -> object:
    expires_at = located.row.expires_at
    return None if expires_at is None else moment(expires_at)


def _parent(located: Located, _: Codec) -> str | None:
    parent = located.row.parent
    return show_id(parent) if parent else None


_MADE: dict[str, Callable[[Located, Codec], object]] = {
    "checkpoint_id": lambda located, _: located.row.label,
    "agent_id": lambda located, _: located.agent,
    "session_id": lambda located, _: located.session,
    "parent_id": _parent,
    "schema_version": lambda *_: SCHEMA_VERSION,
    "step_index": lambda located, _: located.row.step,
    "agent_context": lambda located, codec: read_mapping(codec, located.row.context),
    "metadata": lambda located, codec: read_mapping(codec, located.row.metadata),
    "created_at": lambda located, _: moment(located.row.created_at),
    "ttl_seconds": lambda located, _: located.row.ttl,
    "expires_at": _expiry,
    "checksum": lambda located, _: located.row.checksum(located.agent).hex(),
    "handoff_target": lambda located, _: located.row.target,
    "handoff_schema": lambda located, _: located.row.schema,
    "digest": lambda located, _: located.row.digest.hex(),
    "losses": lambda located, _: read_losses(located.row.losses),
}


# A page has many headers, and a restore is short: this takes half as long as to set attributes that
# are frozen to everybody else.
_set_source = vars(Later)["_source"].__set__
_set_seq, _set_step_name, _set_created_at, _set_context, _set_metadata = (
    vars(Header)[name].__set__
    for name in ("seq", "step_name", "created_at", "agent_context", "metadata")
)
_set_state, _set_codec = (vars(Checkpoint)[name].__set__ for name in ("execution_state", "codec"))


def header_of(located: Located, codec: Codec) -> Header:
    """The header of a checkpoint; what every list shows is there at once."""
    row = located.row
    made = object.__new__(Header)
    _set_source(made, partial(_field, located, codec))
    _set_seq(made, row.seq)
    _set_step_name(made, row.step_name)
    _set_created_at(made, moment(row.created_at))
    return made


def checkpoint_of(located: Located, codec: Codec, state: object) -> Checkpoint:
    """The checkpoint with its state; what needs users' decoders is decoded now."""
    row = located.row
    made = object.__new__(Checkpoint)
    _set_source(made, partial(_field, located, codec))
    _set_state(made, state)
    _set_codec(made, codec)
    _set_context(made, read_mapping(codec, row.context))
    _set_metadata(made, read_mapping(codec, row.metadata))
    return made
