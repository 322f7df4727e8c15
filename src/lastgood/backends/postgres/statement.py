"""A statement for PostgreSQL with its values, and the words that statements have in common."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import cache
from typing import Any, NamedTuple

from lastgood.backends.postgres.schema import COLUMNS

CLOCK = "(extract(epoch FROM clock_timestamp()) * 1000000)::bigint"
TOP = (1 << 63) - 1

Parse = Callable[[list[Any]], Any]


class Statement(NamedTuple):
    """SQL with its values, and what becomes of the rows (without the clock) that it brings."""

    text: str
    values: Sequence[object]
    parse: Parse


@cache
def every(alias: str, cls: type) -> str:
    """All columns of one kind of row."""
    return ", ".join(f"{alias}.{name}" for name in COLUMNS[cls])
