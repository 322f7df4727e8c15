"""`lastgood db`: the tables of a store in PostgreSQL, for whoever runs the database."""

from __future__ import annotations

import sys
from argparse import ArgumentParser, Namespace
from typing import TYPE_CHECKING

from lastgood import registry
from lastgood.backends.postgres import schema as postgres_schema
from lastgood.cli import printing
from lastgood.cli.cleaning import clean
from lastgood.cli.command import DONE, NO, USAGE, Command, Refusal
from lastgood.cli.store import address, again, json_option
from lastgood.cli.terminal import Terminal
from lastgood.driver import run_blocking

if TYPE_CHECKING:
    from lastgood.backends.postgres.backend import PostgresBackend
    from lastgood.backends.postgres.rights import Lack
    from lastgood.backends.postgres.setup import Standing

DEFAULT = "lastgood"


def run(options: Namespace) -> int:
    """Do what the action says."""
    return {"status": _status, "migrate": _migrate, "sql": _sql}[options.action](options)


def _status(options: Namespace) -> int:
    found = standing(options)
    _print(found, options)
    if not options.json and found.format is None:
        printing.note(f"To make the tables: {again(options, 'db', 'migrate')}")
    elif not options.json and not found.current:
        printing.note(f"To bring them up to date: {again(options, 'db', 'migrate')}")
    elif not options.json and not found.usable:
        printing.note("Upgrade lastgood here: this version refuses to use them.")
    return DONE if found.current and found.usable else NO


def _migrate(options: Namespace) -> int:
    backend = _backend(options)
    try:
        found = run_blocking(backend.setup(must=True))
    finally:
        run_blocking(backend.close())
    _print(found, options)
    return DONE


def _sql(options: Namespace) -> int:
    schema = _schema(options)
    if not 0 <= options.since <= postgres_schema.FORMAT:
        raise Refusal(
            f"there is no format {options.since}.",
            hint=f"--since takes 0 to {postgres_schema.FORMAT}; `lastgood db status` tells which "
            "one a database has.",
            exit_code=USAGE,
        )
    statements = postgres_schema.statements(schema, options.since)
    if options.role:
        statements += postgres_schema.grants(schema, options.role)
    if options.json:
        printing.document({"schema": schema, "role": options.role, "statements": statements})
    else:
        body = [f"{statement};" for statement in statements]
        print("\n".join(["BEGIN;", *body, "COMMIT;"]))
    return DONE


def standing(options: Namespace) -> Standing:
    """What is there of the store; makes nothing."""
    backend = _backend(options)
    try:
        return run_blocking(backend.standing())
    finally:
        run_blocking(backend.close())


def lacking(options: Namespace) -> list[Lack]:
    """The rights that the role would need to use it."""
    backend = _backend(options)
    try:
        return run_blocking(backend.lacking())
    finally:
        run_blocking(backend.close())


def _backend(options: Namespace) -> PostgresBackend:
    place = address(options)
    if registry.scheme_of(place) != "postgresql":
        raise Refusal(
            f"{registry.shown(place)} is no store in PostgreSQL.",
            hint="Pass --store postgresql://user@host/database, or set LASTGOOD_URL.",
            exit_code=USAGE,
        )
    given = registry.BACKENDS["postgresql"].arguments(place)
    schema = getattr(options, "schema", None)
    backend: PostgresBackend = registry.make(  # type: ignore[assignment]
        "postgresql", **{**given, **({"schema": schema} if schema else {})}
    )
    return backend


def _schema(options: Namespace) -> str:
    """The schema that is meant, also where no database is."""
    place = address(options)
    if options.schema or registry.scheme_of(place) != "postgresql":
        return postgres_schema.check_schema(str(options.schema or DEFAULT))
    found = registry.BACKENDS["postgresql"].arguments(place).get("schema", DEFAULT)
    return postgres_schema.check_schema(str(found))


def _print(found: Standing, options: Namespace) -> None:
    ours = postgres_schema.FORMAT
    if options.json:
        values = {"schema": found.schema, "format": found.format, "known": ours}
        server = {"server": found.server.version, "role": found.server.role}
        known = {"current": found.current, "usable": found.usable}
        printing.document({**values, **known, **server})
        return
    terminal = Terminal.on(sys.stdout)
    terminal.line(clean(f"PostgreSQL {found.server.version}, as role {found.server.role}"))
    if found.format is None:
        state = "no tables of Lastgood yet"
    elif found.format > ours:
        state = f"format {found.format}, newer than ours ({ours})"
    else:
        state = f"format {found.format}" + (" (current)" if found.current else f", ours is {ours}")
    terminal.line(clean(f"schema {found.schema}: {state}"))


def _options(parser: ArgumentParser) -> None:
    parser.add_argument("action", choices=["status", "migrate", "sql"], help="what to do")
    parser.add_argument(
        "--schema", metavar="NAME", help=f"the schema (default: that of the URL, else {DEFAULT})"
    )
    parser.add_argument(
        "--role",
        metavar="NAME",
        help="sql: also print the grants for a role that only uses the tables",
    )
    parser.add_argument(
        "--since",
        metavar="FORMAT",
        type=int,
        default=0,
        help="sql: print only what leads on from this format; if the tables are up to date, "
        f"--since {postgres_schema.FORMAT} --role NAME prints the grants alone",
    )
    json_option(parser)


DB = Command(
    name="db",
    help="manage the tables of a store in PostgreSQL: status, migrate, sql",
    description="""\
Manage the tables of a store in PostgreSQL. A client creates them at its first use, if its role may
do so; these commands are for when it may not, or should not.

  status   say which format is there and whether there is something to do; create nothing.
  migrate  create the tables, or bring them up to date; others may use the store meanwhile.
  sql      print what migrate would run, for a database administrator; needs no database.""",
    options=_options,
    run=run,
    epilog="""\
The exit code of status is 1 if the tables are not there, are not up to date, or are too new.

examples:
  lastgood db status --store postgresql://app@db.example/agents
  lastgood db sql --schema lastgood --role app > lastgood.sql
  lastgood db sql --since 2 --role second-app > grants.sql

with --json: status and migrate {"schema", "format", "known", "current", "usable", "server",
"role"}; sql {"schema", "role", "statements": [...]}""",
)
