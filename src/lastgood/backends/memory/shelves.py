"""What a store in memory consists of: stored columns by key, as a file would hold them."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import NamedTuple

from lastgood.manifest import Spot

Columns = tuple[object, ...]


class StoredPart(NamedTuple):
    """A page, its short digest, and the seq of the save that brought it."""

    born: int
    digest: bytes
    data: bytes


@dataclass(slots=True)
class Shelves:
    """Stored columns by key: what a file would hold."""

    threads: dict[int, Columns] = field(default_factory=dict)
    names: dict[tuple[str, str], int] = field(default_factory=dict)
    lanes: dict[int, dict[str, Columns]] = field(default_factory=dict)
    branches: dict[int, dict[tuple[int, str], Columns]] = field(default_factory=dict)
    moves: dict[int, dict[tuple[int, int], Columns]] = field(default_factory=dict)
    tags: dict[int, dict[str, Columns]] = field(default_factory=dict)
    runs: dict[int, dict[tuple[int, int], Columns]] = field(default_factory=dict)
    items: dict[int, dict[tuple[str, bytes], Columns]] = field(default_factory=dict)
    checkpoints: dict[int, dict[int, Columns]] = field(default_factory=dict)
    ids: dict[bytes, dict[int, int]] = field(default_factory=dict)
    streams: dict[int, int] = field(default_factory=dict)
    parts: dict[Spot, StoredPart] = field(default_factory=dict)
    large: dict[tuple[int, bytes], Spot] = field(default_factory=dict)
    newest: int = 0
    """The latest time of any change: the clock is not believed behind it."""
    last_thread: int = 0
    last_stream: int = 0
