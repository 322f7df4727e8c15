"""What a client remembers: the trees of checkpoints it saw, and which one it last saw in a lane.

Entries are keyed by checkpoint id. A checkpoint never changes, but one that was removed may leave
its id to another: a tree knows whose it is. The last-seen table is only a guess at a good diff base
and is never trusted for a head. Bounded in bytes, least recently used goes first. Takes no lock:
each operation on a dict is atomic by itself, and whoever puts an entry in or takes it out is the
one who counts its weight.
"""

from __future__ import annotations

from collections import OrderedDict
from contextlib import suppress
from dataclasses import dataclass

from lastgood.manifest import Stored
from lastgood.rows import CheckpointRow

LANES = 4096


@dataclass(slots=True)
class Entry:
    """A tree, what it weighs, and the row and agent of which it is known that they go together."""

    stored: Stored
    weight: int
    verified: object = None


class TreeCache:
    """Least-recently-used trees, at most `limit` bytes of them."""

    def __init__(self, limit: int = 64 << 20) -> None:
        self.limit = limit
        self.weight = 0
        self._entries: OrderedDict[bytes, Entry] = OrderedDict()
        self._lanes: dict[tuple[str, str], bytes] = {}

    def get(self, id: bytes) -> Stored | None:
        entry = self._entries.get(id)
        if entry is None:
            return None
        try:  # noqa: SIM105, for every restore comes by here
            self._entries.move_to_end(id)
        except KeyError:
            pass  # somebody else has just dropped it
        return entry.stored

    def of(self, row: CheckpointRow) -> Stored | None:
        """The tree of this very checkpoint."""
        found = self.get(row.id)
        return found if found is not None and found.place == row.place else None

    def note_verified(self, id: bytes, what: object) -> None:
        """Remember what was verified about a checkpoint, for as long as its tree is kept."""
        entry = self._entries.get(id)
        if entry is not None:
            entry.verified = what

    def is_verified(self, id: bytes, what: object) -> bool:
        """Whether the very same was verified before."""
        entry = self._entries.get(id)
        return entry is not None and entry.verified == what

    def put(self, id: bytes, stored: Stored, *, instead_of: bytes = b"") -> None:
        """Keep a tree; a child takes the place of its parent, whose memory it mostly shares."""
        if not self.limit:
            return
        self._drop(instead_of)
        self._drop(id)
        entry = Entry(stored, stored.tree.size + 1024)
        if entry.weight > self.limit:
            return
        if self._entries.setdefault(id, entry) is entry:
            self.weight += entry.weight
        if self.weight > self.limit:
            self._shrink()

    def _shrink(self) -> None:
        """Drop the oldest."""
        for id in list(self._entries):
            if self.weight <= self.limit:
                return
            self._drop(id)

    def _drop(self, id: bytes) -> None:
        entry = self._entries.pop(id, None)
        if entry is not None:
            self.weight -= entry.weight

    def saw(self, lane: tuple[str, str], id: bytes) -> None:
        """Remember the newest checkpoint seen in a lane."""
        self._lanes.pop(lane, None)
        self._lanes[lane] = id
        if len(self._lanes) > LANES:
            with suppress(RuntimeError, StopIteration):  # others may change it meanwhile
                self._lanes.pop(next(iter(self._lanes)), None)

    def last_seen(self, lane: tuple[str, str]) -> bytes:
        return self._lanes.get(lane, b"")
