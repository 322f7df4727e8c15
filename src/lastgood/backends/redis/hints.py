"""What stands beside the threads: which thread has a checkpoint or a key, and lists of threads.

Hints lie outside of the threads' hash tags, so in a Cluster they cannot change together with them.
They are written before a thread changes, and checked whenever they are read: a hint may lead to
nothing, or to a thread that is another user's by now; it is never believed. On one server they are
written by the commit itself.

A thread is on the lists by time before it is there, or is a user's, with the time of that change.
So who meets one there that is not can tell by its age whether it is still to come (`AGED`).
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from itertools import chain
from typing import Any, Literal, NamedTuple

from lastgood.backend import ThreadListing
from lastgood.backends.redis.keys import (
    Keys,
    id_in,
    member,
    name_member,
    read_member,
    read_name_member,
    tag_of,
)
from lastgood.backends.redis.scripts import HINT
from lastgood.backends.redis.wire import Command, Wire
from lastgood.backends.remote.changes import Change
from lastgood.backends.remote.queries import ThreadName
from lastgood.backends.remote.rows import to_bytes, to_text
from lastgood.errors import LastgoodError
from lastgood.rows import MINUTE, ThreadRow

BURNT_SECONDS = 3600
"""How long an id stays refused in a thread that claimed it and never used it."""
AGED = 3600 * 1_000_000 >> MINUTE
"""What is on a list by time and not in the store goes from there when it is an hour old: nobody is
at a commit for so long."""
DATED = 1 << 40
"""From here on a score in the list by age is a time. Below it is the key of a thread: so versions
before this one put it there, and put it back when they save."""
REMEMBERED = 65536
_DROPS = 500


class Claim(NamedTuple):
    """A hint that must not name another thread; that of a new key must not be there at all."""

    what: Literal["id", "key", "new"]
    key: str
    field: bytes
    tag: str


class Listed(NamedTuple):
    """A thread as a list has it."""

    key: int
    tag: str
    place: tuple[Any, ...]
    """Where the list goes on behind it."""


def user_of(listing: ThreadListing) -> str | None:
    """Whose list is looked at; None: everybody's. Users have one by time, and in no other order."""
    return listing.owner if listing.sort == "updated" else None


class Hints:
    """The hints of one store."""

    def __init__(self, wire: Wire, keys: Keys) -> None:
        self._wire = wire
        self._keys = keys
        self._tags: dict[int, str] = {}
        self._listed: dict[int, None] = {}
        """Threads that this process has put on their lists. It spares what is there already, and no
        more than that: what a change makes new is written whatever is remembered."""

    # which thread it is

    def knows(self, key: object, tag: str) -> bool:
        """Whether it is remembered that a thread's key has this hash tag."""
        return isinstance(key, int) and self._tags.get(key) == tag

    def note(self, key: object, tag: str) -> None:
        """Remember the hash tag of a thread's key."""
        if isinstance(key, int):
            _remember(self._tags, key, tag)

    async def tags(self, keys: Iterable[int]) -> dict[int, str]:
        """The hash tags of threads by their keys."""
        known = {key: self._tags[key] for key in keys if key in self._tags}
        others = [key for key in dict.fromkeys(keys) if key not in known]
        hints = [self._keys.key_hint(key) for key in others]
        found = await self._wire.send([("HGET", *hint) for hint in hints])
        for key, tag in zip(others, found, strict=True):
            if tag is not None:
                known[key] = tag.decode("ascii", "replace")
                self.note(key, known[key])
        return known

    async def tags_of_ids(self, pairs: Sequence[tuple[str, bytes]]) -> list[str | None]:
        """The hash tags of the threads that may have a checkpoint, by tenant and id."""
        hints = [self._keys.id_hint(*pair) for pair in pairs]
        found = await self._wire.send([("HGET", *hint) for hint in hints])
        return [None if tag is None else tag.decode("ascii", "replace") for tag in found]

    async def tags_in(self, tables: Iterable[int]) -> set[str]:
        """The hash tags of all threads that may have a checkpoint in these tables of ids."""
        found = await self._wire.send([("HVALS", self._keys.ids(table)) for table in tables])
        return {tag.decode("ascii", "replace") for each in found for tag in each}

    async def hinted(self, key: int) -> str | None:
        """The hash tag that a key leads to, whatever is remembered."""
        tag = await self._wire.one("HGET", *self._keys.key_hint(key))
        return None if tag is None else str(tag.decode("ascii", "replace"))

    async def numbered(self, low: int, high: int, limit: int) -> list[tuple[int, str]]:
        """Keys of threads from `low` to `high`, with their tags, in order."""
        if low == high:
            return list((await self.tags([low])).items())
        last = int(await self._wire.one("GET", self._keys.counter("thread")) or 0)
        found: list[tuple[int, str]] = []
        while low <= min(high, last) and len(found) < limit:
            table = self._keys.key_hint(low).key
            pairs: dict[bytes, bytes] = await self._wire.one("HGETALL", table)
            keys = sorted((int(key), tag.decode("ascii", "replace")) for key, tag in pairs.items())
            found += [pair for pair in keys if low <= pair[0] <= high]
            low = self._keys.next_table(low)
        return found[:limit]

    # before and after a change

    def writes(self, change: Change, tag: str) -> tuple[list[Claim], list[Command]]:
        """Fields that must be ours, and what to write, before a change is carried out."""
        hints = [self._keys.id_hint(change.place.tenant, row.id) for row in change.checkpoints]
        claims = [Claim("id", *hint, tag) for hint in hints]
        if change.thread is None or change.wiped:
            return claims, []
        if change.opens or change.key not in self._listed:
            what: Literal["key", "new"] = "new" if change.opens else "key"
            claims.append(Claim(what, *self._keys.key_hint(change.key), tag))
        return claims, self._listing(change, tag)

    def _begins(self, change: Change) -> bool:
        """Whether the thread may not be on its lists yet."""
        former = change.former
        return former is None or not former.live or change.opens or change.key not in self._listed

    def _listing(self, change: Change, tag: str) -> list[Command]:
        """What puts a thread on its lists, or moves it to the top.

        When it was there last is told by the row that the change is checked against.
        """
        place, key, thread, former = change.place, change.key, change.thread, change.former
        if thread is None or not thread.live:
            return []
        begins, given = self._begins(change), thread.owner != change.former_owner
        if former is not None and former.active == thread.active and not (begins or given):
            return []
        found: list[Command] = [
            ("ZADD", each, "GT", thread.active, member(key, tag))
            for each in self._by_time(place.tenant, thread.owner)
        ]
        if given and change.former_owner is not None and not self._wire.clients.cluster:
            # In a Cluster it might be given back before this is carried out.
            old = self._keys.list(place.tenant, "updated", change.former_owner)
            found.append(("ZREM", old, member(key, tag)))
        if begins:
            created, name = (self._keys.list(place.tenant, sort) for sort in ("created", "name"))
            found.append(("ZADD", created, thread.created_at, member(key, tag)))
            found.append(("ZADD", name, 0, name_member(place.name, key)))
        return found

    def _by_time(self, tenant: str, owner: str | None) -> list[str]:
        """The lists by time that a thread is on: everybody's, and that of whose it is."""
        users = [None] if owner is None else [None, owner]
        return [self._keys.list(tenant, "updated", user) for user in users]

    def _claimed(self, change: Change, tag: str) -> list[Command]:
        """What says which thread has the checkpoints of a change."""
        hints = [self._keys.id_hint(change.place.tenant, row.id) for row in change.checkpoints]
        return [HINT.call(key, "claim", field, tag, "id") for key, field in hints]

    async def claim(self, change: Change, tag: str) -> bytes:
        """In a Cluster: write the hints of a change; "done", or what stands in the way."""
        claims, writes = self.writes(change, tag)
        made = [HINT.call(each.key, "claim", each.field, tag, each.what) for each in claims]
        found = await self._wire.send([*made, *writes])
        for claim, owner in zip(claims, found, strict=False):
            if owner != tag.encode():
                return b" ".join((claim.what.encode(), owner, claim.field))
        if writes and found[len(made)] and not self._begins(change):
            # It was not on the first of its lists: the server that has them lost data.
            self._listed.pop(change.key, None)
            return await self.claim(change, tag)
        return b"done"

    async def disputed(self, change: Change, owner: bytes, field: bytes) -> bool:
        """Whether the thread that a hint names has the checkpoint; if not, it never will."""
        (hint,) = (
            hint
            for row in change.checkpoints
            if (hint := self._keys.id_hint(change.place.tenant, row.id)).field == field
        )
        thread = self._keys.thread(owner.decode("ascii", "replace"))
        keys = [thread, f"{thread}:i", f"{thread}:y"]
        burn = HINT.over(keys, "burn", id_in(field), BURNT_SECONDS)
        if await self._wire.one(*burn) == b"there":
            return True
        await self._wire.one(*HINT.call(hint.key, "drop", field, owner))
        return False

    async def settle(self, change: Change, tag: str, gone: Sequence[bytes]) -> None:
        """After a change: what is gone is taken off. A hint that stays behind does no harm."""
        commands = self._drops(change.place.tenant, tag, gone)
        if change.wiped:
            self._listed.pop(change.key, None)
            commands += self._unlisting(change, tag)
        elif change.thread is not None and change.thread.live:
            begins = self._begins(change) or change.thread.owner != change.former_owner
            if self._wire.clients.cluster and begins:
                # Somebody may have met the hint before the thread was there, and taken it off.
                commands += [*self._claimed(change, tag), *self._listing(change, tag)]
            _remember(self._listed, change.key, None)
            self.note(change.key, tag)
        await self._tidy(commands)

    async def drop(self, tenant: str, tag: str, gone: Sequence[bytes]) -> None:
        """Take off what leads to checkpoints that are gone with their thread."""
        await self._tidy(self._drops(tenant, tag, gone))

    async def _tidy(self, commands: Sequence[Command]) -> None:
        """Write what need not be written: a change is carried out, or a list is read. The server
        may take no writes just now, and not every user may.
        """
        try:
            await self._wire.send(commands)
        except LastgoodError:
            return

    def _unlisting(self, change: Change, tag: str) -> list[Command]:
        """What takes a thread that is gone for ever off its lists."""
        tenant, name, key = *change.place, change.key
        lists = [*self._by_time(tenant, change.former_owner), self._keys.list(tenant, "created")]
        found: list[Command] = [("ZREM", each, member(key, tag)) for each in lists]
        return [*found, ("ZREM", self._keys.list(tenant, "name"), name_member(name, key))]

    def _drops(self, tenant: str, tag: str, gone: Sequence[bytes]) -> list[Command]:
        by_table: dict[str, list[bytes]] = {}
        for id in gone:
            hint = self._keys.id_hint(tenant, id)
            by_table.setdefault(hint.key, []).append(hint.field)
        owner = tag.encode()
        return [
            HINT.call(
                table, "drop", *chain.from_iterable((f, owner) for f in fields[at : at + _DROPS])
            )
            for table, fields in by_table.items()
            for at in range(0, len(fields), _DROPS)
        ]

    # lists

    async def page(self, tenant: str, listing: ThreadListing) -> tuple[list[Listed], list[Listed]]:
        """Threads that may be there, behind a place in a list; and those without a time in it."""
        table = self._keys.list(tenant, listing.sort, user_of(listing))
        after: tuple[Any, ...] = listing.after
        limit = listing.limit
        if listing.sort == "name":
            low = b"[" + to_bytes(after[0]) + b"\x01" if after else b"-"
            found = await self._wire.one("ZRANGEBYLEX", table, low, b"+", "LIMIT", 0, limit)
            return [_by_name(tenant, each) for each in found], []
        time, key = after or ("+inf", 0)
        asked: list[Command] = [HINT.call(table, "below", time, key, limit)]
        if listing.sort == "created":
            asked.append(("ZRANGEBYSCORE", table, "-inf", f"({DATED}"))
        found, *undated = await self._wire.send(asked)
        made = zip(found[::2], found[1::2], strict=True)
        scored = ((*read_member(each), int(float(score))) for each, score in made)
        listed = [Listed(key, tag, (score, key)) for key, tag, score in scored]
        old = (read_member(each) for each in chain.from_iterable(undated))
        return listed, [Listed(key, tag, (0, key)) for key, tag in old]

    async def date(self, tenant: str, found: Sequence[tuple[Listed, int]]) -> None:
        """Put the times at which threads began into the list by age."""
        table = self._keys.list(tenant, "created")
        await self._tidy(
            [
                ("ZADD", table, "XX", max(DATED, time), member(each.key, each.tag))
                for each, time in found
            ]
        )

    async def lost(self, row: ThreadRow, tag: str, ids: Sequence[bytes]) -> list[str]:
        """The lists that a thread is missing from, and whether checkpoints cannot be found."""
        places = _places(row, tag)
        asked: list[Command] = [
            ("ZSCORE", self._keys.list(row.tenant, each.sort, each.owner), each.member)
            for each in places
        ]
        found = await self._wire.send(asked)
        lost = [
            f"the list by {place.sort}" + (" of its user" if place.owner is not None else "")
            for place, score in zip(places, found, strict=True)
            if score is None or int(score) < place.score
        ]
        missing = 0
        for at in range(0, len(ids), _DROPS):
            pairs = [(row.tenant, id) for id in ids[at : at + _DROPS]]
            missing += sum(each != tag for each in await self.tags_of_ids(pairs))
        return [*lost, f"the index of ids ({missing} checkpoints)"] if missing else lost

    async def unlist(
        self, tenant: str, listing: ThreadListing, stale: Sequence[Listed], now: int
    ) -> None:
        """Take off a list what turned out to be gone at that time, or another user's."""
        table = self._keys.list(tenant, listing.sort, user_of(listing))
        if listing.sort == "name":
            names = [name_member(str(each.place[0]), each.key) for each in stale]
            await self._tidy([("ZREM", table, *names)])
        elif listing.sort == "created":
            await self._tidy([("ZREM", table, *(member(each.key, each.tag) for each in stale))])
        else:
            until = (now >> MINUTE) - AGED
            names = [member(each.key, each.tag) for each in stale if each.place[0] <= until]
            # What somebody puts there anew in between stays: its score is above that.
            await self._tidy([HINT.call(table, "shed", until, *names)] if names else [])

    async def count(self, tenant: str) -> int:
        """How many threads a tenant has."""
        return int(await self._wire.one("ZCARD", self._keys.list(tenant, "created")))


class _Place(NamedTuple):
    """Where a thread has to be: a list, as what, and with which score at least."""

    sort: str
    owner: str | None
    member: bytes
    score: int


def _places(row: ThreadRow, tag: str) -> list[_Place]:
    by_time = _Place("updated", None, member(row.thread, tag), row.active)
    return [
        by_time,
        *([] if row.owner is None else [by_time._replace(owner=row.owner)]),
        _Place("created", None, member(row.thread, tag), 0),
        _Place("name", None, name_member(row.name, row.thread), 0),
    ]


def _by_name(tenant: str, found: bytes) -> Listed:
    raw, key = read_name_member(found)
    name = str(to_text(raw))
    return Listed(key, tag_of(ThreadName(tenant, name)), (name,))


def _remember(known: dict[int, Any], key: int, value: object) -> None:
    known.pop(key, None)
    while len(known) >= REMEMBERED:
        known.pop(next(iter(list(known))), None)
    known[key] = value
