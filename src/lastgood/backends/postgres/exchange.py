"""One round trip on a connection of ours, past the driver's cursors.

A cursor finds out anew at every call what a statement is, how its values are dumped and how its
columns are loaded. That is most of what a small statement costs this side. Here it is kept with the
connection, for statements that were prepared in its session: what is left is to send and to wait.
The driver still does the waiting, and gives the dumpers, the loaders and the errors.

A statement is prepared when it comes for the second time. What a session knows is noted by what it
answered, never supposed: a command behind one that failed was not carried out.
"""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Generator, Sequence
from functools import partial
from typing import Any

from psycopg import ConnectionInfo, errors, generators
from psycopg.adapt import PyFormat, Transformer
from psycopg.pq import ExecStatus, Format
from psycopg.pq.abc import PGconn, PGresult
from psycopg.waiting import Ready, Wait

from lastgood.backends.postgres.cursors import ADAPTERS

Rows = list[tuple[Any, ...]]
Sql = tuple[bytes, Sequence[object]]
Key = tuple[bytes, tuple[int, ...]]
"""The text of a statement, and the types of its values."""
Signals = Generator[Any, Any, list[Rows]]

MOST = 100
"""So many statements a session knows: the server keeps some hundred kilobytes for each."""
MANY = 1000
"""So many are told apart."""
_TUNE = b"SET plan_cache_mode = force_generic_plan"
"""All that we prepare is looked up by keys: no plan depends on the values. Left to itself, a server
makes five plans of each statement before it trusts one."""
_DONE = (ExecStatus.COMMAND_OK, ExecStatus.TUPLES_OK)


class _Context:
    """What adapters are made for: ours, whatever the connection."""

    adapters = ADAPTERS
    connection = None


class Statement:
    """A statement with values of certain types, and how its answers are read."""

    def __init__(self, key: Key) -> None:
        self.key = key
        self.text, self.types = key
        # By what it says: should a pooler hand out sessions, no name stands for another statement.
        self.name = f"lastgood_{hashlib.sha256(repr(key).encode()).hexdigest()[:32]}".encode()
        self._loading: Any = None

    def rows(self, result: PGresult) -> Rows:
        """What it brought. Which columns that has does not change."""
        if result.status == ExecStatus.COMMAND_OK:
            return []
        known = self._loading is not None
        loading = self._loading = self._loading or Transformer(_Context())
        loading.set_pgresult(result, set_loaders=not known)
        rows = loading.load_rows(0, result.ntuples, tuple)
        loading.set_pgresult(None, set_loaders=False)  # it may be large
        return rows


class Parcel:
    """What goes to the server in one round trip."""

    def __init__(self, pgconn: PGconn, info: ConnectionInfo) -> None:
        self.pgconn = pgconn
        self._info = info
        self._commands: list[Callable[[], None]] = []
        self._asked: list[tuple[int, Statement]] = []
        self._noted: list[tuple[int, Callable[[], object]]] = []

    def ask(self, statement: Statement, values: Any, formats: Any, *, known: bool) -> None:
        """A statement whose rows are wanted."""
        self._asked.append((len(self._commands), statement))
        send = (
            partial(self.pgconn.send_query_prepared, statement.name, values)
            if known
            else partial(self.pgconn.send_query_params, statement.text, values, statement.types)
        )
        self._commands.append(partial(send, formats, Format.BINARY))

    def tell(self, command: bytes) -> None:
        """A command without values or rows."""
        self._commands.append(partial(self.pgconn.send_query_params, command, None))

    def prepare(self, statement: Statement) -> None:
        name, text, types = statement.name, statement.text, statement.types
        self._commands.append(partial(self.pgconn.send_prepare, name, text, types))

    def then(self, note: Callable[[], object]) -> None:
        """What is true once the last command was carried out."""
        self._noted.append((len(self._commands) - 1, note))

    def sent(self) -> Signals:
        """For the driver to run. Raises the first error that the server names."""
        if len(self._commands) == 1:
            self._commands[0]()
            results = yield from generators.execute(self.pgconn)
        else:
            results = yield from _piped(self.pgconn, self._commands)
        for index, note in self._noted:
            if results[index].status in _DONE:
                note()
        for result in results:
            if result.status not in _DONE:
                raise errors.error_from_result(result, encoding=self._info.encoding)
        return [statement.rows(results[index]) for index, statement in self._asked]


def _piped(
    pgconn: PGconn, commands: Sequence[Callable[[], None]]
) -> Generator[Any, Any, list[PGresult]]:
    """Send all, then read an answer for each. A connection that is left in between is closed."""
    try:
        pgconn.enter_pipeline_mode()
        for command in commands:
            command()
        pgconn.pipeline_sync()
        while pgconn.flush():
            if (yield Wait.RW) & Ready.R:
                pgconn.consume_input()
        found = []
        for _ in commands:
            found += yield from generators.fetch_many(pgconn)
        yield from generators.fetch_many(pgconn)
        pgconn.exit_pipeline_mode()
    except BaseException:
        pgconn.finish()
        raise
    return found


class Repertoire:
    """What the session of a connection knows."""

    def __init__(self) -> None:
        self._dumping: Any = Transformer(_Context())
        self._seen: set[Key] = set()
        self._known: dict[Key, Statement] = {}
        self._tuned = False

    def exchanged(
        self,
        parcel: Parcel,
        statements: Sequence[tuple[bytes, Sequence[object]]],
        *,
        prepares: bool,
    ) -> Signals:
        """The rows of each, in one round trip; several are one transaction that reads."""
        several = len(statements) > 1
        if several:
            parcel.tell(b"BEGIN ISOLATION LEVEL REPEATABLE READ READ ONLY")
        new: dict[Key, Statement] = {}
        for text, values in statements:
            dumped = self._dumping.dump_sequence(values, [PyFormat.AUTO] * len(values))
            key, formats = (text, tuple(self._dumping.types)), self._dumping.formats
            known = self._statement(parcel, key, new) if prepares else None
            parcel.ask(known or Statement(key), dumped, formats, known=known is not None)
        if several:
            parcel.tell(b"COMMIT")
        if new:
            self._tidy(parcel, len(new))
        return parcel.sent()

    def _statement(self, parcel: Parcel, key: Key, new: dict[Key, Statement]) -> Statement | None:
        """One that the session knows by then; None if it comes for the first time."""
        known = self._known.get(key) or new.get(key)
        if known is None and self._is_usual(key):
            known = new[key] = Statement(key)
            parcel.prepare(known)
            parcel.then(partial(self._known.__setitem__, key, known))
        return known

    def _is_usual(self, key: Key) -> bool:
        """Whether it was sent before: to read and plan one takes the server several times as long
        as to carry it out.
        """
        if key in self._seen:
            return True
        if len(self._seen) >= MANY:
            self._seen.clear()
        self._seen.add(key)
        return False

    def _tidy(self, parcel: Parcel, new: int) -> None:
        """Have the session make one plan for each, and forget the oldest of too many."""
        if not self._tuned:
            parcel.tell(_TUNE)
            parcel.then(partial(setattr, self, "_tuned", True))
        surplus = max(0, len(self._known) + new - MOST)
        for key, statement in list(self._known.items())[:surplus]:
            parcel.tell(b"DEALLOCATE " + statement.name)
            parcel.then(partial(self._known.pop, key))
