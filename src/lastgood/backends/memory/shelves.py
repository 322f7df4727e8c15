"""What a store in memory consists of: stored columns by key, as a file would hold them."""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Iterator, MutableMapping
from dataclasses import dataclass, field
from typing import NamedTuple

from lastgood.commits import Place
from lastgood.manifest import Spot

Columns = tuple[object, ...]


class StoredPart(NamedTuple):
    """A page, its short digest, and the seq of the save that brought it."""

    born: int
    digest: bytes
    data: bytes


class Items(MutableMapping[Place, Columns]):
    """The items of a thread by shelf and key, and the keys of every shelf in order.

    A change that was interrupted half-way is right again when it is made anew or taken back.
    """

    __slots__ = ("_keys", "_rows")

    def __init__(self) -> None:
        self._rows: dict[Place, Columns] = {}
        self._keys: dict[str, list[bytes]] = {}

    def between(
        self, shelf: str, low: bytes = b"", high: bytes | None = None, *, reverse: bool = False
    ) -> Iterator[Columns]:
        """The rows of a shelf from one key on, up to but without another, in order."""
        keys = self._keys.get(shelf, [])
        end = len(keys) if high is None else bisect_left(keys, high)
        span = range(bisect_left(keys, low), end)
        return (self._rows[shelf, keys[at]] for at in (reversed(span) if reverse else span))

    def __getitem__(self, place: Place) -> Columns:
        return self._rows[place]

    def __setitem__(self, place: Place, columns: Columns) -> None:
        self._rows[place] = columns
        keys, at, known = self._found(place)
        if not known:
            keys.insert(at, place[1])

    def __delitem__(self, place: Place) -> None:
        del self._rows[place]
        keys, at, known = self._found(place)
        if known:
            del keys[at]

    def _found(self, place: Place) -> tuple[list[bytes], int, bool]:
        """The keys of a shelf, where in them a key belongs, and whether it is there."""
        shelf, key = place
        keys = self._keys.setdefault(shelf, [])
        at = bisect_left(keys, key)
        return keys, at, at < len(keys) and keys[at] == key

    def __iter__(self) -> Iterator[Place]:
        return iter(self._rows)

    def __len__(self) -> int:
        return len(self._rows)


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
    items: dict[int, Items] = field(default_factory=dict)
    checkpoints: dict[int, dict[int, Columns]] = field(default_factory=dict)
    ids: dict[bytes, dict[int, int]] = field(default_factory=dict)
    streams: dict[int, int] = field(default_factory=dict)
    parts: dict[Spot, StoredPart] = field(default_factory=dict)
    large: dict[tuple[int, bytes], Spot] = field(default_factory=dict)
    newest: int = 0
    """The latest time of any change: the clock is not believed behind it."""
    last_thread: int = 0
    last_stream: int = 0
