"""Hashes that make damage visible: the checksum of content, the digest chain, the seal of a row.

Owns what each covers. Pure functions of bytes and numbers.

    checksum  public, over the content alone: the same on every backend, after copy and export
    digest    over the checksum, the expiry and the parent's digest: history is a hash chain;
              16 bytes, since every row carries its own and its parent's
    seal      short, over every column of one stored row, mutable ones included

Without a key these find damage, not forgery: whoever can write the store can recompute them.
"""

from __future__ import annotations

from collections.abc import Sequence
from hashlib import sha256

from ormsgpack import packb

LINK = 16
"""Bytes of a digest: enough to tell histories apart."""
SEAL = 8
"""Bytes of a seal: an accident goes unseen once in 2**64."""


def framed(*values: bytes) -> bytes:
    """Join with length prefixes, so that no two different rows of values look the same."""
    return b"".join([len(value).to_bytes(8) + value for value in values])


_VERSION, _NOTHING = framed(b"lastgood/1"), framed(b"")


def _with(value: bytes) -> bytes:
    """The same for one: every save makes a few of these."""
    return len(value).to_bytes(8) + value


def content_checksum(fields: Sequence[object], root: bytes) -> bytes:
    """SHA-256 over the fields of a checkpoint and the content root of its state."""
    return sha256(_VERSION + _with(packb(fields)) + _with(root)).digest()


def chained_digest(checksum: bytes, expires_at: int | None, parent_digest: bytes) -> bytes:
    """A link of the hash chain."""
    expiry = _NOTHING if expires_at is None else _with(expires_at.to_bytes(8, signed=True))
    return sha256(_with(checksum) + expiry + _with(parent_digest)).digest()[:LINK]


def seal(table: str, columns: Sequence[object]) -> bytes:
    """The check value of a row."""
    return sha256(table.encode() + packb(columns)).digest()[:SEAL]
