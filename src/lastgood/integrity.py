"""Hashes that make damage visible: the checksum of content, the digest chain, the seal of a row.

Owns what each covers. Pure functions of bytes and numbers.

    checksum  public, over the content alone: the same on every backend, after copy and export
    digest    over the checksum, the expiry and the parent's digest: history is a hash chain;
              16 bytes, since every row carries its own and its parent's
    seal      short, over every column of one stored row, mutable ones included

Without a key these find damage, not forgery: whoever can write the store can recompute them.
"""

from __future__ import annotations

import hashlib
from collections.abc import Sequence

import ormsgpack

LINK = 16
"""Bytes of a digest: enough to tell histories apart."""
SEAL = 8
"""Bytes of a seal: an accident goes unseen once in 2**64."""


def framed(*values: bytes) -> bytes:
    """Join with length prefixes, so that no two different rows of values look the same."""
    return b"".join([len(value).to_bytes(8) + value for value in values])


def content_checksum(fields: Sequence[object], root: bytes) -> bytes:
    """SHA-256 over the fields of a checkpoint and the content root of its state."""
    return hashlib.sha256(framed(b"lastgood/1", ormsgpack.packb(list(fields)), root)).digest()


def chained_digest(checksum: bytes, expires_at: int | None, parent_digest: bytes) -> bytes:
    """A link of the hash chain."""
    expiry = b"" if expires_at is None else expires_at.to_bytes(8, signed=True)
    return hashlib.sha256(framed(checksum, expiry, parent_digest)).digest()[:LINK]


def seal(table: str, columns: Sequence[object]) -> bytes:
    """The check value of a row."""
    return hashlib.sha256(table.encode() + ormsgpack.packb(columns)).digest()[:SEAL]
