"""The rules of items: values that are kept beside the checkpoints of a thread, under keys.

Pure decisions, like all rules. The one invariant: a thread's count of items is right after every
commit, because whoever writes one has looked whether it was there.

Values that belong to no thread are items of hidden threads, which live in a tenant of their own
beside the user's: see `hidden`.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import NamedTuple, Self

from lastgood.commits import NOTHING, Accompanied, Found, Place, Repeatable, Scope, Taken, Writes
from lastgood.rows import ItemRow, ThreadRow
from lastgood.rules import Save
from lastgood.thread_rules import check_holder, opened

_HIDDEN = "\x1f"
"""No tenant that a user can name has a control character in it."""


KINDS = ("store", "parked", "cache")
"""What is kept in hidden threads: whoever copies a store takes all of them along."""


def hidden(tenant: str, name: str) -> str:
    """The tenant that holds hidden threads of one kind for a user's tenant."""
    assert name in KINDS, name
    return f"{tenant}{_HIDDEN}{name}"


def visible(tenant: str) -> str:
    """The tenant of a user that one is, or is hidden beside."""
    return tenant.partition(_HIDDEN)[0]


def belongs(other: str, tenant: str) -> bool:
    """Whether a tenant is a user's own or one that is hidden beside it."""
    return other == tenant or other.startswith(f"{tenant}{_HIDDEN}")


def revealed(tenant: str, name: str) -> str:
    """A thread as people are told of it: of a hidden one, what kind it is and its labels."""
    _, mark, kind = tenant.rpartition(_HIDDEN)
    return f"{kind}:{'/'.join(name.strip(_HIDDEN).split(_HIDDEN))}" if mark else name


def searchable(text: str) -> str:
    """A text as it is stored for searching: without case, and storable everywhere."""
    folded = text.casefold().replace("\x00", "")
    return folded.encode("utf-8", "replace").decode()


class ItemDraft(NamedTuple):
    """An item on its way."""

    shelf: str
    key: bytes
    value: bytes
    text: str | None = None
    ttl: float | None = None
    """Seconds until it is over its time."""
    first_wins: bool = False
    """Whether a live one that is there already stays."""
    same_stays: bool = False
    """Whether a live one that is there already stays if it has the same value."""
    quiet: bool = False
    """Whether the time of the last change stays as it is: the value is the same, read again."""

    @property
    def place(self) -> Place:
        return self.shelf, self.key


class Change(NamedTuple):
    """What becomes of items: their rows, those that go, and the thread that counts them."""

    thread: ThreadRow
    items: tuple[ItemRow, ...]
    dropped: tuple[ItemRow, ...]


def changed(
    thread: ThreadRow, found: Found, puts: Sequence[ItemDraft], drops: Sequence[Place] = ()
) -> Change:
    """Put and drop items that the commit has looked for; of two for one place the last wins."""
    rows: dict[Place, ItemRow] = {}
    for draft in puts:
        place = draft[:2]
        there = live_item(found, place)
        if place in rows or there is None:
            stays = draft.first_wins and place in rows
        else:
            stays = draft.first_wins or (draft.same_stays and draft.value == there.value)
        if not stays:
            rows[place] = _row(thread, draft, there, found.now)
    before = found.items
    gone = [before[place] for place in dict.fromkeys(drops) if place in before]
    gone = [row for row in gone if row.place not in rows]
    replaced = [before[place] for place in rows if place in before] if before else []
    weight = sum([len(row.value) for row in rows.values()])
    counted = thread._replace(
        items=thread.items + len(rows) - len(replaced) - len(gone),
        size=thread.size + weight - sum([len(row.value) for row in (*replaced, *gone)]),
    )
    return Change(counted, tuple(rows.values()), tuple(gone))


def live_item(found: Found, place: Place) -> ItemRow | None:
    """An item that is there and not over its time."""
    row = found.items.get(place)
    return None if row is None or row.expired(found.now) else row


def _row(thread: ThreadRow, draft: ItemDraft, before: ItemRow | None, now: int) -> ItemRow:
    return ItemRow(
        thread.thread,
        draft.shelf,
        draft.key,
        draft.value,
        draft.text,
        created_at=before.created_at if before else now,
        updated_at=before.updated_at if before and draft.quiet else now,
        expires_at=None if draft.ttl is None else now + round(draft.ttl * 1e6),
    )


class Outcome(NamedTuple):
    """What became of an intent to change items."""

    done: bool
    """False: the thread is not there, or an item was not as expected; nothing was written."""
    before: Mapping[Place, ItemRow]
    """The live items that were found, by their places."""


@dataclass(frozen=True, slots=True)
class ChangeItems(Repeatable):
    """Put and drop items of one thread, all or none.

    `expected` holds the values that must be there still, None for a place that must be free: the
    way to change what was read before. Where they are not, nothing happens, unless what is wanted
    is there already: a repeated intent.
    """

    tenant: str
    thread: str
    puts: tuple[ItemDraft, ...] = ()
    drops: tuple[Place, ...] = ()
    expected: Mapping[Place, bytes | None] = field(default_factory=dict)
    opens: bool = True
    """Whether a thread that is not there is begun for them."""
    holder: int | None = None
    """The key of the thread that the writer got hold of earlier."""
    owner: str | None = None
    novel: bool = False
    """Whether the places are hardly ever taken."""

    @property
    def scope(self) -> Scope:
        wanted = (*[draft.place for draft in self.puts], *self.drops, *self.expected)
        items = tuple(dict.fromkeys(wanted))
        doomed = self._doomed if self.drops else ()
        return Scope(self.tenant, self.thread, items=items, doomed=doomed, novel=self.novel)

    @property
    def _doomed(self) -> tuple[Place, ...]:
        """What is dropped unseen: neither put again nor expected to be anything."""
        seen = {*[draft.place for draft in self.puts], *self.expected}
        return tuple([place for place in self.drops if place not in seen])

    def decide(self, found: Found, taken: Taken = NOTHING) -> Writes:  # noqa: ARG002
        check_holder(self.holder, found, self.thread)
        before = {p: row for p in found.items if (row := live_item(found, p)) is not None}
        thread = found.live
        if thread is None and (not self.opens or not self.puts):
            return Writes(answer=Outcome(done=not self.puts and not self.expected, before={}))
        if self.expected and not self._is_expected(before):
            return Writes(answer=Outcome(self._is_done(before), before))
        thread = thread or opened(self.tenant, self.thread, found, self.owner)
        change = changed(thread, found, self.puts, self.drops)
        answer = Outcome(done=True, before=before)
        if not change.items and not change.dropped:
            return Writes(answer=answer)
        return Writes(
            thread=change.thread.touched(found.now),
            items=change.items,
            dropped=change.dropped,
            answer=answer,
        )

    def _is_expected(self, before: Mapping[Place, ItemRow]) -> bool:
        values = {place: row.value for place, row in before.items()}
        return all(values.get(place) == value for place, value in self.expected.items())

    def _is_done(self, before: Mapping[Place, ItemRow]) -> bool:
        values = {place: row.value for place, row in before.items()}
        put = all(values.get(draft.place) == draft.value for draft in self.puts)
        return put and not any(place in values for place in self.drops)


@dataclass(frozen=True, slots=True)
class ChangeItemsBeside(ChangeItems, Accompanied):
    """The same while another thread is about to save a checkpoint."""


@dataclass(frozen=True, slots=True)
class SaveWithItems:
    """Save a checkpoint and change items of its thread in one commit."""

    save: Save
    puts: tuple[ItemDraft, ...] = ()
    drops: tuple[Place, ...] = ()

    @property
    def scope(self) -> Scope:
        wanted = (*(draft.place for draft in self.puts), *self.drops)
        return self.save.scope._replace(items=tuple(dict.fromkeys(wanted)))

    def decide(self, found: Found, taken: Taken = NOTHING) -> Writes:
        writes = self.save.decide(found, taken)
        if writes.thread is None:
            return writes
        change = changed(writes.thread, found, self.puts, self.drops)
        return writes._replace(thread=change.thread, items=change.items, dropped=change.dropped)

    def again(self) -> Self:
        return replace(self, save=self.save.again())
