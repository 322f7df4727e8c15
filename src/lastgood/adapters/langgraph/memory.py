"""What a saver remembers of checkpoints that it put or read: enough to put the next one at once.

Nothing here is trusted: a commit checks what it was told. An entry whose checkpoint was removed
since stays, for it tells a run that comes too late from one that begins.
"""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from typing import Any, NamedTuple

from lastgood.adapters.graph_names import Spot
from lastgood.adapters.langgraph.shapes import Context
from lastgood.rows import CheckpointRow

LIMIT = 4096


class Entry(NamedTuple):
    """A checkpoint under its alias."""

    id: bytes
    thread: int
    branch: str
    versions: Mapping[str, Any]
    seen: Mapping[str, Any]

    @classmethod
    def of(cls, row: CheckpointRow, context: Context) -> Entry:
        """Of a stored checkpoint; LangGraph goes on changing the very dicts that it gave us."""
        seen = {node: dict(versions) for node, versions in context.seen.items()}
        return cls(row.id, row.thread, row.branch, dict(context.versions), seen)


class Memory:
    """The newest entries; safe to use from several threads."""

    def __init__(self) -> None:
        self._entries: OrderedDict[tuple[Spot, str], Entry] = OrderedDict()
        self._runs: OrderedDict[tuple[str, str], None] = OrderedDict()
        self._threads: OrderedDict[str, int] = OrderedDict()
        self._last: OrderedDict[Spot, str] = OrderedDict()
        self._putting: dict[object, str] = {}

    def get(self, spot: Spot, alias: str | None) -> Entry | None:
        """What is known of a checkpoint."""
        return None if alias is None else self._entries.get((spot, alias))

    def put(self, spot: Spot, alias: str, entry: Entry) -> None:
        """Remember a checkpoint."""
        self._entries[spot, alias] = entry
        _shorten(self._entries)
        self._threads[spot.thread] = entry.thread
        _shorten(self._threads)
        self._last[spot] = alias
        _shorten(self._last)

    def last(self, spot: Spot) -> str | None:
        """The alias of what was put or read there last: mostly the newest."""
        return self._last.get(spot)

    def thread(self, name: str) -> int | None:
        """The key of the thread that was seen last under a name."""
        return self._threads.get(name)

    def leave(self, name: str) -> None:
        """There is nothing under a name: whoever writes next begins it."""
        self._threads.pop(name, None)

    @contextmanager
    def putting(self, thread: str) -> Iterator[None]:
        """While something is put to a thread."""
        one = object()
        self._putting[one] = thread
        try:
            yield
        finally:
            del self._putting[one]

    def is_put(self, thread: str) -> bool:
        """Whether something is put to a thread at the moment."""
        return thread in list(self._putting.values())

    def puts(self) -> set[object]:
        """What is put at the moment, to whatever thread."""
        return set(self._putting)

    def is_noted(self, thread: str, run: str) -> bool:
        """Whether a run is on the thread's list already."""
        return (thread, run) in self._runs

    def note(self, thread: str, run: str) -> None:
        """The run is on the list."""
        self._runs[thread, run] = None
        _shorten(self._runs)

    def forget(self, thread: str) -> None:
        """The list of runs may have become shorter."""
        for run in [key for key in list(self._runs) if key[0] == thread]:
            self._runs.pop(run, None)


def _shorten(entries: OrderedDict[Any, Any]) -> None:
    while len(entries) > LIMIT:
        try:
            entries.popitem(last=False)
        except KeyError:
            return
