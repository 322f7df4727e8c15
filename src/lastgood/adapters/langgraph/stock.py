"""Reading what LangGraph's own savers wrote: strictly, without importing or calling anything.

The stock serializer rebuilds an object by the name of its class. Before it gets a value, every name
in the value is looked at: one that is not known to be safe, and was not allowed by the person who
asked, is an error that says where it stands. So is an object that cannot be rebuilt, for which the
stock serializer gives its bare fields.
"""

from __future__ import annotations

import json
from collections.abc import Collection, Iterator
from datetime import datetime
from typing import Any, NamedTuple

import ormsgpack
from langgraph.checkpoint.serde._msgpack import SAFE_MSGPACK_TYPES
from langgraph.checkpoint.serde.jsonplus import JsonPlusSerializer

from lastgood.errors import SerializationError, an
from lastgood.paths import render

_SNAPSHOT, _ARRAY = 7, 6
_OPTIONS = ormsgpack.OPT_NON_STR_KEYS
_ERROR = "__error__"
_PICKLED = (
    "is not read",
    "Read it with the library that wrote it, and save it again without pickle.",
)
_ENCRYPTED = (
    "is encrypted",
    "Store its values in a copy of the database without encryption, and import the copy.",
)
Name = tuple[str, str]
Named = tuple[tuple[object, ...], Name]
"""A class, and the path to where it stands."""


class _Ext(NamedTuple):
    code: int
    data: bytes


class StockSerde:
    """Decodes values of the stock savers."""

    def __init__(self, allowed: Collection[Name] = ()) -> None:
        self._allowed = SAFE_MSGPACK_TYPES | set(allowed)
        self._serde = JsonPlusSerializer(
            allowed_msgpack_modules=list(allowed) or None,
            allowed_json_modules=[(*module.split("."), name) for module, name in allowed] or None,
        )

    def load(self, kind: str | None, data: bytes | None, where: tuple[object, ...]) -> Any:
        """A value; raises SerializationError with the place of a class that is not allowed."""
        if kind is None or kind == "empty" or data is None:
            return None
        if kind == "msgpack":
            named = _all_names(data, where)
            if refused := [each for each in named if each[1] not in self._allowed]:
                raise _refused(refused)
            return self._rebuilt(data, where)
        try:
            if kind == "json":
                return self._from_json(data, where)
            return self._serde.loads_typed((kind, data))
        except NotImplementedError as error:
            raise _not_read(where, kind) from error

    def _rebuilt(self, data: bytes, where: tuple[object, ...]) -> Any:
        """A value; raises SerializationError where the serializer gives bare fields instead."""
        bare: list[Name] = []

        def hook(code: int, inner: bytes) -> Any:
            found = self._serde._unpack_ext_hook(code, inner)
            if code not in (_SNAPSHOT, _ARRAY):
                named = ormsgpack.unpackb(inner, ext_hook=_Ext, option=_OPTIONS)
                bare.extend([(named[0], named[1])] if type(found) is type(named[2]) else [])
            return found

        found = ormsgpack.unpackb(data, ext_hook=hook, option=_OPTIONS)
        if bare:
            raise _not_rebuilt(where, bare[0])
        return found

    def _from_json(self, data: bytes, where: tuple[object, ...]) -> Any:
        """A value as it was stored before msgpack; the same is refused and may be allowed."""
        stored = json.loads(data)
        if where[-1] == _ERROR and _class_of(stored) is not None:
            return _text_of_error(stored)
        if refused := [each for each in _json_names(stored, where) if each[1] not in self._allowed]:
            raise _refused(refused)
        lost: list[Name] = []

        def revive(value: dict[str, Any]) -> Any:
            found, name = self._revived(value), _class_of(value)
            lost.extend([name] if name is not None and found is None else [])
            return found

        found = json.loads(data, object_hook=revive)
        if lost:
            raise _not_rebuilt(where, lost[0])
        return found

    def _revived(self, value: dict[str, Any]) -> Any:
        """An object, or the dict itself. Times were stored by a method, which is read no more."""
        match value:
            case {"lc": 2, "id": ["datetime", "datetime"], "args": [str(text)]}:
                return datetime.fromisoformat(text)
        return self._serde._reviver(value)


def _class_of(value: Any) -> Name | None:
    """The class that a dict of the old format stands for an object of."""
    match value:
        case {"lc": 2, "type": "constructor", "id": [*module, str(name)]} if module:
            return ".".join(map(str, module)), name
    return None


def _json_names(value: Any, path: tuple[object, ...]) -> Iterator[Named]:
    """Every class that a value of the old format names, and where."""
    name = _class_of(value)
    if name is not None:
        yield path, name
        for given in (value.get("args"), value.get("kwargs")):
            yield from _json_names(given, path)
    elif isinstance(value, dict | list):
        for key, item in value.items() if isinstance(value, dict) else enumerate(value):
            yield from _json_names(item, (*path, key))


def _text_of_error(stored: dict[str, Any]) -> str:
    """As today's savers store one."""
    given = ", ".join(map(repr, stored.get("args") or ()))
    return f"{stored['id'][-1]}({given})"


def _not_read(where: tuple[object, ...], kind: str) -> SerializationError:
    """LangGraph's EncryptedSerializer names the cipher behind a plus."""
    why, hint = _ENCRYPTED if "+" in kind else _PICKLED
    said = f"{render(where)} is stored as {kind!r}, which {why}."
    return SerializationError(said, path=render(where), hint=hint)


def _not_rebuilt(where: tuple[object, ...], name: Name) -> SerializationError:
    return SerializationError(
        f"{render(where)} holds a {'.'.join(name)}, which cannot be rebuilt here.",
        path=render(where),
        hint=f"Run the import where {name[0]} can be imported (PYTHONPATH=...), with the class as "
        "it was when the value was saved.",
    )


def _refused(found: list[Named]) -> SerializationError:
    """Names the first place, and all that has to be allowed."""
    path, name = found[0]
    classes = dict.fromkeys(name for _, name in found)
    allow = " ".join(f"--allow {module}:{qualname}" for module, qualname in classes)
    trusted = "the class" if len(classes) == 1 else "the classes"
    return SerializationError(
        f"{render(path)} is {an('.'.join(name))}, which is not known to be safe.",
        path=render(path),
        hint=f"If you trust {trusted} and the file: {allow}",
    )


def _all_names(data: bytes, where: tuple[object, ...]) -> list[Named]:
    try:
        return list(_names(data, where))
    except ValueError as error:
        raise SerializationError(
            f"{render(where)} cannot be decoded: {error}.",
            path=render(where),
            hint="LangGraph cannot read it either; remove that checkpoint there.",
        ) from error


def _names(data: bytes, path: tuple[object, ...]) -> Iterator[Named]:
    """Every class that a packed value names, and where."""
    return _inside(ormsgpack.unpackb(data, ext_hook=_Ext, option=_OPTIONS), path)


def _inside(value: Any, path: tuple[object, ...]) -> Iterator[Named]:
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
