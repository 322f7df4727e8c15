"""What stores on a server have in common: asking in rounds, committing by compare-and-swap.

A read sends all that it will want in one round trip, runs the shared logic over the answers, and
asks again with more if that came to a lookup that nobody foresaw. Every round is of one moment, and
the last one answers everything, so what is seen is always of one moment.

A commit decides here, on what was read, and sends the change with the version of the thread that it
was decided on. The store carries it out only if that is still the version. Otherwise somebody else
was faster, and the decision is made anew. So no lock and no connection is held while anything is
decided. What this process wrote last is remembered, so a save that follows needs no read at all.

Where a connection is lost, reads are repeated, and so are commits: an intent recognises its own
outcome. How long that may take is bounded by `PATIENCE`.
"""

from __future__ import annotations

import random
import threading
import time
from abc import abstractmethod
from collections.abc import Awaitable, Callable, Iterator, Sequence
from contextlib import contextmanager
from functools import partial
from typing import Literal, TypeVar

from lastgood.backend import (
    Backend,
    Inside,
    ItemListing,
    Listing,
    Located,
    Outline,
    ThreadEntry,
    ThreadListing,
)
from lastgood.backends import forking
from lastgood.backends.queries import (
    Answers,
    AskAt,
    AskHeads,
    AskId,
    AskItemCount,
    AskItems,
    AskLanes,
    AskLine,
    AskTags,
    AskThreads,
    Need,
    Query,
    ThreadName,
    about_history,
    about_scope,
)
from lastgood.backends.remote_changes import Aim, Change, Decision, Exhausted, Kind, decide
from lastgood.backends.remote_clock import ServerClock, ticks
from lastgood.backends.remote_memory import Memory
from lastgood.backends.remote_recall import RecalledTables
from lastgood.backends.remote_tables import RemoteTables
from lastgood.backends.turns import Turns
from lastgood.backends.views import first_page
from lastgood.commits import NOTHING, Found, Intent, Scope, Taken, Writes
from lastgood.driver import pause
from lastgood.errors import StorageError, TransientStorageError
from lastgood.item_rules import Outcome as ItemOutcome
from lastgood.rows import ItemRow
from lastgood.run_rules import Settle

T = TypeVar("T")
Outcome = Literal["done", "moved", "stream", "id"]
"""`moved`: the thread is not at that version; `stream`, `id`: a part's number, the id is taken."""
Failpoint = Callable[[str], None]

PATIENCE = 30.0
"""Seconds after which an operation that meets lost connections or faster writers gives up: at the
end of the attempt that it is at."""
ROUNDS = 64
"""An operation that needs more rounds than this is a bug."""
_IN_DOUBT = (
    "Whether it was kept is unknown: going on with the run, or saving again under the same "
    "checkpoint_id, settles it."
)


def check_wanted(durability: str | None) -> str | None:
    """How durable a server has to be; its own settings decide how durable it is."""
    if durability not in (None, "strict"):
        raise ValueError(
            f"durability={durability!r} cannot be chosen here: the settings of the server decide. "
            'Leave it out, or write "strict" to have a server refused that may lose saves.'
        )
    return durability


def no_failpoint(name: str) -> None:
    """Called at each named point of a commit; fault tests put a kill in its place."""


class RemoteBackend(Backend, forking.Forkable):
    """A store on a server."""

    blocking = False
    alone = True
    """Whether every operation is a transaction of its own: what was written in one of somebody
    else may still be undone."""

    def __init__(self, shift: Callable[[], int]) -> None:
        self.failpoint: Failpoint = no_failpoint
        self._shift = shift
        """Microseconds that are added to the server's clock: tests turn it."""
        self._clock = ServerClock()
        self._begin()

    def _begin(self) -> None:
        self._memory = Memory()
        self._turns = Turns()
        self._lock = threading.Lock()
        self._supply: dict[Kind, list[int]] = {"thread": [], "stream": []}

    # what a store provides

    async def ready(self) -> None:
        """Do what has to be done once, before the first question: it is not part of its time."""

    @abstractmethod
    async def ask(self, queries: Sequence[Query]) -> Answers:
        """Answer all of them, of one moment, in one round trip. The clock is the server's own."""

    @abstractmethod
    async def apply(self, change: Change) -> Outcome:
        """Carry out a change, whole or not at all.

        - Raises TransientStorageError where nobody knows whether it was.
        """

    @abstractmethod
    async def reserve(self, kind: Kind, count: int) -> Sequence[int]:
        """At least so many numbers for threads or streams that nobody else gets."""

    # reading

    async def look(self, scope: Scope) -> Found:
        place = ThreadName(scope.tenant, scope.thread)
        found, version = await self._read(
            scope.tenant, about_scope(scope), lambda rows: (rows.look(scope), rows.version(place))
        )
        if self.alone:
            self._memory.saw(place, version, found)
        return found

    async def find(self, tenant: str, ids: Sequence[bytes]) -> dict[bytes, Located]:
        queries = [AskId(tenant, id) for id in dict.fromkeys(ids)]
        return await self._read(tenant, queries, lambda rows: rows.find(tenant, ids))

    async def history(self, tenant: str, listing: Listing) -> list[Located]:
        queries = about_history(tenant, listing)
        return await self._read(tenant, queries, lambda rows: rows.history(tenant, listing))

    async def at(self, tenant: str, thread: str, seq: int) -> Located | None:
        place = ThreadName(tenant, thread)
        queries: list[Query] = [AskLine(place), AskAt(place, (seq,))]
        queries.append(AskLanes(place, few=True))
        return await self._read(tenant, queries, lambda rows: rows.at(tenant, thread, seq))

    async def lineage(self, tenant: str, id: bytes, limit: int) -> list[Located]:
        return await self._read(
            tenant, [AskId(tenant, id)], lambda rows: rows.lineage(tenant, id, limit)
        )

    async def outline(
        self, tenant: str, thread: str, *, only: Inside | None = None
    ) -> Outline | None:
        place = ThreadName(tenant, thread)
        inside = {"lanes": AskLanes(place), "heads": AskHeads(place), "tags": AskTags(place)}
        queries = [AskLine(place), *([inside[only]] if only else inside.values())]
        return await self._read(
            tenant, queries, lambda rows: rows.outline(tenant, thread, only=only)
        )

    async def threads(self, tenant: str, listing: ThreadListing) -> list[ThreadEntry]:
        queries = [AskThreads(tenant, listing)]
        return await self._read(tenant, queries, lambda rows: rows.threads(tenant, listing))

    async def items(self, tenant: str, listings: Sequence[ItemListing]) -> list[list[ItemRow]]:
        places = {ThreadName(tenant, listing.thread) for listing in listings}
        queries: list[Query] = [AskLine(place) for place in places]
        queries += [AskItemCount(place) for place in places]
        queries += [
            AskItems(ThreadName(tenant, each.thread), first_page(each)) for each in listings
        ]
        return await self._read(tenant, queries, lambda rows: rows.items(tenant, listings))

    async def _read(
        self,
        tenant: str,
        queries: Sequence[Query],
        work: Callable[[RemoteTables], T],
        tries: Tries | None = None,
    ) -> T:
        """Ask, and ask again with what turned out to be wanted too."""
        asked, tries = list(queries), tries or Tries()
        for _ in range(ROUNDS):
            answers = await tries.of(partial(self._asked, asked))
            while True:
                try:
                    return work(RemoteTables(tenant, answers))
                except Need as need:
                    asked += need.queries
                    break
                except Exhausted as empty:
                    await tries.of(partial(self._supplied, empty))
        raise RuntimeError(f"a read that never ends: {asked[-1]!r}")

    async def _supplied(self, empty: Exhausted) -> None:
        numbers = await self.reserve(empty.kind, empty.count)
        with self._lock:
            self._supply[empty.kind] += numbers

    async def _asked(self, queries: Sequence[Query]) -> Answers:
        """The answers, with the clock that tests may turn."""
        await self.ready()
        asked_at = ticks()
        answers = await self.ask(queries)
        self._clock.seen(answers.clock, asked_at)
        return answers._replace(clock=answers.clock + self._shift())

    # committing

    async def commit(self, intent: Intent) -> Writes:
        attempt = Attempt(intent)
        # Those of this process take turns, or of several writers to one thread all but one would
        # fail each time. So each finds in memory what the one before it wrote.
        try:
            await self._turns.take(attempt.place, lambda: self._insisted(attempt))
        except StorageError as error:
            raise attempt.failed(error) from error.__cause__
        assert attempt.writes is not None, "done"
        return attempt.writes

    async def _insisted(self, attempt: Attempt) -> None:
        if await self._tried(attempt):
            return
        while not await self._tried(attempt):
            await attempt.tries.again(_too_busy(attempt.place))

    async def _tried(self, attempt: Attempt) -> bool:
        """Decide and write; False if another writer came in between."""
        while True:
            decision = await self._decision(attempt)
            outcome = await self._applied(attempt, decision) if decision.change else "done"
            if outcome == "done":
                attempt.writes = attempt.told(decision)
                return True
            if outcome in ("stream", "id"):
                attempt.refused |= {outcome}
            if outcome == "stream":
                continue
            if outcome != "moved":
                attempt.aim = Aim.of(attempt.aim.intent.again())
            if outcome != "unknown":
                return False

    async def _applied(self, attempt: Attempt, decision: Decision) -> Outcome | Literal["unknown"]:
        """Send a change. Where its outcome is not known, the intent will recognise it."""
        assert decision.change is not None
        outcome: Outcome = "moved"
        try:
            self.failpoint("before-write")
            outcome = await self.apply(decision.change)
        except TransientStorageError as error:
            attempt.doubtful = attempt.doubtful or decision.writes
            await attempt.tries.again(error)
            return "unknown"
        finally:
            if outcome == "done" and self.alone:
                self._memory.note(decision)
            elif outcome != "stream":
                self._memory.forget(attempt.place)
        self.failpoint("after-commit")
        return outcome

    async def _decision(self, attempt: Attempt) -> Decision:
        """What to write: decided on what is remembered, else on what the store says."""
        aim, refused = attempt.aim, attempt.refused
        scope = aim.scope
        known = self._memory.recall(scope)
        while known is not None and (now := self._clock.now()) is not None:
            tables = RecalledTables(scope, now + self._shift(), known)
            try:
                decision = decide(tables, known.version, aim, refused, self._next)
            except Exhausted as empty:
                await attempt.tries.of(partial(self._supplied, empty))
            except Exception:  # what is remembered may be out of date: nobody is refused by it
                break
            else:
                if decision.change is None:
                    break
                return decision.at(now)
        also = [AskLanes(aim.place, few=True)] if self._memory.lacks_lane(scope) else []
        return await self._read(
            scope.tenant,
            [*about_scope(scope), *also],
            lambda rows: decide(rows, rows.version(aim.place), aim, refused, self._next),
            attempt.tries,
        )

    def discard(self, kind: Kind) -> None:
        """Let go of numbers in reserve: they turned out to be somebody's."""
        with self._lock:
            self._supply[kind].clear()

    def _next(self, kind: Kind, count: int) -> list[int]:
        with self._lock:
            supply = self._supply[kind]
            if len(supply) < count:
                raise Exhausted(kind, count)
            taken, supply[:count] = supply[:count], []
        return taken

    # forks of the process

    @contextmanager
    def at_rest(self) -> Iterator[None]:
        yield

    def after_fork_in_child(self) -> None:
        self._begin()


class Attempt:
    """A commit on its way."""

    def __init__(self, intent: Intent) -> None:
        self.aim = Aim.of(intent)
        self.place = self.aim.place
        self.refused: Taken = NOTHING
        self.tries = Tries()
        self.doubtful: Writes | None = None
        """What was sent first, if nobody knows whether it was carried out."""
        self.writes: Writes | None = None

    def failed(self, error: StorageError) -> StorageError:
        """What the caller is told that gets no answer."""
        if self.doubtful is not None:
            error.in_doubt = True
            error.hint = f"{error.hint} {_IN_DOUBT}".lstrip()
        return error

    def told(self, decision: Decision) -> Writes:
        """What the caller is told: where nothing was left to do, that it was done by this commit.

        A save and a run are recognised by their ids, and told as they are stored; and what became
        of them is told as it is by now. Items that are neither as they were expected nor as they
        were to become were changed by somebody else.
        """
        writes, first = decision.writes, self.doubtful
        if first is None or first.checkpoint is not None or first.run is not None:
            return writes
        if isinstance(self.aim.intent, Settle):
            return writes
        if isinstance(writes.answer, ItemOutcome) and not writes.answer.done:
            return writes
        return first if decision.change is None else writes._replace(answer=first.answer)


class Tries:
    """How often and how long an operation has been at it."""

    def __init__(self) -> None:
        self._count = 0
        self._until = time.monotonic() + PATIENCE

    async def of(self, work: Callable[[], Awaitable[T]]) -> T:
        """Do what may be done twice, once more where a connection was lost."""
        while True:
            try:
                return await work()
            except TransientStorageError as error:
                await self.again(error)

    async def again(self, error: TransientStorageError) -> None:
        """Wait a little, longer each time; raises the error when it has been long enough."""
        self._count += 1
        if time.monotonic() > self._until:
            raise error
        await pause(random.uniform(0, min(0.5, 0.001 * 2**self._count)))


def _too_busy(place: ThreadName) -> TransientStorageError:
    return TransientStorageError(
        f"thread {place.name!r} has so many writers that this one never got its turn.",
        hint="Let fewer writers share a thread, or try again.",
    )
