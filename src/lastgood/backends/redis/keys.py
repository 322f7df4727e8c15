"""How keys and fields in Redis are spelled.

Everything of a thread lies under keys with one hash tag, made from a hash of tenant and name: in a
Cluster all of it is in one slot, and no two names run together, whatever characters they have.

    P:{tag}      the thread: `t` its row, `v` its version, `k` its key, `B` the bytes of its parts,
                 `l` + agent a lane, `n` + number its agent, `b` + lane + name a branch, `g` a tag
    P:{tag}:r    `r` + number a run, `m` + lane + number a move; `R`, `M` the number of the newest
    P:{tag}:c    checkpoints by seq         :s  their seqs, in order     :i  id -> seq
    P:{tag}:k    what follows what          :x  when each expires
    P:{tag}:p    parts by stream:number     :d  digest -> place of a large part     :z  streams
    P:{tag}:e    items                      :o  their names, in order
    P:{tag}:y    ids that may not be used   :w:...  parts on their way     :n  wakes watchers

Across threads there are hints, checked whenever they are read: which thread has a checkpoint
(tables `P:i:`), which has a key (tables `P:t:`), and lists of a tenant's threads: all of them in
three orders (`P:{@tenant}:updated`, `:created`, `:name`), and those of one user, which is in the
key as a hash, by time (`P:{@tenant}:updated:user`).
"""

from __future__ import annotations

import base64
import hashlib
from typing import NamedTuple

from lastgood.backends.remote.queries import ThreadName
from lastgood.backends.remote.rows import to_bytes
from lastgood.ids import check_name
from lastgood.integrity import framed

SUFFIXES = ("", ":r", ":c", ":s", ":i", ":k", ":x", ":p", ":d", ":z", ":e", ":o", ":y")
"""Of the keys of a thread."""
OWN = tuple(suffix for suffix in SUFFIXES if suffix != ":y")
"""The same without that which may be there before the thread: ids that it may not use."""
NEWS = ":n"
"""Of the stream that wakes watchers. It holds nothing of the thread, is there before and after it,
and ends by itself: so it is none of those."""
NOTHING = ":w"
"""Of a key that is never there: what is on its way has longer ones."""
BUCKETS = 1024
"""So many tables hold the hints of checkpoints: small tables take half the memory of large ones."""
RANGE = 512
"""So many keys of threads share a table."""


_TENANT = 8
"""So many bytes stand for a tenant in the hint of a checkpoint."""


def _hashed(*values: str, size: int) -> bytes:
    return hashlib.sha256(framed(*map(to_bytes, values))).digest()[:size]


def _shown(data: bytes) -> str:
    return base64.urlsafe_b64encode(data).decode()


def tag_of(place: ThreadName) -> str:
    """The hash tag of a thread: 16 characters."""
    return _shown(_hashed(place.tenant, place.name, size=12))


def check_prefix(prefix: str) -> str:
    """A prefix that leaves each thread its hash tag, which an empty pair of braces takes away."""
    if check_name(prefix, "prefix").partition("{")[2].startswith("}"):
        raise ValueError(
            f"prefix={prefix!r}: with {{}} in front, a Cluster does not keep a thread together. "
            "Use a prefix without braces."
        )
    return prefix


def touched(thread: str) -> list[str]:
    """The keys that a script on a thread may touch, its own first."""
    return [thread + suffix for suffix in (*SUFFIXES, NEWS, NOTHING)]


class Hint(NamedTuple):
    """A field in a table of hints."""

    key: str
    field: bytes


class Keys:
    """The keys of one store."""

    def __init__(self, prefix: str) -> None:
        self.stem = f"{prefix}:"
        """What all of them begin with."""
        self.meta = f"{prefix}:meta"
        self.signs = (self.meta, self.counter("thread"), self.key_hint(1).key)
        """Of a store one at least is there, unless its server has lost all three."""

    def thread(self, tag: str) -> str:
        """The key of a thread; those of its tables begin with it."""
        return f"{self.stem}{{{tag}}}"

    def own(self, tag: str) -> list[str]:
        """The keys of which one at least is there if the thread is, or was damaged."""
        return [self.thread(tag) + suffix for suffix in OWN]

    def news(self, tag: str) -> str:
        """The stream that wakes who watches a thread."""
        return self.thread(tag) + NEWS

    def counter(self, kind: str) -> str:
        """The key of the number that was last given out."""
        return f"{self.stem}last:{kind}"

    def id_hint(self, tenant: str, id: bytes) -> Hint:
        """Where it says which thread of a tenant has a checkpoint."""
        bucket = int.from_bytes(id[-2:]) % BUCKETS
        return Hint(self.ids(bucket), _hashed(tenant, size=_TENANT) + id)

    def ids(self, bucket: int) -> str:
        """A table of ids."""
        return f"{self.stem}i:{bucket}"

    def key_hint(self, key: int) -> Hint:
        """Where it says which thread has a key."""
        return Hint(f"{self.stem}t:{key // RANGE}", b"%d" % key)

    def next_table(self, key: int) -> int:
        """The first key whose hint is in the next table."""
        return (key // RANGE + 1) * RANGE

    def list(self, tenant: str, sort: str, owner: str | None = None) -> str:
        """The list of a tenant's threads in some order, or of those that one user has."""
        whole = f"{self.stem}{{@{_shown(_hashed(tenant, size=12))}}}:{sort}"
        return whole if owner is None else f"{whole}:{_shown(_hashed(owner, size=12))}"


def belongs(field: bytes, tenant: str) -> bool:
    """Whether a hint is about a checkpoint of this tenant."""
    return field.startswith(_hashed(tenant, size=_TENANT))


def id_in(field: bytes) -> bytes:
    """The id of a checkpoint that a hint is about."""
    return field[_TENANT:]


def member(key: int, tag: str) -> bytes:
    """A thread in the lists by time."""
    return key.to_bytes(8) + tag.encode()


def read_member(found: bytes) -> tuple[int, str]:
    """The inverse of `member`."""
    return int.from_bytes(found[:8]), found[8:].decode("ascii", "replace")


def name_member(name: str, key: int) -> bytes:
    """A thread in the list by name: names have no control characters, so this keeps their order."""
    return to_bytes(name) + b"\x00" + key.to_bytes(8)


def read_name_member(found: bytes) -> tuple[bytes, int]:
    """The inverse of `name_member`."""
    return found[:-9], int.from_bytes(found[-8:])


def item_name(shelf: str, key: bytes) -> bytes:
    """The field of an item; those of one shelf are in the order of their keys."""
    name = to_bytes(shelf)
    return len(name).to_bytes(2) + name + key


def branch_field(lane: int, name: str) -> bytes:
    """The field of a branch."""
    return b"b%d:" % lane + to_bytes(name)


def part_field(stream: int, number: int) -> bytes:
    """The field of a part."""
    return b"%d:%d" % (stream, number)
