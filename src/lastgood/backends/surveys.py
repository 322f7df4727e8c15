"""What surveys of all stores have in common: how much is handed out, and what of whom.

Pure; backends give the rows.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator

from lastgood.backend import WEIGHT, Columns, Section
from lastgood.item_rules import belongs
from lastgood.reports import Problem
from lastgood.rows import ThreadRow, intact

_TENANT = ThreadRow._fields.index("tenant")


def gathered(rows: Iterable[Columns], limit: int) -> tuple[list[Columns], bool]:
    """The first rows, until there are many or they are large; and whether there may be more."""
    found: list[Columns] = []
    weight = 0
    for row in rows:
        found.append(row)
        weight += sum(len(value) for value in row if isinstance(value, bytes | str))
        if len(found) == limit or weight > WEIGHT:
            return found, True
    return found, False


def of_tenant(tenant: str, section: Section, rows: Iterable[Columns]) -> Iterator[Columns]:
    """Thread rows that a tenant may see: its own, and the keys of those that were changed."""
    for row in rows:
        if row[_TENANT] == tenant or (section.beside and belongs(str(row[_TENANT]), tenant)):
            yield row
        elif intact(ThreadRow, row) is None:
            yield row[:1]


def told(tenants: Iterable[object]) -> list[str]:
    """The names of tenants, each once and in order, without what is no name: it is damaged."""
    return sorted({name for name in tenants if isinstance(name, str)})


def orphans(table: str, key: int, seqs: Iterable[int], *, deleted: bool) -> Problem:
    """Rows whose thread is not there any more."""
    if deleted:
        message = f"{table} rows are left of a thread that was deleted."
        return Problem("orphan", f"thread #{key}", message, repairable=True)
    names = tuple(f"#{key}@{seq}" for seq in seqs)
    return Problem(
        "orphan",
        f"thread #{key}",
        f"the row of the thread is missing, its {table} rows are there.",
        checkpoints=names,
        repairable=False,
    )
