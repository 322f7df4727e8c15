"""Comparing checkpoints: the part of a client that tells what changed between two of them.

Owns the reading that a comparison asks for; what is asked for is `comparing`. Bytes are compared
inside the operation, values are made behind it, on the caller's thread.
"""

from __future__ import annotations

from collections.abc import Sequence

from lastgood import manifest, tree
from lastgood.backend import Extents
from lastgood.comparing import Shelf, StoredValue
from lastgood.core import Core
from lastgood.diffing import Missing, compare
from lastgood.diffs import Diff
from lastgood.driver import Driver
from lastgood.edits import Edit
from lastgood.manifest import Spot
from lastgood.resolving import locate
from lastgood.rows import CheckpointRow, read_slots


class Comparing:
    """The methods of a client that compare."""

    _core: Core
    _driver: Driver

    async def diff(self, a: str, b: str) -> Diff:
        """Return what turns the state of checkpoint `a` into that of checkpoint `b`.

        The two may belong to any threads and agents. Pages that both share are not read, so the
        cost depends on how much differs. Raises CheckpointNotFoundError, CheckpointExpiredError or
        CheckpointIntegrityError.
        """
        edit = await self._driver.run(difference(self._core, a, b))
        return Diff.of(self._core.codec, edit)


async def difference(core: Core, a: str, b: str) -> Edit | None:
    """The edit between the states of two checkpoints; None if they are equal."""
    rows = [(await locate(core, ref)).row for ref in (a, b)]
    if rows[0].root == rows[1].root:
        return None
    read: dict[Spot, bytes] = {}
    sides = [_Side(core, row, Shelf(read_slots(row.slots), read)) for row in rows]
    while True:
        old, new = (side.value() for side in sides)
        edit = compare(old, new) if old and new else None
        if not any(side.shelf.wanted for side in sides):
            return edit
        await _fetch(core, sides)


class _Side:
    """One of the two checkpoints: its tree, as far as it is known yet."""

    def __init__(self, core: Core, row: CheckpointRow, shelf: Shelf) -> None:
        self.row = row
        self.shelf = shelf
        known = core.cache.of(row)
        if known is not None and known.tree.hash == row.root:
            self._node, self._is_skeleton = known.tree, False
        else:
            self._node, self._is_skeleton = manifest.read(row.manifest)

    def value(self) -> StoredValue | None:
        """The state; None if its manifest has to be read first."""
        if self._is_skeleton:
            assert isinstance(self._node, tree.Sequence)
            try:
                records = StoredValue(self._node, self.shelf).body()
            except Missing:
                return None
            self._node, self._is_skeleton = manifest.read_records(records), False
        return StoredValue(self._node, self.shelf)


async def _fetch(core: Core, sides: Sequence[_Side]) -> None:
    """Read what both sides want, in one call."""
    wanted = [(side, span) for side in sides for span in dict.fromkeys(side.shelf.wanted)]
    ranges = [
        Extents(side.row.thread, Spot(span.stream, span.first), span.length, side.row.seq)
        for side, span in wanted
    ]
    found = await core.backend.parts(ranges, checked=True)
    for (side, span), extent, pages in zip(wanted, ranges, found, strict=True):
        if len(pages) != span.length:
            raise await core.lost(side.row, extent, span.length - len(pages))
        side.shelf.put(span, pages)
    for side in sides:
        side.shelf.wanted.clear()
