"""A statement for PostgreSQL with its values, and the words that statements have in common."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import cache
from typing import Any, NamedTuple

from lastgood.backends.postgres.schema import COLUMNS
from lastgood.backends.remote.rows import to_bytes
from lastgood.commits import Place

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


def each_place(table: str, thread: str, names: str) -> str:
    """Items of a thread by shelf and key, for `paired` places and the thread's own values.

    Each is looked up by itself: a join would be planned for threads of the usual length, and then
    reads the whole of a long one.
    """
    return (
        f"unnest(%s::bytea[], %s::bytea[]) u(shelf, key), LATERAL (SELECT {names} FROM {table} x"
        f" WHERE x.thread = {thread} AND x.shelf = u.shelf AND x.key = u.key LIMIT 1)"
    )


def paired(places: Sequence[Place]) -> tuple[list[bytes], list[bytes]]:
    """Shelves and keys."""
    return [to_bytes(shelf) for shelf, _ in places], [key for _, key in places]
