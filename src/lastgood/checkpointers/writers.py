"""What the writers of a checkpointer have seen: how a lost update and a late writer are noticed.

A writer is a run, if its config has a `run_id`; otherwise the config object; otherwise, for configs
that were made for one call, the checkpointer as a whole. One that has read a thread writes only on
top of what it read or wrote last; one that never read is not checked for that. Either is refused
once the thread that it knew was deleted, until it reads again. Configs are compared by identity and
never written to. Bounded: of many writers the oldest are forgotten, and then not checked.
"""

from __future__ import annotations

from typing import NamedTuple

from lastgood.checkpointers.config import Config, Where

WRITERS = 4096

_Key = tuple[object, ...]


class Seen(NamedTuple):
    """What a writer knows of a thread."""

    thread: int | None = None
    """Its key; None if it was not there."""
    version: bytes | None = None
    """The checkpoint it read or wrote last, empty for none; None if it never read."""
    doubts: tuple[bytes, ...] = ()
    """Checkpoints that it put since, and never learnt whether they were written."""


NOTHING = Seen()


class Writers:
    """The memory of one checkpointer; takes no lock, as each step on a dict is atomic."""

    def __init__(self) -> None:
        self._seen: dict[_Key, tuple[Seen, Config | None]] = {}

    def expects(self, config: Config, where: Where) -> Seen:
        """What a writer believes to be there."""
        own = self._seen.get(_own(config, where))
        if own is None and where.run is None:
            own = self._seen.get(_common(where))
        return own[0] if own else NOTHING

    def read(self, config: Config, where: Where, seen: Seen) -> None:
        """A writer has read the state of its thread."""
        self._note(_own(config, where), seen, config)
        if where.run is None:
            self._note(_common(where), seen, None)

    def wrote(self, config: Config, where: Where, thread: int, version: bytes | None) -> None:
        """A writer has written; `version` is None if that was no state."""
        known = self.expects(config, where)
        if version is None:
            self._update(config, where, known._replace(thread=thread))
        else:
            self._update(config, where, Seen(thread, None if known.version is None else version))

    def doubts(self, config: Config, where: Where, version: bytes) -> None:
        """A writer has put a state, and did not learn what became of it."""
        known = self.expects(config, where)
        self._update(config, where, known._replace(doubts=(*known.doubts[-7:], version)))

    def _update(self, config: Config, where: Where, seen: Seen) -> None:
        self._note(_own(config, where), seen, config)
        if where.run is None and _common(where) in self._seen:
            self._note(_common(where), seen, None)

    def forget(self, config: Config, where: Where) -> None:
        """A writer has deleted its thread, and may begin it anew."""
        self._seen.pop(_own(config, where), None)
        self._seen.pop(_common(where), None)

    def _note(self, key: _Key, seen: Seen, config: Config | None) -> None:
        held = config if len(key) == 3 and key[1] == "config" else None
        self._seen.pop(key, None)
        self._seen[key] = seen, held  # holding the config keeps its identity from being reused
        if len(self._seen) > WRITERS:
            self._seen.pop(next(iter(list(self._seen))), None)


def _own(config: Config, where: Where) -> _Key:
    place = (where.thread, where.user)
    return (place, "config", id(config)) if where.run is None else (place, "run", where.run)


def _common(where: Where) -> _Key:
    return ((where.thread, where.user),)
