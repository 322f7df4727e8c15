"""Setting up a store in PostgreSQL: what is there, what is missing, and how that is made.

Forward only, and safe for any number of processes at once: under a lock of the transaction one of
them does it, and the others find it done. Nothing is made for somebody who only looks.

Tables that are in use are changed if that can be done at once. Who waits for a lock on a table has
everybody else wait behind it, those of the version before too; and what a dump of hours holds, it
holds for hours.
"""

from __future__ import annotations

import shlex
import zlib
from typing import NamedTuple

import psycopg
from psycopg import errors

from lastgood.backend import Durability
from lastgood.backends.described import described
from lastgood.backends.postgres import schema as postgres_schema
from lastgood.backends.postgres.statement import CLOCK
from lastgood.backends.postgres.wire import Session
from lastgood.backends.remote.clock import ticks
from lastgood.errors import (
    BackendConnectionError,
    IncompatibleCheckpointError,
    TransientStorageError,
)

LOCK_MS = 500
"""So long a migration waits for a table that others use."""
QUICK_MS = 10_000
"""So long a step of it may take that nobody has asked for, unless the role has a limit."""
_HELD = (
    "A dump, or another transaction that is still open, holds them (see pg_locks). Nothing was "
    "changed: try again when it is over."
)


class Server(NamedTuple):
    """A server, as far as a store depends on it."""

    version: str
    role: str
    fsync: str
    full_page_writes: str
    synchronous_commit: str
    clock: int
    asked_at: int
    """By our own clock."""

    @property
    def durability(self) -> Durability:
        """What it keeps of what was acknowledged."""
        if self.fsync == "off":
            return "cache"
        safe = self.full_page_writes == "on" and self.synchronous_commit != "off"
        return "strict" if safe else "window"


class Standing(NamedTuple):
    """What is there of a store."""

    server: Server
    schema: str
    format: int | None
    """None: nothing."""
    oldest: int | None
    may_make: bool = True
    """Whether the role may make what is not there."""
    made: bool = False
    """Whether some of it was made just now."""

    @property
    def current(self) -> bool:
        """Whether nothing is left to be done."""
        return self.format is not None and self.format >= postgres_schema.FORMAT

    @property
    def usable(self) -> bool:
        """Whether this code may use what is there, or make it."""
        return (self.oldest or 0) <= postgres_schema.FORMAT


# As bytes: a connection's encoding may lack its letters, and a database may have none.
_ROLE = """convert_to(current_user::text,
    CASE getdatabaseencoding() WHEN 'SQL_ASCII' THEN 'SQL_ASCII' ELSE 'UTF8' END)"""
NAMED = "nspname = convert_from(%s, 'UTF8')"


async def examined(run: Session) -> Server:
    """What the server says of itself, in one round trip."""
    names = ("fsync", "full_page_writes", "synchronous_commit")
    settings = ", ".join(f"current_setting('{name}')" for name in names)
    text = f"SELECT current_setting('server_version'), {_ROLE}, {settings}, {CLOCK}"
    asked_at = ticks()
    ((version, role, *found),) = await run.execute(text)
    name = role.decode("utf-8", "backslashreplace")
    return Server._make((version, name, *found, asked_at))


async def standing(run: Session, schema: str) -> Standing:
    """What is there; makes nothing."""
    server = await examined(run)
    try:
        found = await _format(run, schema)
        return Standing(server, schema, *found, found[0] is not None or await _may(run, schema))
    except errors.InsufficientPrivilege as error:
        raise _no_rights(error, server.role, schema, since=postgres_schema.FORMAT) from error


async def _format(run: Session, schema: str) -> tuple[int | None, int | None]:
    # As rows: names that a session failed to find once, it may remember as missing.
    there = await run.execute(
        "SELECT 1 FROM pg_catalog.pg_class c JOIN pg_catalog.pg_namespace n"
        f" ON n.oid = c.relnamespace WHERE n.{NAMED} AND c.relname = 'meta'",
        (schema.encode(),),
    )
    if not there:
        return None, None
    at = postgres_schema.placed(schema)
    found: dict[str, str] = dict(await run.execute(f"SELECT name, value FROM {at}.meta"))
    label = f"the schema {schema}"
    return (
        described(found.get("format"), "format", label),
        described(found.get("oldest"), "oldest", label),
    )


async def _may(run: Session, schema: str) -> bool:
    """Whether our role may make tables: in a schema that is there, or with one of its own."""
    ((found,),) = await run.execute(
        "SELECT coalesce((SELECT has_schema_privilege(oid, 'CREATE')"
        f" FROM pg_catalog.pg_namespace WHERE {NAMED}),"
        " has_database_privilege(current_database(), 'CREATE'))",
        (schema.encode(),),
    )
    return bool(found)


async def migrate(run: Session, schema: str, where: str, *, must: bool = False) -> Standing:
    """Make what is missing; gives what is there then. Raises IncompatibleCheckpointError.

    Who cannot change the tables, or not now, goes on with those that are there, if they will do;
    with `must`, that is an error.
    """
    found = await standing(run, schema)
    if not found.current:
        made = False
        needed = must or (found.format or 0) < postgres_schema.LEAST
        try:
            async with run.transaction():
                await _forward(run, schema, asked=must)
            made = True
        except (*_NOT_ALLOWED, *_NOT_NOW) as error:
            if needed:
                _explain(error, found, where)
                raise
        found = (await standing(run, schema))._replace(made=made)
    check(found, where)
    return found


_NOT_ALLOWED = (errors.InsufficientPrivilege, errors.ReadOnlySqlTransaction)
_NOT_NOW = (errors.LockNotAvailable, errors.QueryCanceled)


def _explain(error: psycopg.Error, found: Standing, where: str) -> None:
    """Raise what is wrong, where more can be said than the server does."""
    if isinstance(error, errors.InsufficientPrivilege):
        role, since = found.server.role, found.format or 0
        raise _no_rights(error, role, found.schema, since=since) from error
    if isinstance(error, errors.LockNotAvailable) and found.format:
        raise TransientStorageError(f"{where}: others use the tables.", hint=_HELD) from error


async def _forward(run: Session, schema: str, *, asked: bool) -> None:
    lock = zlib.crc32(f"lastgood {schema}".encode())
    await run.execute("SELECT pg_advisory_xact_lock(%s)", (lock,))
    since, _ = await _format(run, schema)
    # Even IF NOT EXISTS asks for rights on the database, which the owner of a schema may not have.
    named = f"SELECT 1 FROM pg_catalog.pg_namespace WHERE {NAMED}"
    there = bool(await run.execute(named, (schema.encode(),)))
    before = await _limited(run, asked=asked) if since else {}
    for text in postgres_schema.statements(schema, since or 0, there=there):
        await run.execute(text.replace("%", "%%"))
    await _set(run, before)  # the transaction may be one of the application, and go on


async def _limited(run: Session, *, asked: bool) -> dict[str, str]:
    """Bound what is done to tables in use; gives the settings that were there."""
    names = ("lock_timeout", "statement_timeout")
    shown = ", ".join(f"current_setting('{name}')" for name in names)
    before = dict(zip(names, (await run.execute(f"SELECT {shown}"))[0], strict=True))
    limits = {"lock_timeout": str(LOCK_MS)}
    if not asked and before["statement_timeout"] == "0":
        limits["statement_timeout"] = str(QUICK_MS)
    await _set(run, limits)
    return before


async def _set(run: Session, settings: dict[str, str]) -> None:
    """For the rest of the transaction."""
    for name, value in settings.items():
        await run.execute(f"SELECT set_config('{name}', '{value}', true)")


def demand(server: Server, where: str) -> None:
    """Refuse a server that may lose an acknowledged save."""
    if server.durability != "strict":
        raise BackendConnectionError(
            f"{where} keeps at most {server.durability!r}, not 'strict'.",
            hint="Turn `fsync`, `full_page_writes` and `synchronous_commit` on, on the server or "
            "for the role, or leave out durability= if this will do.",
        )


def check(found: Standing, where: str) -> None:
    """Refuse a store that is newer than this code can handle."""
    known = postgres_schema.FORMAT
    if not found.usable:
        raise IncompatibleCheckpointError(
            f"{where} has format {found.format}; this version of Lastgood knows formats up to "
            f"{known}.",
            hint="Upgrade lastgood here too: the store was migrated by a newer version.",
        )


def _no_rights(
    error: BaseException, role: str, schema: str, *, since: int = 0
) -> BackendConnectionError:
    """`since`: the tables are there, and only rights are missing."""
    said = str(error).strip().split("\n", maxsplit=1)[0]
    command = ["lastgood", "db", "sql", "--schema", schema, "--role", role]
    command += ["--since", str(since)] if since else []
    return BackendConnectionError(
        f"role {role!r} may not use or make the store in schema {schema!r}: {said}.",
        hint=f"Let a database administrator run what this prints: {shlex.join(command)}",
    )
