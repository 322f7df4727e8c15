"""Reading what LangGraph's own savers wrote: strictly, without importing or calling anything.

The stock serializer rebuilds an object by the name of its class. Before it gets a value, every name
in the value is looked at: one that is not known to be safe, and was not allowed by the person who
asked, is an error that says where it stands.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator
from typing import Any, NamedTuple

import ormsgpack
from langgraph.checkpoint.serde._msgpack import SAFE_MSGPACK_TYPES
from langgraph.checkpoint.serde.jsonplus import JsonPlusSerializer

from lastgood.errors import SerializationError
from lastgood.paths import render

_SNAPSHOT, _ARRAY = 7, 6
_OPTIONS = ormsgpack.OPT_NON_STR_KEYS
Name = tuple[str, str]


class _Ext(NamedTuple):
    code: int
    data: bytes


class StockSerde:
    """Decodes values of the stock savers."""

    def __init__(self, allowed: Collection[Name] = ()) -> None:
        self._allowed = SAFE_MSGPACK_TYPES | set(allowed)
        self._serde = JsonPlusSerializer(allowed_msgpack_modules=list(allowed) or None)

    def load(self, kind: str | None, data: bytes | None, where: tuple[object, ...]) -> Any:
        """A value; raises SerializationError with the place of a class that is not allowed."""
        if kind is None or kind == "empty" or data is None:
            return None
        if kind == "msgpack":
            for path, name in _names(data, where):
                if name not in self._allowed:
                    raise _refused(path, name)
        try:
            return self._serde.loads_typed((kind, data))
        except NotImplementedError as error:
            raise SerializationError(
                f"{render(where)} is stored as {kind!r}, which is not read.",
                path=render(where),
                hint="Read it with the library that wrote it, and save it again without pickle.",
            ) from error


def _refused(path: tuple[object, ...], name: Name) -> SerializationError:
    label = ":".join(name)
    return SerializationError(
        f"{render(path)} is a {'.'.join(name)}, which is not known to be safe.",
        path=render(path),
        hint=f"If you trust the class and the file: --allow {label}",
    )


def _names(data: bytes, path: tuple[object, ...]) -> Iterator[tuple[tuple[object, ...], Name]]:
    """Every class that a packed value names, and where."""
    return _inside(ormsgpack.unpackb(data, ext_hook=_Ext, option=_OPTIONS), path)


def _inside(value: Any, path: tuple[object, ...]) -> Iterator[tuple[tuple[object, ...], Name]]:
    if isinstance(value, _Ext):
        if value.code == _SNAPSHOT:
            yield from _names(value.data, path)
        elif value.code != _ARRAY:
            named = ormsgpack.unpackb(value.data, ext_hook=_Ext, option=_OPTIONS)
            yield path, (str(named[0]), str(named[1]))
            yield from _inside(named[2], path)
    elif isinstance(value, dict):
        for key, item in value.items():
            yield from _inside(item, (*path, key))
    elif isinstance(value, list | tuple):
        for number, item in enumerate(value):
            yield from _inside(item, (*path, number))
