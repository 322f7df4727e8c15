"""Rows as PostgreSQL has them: how their columns are bound, and cut out of a join."""

from __future__ import annotations

from collections.abc import Sequence
from typing import get_type_hints

from lastgood.backend import Columns
from lastgood.backends.postgres.schema import COLUMNS
from lastgood.backends.remote.rows import columns
from lastgood.rows import TABLES, fields_of


def _type(hint: str) -> str:
    if "int" in hint:
        return "bigint"
    return "double precision" if "float" in hint else "bytea"


def _marks(cls: type) -> str:
    """A placeholder for each column. With its type: a None has none of its own."""
    hints = get_type_hints(cls)
    types = [_type(str(hints[name])) for name in fields_of(cls)]
    return ", ".join(f"%s::{name}" for name in (*types, "bytea"))


MARKS = {cls: _marks(cls) for cls in TABLES}
WIDTH = {cls: len(COLUMNS[cls]) for cls in TABLES}


def cut(values: Sequence[object], *classes: type) -> list[Columns | None]:
    """The rows of a join, one after the other; None where a row is not there."""
    found: list[Columns | None] = []
    first = 0
    for cls in classes:
        piece = values[first : first + WIDTH[cls]]
        found.append(None if piece[0] is None else columns(cls, piece))
        first += WIDTH[cls]
    return found
