"""Deciding on what is remembered of a thread, without asking the store.

The invariant: what is remembered is checked by the store when it writes. So is what is supposed
here: that an item of which nothing is remembered is not there, where the scope says that this is
hardly ever wrong.
"""

from __future__ import annotations

from collections.abc import Sequence

from lastgood.backends.remote.memory import Recalled
from lastgood.backends.remote.queries import Answers, AskPlaces, Need, ThreadName
from lastgood.backends.remote.tables import RemoteTables
from lastgood.backends.tables import Line
from lastgood.commits import Place, Scope
from lastgood.rows import ItemRow, ThreadRow


class RecalledTables(RemoteTables):
    """The rows that a commit will look at, as this process remembers them."""

    def __init__(self, scope: Scope, clock: int, recalled: Recalled) -> None:
        super().__init__(scope.tenant, Answers(clock, {}))
        self._recalled = recalled
        self._novel = scope.novel
        thread = recalled.line.thread
        if thread is not None:
            self._places[thread.thread] = ThreadName(thread.tenant, thread.name)

    def line(self, scope: Scope) -> Line:  # noqa: ARG002
        return self._recalled.line

    def items_at(self, thread: int, places: Sequence[Place]) -> list[ItemRow | None]:
        known = self._recalled.items
        missing = tuple(place for place in places if place not in known)
        if missing and not self._novel:
            raise Need(AskPlaces(self._place(thread), missing))
        self.supposed = missing
        return [known.get(place) for place in places]

    def audit_items(self, thread: ThreadRow, missing: Sequence[Place] = ()) -> None:
        """Not where nothing is read."""
