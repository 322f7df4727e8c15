"""What the doctor looks at in a store on PostgreSQL: the server, its settings, the way there."""

from __future__ import annotations

import shlex
import statistics
import time
from argparse import Namespace
from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING, Any

from lastgood.backends.postgres.schema import FORMAT, ON_SEQUENCES, ON_TABLES, grant
from lastgood.cli import db
from lastgood.cli.doctor_checks import Finding
from lastgood.errors import LastgoodError
from lastgood.registry import BACKENDS, shown

if TYPE_CHECKING:
    from lastgood.backends.postgres.rights import Lack

_OLDEST = 140000
_FAR = 0.010
"""From here on a round trip is what a save costs."""
_CROWDED = 0.8
_ASKED = 7
_READER = {(right, True) for right in (*ON_TABLES, *ON_SEQUENCES) if right != "SELECT"}
"""What a role lacks that was given the right to read, and no other: each, on everything."""


def postgres_findings(place: str) -> Iterator[Finding]:
    """The server, what it keeps, how far it is, and what is there of the store."""
    yield Finding("ok", "store", shown(place))
    try:
        found = db.standing(Namespace(store=place))
    except LastgoodError as error:
        yield Finding("problem", "server", error.message, error.hint)
        return
    except ImportError as error:
        yield Finding("problem", "server", str(error))
        return
    yield from server_findings(place)
    yield durability_finding(found.server._asdict(), found.server.durability)
    if found.may_make:
        yield format_finding(found.schema, found.format, found.oldest)
    else:
        yield making_finding(found.schema, found.server.role)
    if found.format is not None:
        lacks = db.lacking(Namespace(store=place))
        yield rights_finding(found.schema, found.server.role, lacks)


def server_findings(place: str) -> Iterator[Finding]:
    """What one connection shows."""
    import psycopg

    from lastgood.backends.postgres.address import lively
    from lastgood.backends.postgres.cursors import ADAPTERS

    dsn = lively(BACKENDS["postgresql"].arguments(place)["source"])
    options: dict[str, Any] = {"prepare_threshold": None, "context": ADAPTERS}
    with psycopg.connect(dsn, autocommit=True, **options) as connection:
        yield version_finding(connection.info.server_version)
        yield distance_finding(statistics.median(_round_trip(connection) for _ in range(_ASKED)))
        (process,) = connection.execute("SELECT pg_backend_pid()").fetchone() or (0,)
        yield pooler_finding(direct=process == connection.info.backend_pid)
        numbers = connection.execute(
            "SELECT (SELECT sum(numbackends)::int FROM pg_stat_database),"
            " current_setting('max_connections')::int"
        ).fetchone()
        yield connections_finding(*(numbers or (0, 1)))


def _round_trip(connection: Any) -> float:
    began = time.perf_counter()
    connection.execute("SELECT 1")
    return time.perf_counter() - began


def version_finding(number: int) -> Finding:
    """Whether this PostgreSQL has what we use."""
    text = f"PostgreSQL {number // 10000}.{number % 10000}"
    if number >= _OLDEST:
        return Finding("ok", "server", text)
    return Finding("warning", "server", text, "Lastgood is tested on PostgreSQL 14 and newer.")


def distance_finding(seconds: float) -> Finding:
    """How long a round trip takes: a save is one or two."""
    text = f"{seconds * 1000:.2f} ms"
    if seconds < _FAR:
        return Finding("ok", "round trip", text)
    return Finding("warning", "round trip", text, "A save is one or two: move closer to it.")


def pooler_finding(*, direct: bool) -> Finding:
    """Whether somebody stands between: then a connection is not the server's session."""
    if direct:
        return Finding("ok", "pooler", "none seen")
    advice = "It works in transaction mode and in session mode; watch() looks again and again."
    return Finding("ok", "pooler", "one stands between, such as PgBouncer", advice)


def connections_finding(used: int, allowed: int) -> Finding:
    """Whether there is room for the pools of clients."""
    text = f"{used} of {allowed} in use; a client takes up to 20"
    if used < allowed * _CROWDED:
        return Finding("ok", "connections", text)
    return Finding("warning", "connections", text, "Make pools smaller, or put a pooler before it.")


def durability_finding(settings: dict[str, object], level: str) -> Finding:
    """What the server keeps of what it acknowledged."""
    names = ("fsync", "full_page_writes", "synchronous_commit")
    text = f"{level} ({', '.join(f'{name} {settings[name]}' for name in names)})"
    if level == "strict":
        return Finding("ok", "durability", text)
    advice = "After a crash acknowledged saves may be lost: turn these settings on."
    return Finding("warning", "durability", text, advice)


def rights_finding(schema: str, role: str, lacks: Sequence[Lack]) -> Finding:
    """Whether the role may do with the tables what a client does."""
    if not lacks:
        return Finding("ok", "rights", f"role {role} may read and save")
    wanted = "; ".join(_lacked(lack) for lack in lacks)
    by_kind = {
        lack.kind: [each.right for each in lacks if each.kind == lack.kind] for lack in lacks
    }
    given = "; ".join(grant(schema, role, rights, kind) for kind, rights in by_kind.items())
    if {(lack.right, lack.every) for lack in lacks} != _READER:
        text = f"role {role} lacks {wanted}"
        return Finding("problem", "rights", text, f"Let their owner run: {given}")
    text = f"role {role} can read and cannot save: it lacks {wanted}"
    advice = f"Fine if it is meant to read alone. If not, let their owner run: {given}"
    return Finding("warning", "rights", text, advice)


def _lacked(lack: Lack) -> str:
    what = f"every {lack.kind.lower().removesuffix('s')}" if lack.every else ", ".join(lack.names)
    return f"{lack.right} on {what}"


def making_finding(schema: str, role: str) -> Finding:
    """There are no tables, and our role may not make any."""
    text = f"no tables in schema {schema} yet, and role {role} may not make them"
    command = shlex.join(["lastgood", "db", "sql", "--schema", schema, "--role", role])
    return Finding("problem", "format", text, f"Let an administrator run the output of: {command}")


def format_finding(schema: str, found: int | None, oldest: int | None) -> Finding:
    """Whether this version uses the store as it is."""
    if found is None:
        hint = "They are made by the first save, or by `lastgood db migrate`."
        return Finding("ok", "format", f"no tables in schema {schema} yet", hint)
    if (oldest or 0) > FORMAT:
        advice = f"This version uses format {FORMAT}: upgrade lastgood."
        return Finding("problem", "format", f"{found}", advice)
    if found < FORMAT:
        advice = (
            "A client brings it up to date, or `lastgood db migrate`, if its role owns the tables."
        )
        return Finding("warning", "format", f"{found}", advice)
    return Finding("ok", "format", f"{found}")
