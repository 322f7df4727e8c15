"""What connections really do: journal mode and synchronous level, asked from themselves.

`synchronous` belongs to a connection and not to the file, so only the store's own connections can
tell. Those of a store that hides them are noted when they are opened. (An audit hook would see them
too, but has the interpreter stop at every `id()`, which would be measured as the store's time.)
"""

import sqlite3
from functools import cache
from typing import Any

from benchmarks.stores.interface import Pragmas


class Spy:
    """Collects the connections that this process opens from now on, whoever opens them."""

    def __init__(self) -> None:
        self._connections: list[sqlite3.Connection] = []
        self._connect = sqlite3.connect
        for module in (sqlite3, sqlite3.dbapi2):  # SQLAlchemy takes it from the second
            module.connect = self._noted  # type: ignore[attr-defined]

    def _noted(self, *arguments: Any, **options: Any) -> sqlite3.Connection:
        connection: sqlite3.Connection = self._connect(*arguments, **options)
        self._connections.append(connection)
        return connection

    def pragmas(self) -> Pragmas:
        """What the connections that are open now use."""
        return {pragmas_of(connection) for connection in self._connections if _open(connection)}


@cache
def spy() -> Spy:
    """The one of this process."""
    return Spy()


def _open(connection: sqlite3.Connection) -> bool:
    try:
        return connection.total_changes >= 0
    except sqlite3.ProgrammingError:
        return False


def pragmas_of(connection: sqlite3.Connection) -> tuple[str, int]:
    """Journal mode and synchronous level of one connection."""
    [mode] = connection.execute("PRAGMA journal_mode").fetchone()
    [level] = connection.execute("PRAGMA synchronous").fetchone()
    return mode, level


async def pragmas_through(connection: Any) -> Pragmas:
    """The same, of an aiosqlite connection, which only its own thread may use."""
    values = []
    for pragma in ("journal_mode", "synchronous"):
        async with connection.execute(f"PRAGMA {pragma}") as cursor:
            values.append((await cursor.fetchone())[0])
    return {(values[0], values[1])}
