"""A checkpoint's row as SQLite keeps it: columns for what statements ask for, one for the rest.

The driver makes an object of every column of every row that is read, which took half of the time of
a page of headers. What no statement looks at is packed into one column, where values that most rows
have in common take no byte.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import ormsgpack

from lastgood.integrity import LINK, SEAL
from lastgood.rows import CheckpointRow

STORED = (
    "key",
    "id",
    "lane",
    "branch",
    "parent",
    "fallback",
    "step_name",
    "created_at",
    "expires_at",
    "source_lane",
    "size",
    "manifest",
    "rest",
)
"""The columns of a checkpoint. Its key is `thread << 32 | seq`."""
LOW = (1 << 32) - 1

_USUAL = (b"", 0, "", b"", b"", b"", b"", None, None, None, 0)
"""What the rest is where nothing was said: of its end, that much is left out."""
_SAID = _USUAL[4:]
_DAMAGED = (b"", *[None] * (len(_USUAL) - 1))
_DIGEST_AT = -LINK - SEAL
_ROOT_AT = _DIGEST_AT - 32


def folded(row: CheckpointRow, seal: bytes) -> tuple[object, ...]:
    """The values to store."""
    hashes = row.parent_digest + row.root + row.digest + seal
    rest = [hashes, row.step, row.framework, row.slots]
    said = (row.metadata, row.context, row.losses, row.ttl, row.target, row.schema, row.parent_gone)
    if said != _SAID:
        rest += said
    while rest[-1] == _USUAL[len(rest) - 1]:
        rest.pop()
    return (
        row.thread << 32 | row.seq,
        row.id,
        row.lane,
        row.branch,
        row.parent,
        row.fallback,
        row.step_name,
        row.created_at,
        row.expires_at,
        row.source_lane,
        row.size,
        row.manifest,
        ormsgpack.packb(rest),
    )


def unfolded(stored: Sequence[Any]) -> tuple[object, ...]:
    """The columns of the row with its seal. Where the rest cannot be read, no seal fits."""
    key, id, lane, branch, parent, fallback, step_name = stored[:7]
    created_at, expires_at, source_lane, size, manifest, packed = stored[7:]
    hashes, step, framework, slots, *more = _rest(packed)
    metadata, context, losses, ttl, target, schema, parent_gone = more
    return (
        key >> 32,
        key & LOW,
        id,
        lane,
        branch,
        parent,
        hashes[:_ROOT_AT],
        parent_gone,
        fallback,
        step,
        step_name,
        framework,
        created_at,
        ttl,
        expires_at,
        context,
        metadata,
        target,
        schema,
        source_lane,
        losses,
        hashes[_ROOT_AT:_DIGEST_AT],
        hashes[_DIGEST_AT:-SEAL],
        size,
        manifest,
        slots,
        hashes[-SEAL:],
    )


def _rest(packed: Any) -> Sequence[Any]:
    try:
        found = ormsgpack.unpackb(packed)
    except (TypeError, ValueError):
        return _DAMAGED
    if type(found) is not list or not 0 < len(found) <= len(_USUAL) or type(found[0]) is not bytes:
        return _DAMAGED
    # Another spelling of the same, or more behind it, was not written by us.
    if found[-1] == _USUAL[len(found) - 1] or ormsgpack.packb(found) != packed:
        return _DAMAGED
    return (*found, *_USUAL[len(found) :])
