"""A store in PostgreSQL, for teams: many machines, one system of record.

Reads are one round trip of one moment; a save is one statement, which is one transaction. Both
colours are native. No connection is held between operations, and operations on different threads
run in parallel over the pool. See `remote` for how commits meet other writers.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import partial
from typing import Any

from psycopg.errors import UniqueViolation

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
from lastgood.backends.described import described
from lastgood.backends.postgres import changes, setup, surveys
from lastgood.backends.postgres import queries as postgres_queries
from lastgood.backends.postgres import schema as postgres_schema
from lastgood.backends.postgres.connections import PATIENT_SECONDS
from lastgood.backends.postgres.exchange import Rows
from lastgood.backends.postgres.given import pools_for
from lastgood.backends.postgres.news import WATCHED_SECONDS, Listener, ThreadNews, token
from lastgood.backends.postgres.queries import Questions
from lastgood.backends.postgres.rights import Lack, lacking
from lastgood.backends.postgres.setup import Standing
from lastgood.backends.postgres.statement import CLOCK
from lastgood.backends.postgres.wire import Sql, send, session
from lastgood.backends.remote.attempts import Tries
from lastgood.backends.remote.backend import Outcome, RemoteBackend, check_wanted
from lastgood.backends.remote.changes import Change, Kind
from lastgood.backends.remote.queries import Answers, AskVersion, Query, ThreadName
from lastgood.backends.remote.recall import RecalledTables
from lastgood.backends.remote.rows import to_bytes
from lastgood.commits import Found, Scope
from lastgood.errors import StorageError, TransientStorageError
from lastgood.manifest import Spot, check_parts
from lastgood.reports import Problem
from lastgood.rows import LIVE, seal_of

POOL = 20
MOMENTS = 64
"""So often it is asked again, in a transaction of the application that is not of one moment."""
_STEPS: dict[Kind, int] = {"thread": 16, "stream": 64}
"""How far each sequence goes at a time."""
_BATCH = 64
"""So many numbers at least are reserved at a time."""
_TAKEN: dict[str, Outcome] = {
    "part_place": "stream",
    "(thread, stream, number)=": "stream",
    "checkpoint_id": "id",
    "(tenant, id": "id",
    "thread_pkey": "moved",
    "(thread)=": "moved",
}
"""By the constraint that a statement ran into; or by its columns, for a partition has others."""


class PostgresBackend(RemoteBackend):
    """A store in one schema of a database."""

    durability: Durability = "unknown"

    def __init__(
        self,
        source: object,
        *,
        schema: str = "lastgood",
        durability: str | None = None,
        pool_size: int = POOL,
        shift: Callable[[], int] = lambda: 0,
    ) -> None:
        super().__init__(shift)
        self._pools = pools_for(source, pool_size)
        self.schema = postgres_schema.check_schema(schema)
        self._wanted = check_wanted(durability)
        self.url = self._pools.label
        self.alone = self._pools.commits
        self.pulse = self._pools.pulse
        self._at = postgres_schema.placed(schema)
        self._questions = Questions(self._at)
        self._ready = False
        self._made_in: int | None = None
        """The transaction of the application, while it is open, in which the tables were made."""
        self._listener: Listener | None = None
        forking.watch(self)

    async def _send(
        self, statements: Sequence[Sql], *, silence: float | None = None, writes: bool = False
    ) -> list[Rows]:
        if not self._ready:
            await self._turns.take("setup", self._set_up)
        return await send(self._pools, statements, silence=silence, writes=writes)

    async def _rows(self, statements: Sequence[Sql], *, silence: float | None = None) -> list[Rows]:
        """The same for what only reads: sent again if a connection is lost."""
        return await Tries().of(lambda: self._send(statements, silence=silence))

    # setting up

    async def _set_up(self) -> None:
        """Of the first calls of a process, one does it."""
        if not self._ready:
            await self.setup()

    async def setup(self, *, must: bool = False) -> Standing:
        """Make sure that the tables are there, and of a format that we know; with `must`, ours."""
        async with session(self._pools) as run:
            if must:
                run.wait_for_long()
            if self._wanted is not None:
                setup.demand(await setup.examined(run), self.url)
            found = await setup.migrate(run, self.schema, self.url, must=must)
            self._pools.direct = await run.is_direct()
            # What was made in a transaction of the application may be rolled back with it.
            inside = await run.transaction_id() if run.joins else None
            self._made_in = inside if found.made or inside == self._made_in else None
        self._clock.seen(found.server.clock, found.server.asked_at)
        self.durability = found.server.durability
        self._ready = self._made_in is None
        return found

    async def standing(self) -> Standing:
        """What is there; makes nothing."""
        async with session(self._pools) as run:
            return await setup.standing(run, self.schema)

    async def lacking(self) -> list[Lack]:
        """The rights that our role would need to use what is there."""
        async with session(self._pools) as run:
            return await lacking(run, self.schema)

    # looking again

    async def look(self, scope: Scope) -> Found:
        return await self._unmoved(scope) or await super().look(scope)

    async def _unmoved(self, scope: Scope) -> Found | None:
        """What is remembered, if the server says that nobody has committed since."""
        recalled = self._memory.quiet(scope) if self.alone and scope.is_line else None
        if recalled is None:
            return None
        place = ThreadName(scope.tenant, scope.thread)
        query = AskVersion(place)
        answers = await Tries().of(partial(self._asked, [query]))
        thread, head = recalled.line.thread, recalled.line.head
        assert thread is not None and head is not None, "a line with a head"  # noqa: PT018
        if answers.found[query] != (recalled.version, seal_of(thread)):
            self._memory.moved(place, recalled.version)
            return None
        tables = RecalledTables(scope, answers.clock, recalled)
        return None if head.expired(tables.now_in(thread)) else tables.look(scope)

    # what a store on a server provides

    async def ask(self, queries: Sequence[Query]) -> Answers:
        made = [self._questions.statement(query, self._shift()) for query in queries]
        statements: list[Sql] = [(each.text, each.values) for each in made]
        found = await (self._send(statements) if self.alone else self._joined(queries, statements))
        clock = found[0][0][0]
        answers = {}
        for query, statement, rows in zip(queries, made, found, strict=True):
            answers[query] = statement.parse([row[1:] for row in rows if row[1] is not None])
        return Answers(clock, answers)

    async def _joined(self, queries: Sequence[Query], statements: list[Sql]) -> list[Rows]:
        """Answers of one moment inside of a transaction of the application.

        There every statement may see another moment. Threads that have the same versions before
        and after were not changed in between.
        """
        versions = self._questions.versions(queries)
        for _ in range(MOMENTS):
            before, *found, after = await self._send([versions, *statements, versions])
            if before == after:
                return found
        raise TransientStorageError(
            f"{self.url}: others write so often that no moment between two of their saves was met.",
            hint="Read outside of the transaction, or in one that is REPEATABLE READ.",
        )

    async def apply(self, change: Change) -> Outcome:
        try:
            silence = PATIENT_SECONDS if change.wiped else None
            made = changes.statement(self._at, change)
            found = await self._send([made], silence=silence, writes=True)
        except StorageError as error:
            taken = _taken(error)
            if taken is None:
                raise
            if taken == "moved":
                self.discard("thread")  # the counter went back, as the whole store did
            return taken
        return "done" if found[0][0][0] else "moved"

    async def reserve(self, kind: Kind, count: int) -> Sequence[int]:
        """Of both kinds at once: whoever needs one is about to need the other."""
        sizes = {each: _BATCH + (count if each == kind else 0) for each in _STEPS}
        text = " UNION ALL ".join(
            f"SELECT '{each}', nextval({postgres_schema.literal(f'{self._at}.{each}_key')})"
            " FROM generate_series(1, %s)"
            for each in _STEPS
        )
        batches = [-(-sizes[each] // step) for each, step in _STEPS.items()]
        (found,) = await self._send([(text, batches)], writes=True)
        numbers: dict[str, list[int]] = {each: [] for each in _STEPS}
        for each, first in found:
            numbers[each] += range(first, first + _STEPS[each])
        (other,) = _STEPS.keys() - {kind}
        with self._lock:
            self._supply[other] += numbers[other]
        return numbers[kind]

    # the rest of the interface

    async def parts(self, ranges: Sequence[Extents], *, checked: bool = False) -> list[list[bytes]]:
        found: list[list[bytes]] = [[] for _ in ranges]
        (rows,) = await self._rows([postgres_queries.parts(self._at, ranges)])
        if checked:
            check_parts((Spot(stream, n), digest, data) for _, stream, n, digest, data in rows)
        for index, *_, data in rows:
            found[index - 1].append(data)
        return found

    async def census(self, tenant: str) -> Census:
        text = (
            f"SELECT (SELECT count(*) FROM {self._at}.thread WHERE tenant = %s AND state = {LIVE}),"
            f" (SELECT value FROM {self._at}.meta WHERE name = 'created_at')"
        )
        ((threads, created),) = (await self._rows([(text, (to_bytes(tenant),))]))[0]
        return Census(threads, described(created, "created_at", self.url))

    async def tenants(self) -> list[str]:
        (rows,) = await self._rows([surveys.tenants(self._at)])
        return surveys.read_tenants(rows)

    async def survey(self, tenant: str, sections: Sequence[Section]) -> list[Sheet]:
        made = [surveys.statement(self._at, tenant, section) for section in sections]
        found = await self._rows(made)
        return [
            surveys.sheet(tenant, section, rows)
            for section, rows in zip(sections, found, strict=True)
        ]

    async def checkup(self) -> list[Problem]:
        statements = surveys.checks(self._at)
        return surveys.problems(await self._rows(statements, silence=PATIENT_SECONDS))

    async def footprints(self, tenant: str, threads: Sequence[int]) -> dict[int, Footprint]:  # noqa: ARG002
        if not threads:
            return {}
        statements = [surveys.footprint(self._at, key) for key in threads]
        found = await self._rows(statements, silence=PATIENT_SECONDS)
        return {key: surveys.read_footprint(rows) for key, rows in zip(threads, found, strict=True)}

    # news

    def news(self, tenant: str, thread: str) -> News | None:
        dsn = self._pools.own_dsn
        if dsn is None:
            return None
        if self._listener is None:
            self._listener = Listener(dsn)
        watched = token(self._at, tenant, thread)
        return ThreadNews(self._listener, watched, lambda: self._watched(tenant, thread))

    async def _watched(self, tenant: str, thread: str) -> bool:
        """Have commits to a thread notify for a while; False if it is not there."""
        text = (
            f"UPDATE {self._at}.thread SET watched = {CLOCK} + %s"
            " WHERE tenant = %s AND name = %s RETURNING 1"
        )
        values = (WATCHED_SECONDS * 1_000_000, to_bytes(tenant), to_bytes(thread))
        (found,) = await self._send([(text, values)])
        return bool(found)

    async def close(self) -> None:
        listener, self._listener = self._listener, None
        if listener is not None:
            listener.close()
        await self._pools.close()

    def after_fork_in_child(self) -> None:
        super().after_fork_in_child()
        if self._listener is not None:
            self._listener.after_fork()
        self._pools.abandon()


def _taken(error: StorageError) -> Outcome | None:
    """What was there already, if a statement failed for that."""
    cause: Any = error.__cause__
    if not isinstance(cause, UniqueViolation):
        return None
    told = f"{cause.diag.constraint_name} {cause.diag.message_detail}"
    return next((outcome for name, outcome in _TAKEN.items() if name in told), None)
