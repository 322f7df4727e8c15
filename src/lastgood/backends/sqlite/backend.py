"""The default backend: one SQLite file, in WAL mode, synced at every commit.

Many operations share one transaction when they come together (see `group`). One that is refused is
refused before its first write, so it leaves no trace in it. After a failure of the disk the whole
batch is rolled back and each operation is run alone, because SQLite may already have undone the
neighbours of the one that failed (measured with SQLITE_FULL). An operation is acknowledged only
after COMMIT.
"""

from __future__ import annotations

import os
import sqlite3
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager, suppress
from typing import Any, Literal, TypeVar

from lastgood.backend import (
    Backend,
    Census,
    Durability,
    Extents,
    Footprint,
    Inside,
    ItemListing,
    Listing,
    Located,
    Outline,
    Section,
    Sheet,
    ThreadEntry,
    ThreadListing,
)
from lastgood.backends import forking
from lastgood.backends.sqlite import surveys
from lastgood.backends.sqlite.connection import (
    Connect,
    Connections,
    Reader,
    ReplacedError,
    is_no_text,
    plain_connect,
    tolerant,
    translated,
)
from lastgood.backends.sqlite.group import Group, Ticket
from lastgood.backends.sqlite.log import LogAhead
from lastgood.backends.sqlite.recent import Recent
from lastgood.backends.sqlite.tables import SqliteTables
from lastgood.backends.sqlite.verified import Verified
from lastgood.backends.sqlite.waiting import begin
from lastgood.backends.sqlite.writes import SqliteWriter
from lastgood.commits import Found, Intent, Scope, Writes, decided
from lastgood.errors import UNUSABLE, LastgoodError, StorageError
from lastgood.registry import in_address
from lastgood.reports import Problem
from lastgood.rows import ItemRow

T = TypeVar("T")
Failpoint = Callable[[str], None]


def _no_failpoint(name: str) -> None:
    """Called at each named point of a commit; fault tests put a kill in its place."""


class SqliteBackend(Backend, forking.Forkable):
    """A store in one file."""

    blocking = True

    def __init__(
        self,
        path: str | os.PathLike[str] = "./lastgood.db",
        *,
        durability: Literal["strict", "relaxed"] = "strict",
        connect: Connect = plain_connect,
        clock: Callable[[], int] = time.time_ns,
    ) -> None:
        self.path = os.fspath(path)
        if self.path in ("", ":memory:"):
            raise ValueError(f"{self.path!r} is no file. For a store in memory: Client.memory().")
        if self.path.endswith("/"):
            raise ValueError(
                f"{self.path!r} is a directory. Pass the path of a file in it; for plain files: "
                f"Client.files({self.path!r}), files:{in_address(self.path)}"
            )
        self.url = f"sqlite:///{in_address(self.path)}"
        self.durability: Durability = durability
        self.failpoint: Failpoint = _no_failpoint
        self._clock = clock
        self._connections = Connections(self.path, connect, relaxed=durability == "relaxed")
        self._log = LogAhead(self._connections.path)
        self._known = Verified()
        self._recent = Recent()
        self._group = Group(self._execute)
        forking.watch(self)

    def now(self) -> int:
        """The host's clock in microseconds."""
        return self._clock() // 1000

    async def commit(self, intent: Intent) -> Writes:
        ticket = self._group.submit(intent)
        await ticket
        return ticket.outcome()

    async def look(self, scope: Scope) -> Found:
        if scope.is_line:
            return self._with_reader(lambda reader: self._line(reader, scope))
        return self._read(lambda rows: rows.look(scope))

    async def find(self, tenant: str, ids: Sequence[bytes]) -> dict[bytes, Located]:
        if len(ids) == 1:
            return self._with_reader(lambda reader: self._one(reader, tenant, ids[0]))
        return self._read(lambda rows: rows.find(tenant, ids))

    async def history(self, tenant: str, listing: Listing) -> list[Located]:
        return self._read(lambda rows: rows.history(tenant, listing))

    async def parts(self, ranges: Sequence[Extents], *, checked: bool = False) -> list[list[bytes]]:
        if len(ranges) == 1:  # one statement sees one moment by itself
            return self._with_reader(
                lambda reader: self._tables(reader).parts(ranges, checked=checked)
            )
        return self._read(lambda rows: rows.parts(ranges, checked=checked))

    async def at(self, tenant: str, thread: str, seq: int) -> Located | None:
        return self._read(lambda rows: rows.at(tenant, thread, seq))

    async def lineage(self, tenant: str, id: bytes, limit: int) -> list[Located]:
        return self._read(lambda rows: rows.lineage(tenant, id, limit))

    async def outline(
        self, tenant: str, thread: str, *, only: Inside | None = None
    ) -> Outline | None:
        return self._read(lambda rows: rows.outline(tenant, thread, only=only))

    async def items(self, tenant: str, listings: Sequence[ItemListing]) -> list[list[ItemRow]]:
        return self._read(lambda rows: rows.items(tenant, listings))

    async def threads(self, tenant: str, listing: ThreadListing) -> list[ThreadEntry]:
        return self._read(lambda rows: rows.threads(tenant, listing))

    async def census(self, tenant: str) -> Census:
        return self._read(lambda rows: rows.census(tenant))

    async def tenants(self) -> list[str]:
        return self._read(lambda rows: surveys.tenants(rows.connection))

    async def survey(self, tenant: str, sections: Sequence[Section]) -> list[Sheet]:
        return self._read(
            lambda rows: [surveys.sheet(rows.connection, tenant, each) for each in sections]
        )

    async def checkup(self) -> list[Problem]:
        return [problem for check in surveys.CHECKS for problem in self._checked(check)]

    def _checked(self, check: Callable[[Any], Iterator[Problem]]) -> list[Problem]:
        found: list[Problem] = []

        def gather(rows: SqliteTables) -> None:
            found.clear()  # of an attempt before this one
            found.extend(check(rows.connection))

        try:
            self._read(gather)
        except UNUSABLE:
            raise
        except LastgoodError as error:
            # After damage was met, COMMIT may fail too: then the check itself has told enough.
            return found or [Problem("file", "store", error.message)]
        return found

    async def footprints(self, tenant: str, threads: Sequence[int]) -> dict[int, Footprint]:  # noqa: ARG002
        return self._read(
            lambda rows: {key: surveys.footprint(rows.connection, key) for key in threads}
        )

    async def close(self) -> None:
        with self._translating():
            self._group.mutex.run(self._connections.close)

    def _read(self, work: Callable[[SqliteTables], T]) -> T:
        return self._with_reader(lambda reader: self._at_one_moment(reader, work))

    def _with_reader(self, work: Callable[[Reader], T]) -> T:
        try:
            try:
                return self._connections.read(work)
            except (sqlite3.Error, UnicodeDecodeError) as error:
                if not is_no_text(error):
                    raise
            return self._connections.read(tolerant(work))
        except (sqlite3.Error, UnicodeDecodeError) as error:
            raise translated(error, self.path) from error
        except ReplacedError:
            self._group.mutex.run(self._connections.close)
            raise self._connections.replaced("nothing was read") from None

    def _at_one_moment(self, reader: Reader, work: Callable[[SqliteTables], T]) -> T:
        """Run reads in one transaction, so that they see one moment."""
        connection = reader.connection
        try:
            connection.execute("BEGIN")
            return work(self._tables(reader))
        finally:
            if connection.in_transaction:
                _end(connection)

    def _tables(self, reader: Reader) -> SqliteTables:
        return SqliteTables(reader.connection, self.now(), self._known)

    def _line(self, reader: Reader, scope: Scope) -> Found:
        """What was seen before, or what is there."""
        seen = reader.lines.line(scope, self.now())
        if seen is not None:
            return seen
        return self._at_one_moment(reader, lambda rows: self._seen(reader, rows, scope))

    def _seen(self, reader: Reader, rows: SqliteTables, scope: Scope) -> Found:
        found = rows.look(scope)
        reader.lines.note_line(scope, found, rows.newest)
        return found

    def _one(self, reader: Reader, tenant: str, id: bytes) -> dict[bytes, Located]:
        """The same for a checkpoint by its id."""
        seen = reader.lines.located(tenant, id)
        if seen is not None:
            return {id: seen}
        found = self._at_one_moment(reader, lambda rows: rows.find(tenant, [id]))
        if id in found:
            reader.lines.note_located(tenant, found[id])
        return found

    @contextmanager
    def _translating(self) -> Iterator[None]:
        try:
            yield
        except (sqlite3.Error, UnicodeDecodeError) as error:
            raise translated(error, self.path) from error

    # committing; everything below runs under the group's mutex

    def _execute(self, batch: list[Ticket]) -> None:
        try:
            with self._translating():
                outcomes = self._committed(lambda connection: self._carry_out(connection, batch))
        except Exception as error:
            self._failed(batch, error)
            return
        for ticket, outcome in zip(batch, outcomes, strict=True):
            _settle(ticket, outcome)

    def _carry_out(self, connection: Any, batch: list[Ticket]) -> list[Writes | Exception]:
        """One transaction for all, and for those that come while it is open.

        An operation that is refused has written nothing.
        """
        outcomes: list[Writes | Exception] = []
        while len(outcomes) < len(batch) or self._group.join(batch):
            outcomes.append(self._tried(connection, batch[len(outcomes)]))
        return outcomes

    def _failed(self, batch: list[Ticket], error: Exception) -> None:
        if len(batch) > 1 or isinstance(error, StorageError):
            self._connections_reset()
        if len(batch) == 1:
            batch[0].fail(error)
            return
        for ticket in batch:
            ticket.intent = ticket.intent.again()
            self._alone(ticket)

    def _alone(self, ticket: Ticket) -> None:
        try:
            with self._translating():
                outcome = self._committed(lambda connection: self._tried(connection, ticket))
        except Exception as error:
            self._failed([ticket], error)
        else:
            _settle(ticket, outcome)

    def _tried(self, connection: Any, ticket: Ticket) -> Writes | Exception:
        rows = SqliteWriter(connection, self.now(), self._known, self._recent)
        try:
            writes = decided(rows, ticket.intent)
        except (sqlite3.Error, UnicodeDecodeError):
            raise
        except Exception as error:
            return error
        return self._write(rows, writes)

    def _write(self, rows: SqliteWriter, writes: Writes) -> Writes:
        self.failpoint("before-write")
        written = rows.write(writes)
        self.failpoint("after-write")
        return written

    def _committed(self, work: Callable[[Any], T]) -> T:
        """Work inside a transaction that holds the write lock, and commit it."""
        connection, is_new = self._connections.writer()
        if is_new:
            self._log = LogAhead(self._connections.path)  # a link may lead elsewhere by now
        if is_new or connection.in_transaction:
            self._recent.forget()  # versions count per connection; a commit was interrupted
        try:
            if connection.in_transaction:
                connection.execute("ROLLBACK")
            begin(connection)
            self._connections.check_file()
            self._recent.begin(connection.execute("PRAGMA data_version").fetchone()[0])
            result = work(connection)
            if self.durability == "strict":
                self._log.committing()
            self.failpoint("before-commit")
            connection.execute("COMMIT")
        except BaseException:
            self._recent.forget()
            if connection.in_transaction:
                connection.execute("ROLLBACK")
            raise
        self.failpoint("after-commit")
        return result

    def _connections_reset(self) -> None:
        """After the disk failed: never go on with the same handle."""
        try:
            self._connections.close()
        except sqlite3.Error:
            return  # they are forgotten either way

    @contextmanager
    def at_rest(self) -> Iterator[None]:
        with self._group.mutex.held():
            self._connections.freeze()
            try:
                yield
            finally:
                self._connections.thaw()

    def after_fork_in_child(self) -> None:
        self._connections.thaw_in_child()
        self._group = Group(self._execute)


def _settle(ticket: Ticket, outcome: Writes | Exception) -> None:
    if isinstance(outcome, Exception):
        ticket.fail(outcome)
    else:
        ticket.succeed(outcome)


def _end(connection: Any) -> None:
    """End a transaction that has read; after damage was met, COMMIT may name it once more."""
    with suppress(sqlite3.DatabaseError):
        connection.execute("COMMIT")
    if connection.in_transaction:
        connection.execute("ROLLBACK")
