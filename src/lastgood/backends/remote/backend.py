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

import threading
from abc import abstractmethod
from collections.abc import Callable, Iterator, Sequence
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
from lastgood.backends.remote.attempts import Attempt, Tries, too_busy
from lastgood.backends.remote.changes import Change, Decision, Exhausted, Kind, decide
from lastgood.backends.remote.clock import ServerClock, ticks
from lastgood.backends.remote.company import Company
from lastgood.backends.remote.memory import Memory, Remembered
from lastgood.backends.remote.queries import (
    Answers,
    AskAt,
    AskHeads,
    AskId,
    AskLanes,
    AskLine,
    AskTags,
    AskThreads,
    Need,
    Query,
    ThreadName,
    about_history,
    about_items,
    about_scope,
)
from lastgood.backends.remote.recall import RecalledTables
from lastgood.backends.remote.tables import RemoteTables
from lastgood.backends.remote.turns import Turns
from lastgood.commits import MOMENT, Found, Intent, Scope, Writes
from lastgood.driver import is_blocking, pause
from lastgood.errors import StorageError, TransientStorageError
from lastgood.rows import ItemRow

T = TypeVar("T")
Outcome = Literal["done", "moved", "stream", "id"]
"""`moved`: the thread is not at that version; `stream`, `id`: a part's number, the id is taken."""
Failpoint = Callable[[str], None]

MOMENTS = 5
"""So often a thread sleeps for a moment where another one is likely to come: for less than it takes
to send a change."""
ROUNDS = 64
"""An operation that needs more rounds than this is a bug."""


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
        self._in_company = False
        """Whether somebody came with the last one that takes others along, or behind it."""

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
        return (await self.look_and_list(scope, ()))[0]

    async def look_and_list(
        self, scope: Scope, listings: Sequence[ItemListing]
    ) -> tuple[Found, list[list[ItemRow]]]:
        place = ThreadName(scope.tenant, scope.thread)

        def work(rows: RemoteTables) -> tuple[Found, int | None, list[list[ItemRow]]]:
            return rows.look(scope), rows.version(place), rows.items(scope.tenant, listings)

        queries = [*about_scope(scope), *about_items(scope.tenant, listings, {place})]
        found, version, items = await self._read(scope.tenant, queries, work)
        if self.alone:
            self._memory.saw(place, version, found)
        return found, items

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
        queries = about_items(tenant, listings)
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
            await self._turns.take(attempt.place, lambda: self._insisted(attempt), attempt)
        except StorageError as error:
            raise attempt.failed(error) from error.__cause__
        assert attempt.writes is not None, "done"
        return attempt.writes

    async def _insisted(self, attempt: Attempt) -> None:
        attempt.begin()
        if attempt.writes is not None:
            return  # it was taken along
        if not attempt.alone:
            await self._give_way(attempt)
        if await self._tried(attempt):
            return
        while not await self._tried(attempt):
            await attempt.tries.again(too_busy(attempt.place))

    async def _give_way(self, attempt: Attempt) -> None:
        """Let those come who are about to: tasks that are ready; threads, if some did last time."""
        if not is_blocking():
            await pause(0)
            return
        for _ in range(MOMENTS if self._in_company else 0):
            if self._behind(attempt):
                return
            await pause(MOMENT)

    def _behind(self, attempt: Attempt) -> list[Attempt]:
        """Who waits for a turn to be carried out; one that was taken along waits for its own."""
        inside = [each for each in self._turns.inside(attempt.place) if isinstance(each, Attempt)]
        return [each for each in inside if each is not attempt and each.writes is None]

    async def _tried(self, attempt: Attempt) -> bool:
        """Decide and write; False if another writer came in between."""
        while True:
            decision = attempt.left(await self._decision(attempt))
            if decision.change is None:
                attempt.writes = attempt.told(decision)
                return True
            company = self._company(attempt, decision)
            outcome = await self._applied(company)
            if not attempt.alone:
                self._in_company = company.is_shared or bool(self._behind(attempt))
            if outcome == "done":
                company.told()
                return True
            if company.is_shared:
                return False
            if outcome in ("stream", "id"):
                attempt.refused |= {outcome}
            if outcome == "id":
                attempt.again()
            if outcome in ("moved", "id"):
                return False

    def _company(self, attempt: Attempt, decision: Decision) -> Company:
        """A commit, with those that wait behind it as far as they can be decided without asking."""
        company = Company.of(attempt, decision, self._memory.get(attempt.place))
        if attempt.alone or not self.alone:
            return company
        for other in self._behind(attempt):
            joined = self._accompanied(company, other)
            if joined is None:
                break
            company = joined
        return company

    def _accompanied(self, company: Company, other: Attempt) -> Company | None:
        """With one more; None if that one has to go by itself."""
        if other.begun or not company.is_open:
            return None
        try:
            decision = self._recalled(other, company.known, company.change.moment)
        except Exception:  # also what is refused: nobody is by what may be out of date
            return None
        return company.joined(other, decision) if decision else None

    async def _applied(self, company: Company) -> Outcome | Literal["unknown"]:
        """Send a change. Where its outcome is not known, the intents will recognise it."""
        outcome: Outcome = "moved"
        leader, place = company.members[0][0], company.change.place
        try:
            self.failpoint("before-write")
            outcome = await self.apply(company.change)
        except TransientStorageError as error:
            if not error.refused:
                company.doubted()
            await leader.tries.again(error)
            return "unknown"
        except BaseException as stop:
            if not isinstance(stop, Exception):
                company.doubted()  # it goes its way without us
            raise
        finally:
            if outcome == "done" and self.alone:
                self._memory.note(place, company.known)
            elif outcome != "stream" or company.is_shared:
                self._memory.forget(place)
            if outcome != "done":
                company.parted()
        self.failpoint("after-commit")
        return outcome

    async def _decision(self, attempt: Attempt) -> Decision:
        """What to write: decided on what is remembered, else on what the store says."""
        aim, sure = attempt.aim, attempt.doubtful is None
        while sure and (known := self._memory.get(aim.place)) and (now := self._clock.now()):
            try:
                decision = self._recalled(attempt, known, now)
            except Exhausted as empty:
                await attempt.tries.of(partial(self._supplied, empty))
            except Exception:  # what is remembered may be out of date: nobody is refused by it
                break
            else:
                if decision is None or decision.change is None:
                    break
                return decision
        also = [AskLanes(aim.place, few=True)] if self._memory.lacks_lane(aim.scope) else []
        return await self._read(
            aim.scope.tenant,
            [*about_scope(aim.scope), *also],
            lambda rows: decide(rows, rows.version(aim.place), aim, attempt.refused, self._next),
            attempt.tries,
        )

    def _recalled(
        self, attempt: Attempt, known: Remembered | None, now: int | None
    ) -> Decision | None:
        """What to write, for a moment that the store has to agree with, decided on what is known;
        None if that is not enough.
        """
        scope = attempt.aim.scope
        recalled = known and known.recalled(scope)
        if recalled is None or now is None:
            return None
        tables = RecalledTables(scope, now + self._shift(), recalled)
        refused = attempt.refused
        return decide(tables, recalled.version, attempt.aim, refused, self._next).at(now)

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
