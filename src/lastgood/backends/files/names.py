"""Names of directories and files in a store of plain files.

Owns how a tenant's or a thread's name becomes the name of a directory, and what a checkpoint's
file is called. The one invariant: no name leads out of the directory that it is put into, and two
names never meet in one directory, on a file system that ignores case either. Who wants the name
itself reads it from the row inside.
"""

from __future__ import annotations

import hashlib
import re
from functools import lru_cache
from typing import NamedTuple

from lastgood.ids import show_id

THREAD, LOCK, STORE, THREADS = "thread.json", ".lock", "lastgood.json", "threads"
CLOCK = "clock.json"
PREPARED = ".tmp"
"""What a file is called behind its name, as long as it is not in its place."""

_PLAIN = re.compile(r"[a-z0-9_-]([a-z0-9._-]{0,98}[a-z0-9_-])?")
_RESERVED = re.compile(r"(aux|con|nul|prn|com[0-9]|lpt[0-9])(\..*)?")
_STRANGE = re.compile(r"[^A-Za-z0-9_-]")
_FILE = re.compile(r"([0-9]{8,})-([0-9a-f]{8}(?:-[0-9a-f]{4}){3}-[0-9a-f]{12})\.json")


_SHELF = re.compile(r"items-.+-[0-9]+\.([0-9]+)\.json")


def directory_of(name: str) -> str:
    """A name as it is if every file system takes it; else what is left of it, and a hash."""
    if _PLAIN.fullmatch(name) and not _RESERVED.fullmatch(name):
        return name
    digest = hashlib.sha256(name.encode()).hexdigest()[:20]
    return f"{_STRANGE.sub('_', name)[:60]}~{digest}"


class Place(NamedTuple):
    """Which checkpoint a file is, by its name."""

    seq: int
    id: bytes

    @property
    def file(self) -> str:
        return f"{self.seq:08}-{show_id(self.id)}.json"


@lru_cache(maxsize=1 << 16)
def place_of(file: str) -> Place | None:
    """What a file's name says; None if it is not a checkpoint's."""
    found = _FILE.fullmatch(file)
    return Place(int(found[1]), bytes.fromhex(found[2].replace("-", ""))) if found else None


def shelf_file(shelf: str, thread: int, version: int) -> str:
    """The name of the file of a shelf; no name is used twice."""
    return f"items-{directory_of(shelf)}-{thread}.{version}.json"


def version_of(file: str) -> int | None:
    """Which change of its thread's items a file is of; None if it is no shelf's."""
    found = _SHELF.fullmatch(file)
    return int(found[1]) if found else None


def is_data(file: str) -> bool:
    """Whether a file is one that the file of a thread has to account for."""
    return place_of(file) is not None or version_of(file) is not None
