"""How LangGraph's names are spelled in our rows: lanes, aliases, keys of writes.

A namespace is a lane: the graph itself is `graph`, a subgraph `graph|node:id`. Keys are bytes, and
no two tuples of names are spelled alike.
"""

from __future__ import annotations

from functools import lru_cache
from typing import NamedTuple
from uuid import UUID

from lastgood.alias_rules import SHELF as ALIASES
from lastgood.commits import Place

ROOT = "graph"
WRITES = "writes"
RUNS = "runs"
REVISED = "revised"
_SIGNED = 1 << 31


class Spot(NamedTuple):
    """A namespace of a thread."""

    thread: str
    namespace: str

    @property
    def lane(self) -> str:
        """The agent id under which it is stored."""
        return f"{ROOT}|{self.namespace}" if self.namespace else ROOT

    @property
    def around(self) -> Spot:
        """The namespace of the graph around a subgraph."""
        return Spot(self.thread, self.namespace.rpartition("|")[0])

    def alias(self, id: str) -> Place:
        """Where the alias of a checkpoint is."""
        return ALIASES, self.prefix(id)

    def prefix(self, id: str) -> bytes:
        """What the keys of a checkpoint's writes begin with."""
        return _text(self.namespace) + _id(id)

    def write(self, id: str, task: str, index: int) -> bytes:
        """The key of one write of a task at a checkpoint."""
        return self.prefix(id) + _id(task) + (index + _SIGNED).to_bytes(4)


def namespace_of(lane: str) -> str | None:
    """The namespace that a lane stands for; None for a lane that no graph wrote."""
    if lane == ROOT:
        return ""
    head, bar, rest = lane.partition("|")
    return rest if head == ROOT and bar else None


def run_place(run: str) -> Place:
    """Where it is noted that a run wrote to a thread."""
    return RUNS, _text(run)


def revised_place(alias: Place) -> Place:
    """Where it is noted that a checkpoint was put more than once."""
    return REVISED, alias[1]


@lru_cache(maxsize=1024)
def _text(name: str) -> bytes:
    return name.encode("utf-8", "surrogatepass").replace(b"\x00", b"\x00\xff") + b"\x00\x00"


@lru_cache(maxsize=1024)
def _id(name: str) -> bytes:
    """Sixteen bytes for a UUID in its usual spelling, the text itself for any other id.

    Each comes several times: as the parent and as the checkpoint itself, and with every write.
    """
    try:
        found = UUID(name)
    except ValueError:
        return b"\x02" + _text(name)
    return b"\x01" + found.bytes if str(found) == name else b"\x02" + _text(name)
