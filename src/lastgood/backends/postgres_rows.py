"""Rows as PostgreSQL has them: text is bytes there."""

from __future__ import annotations

from collections.abc import Sequence
from typing import get_type_hints

from lastgood.backend import Columns
from lastgood.backends.postgres_schema import COLUMNS
from lastgood.rows import TABLES, Row, fields_of, sealed


def _texts(cls: type) -> tuple[int, ...]:
    """Which columns of a row hold text."""
    hints = get_type_hints(cls)
    return tuple(i for i, name in enumerate(fields_of(cls)) if "str" in str(hints[name]))


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
TEXTS = {cls: _texts(cls) for cls in TABLES}
WIDTH = {cls: len(COLUMNS[cls]) for cls in TABLES}


def to_bytes(text: str) -> bytes:
    """Any text, NUL and lone surrogates included."""
    return text.encode("utf-8", "surrogatepass")


def to_text(data: object) -> object:
    """The inverse; what is no text (damage) stays as it is, and its seal will not fit."""
    if not isinstance(data, bytes):
        return data
    try:
        return data.decode("utf-8", "surrogatepass")
    except UnicodeDecodeError:
        return data


def stored(row: Row) -> list[object]:
    """The values of a row, seal last."""
    return [to_bytes(value) if type(value) is str else value for value in sealed(row)]


def columns(cls: type, values: Sequence[object]) -> Columns:
    """A row's columns as they were before they were stored."""
    found = list(values)
    for index in TEXTS[cls]:
        found[index] = to_text(found[index])
    return tuple(found)


def cut(values: Sequence[object], *classes: type) -> list[Columns | None]:
    """The rows of a join, one after the other; None where a row is not there."""
    found: list[Columns | None] = []
    first = 0
    for cls in classes:
        piece = values[first : first + WIDTH[cls]]
        found.append(None if piece[0] is None else columns(cls, piece))
        first += WIDTH[cls]
    return found
