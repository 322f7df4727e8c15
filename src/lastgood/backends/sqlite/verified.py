"""Rows whose seals this process has verified, so that the same row need not be hashed again.

A row is still read from the store every time, with all its columns. If each of them, the seal
included, equals what was verified before, it is that row; to hash it again could only say the same.
Whatever differs in one column is verified like any other. Takes no lock: each operation on a dict
is atomic by itself, and what is in it never changes.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

from lastgood.backends.sqlite.rows import unfolded
from lastgood.rows import BranchRow, CheckpointRow, LaneRow, R, Row, ThreadRow, unsealed

LIMIT = 2048
"""Rows; with more, all are forgotten."""
MANY = 256
"""Rows of one answer; more are read once and not looked at again, as a rule."""
LARGEST = 4096
"""Bytes of content up to which a checkpoint's row is kept: what is small takes longest to hash."""

_KEPT: frozenset[type] = frozenset({ThreadRow, LaneRow, BranchRow, CheckpointRow})


class Verified:
    """What was verified, by the column that its seal is in: the last one."""

    def __init__(self) -> None:
        self._known: dict[object, tuple[Sequence[object], Row]] = {}

    def row(self, cls: type[R], columns: Sequence[object]) -> R:
        """The row behind stored values; raises CheckpointIntegrityError if they were changed."""
        columns_then, row = self._known.get(columns[-1], _NOTHING)
        if columns_then == columns and type(row) is cls:
            return row
        return self._verified(cls, columns)

    def rows(self, cls: type[R], stored: Sequence[Sequence[object]]) -> list[R]:
        """The same for several. So many that others would have to go for them are not kept."""
        if len(stored) > MANY:
            return [_unsealed(cls, columns) for columns in stored]
        found: list[R] = []
        for columns in stored:
            columns_then, row = self._known.get(columns[-1], _NOTHING)
            if columns_then == columns and type(row) is cls:
                found.append(row)
            else:
                found.append(self._verified(cls, columns))
        return found

    def _verified(self, cls: type[R], columns: Sequence[object]) -> R:
        row = _unsealed(cls, columns)
        if cls in _KEPT and is_small(row):
            if len(self._known) >= LIMIT:
                self._known.clear()
            self._known[columns[-1]] = columns, row
        return row


_NOTHING: tuple[Sequence[object], Row | None] = ((), None)


_UNFOLDED: dict[type, Callable[[Sequence[object]], Sequence[object]]] = {CheckpointRow: unfolded}


def _unsealed(cls: type[R], columns: Sequence[object]) -> R:
    unfold = _UNFOLDED.get(cls)
    return unsealed(cls, columns if unfold is None else unfold(columns))


def is_small(row: Row) -> bool:
    """Whether a row is worth keeping: the content of a checkpoint may be large."""
    if not isinstance(row, CheckpointRow):
        return True
    content = (row.context, row.metadata, row.losses, row.manifest)
    return sum(map(len, content)) <= LARGEST
