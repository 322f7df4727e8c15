"""The rules of threads with messages: where a message goes, whose a thread is. Pure decisions.

Messages are items on one shelf, under the numbers that a counter of the thread gives out; a second
shelf leads from a message's id to its place. The one invariant: every id of a thread stands for one
message in one place, whoever puts it how often.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from hashlib import sha256
from typing import NamedTuple, Self

from lastgood.commits import NOTHING, Found, Intent, Place, Repeatable, Scope, Taken, Writes
from lastgood.errors import ThreadOwnerError
from lastgood.item_rules import ItemDraft, changed, live_item
from lastgood.model import HEAD
from lastgood.rows import CheckpointRow, ThreadRow
from lastgood.rules import Save
from lastgood.thread_rules import check_holder, opened

MESSAGES, IDS, TOOLS = "messages", "message-ids", "tool-results"
COUNTER: Place = ("thread", b"messages")
METADATA: Place = ("thread", b"metadata")
CACHE: Place = ("thread", b"cache")
STOP: Place = ("thread", b"stop")


class MessageDraft(NamedTuple):
    """A message on its way."""

    id: str
    value: bytes
    text: str


class Known(NamedTuple):
    """Where some messages are already: a commit needs to look there and begins again."""

    places: Mapping[str, bytes]


@dataclass(frozen=True, slots=True)
class Append:
    """Messages that go to the end of a thread, each id once.

    One with the id of a stored message takes its place, and is nothing new if it is the same.
    `known` are the keys of messages that are there, as an earlier commit has told.
    """

    messages: tuple[MessageDraft, ...] = ()
    known: Mapping[str, bytes] = field(default_factory=dict)

    @property
    def places(self) -> tuple[Place, ...]:
        """What a commit has to look at."""
        if not self.messages:
            return ()
        ids = [_index(message.id) for message in self.messages]
        return (COUNTER, *ids, *((MESSAGES, key) for key in self.known.values()))

    def unseen(self, found: Found) -> Known | None:
        """Messages that are there, in places that were not looked at."""
        keys = {message.id: self._key(found, message.id) for message in self.messages}
        there = {id: key for id, key in keys.items() if key is not None}
        return Known(there) if there.items() - self.known.items() else None

    def drafts(self, found: Found) -> list[ItemDraft]:
        """The items to put."""
        puts, number = [], _number(found)
        for message in {message.id: message for message in self.messages}.values():
            key = self._key(found, message.id)
            if key is None:
                number += 1
                key = _key(number, message.id)
                puts.append(ItemDraft(*_index(message.id), key))
            there = found.items.get((MESSAGES, key))
            if there is None or there.value != message.value:
                puts.append(ItemDraft(MESSAGES, key, message.value, message.text))
        if number != _number(found):
            puts.append(ItemDraft(*COUNTER, number.to_bytes(8)))
        return puts

    def _key(self, found: Found, id: str) -> bytes | None:
        row = found.items.get(_index(id))
        return row.value if row else None


def _index(id: str) -> Place:
    return IDS, id.encode()


def _number(found: Found) -> int:
    row = found.items.get(COUNTER)
    return int.from_bytes(row.value) if row else 0


def _key(number: int, id: str) -> bytes:
    """Sorts by the number; should the counter ever be lost, no message overwrites another."""
    return number.to_bytes(8) + sha256(id.encode()).digest()[:8]


@dataclass(frozen=True, slots=True)
class PutMessages(Repeatable):
    """Append messages to a thread, which is begun if it is not there."""

    tenant: str
    thread: str
    append: Append
    holder: int | None = None
    owner: str | None = None

    @property
    def scope(self) -> Scope:
        return Scope(self.tenant, self.thread, items=self.append.places)

    def decide(self, found: Found, taken: Taken = NOTHING) -> Writes:  # noqa: ARG002
        check_holder(self.holder, found, self.thread)
        unseen = self.append.unseen(found)
        if unseen is not None:
            return Writes(answer=unseen)
        thread = found.live or opened(self.tenant, self.thread, found, self.owner)
        change = changed(thread, found, self.append.drafts(found))
        if not change.items:
            return Writes(answer=thread.thread)
        return Writes(thread=change.thread.touched(found.now), items=change.items)


@dataclass(frozen=True, slots=True)
class PutState:
    """Save a state and append messages in one commit; what was cached is out of date then."""

    save: Save
    append: Append = field(default_factory=Append)
    doubts: tuple[bytes, ...] = ()
    """Checkpoints of this writer's own: one that is the head is followed like what it expected."""

    @property
    def scope(self) -> Scope:
        return self.save.scope._replace(items=(CACHE, *self.append.places))

    def decide(self, found: Found, taken: Taken = NOTHING) -> Writes:
        save = self.save._replace(parent=HEAD) if self._is_own(found.tip) else self.save
        writes = save.decide(found, taken)
        if writes.thread is None:
            return writes
        unseen = self.append.unseen(found)
        if unseen is not None:
            return Writes(answer=unseen)
        change = changed(writes.thread, found, self.append.drafts(found), (CACHE,))
        return writes._replace(thread=change.thread, items=change.items, dropped=change.dropped)

    def _is_own(self, tip: CheckpointRow | None) -> bool:
        """Whether nobody but this writer has put a state since it read."""
        known = (self.save.parent or b"", *self.doubts)
        return tip is not None and tip.id in self.doubts and tip.parent in known

    def again(self) -> Self:
        return replace(self, save=self.save.again())


@dataclass(frozen=True, slots=True)
class CacheState(Repeatable):
    """Keep a state beside the head, valid until the head moves.

    What equals the head needs no keeping; what a writer made that is behind is not kept.
    """

    tenant: str
    thread: str
    agent: str
    root: bytes
    value: bytes
    ttl: float
    version: bytes | None = None
    """The head that the writer knows, empty for none; None if it does not know."""
    holder: int | None = None
    owner: str | None = None

    @property
    def scope(self) -> Scope:
        return Scope(self.tenant, self.thread, self.agent, items=(CACHE,))

    def decide(self, found: Found, taken: Taken = NOTHING) -> Writes:  # noqa: ARG002
        check_holder(self.holder, found, self.thread)
        head = found.tip.id if found.tip else b""
        if self.version not in (None, head):
            return Writes(answer=False)
        thread = found.live or opened(self.tenant, self.thread, found, self.owner)
        if found.tip is not None and found.tip.root == self.root:
            change = changed(thread, found, (), (CACHE,))
        else:
            value = bytes([len(head)]) + head + self.value
            change = changed(thread, found, [ItemDraft(*CACHE, value, ttl=self.ttl)])
        if not change.items and not change.dropped:
            return Writes(answer=True)
        touched = change.thread.touched(found.now)
        return Writes(thread=touched, items=change.items, dropped=change.dropped, answer=True)


def cached(found: Found) -> bytes | None:
    """The bytes of a cached state that goes with the head as it is."""
    row = live_item(found, CACHE)
    head = found.tip.id if found.tip else b""
    prefix = bytes([len(head)]) + head
    return row.value[len(prefix) :] if row and row.value.startswith(prefix) else None


@dataclass(frozen=True, slots=True)
class Describe(Repeatable):
    """Name a thread, say whose it is, keep metadata of it; None leaves a thing as it is."""

    tenant: str
    thread: str
    title: str | None = None
    owner: str | None = None
    metadata: bytes | None = None
    holder: int | None = None
    opener: str | None = None
    """Whose the thread is if it begins now, and nobody is said to be its owner."""

    @property
    def scope(self) -> Scope:
        return Scope(self.tenant, self.thread, items=(METADATA,))

    def decide(self, found: Found, taken: Taken = NOTHING) -> Writes:  # noqa: ARG002
        check_holder(self.holder, found, self.thread)
        thread = found.live or opened(self.tenant, self.thread, found, self.opener)
        thread = thread._replace(
            title=thread.title if self.title is None else self.title,
            owner=thread.owner if self.owner is None else self.owner,
        )
        puts = [] if self.metadata is None else [ItemDraft(*METADATA, self.metadata)]
        change = changed(thread, found, puts)
        return Writes(
            thread=change.thread.touched(found.now),
            items=change.items,
            answer=found.live is None,
        )


def is_foreign(thread: ThreadRow | None, user: str | None) -> bool:
    """Whether a thread is there and not that user's."""
    return user is not None and thread is not None and thread.owner != user


def check_owner(found: Found, thread: str, user: str | None) -> None:
    """Raise ThreadOwnerError if a thread is there and not that user's to change."""
    if is_foreign(found.live, user):
        raise ThreadOwnerError(
            f"thread {thread!r} does not belong to {user!r}.",
            hint="Take another thread_id. To give the thread to somebody: aput_thread, with "
            "their user_id in its ThreadInfo and none in the config.",
        )


def check_life(found: Found, life: int | None, thread: str) -> None:
    """Refuse a writer who knows another life of a thread than the one that is there."""
    if found.live is not None:
        check_holder(life, found, thread)


@dataclass(frozen=True, slots=True)
class ForUser:
    """An intent on behalf of a user: refused if the thread is not theirs."""

    intent: Intent
    user: str | None = None
    title: str | None = None
    """What the thread is called if this begins it, and does not say so itself."""
    life: int | None = None
    """The key of the thread as the user knows it: one that began since is not meant."""

    @property
    def scope(self) -> Scope:
        return self.intent.scope

    def decide(self, found: Found, taken: Taken = NOTHING) -> Writes:
        check_owner(found, self.scope.thread, self.user)
        check_life(found, self.life, self.scope.thread)
        writes = self.intent.decide(found, taken)
        thread = writes.thread
        if found.live is None and thread is not None and not thread.title:
            return writes._replace(thread=thread._replace(title=self.title or ""))
        return writes

    def again(self) -> Self:
        return replace(self, intent=self.intent.again())
