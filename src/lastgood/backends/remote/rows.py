"""Rows as stores on servers have them: text is bytes there, so that any text can be kept."""

from __future__ import annotations

from collections.abc import Sequence
from typing import get_type_hints

from lastgood.backend import Columns
from lastgood.rows import TABLES, Row, fields_of, sealed


def _texts(cls: type) -> tuple[int, ...]:
    """Which columns of a row hold text."""
    hints = get_type_hints(cls)
    return tuple(i for i, name in enumerate(fields_of(cls)) if "str" in str(hints[name]))


TEXTS = {cls: _texts(cls) for cls in TABLES}


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
