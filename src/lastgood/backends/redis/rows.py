"""Rows and parts as Redis has them: a row is a MessagePack list of its columns, seal last."""

from __future__ import annotations

from typing import NamedTuple

import ormsgpack

from lastgood.backend import Columns
from lastgood.backends.remote.rows import columns, stored
from lastgood.integrity import seal
from lastgood.rows import Row, fields_of

BORN, HEAD = 6, 22
"""A part begins with the seq that brought it, in so many bytes, and its digest; then its data."""


_HOLDERS = {list, dict}
"""No column is one of these."""


def packed(row: Row) -> bytes:
    """A row as it is stored."""
    return ormsgpack.packb(stored(row))


def unpacked(cls: type, data: bytes) -> Columns:
    """Its columns. What is no row any more becomes one whose seal does not fit."""
    width = len(fields_of(cls)) + 1
    try:
        found = ormsgpack.unpackb(data)
    except ValueError:
        found = None
    if not isinstance(found, list) or len(found) != width or _HOLDERS & set(map(type, found)):
        return (0,) * (width - 1) + (b"",)
    return columns(cls, found)


def optional(cls: type, data: bytes | None) -> Columns | None:
    """The columns of a row that may not be there."""
    return None if data is None else unpacked(cls, data)


def every(cls: type, found: list[bytes]) -> list[Columns]:
    """The columns of many rows."""
    return [unpacked(cls, data) for data in found]


class StoredPart(NamedTuple):
    """A part, taken apart."""

    born: int
    digest: bytes
    data: bytes


def packed_part(born: int, digest: bytes, data: bytes) -> bytes:
    """A part as it is stored."""
    return born.to_bytes(BORN) + digest + data


def unpacked_part(found: bytes) -> StoredPart:
    """The inverse of `packed_part`."""
    return StoredPart(int.from_bytes(found[:BORN]), found[BORN:HEAD], found[HEAD:])


def pointer(key: int, lane: int | None, number: int) -> bytes:
    """Which run of a lane, or of the thread, is the newest. Sealed: no row says the same."""
    return b"%d:" % number + seal("newest run", (key, lane, number)).hex().encode()
