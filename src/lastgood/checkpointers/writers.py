"""What the writers of a checkpointer have seen: how a lost update and a late writer are noticed.

A writer is a run, if its config has a `run_id`; otherwise the config object; otherwise, for configs
that were made for one call, the checkpointer as a whole. One that has read a state writes only on
top of what it read or wrote last; one that never did is not checked for that. Either is refused
once the thread that it knew was deleted, until it reads again: the state if it had read that, else
the messages or what is known of the thread will do. Configs are compared by identity and
never written to. Bounded: of many writers the oldest are forgotten, and then not checked.
"""

from __future__ import annotations

from typing import NamedTuple

from lastgood.checkpointers.config import Config, Where

WRITERS = 4096
DOUBTS = 1024
"""So many puts in a row may fail without an answer; of more, the oldest are forgotten."""

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
_Entry = tuple[Seen, Config | None]


class Writers:
    """The memory of one checkpointer; takes no lock, as each step on a dict is atomic."""

    def __init__(self) -> None:
        self._readers: dict[_Key, _Entry] = {}
        self._others: dict[_Key, _Entry] = {}
        """Of those that read no state there may be more, and they push out none that did."""

    def expects(self, config: Config, where: Where) -> Seen:
        """What a writer believes to be there."""
        own = self._entry(_own(config, where))
        if own is None and where.run is None:
            own = self._entry(_common(where))
        return own[0] if own else NOTHING

    def _entry(self, key: _Key) -> _Entry | None:
        return self._readers.get(key) or self._others.get(key)

    def read(self, config: Config, where: Where, seen: Seen) -> None:
        """A writer has read the state of its thread."""
        for key, known in self._known(config, where):
            self._note(key, seen._replace(doubts=_still_open(known, seen.version)), config)

    def looked(self, config: Config, where: Where, thread: int | None) -> None:
        """A writer has read of its thread, if not its state: that alone tells what to put on.

        Others whose configs are made for a call have not read it: one may only ever append.
        """
        known = self.expects(config, where)
        if known.version is None and known.thread != thread:
            self._note(_own(config, where), known._replace(thread=thread), config)

    def met(self, config: Config, where: Where, thread: int | None) -> None:
        """A writer has asked for one thing, which it would not take for reading again."""
        if thread is not None and self.expects(config, where).thread is None:
            self.looked(config, where, thread)

    def wrote(self, config: Config, where: Where, thread: int, version: bytes | None) -> None:
        """A writer has written; `version` is None if that was no state."""
        for key, known in self._known(config, where):
            if key == _common(where) and known.version is None:
                continue
            after = Seen(thread, None if known.version is None else version)
            self._note(key, known._replace(thread=thread) if version is None else after, config)

    def doubts(self, config: Config, where: Where, version: bytes) -> None:
        """A writer has put a state, and did not learn what became of it."""
        for key, known in self._known(config, where):
            doubts = (*known.doubts[1 - DOUBTS :], version)
            self._note(key, known._replace(doubts=doubts), config)

    def _known(self, config: Config, where: Where) -> list[tuple[_Key, Seen]]:
        """What is remembered of the writer itself, and of all whose configs are made for a call."""
        own = _own(config, where), self.expects(config, where)
        if where.run is not None:
            return [own]
        common = self._entry(_common(where))
        return [own, (_common(where), common[0] if common else NOTHING)]

    def forget(self, config: Config, where: Where) -> None:
        """A writer has deleted its thread, and may begin it anew."""
        self._drop(_own(config, where))
        self._drop(_common(where))

    def _note(self, key: _Key, seen: Seen, config: Config | None) -> None:
        held = config if len(key) == 3 and key[1] == "config" else None
        kept, other = self._others, self._readers
        if seen.version is not None:
            kept, other = other, kept
        kept.pop(key, None)
        kept[key] = seen, held  # holding the config keeps its identity from being reused
        other.pop(key, None)
        if len(kept) > WRITERS:
            kept.pop(next(iter(list(kept))), None)

    def _drop(self, key: _Key) -> None:
        self._readers.pop(key, None)
        self._others.pop(key, None)


def _still_open(known: Seen, version: bytes | None) -> tuple[bytes, ...]:
    """The doubts that a read of this version leaves: puts that may be written after it.

    Those up to the one that was read are settled. If somebody else has put what was read, all are
    refused by now, but those of a writer that had never read: they follow whatever is there.
    """
    if version in known.doubts:
        return known.doubts[known.doubts.index(version) + 1 :]
    return known.doubts if known.version in (None, version) else ()


def _own(config: Config, where: Where) -> _Key:
    place = (where.thread, where.user)
    return (place, "config", id(config)) if where.run is None else (place, "run", where.run)


def _common(where: Where) -> _Key:
    return ((where.thread, where.user),)
