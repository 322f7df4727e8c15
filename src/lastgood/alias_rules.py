"""The rules of aliases: checkpoints that a framework names by ids of its own.

An alias is an item of the checkpoint's thread, written in its commit. Saving under an alias once
more makes a revision: a checkpoint that follows the one it replaces, takes the alias over and keeps
its place in lists, which is the seq of the first. Pure decisions, like all rules.

A writer says what it believes the aliases to name. Where that does not hold, nothing is written and
it is told what does: that is cheaper than to look first, because it nearly always holds.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Any, NamedTuple, Self

import ormsgpack

from lastgood.commits import NOTHING, Found, Place, Scope, Taken, Writes
from lastgood.errors import CheckpointIntegrityError
from lastgood.item_rules import ItemDraft, changed, live_item
from lastgood.rows import ItemRow
from lastgood.rules import Save
from lastgood.thread_rules import check_holder, deleted

SHELF = "alias"


class Alias(NamedTuple):
    """What an alias names: a checkpoint and its place in lists, or what is left of one."""

    id: bytes
    seq: int
    stub: bytes = b""
    """Of a checkpoint that was removed: what others still need of it. Then there is no id."""

    def packed(self) -> bytes:
        """As it is stored."""
        return ormsgpack.packb(list(self))


def read_alias(row: ItemRow) -> Alias:
    """The alias behind a stored item."""
    try:
        return Alias(*ormsgpack.unpackb(row.value))
    except (TypeError, ValueError) as error:
        raise CheckpointIntegrityError(f"the alias {row.key!r} cannot be read.") from error


def found_alias(found: Found, place: Place | None) -> Alias | None:
    """The alias at a place, if there is one."""
    row = live_item(found, place) if place is not None else None
    return read_alias(row) if row is not None else None


class Renamed(NamedTuple):
    """A copy of a checkpoint that has an alias: what it says of itself, and an alias of its own."""

    context: Mapping[str, Any]
    metadata: Mapping[str, Any]
    place: Place


class Known(NamedTuple):
    """What the aliases of a refused save really name."""

    own: Alias | None
    parent: Alias | None


@dataclass(frozen=True, slots=True)
class SaveAs:
    """Save a checkpoint under an alias.

    `save.parent` is the checkpoint that it follows in our history: the parent's, or the revision
    that it replaces.
    """

    save: Save
    place: Place
    parent: Place | None = None
    """The alias of the parent, if it has one."""
    parent_id: bytes = b""
    """The checkpoint that the parent's alias is believed to name; empty: none."""
    replaces: Alias | None = None
    """What the alias is believed to name so far."""
    beside: tuple[ItemDraft, ...] = ()

    @property
    def scope(self) -> Scope:
        parent = (self.parent,) if self.parent is not None else ()
        beside = (draft.place for draft in self.beside)
        return self.save.scope._replace(items=(self.place, *parent, *beside), novel=True)

    def decide(self, found: Found, taken: Taken = NOTHING) -> Writes:
        check_holder(self.save.holder, found, self.save.thread)
        own, parent = found_alias(found, self.place), found_alias(found, self.parent)
        if own is not None and own.id == self.save.draft.id:
            return Writes(answer=self.save.decide(found, taken).answer)
        if own != self.replaces or (parent.id if parent else b"") != self.parent_id:
            return Writes(answer=Known(own, parent))
        if self.parent is not None and parent is None and _began_anew(found):
            raise deleted(self.save.thread)
        writes = self.save.decide(found, taken)
        assert writes.thread is not None, "the id is new"
        assert writes.checkpoint is not None
        row = writes.checkpoint
        alias = Alias(row.id, own.seq if own and own.id else row.seq)
        drafts = (ItemDraft(*self.place, alias.packed()), *self.beside)
        change = changed(writes.thread, found, drafts)
        return writes._replace(thread=change.thread, items=change.items)

    def again(self) -> Self:
        return replace(self, save=self.save.again())


def _began_anew(found: Found) -> bool:
    """Whether the thread was deleted, or is another one than that which was deleted."""
    if found.thread is None:
        return False
    return found.live is None or found.live.incarnation > 1
