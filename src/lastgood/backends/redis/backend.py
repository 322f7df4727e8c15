"""A store in Redis or Valkey, on one server or on a Cluster: fast, shared, and honest.

Everything of a thread lies under one hash tag. A read is one script on one thread, of one moment; a
commit is one script, which carries out a whole change or none of it. What leads across threads are
hints. Both colours are native. See `redis.keys` for what is where, and `remote` for how commits
meet other writers.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Sequence
from functools import partial
from typing import Any, TypeVar

from lastgood.backend import (
    Census,
    Durability,
    Extents,
    Footprint,
    News,
    Section,
    Sheet,
)
from lastgood.backends import forking
from lastgood.backends.described import described, making
from lastgood.backends.redis import calls as redis_calls
from lastgood.backends.redis import changes, parts
from lastgood.backends.redis import durability as redis_durability
from lastgood.backends.redis import queries as redis_queries
from lastgood.backends.redis.calls import Call, clock
from lastgood.backends.redis.clients import Clients
from lastgood.backends.redis.health import Info
from lastgood.backends.redis.hints import Claim, Hints
from lastgood.backends.redis.keys import Keys, check_prefix, tag_of
from lastgood.backends.redis.lists import Lists
from lastgood.backends.redis.news import StreamNews
from lastgood.backends.redis.numbers import Numbers
from lastgood.backends.redis.scripts import COMMIT
from lastgood.backends.redis.surveyor import Surveyor
from lastgood.backends.redis.tidying import Tidying
from lastgood.backends.redis.wire import Command, Wire
from lastgood.backends.remote.attempts import Tries
from lastgood.backends.remote.backend import Outcome, RemoteBackend, check_wanted
from lastgood.backends.remote.changes import Change, Kind
from lastgood.backends.remote.queries import Answers, AskId, AskThreads, Query, ThreadName
from lastgood.commits import Intent, Writes
from lastgood.errors import (
    CheckpointIntegrityError,
    IncompatibleCheckpointError,
    TransientStorageError,
)
from lastgood.manifest import Spot, check_parts
from lastgood.removal_rules import Delete
from lastgood.reports import Problem
from lastgood.rows import ThreadRow, intact

T = TypeVar("T")

FORMAT = 2
"""2: there are lists of users' threads. What an older one has would be on none of them."""
POOL = 20
ATTEMPTS = 8
"""So often what a commit needs is sent anew, or a hint that stood in its way is taken off."""
_TENANT, _NAME = map(ThreadRow._fields.index, ("tenant", "name"))
_NEWER = "Upgrade lastgood here too: the store was written by a newer version."
_OLDER = (
    "Let the version that wrote it copy it to plain files (`lastgood copy URL files:DIRECTORY`),"
    " and copy those from here to another prefix."
)


class RedisBackend(RemoteBackend):
    """A store under one prefix of keys."""

    durability: Durability = "unknown"
    settings = ""
    """What the server says that it keeps, in its own words."""

    def __init__(
        self,
        url: str = "redis://localhost:6379",
        *,
        prefix: str = "lastgood",
        durability: str | None = None,
        pool_size: int = POOL,
        shift: Callable[[], int] = lambda: 0,
    ) -> None:
        super().__init__(shift)
        self._clients = Clients(url, pool_size)
        self._wire = Wire(self._clients)
        self._keys = Keys(check_prefix(prefix))
        self._hints = Hints(self._wire, self._keys)
        self._numbers = Numbers(self._wire, self._keys)
        self._lists = Lists(self._wire, self._keys, self._hints, self._shift)
        self._surveyor = Surveyor(self._wire, self._keys, self._hints)
        self._tidying = Tidying(self._wire, self._keys, self._hints)
        self._wanted = check_wanted(durability)
        self._ready = False
        self.url = self._clients.label
        forking.watch(self)

    # setting up

    async def ready(self) -> None:
        """See what kind of server this is, and that the store is of a format that we know."""
        if not self._ready:
            await self._turns.take("opening", self._set_up)

    async def _set_up(self) -> None:
        if self._ready:
            return  # while we waited
        await self._wire.look()
        self.durability, self.settings = await redis_durability.weakest(self._wire)
        if self._wanted is not None:
            redis_durability.demand(self.durability, self.url)
        await self._described()
        self._ready = True

    async def _described(self) -> object:
        """When the store says it was made. One that is new, or was emptied, is described anew."""
        meta = self._keys.meta
        told = await self._wire.one("HMGET", meta, "created_at", "format")
        if None in told:  # a server that is full refuses even to write what is there
            made = clock(await self._wire.one("TIME"))
            await self._wire.one("HSETNX", meta, "created_at", made)
            await self._wire.one("HSETNX", meta, "format", FORMAT)
            told = await self._wire.one("HMGET", meta, "created_at", "format")
        found = described(told[1], "format", self.url)
        if found != FORMAT:
            raise IncompatibleCheckpointError(
                f"{self.url} has format {found}; this version of Lastgood knows {FORMAT}.",
                hint=_OLDER if found < FORMAT else _NEWER,
            )
        return told[0]

    async def servers(self) -> list[Info]:
        """What the servers say about themselves; of a Cluster, those that have slots."""
        return await self._wire.everywhere("INFO")

    async def is_there(self) -> bool:
        """Whether anything was ever kept under the prefix; makes nothing."""
        await self._wire.look()
        return any(await self._wire.send([("EXISTS", key) for key in self._keys.signs]))

    # asking

    async def ask(self, queries: Sequence[Query]) -> Answers:
        answers: dict[Query, Any] = dict.fromkeys(queries)
        heard: list[Any] = []
        for query in queries:
            if isinstance(query, AskThreads):
                answers[query] = await self._lists.page(query, heard)
        calls = await self._calls([each for each in queries if not isinstance(each, AskThreads)])
        made = [call for call, _ in calls]
        replies = await redis_calls.together(self._wire, made, self._shift(), self._keys.stem)
        for (call, asked), (_, _, *found) in zip(calls, replies, strict=True):
            for query, question, answer in zip(asked, call.questions, found, strict=True):
                answers[query] = question.parse(answer)
                self._note(answers[query])
        told = [*replies, *heard] or [await self._wire.one("TIME")]
        return Answers(clock(told[0]), answers)

    def _note(self, answer: Any) -> None:
        """Remember which key a thread has: parts are asked for by it."""
        columns = getattr(answer, "thread", None)
        if columns is None or not isinstance(columns[_NAME], str):
            return
        tag = tag_of(ThreadName(columns[_TENANT], columns[_NAME]))
        if not self._hints.knows(columns[0], tag) and intact(ThreadRow, columns) is not None:
            self._hints.note(columns[0], tag)

    async def _calls(self, queries: Sequence[Query]) -> list[tuple[Call, list[Query]]]:
        """What to ask, for each thread. One server finds that of a checkpoint by itself."""
        calls: dict[object, tuple[Call, list[Query]]] = {}
        by_id = [query for query in queries if isinstance(query, AskId)]
        tags: dict[Query, str | None] = {}
        if self._clients.cluster and by_id:
            found = await self._hints.tags_of_ids([(each.tenant, each.id) for each in by_id])
            tags = dict(zip(by_id, found, strict=True))
        for query in queries:
            question = redis_queries.question(query)
            if isinstance(query, AskId) and not self._clients.cluster:
                hint = self._keys.id_hint(query.tenant, query.id)
                calls[query] = Call(hint.key, [question], hint.field), [query]
                continue
            tag = tags[query] if isinstance(query, AskId) else tag_of(query.place)  # type: ignore[union-attr]
            if tag is not None:
                call, asked = calls.setdefault(tag, (Call(self._keys.thread(tag), []), []))
                call.questions.append(question)
                asked.append(query)
        return list(calls.values())

    # committing

    async def commit(self, intent: Intent) -> Writes:
        try:
            return await super().commit(intent)
        except CheckpointIntegrityError:
            place = ThreadName(intent.scope.tenant, intent.scope.thread)
            deletes = isinstance(intent, Delete) and intent.seen is None
            if not deletes or not await self._tried_again(lambda: self._tidying.cleared(place)):
                raise
        return Writes(answer=True)

    async def apply(self, change: Change) -> Outcome:
        await self.ready()
        tag = tag_of(change.place)
        gone = [row.id for row in change.removed]
        if change.wiped:
            gone = await self._wire.one("HKEYS", f"{self._keys.thread(tag)}:i")
        for _ in range(ATTEMPTS):
            outcome, *claimed = (await self._committed(change, tag)).split(b" ", 2)
            if outcome == b"done":
                await self._hints.settle(change, tag, gone)
                return "done"
            if outcome == b"unstaged" or (
                outcome == b"id" and claimed and not await self._hints.disputed(change, *claimed)
            ):
                continue
            if outcome == b"torn":
                raise redis_queries.torn(f"thread {change.place.name!r}")
            if outcome in (b"new", b"number"):
                await self._renumber(outcome, int(claimed[-1]))
            if outcome == b"key":
                raise _shared(change)
            return _OUTCOMES[outcome]
        raise TransientStorageError(
            f"{self.url}: what was sent before a save was gone again each time.",
            hint="Is the server out of memory, and evicts keys?",
        )

    async def _committed(self, change: Change, tag: str) -> bytes:
        claims: list[Claim] = []
        hints: list[Command] = []
        if not self._clients.cluster:
            claims, hints = self._hints.writes(change, tag)
        elif (claimed := await self._hints.claim(change, tag)) != b"done":
            return claimed
        thread = self._keys.thread(tag)
        staged = await parts.staged(self._wire, thread, change)
        made = changes.steps(change, thread, claims, hints, staged, self._shift())
        keys = redis_calls.named(self._wire, thread, *([staged.key] if staged else []))
        commit = COMMIT.over(keys, *changes.flat(made))
        return await parts.committed(self._wire, staged, commit)

    async def reserve(self, kind: Kind, count: int) -> Sequence[int]:
        await self.ready()
        while (numbers := await self._numbers.reserve(kind, count)) is None:
            await self._described()  # the server lost data
        return numbers

    async def _renumber(self, outcome: bytes, number: int) -> None:
        """Go on behind numbers that are in use: a counter went back, so the server lost data."""
        await self._described()
        if outcome == b"new":
            await self._numbers.pass_keys(number)
            self.discard("thread")
        else:
            await self._numbers.pass_by("stream", number)
            self.discard("stream")

    # the rest of the interface

    async def _tried_again(self, work: Callable[[], Awaitable[T]]) -> T:
        """Do what only reads, and once more if a connection is lost."""

        async def opened() -> T:
            await self.ready()
            return await work()

        return await Tries().of(opened)

    async def parts(self, ranges: Sequence[Extents], *, checked: bool = False) -> list[list[bytes]]:
        found = await self._tried_again(
            lambda: parts.fetched(self._wire, self._keys, self._hints, ranges)
        )
        if checked:
            for extent, rows in zip(ranges, found, strict=True):
                stream, first = extent.first
                spots = (Spot(stream, first + n) for n in range(len(rows)))
                check_parts((s, r.digest, r.data) for s, r in zip(spots, rows, strict=True))
        return [[part.data for part in rows] for rows in found]

    async def census(self, tenant: str) -> Census:
        made = described(await self._tried_again(self._described), "created_at", self.url)
        return Census(await self._tried_again(lambda: self._hints.count(tenant)), made)

    async def tenants(self) -> list[str]:
        return await self._tried_again(self._surveyor.tenants)

    async def survey(self, tenant: str, sections: Sequence[Section]) -> list[Sheet]:
        return await self._tried_again(lambda: self._surveyor.survey(tenant, sections))

    async def checkup(self) -> list[Problem]:
        made = making(await self._tried_again(self._described))
        return made + await self._tried_again(self._surveyor.checkup)

    async def footprints(self, tenant: str, threads: Sequence[int]) -> dict[int, Footprint]:  # noqa: ARG002
        weighed = self._surveyor.weighed
        return {key: await self._tried_again(partial(weighed, key)) for key in threads}

    async def tidy(self, tenant: str) -> bool:
        now = clock(await self._tried_again(lambda: self._wire.one("TIME"))) + self._shift()
        await self._tried_again(lambda: self._tidying.of(tenant, now))
        return True

    def news(self, tenant: str, thread: str) -> News | None:
        return StreamNews(self._clients, self._keys.news(tag_of(ThreadName(tenant, thread))))

    async def close(self) -> None:
        await self._clients.close()

    def after_fork_in_child(self) -> None:
        super().after_fork_in_child()
        self._clients.abandon()


_OUTCOMES: dict[bytes, Outcome] = {
    b"moved": "moved",
    b"stream": "stream",
    b"id": "id",
    b"new": "moved",
    b"number": "moved",
}


def _shared(change: Change) -> CheckpointIntegrityError:
    return CheckpointIntegrityError(
        f"thread {change.place.name!r} has the key #{change.key} of another thread.",
        hint="Save under another name: its checkpoints can still be restored by their ids.",
    )
