"""Items that this process wrote last, and where its shelves end: a part of `sqlite.recent`.

Most items are put behind all others of their shelf: frameworks' ids grow with time. Where a shelf
is known to be free from some key on, nobody has to look whether a later one is there.
"""

from __future__ import annotations

from lastgood.commits import Place, Writes
from lastgood.rows import ItemRow

SMALL = 64
"""Bytes of a value up to which an item is kept: an alias, which the next save asks for."""

Shelf = tuple[int, str]


class Shelves:
    """What is known of the items of threads, as of the last commit of this process's one writer."""

    def __init__(self) -> None:
        self.items: dict[tuple[int, Place], ItemRow] = {}
        self._free: dict[Shelf, bytes] = {}

    def forget(self) -> None:
        """Nothing is known any more."""
        self.items.clear()
        self._free.clear()

    def is_free(self, thread: int, place: Place) -> bool:
        """Whether it is known that there is nothing at a place."""
        start = self._free.get((thread, place[0]))
        return start is not None and place[1] >= start

    def free_from(self, thread: int, place: Place) -> None:
        """Nothing is at a place, nor behind it on its shelf."""
        self._free[thread, place[0]] = place[1]

    def note(self, writes: Writes) -> None:
        """Take over what a commit is about to make true."""
        for item in writes.dropped:
            self.items.pop((item.thread, item.place), None)
        for row in (*writes.items, *writes.rows):
            if isinstance(row, ItemRow):
                self._put(row)

    def _put(self, row: ItemRow) -> None:
        if len(row.value) <= SMALL:
            self.items[row.thread, row.place] = row
        else:
            self.items.pop((row.thread, row.place), None)
        if self.is_free(row.thread, row.place):
            self._free[row.thread, row.shelf] = row.key + b"\x00"
