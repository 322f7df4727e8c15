"""What a role may do with the tables of a store that are there: told before it tries."""

from __future__ import annotations

from typing import NamedTuple

from lastgood.backends.postgres.schema import ON_SEQUENCES, ON_TABLES
from lastgood.backends.postgres.setup import NAMED
from lastgood.backends.postgres.wire import Session

_ASKED = {
    "TABLES": (ON_TABLES, "has_table_privilege", "c.relkind IN ('r', 'p') AND c.relname <> 'meta'"),
    "SEQUENCES": (ON_SEQUENCES, "has_sequence_privilege", "c.relkind = 'S'"),
}


class Lack(NamedTuple):
    """A right that a role needs to use a store, and does not have."""

    right: str
    kind: str
    """On what: `TABLES` or `SEQUENCES`."""
    names: tuple[str, ...]
    every: bool
    """Whether these are all of that kind."""


async def lacking(run: Session, schema: str) -> list[Lack]:
    """The rights that our role lacks."""
    found = []
    for kind, (rights, allows, which) in _ASKED.items():
        denied = f"NOT {allows}(c.oid, r.name)"
        rows = await run.execute(
            f"SELECT r.name, array_agg(c.relname::text ORDER BY c.relname) FILTER (WHERE {denied}),"
            f" bool_and({denied}) FROM unnest(%s::text[]) WITH ORDINALITY r(name, place),"
            " pg_catalog.pg_class c JOIN pg_catalog.pg_namespace n ON n.oid = c.relnamespace"
            f" WHERE n.{NAMED} AND {which} GROUP BY r.name, r.place ORDER BY r.place",
            (list(rights), schema.encode()),
        )
        found += [Lack(right, kind, tuple(names), every) for right, names, every in rows if names]
    return found
