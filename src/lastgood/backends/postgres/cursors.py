"""How statements are spelled, their values sent and their answers read: by our own rules.

A connection may belong to an application, which has loaders, cursors and an encoding of its own, or
to a role or a database that has one. None of that is asked. Cursors are ours, with the driver's own
adapters; answers come in binary; all text that is read is ASCII. What else a connection decides is
how the name of a schema is spelled: that is all of a statement that need not be ASCII.
"""

from __future__ import annotations

import re
from functools import lru_cache
from typing import Any

import psycopg
from psycopg import AsyncConnection, AsyncRawCursor, Connection, RawCursor
from psycopg.adapt import AdaptersMap, Buffer, Loader
from psycopg.postgres import register_default_adapters
from psycopg.pq import Format
from psycopg.rows import tuple_row
from psycopg.types.array import ListBinaryDumper, register_all_arrays
from psycopg.types.numeric import Int8BinaryDumper

_PLACE = re.compile("%([%s])")
_NONE = "SQL_ASCII"
"""The name of the encoding of a connection or a database that has none: bytes are passed on."""


class _Text(Loader):
    """The driver gives bytes where a connection has no encoding."""

    format = Format.BINARY

    def load(self, data: Buffer) -> str:
        return bytes(data).decode("utf-8", "backslashreplace")


def _adapters() -> AdaptersMap:
    """The driver's, without what an application has registered for all connections.

    Arrays too are sent as they are, where the driver would spell every byte. Every number is one of
    eight bytes, where it would choose by size: a statement would be another one with each choice.
    """
    made = AdaptersMap(types=psycopg.adapters.types)
    register_default_adapters(made)
    register_all_arrays(made)
    made.register_dumper(list, ListBinaryDumper)
    made.register_dumper(int, Int8BinaryDumper)
    for name in ("text", "name"):
        made.register_loader(name, _Text)
    return made


ADAPTERS = _adapters()


class OwnCursor(RawCursor[Any]):
    """A cursor of ours on a blocking connection."""

    def __init__(self, connection: Connection[Any]) -> None:
        super().__init__(connection, row_factory=tuple_row)

    @property
    def adapters(self) -> AdaptersMap:
        return ADAPTERS


class OwnAsyncCursor(AsyncRawCursor[Any]):
    """The same on an async one."""

    def __init__(self, connection: AsyncConnection[Any]) -> None:
        super().__init__(connection, row_factory=tuple_row)

    @property
    def adapters(self) -> AdaptersMap:
        return ADAPTERS


def spelled(text: str, connection: Connection[Any] | AsyncConnection[Any]) -> bytes:
    """A statement as the server at the end of a connection takes it.

    Raises UnicodeEncodeError if its encoding has not all the letters.
    """
    return numbered(text, "ascii" if text.isascii() else _codec(connection))


@lru_cache(maxsize=1024)
def numbered(text: str, codec: str = "ascii") -> bytes:
    """`$1`, `$2` in the place of each `%s`, and `%` in that of each `%%`.

    The driver would do that too, but for one with more than 50 values each time anew.
    """
    first, *rest = _PLACE.split(text)
    pieces, number = [first], 0
    for mark, piece in zip(rest[::2], rest[1::2], strict=True):
        number += mark == "s"
        pieces += (f"${number}" if mark == "s" else "%", piece)
    return "".join(pieces).encode(codec)


def _codec(connection: Connection[Any] | AsyncConnection[Any]) -> str:
    """What a name has to be encoded with, so that it is the same one on every connection."""
    client, server = map(connection.info.parameter_status, ("client_encoding", "server_encoding"))
    if server == _NONE or (client, server) == (_NONE, "UTF8"):
        return "utf-8"
    return connection.info.encoding
