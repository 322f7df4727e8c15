"""Bytes to values, whatever the bytes are.

Owns the way from ext codes back to kinds, and the guards against hostile input. Must not know
pages or stores. Invariant: any bytes at all give a value or a `SerializationError`, in time
and memory proportional to their length, and nothing they name is imported or called.
"""

from __future__ import annotations

import secrets
from collections.abc import Callable
from typing import Any

from ormsgpack import packb, unpackb

from lastgood.codec.addresses import IP, URL
from lastgood.codec.arrays import ARRAY, SCALAR
from lastgood.codec.atoms import ATOMS, NESTED, SURROGATES
from lastgood.codec.containers import CONTAINERS, PAIRS
from lastgood.codec.kinds import Kind, Number, Unresolved
from lastgood.codec.msgpack import array_header, deeper_than, map_header
from lastgood.codec.native import CHECKED_LEVEL
from lastgood.codec.opaque import Opaque
from lastgood.codec.records import Fields
from lastgood.codec.registry import Registry
from lastgood.codec.unset import UNSET
from lastgood.errors import SerializationError

# `unpackb` ignores trailing bytes. So the data is read as the first of two values, the second
# of which must turn out to be this one, which no stored data can contain.
_SEAL = secrets.token_hex(12)
_SEAL_BYTES = packb(_SEAL)
_SEAL_ITEM = _SEAL_BYTES + b"\xc0"

# A record is three levels of tokens (ext, array, map), so 200 of them are well within this.
_NEWER = "Restore it with the version of Lastgood that saved it, or a newer one."
_MAX_NESTING = 1024
_MAX_LEVELS = 256

KINDS: dict[int, Kind] = {
    kind.number: kind
    for kind in (
        *ATOMS.values(),
        *CONTAINERS.values(),
        *PAIRS.values(),
        ARRAY,
        SCALAR,
        IP,
        URL,
        UNSET,
        SURROGATES,
        NESTED,
    )
}


class Decoder:
    """Reads one piece of stored data; made anew for each, so that levels and errors are its own."""

    def __init__(self, registry: Registry, *, strict_types: bool, shows: bool = False) -> None:
        self._registry = registry
        self._shows = shows
        self._strict = strict_types
        self._level = 0
        self._failure: BaseException | None = None
        self._makers: dict[str, Callable[[list[Any], Fields], object]] = {}

    def value(self, *pieces: bytes) -> Any:
        """One value, and nothing behind it."""
        found = self._read(b"".join((b"\x92", *pieces, _SEAL_BYTES)))
        if len(found) != 2 or found[1] != _SEAL:
            raise damaged("there are bytes behind its end")
        return found[0]

    def array(self, count: int, body: bytes) -> list[Any]:
        """Values one behind the other."""
        found: list[Any] = self._read(b"".join((array_header(count + 1), body, _SEAL_BYTES)))
        if found.pop() != _SEAL:
            raise damaged("there are bytes behind its end")
        return found

    def map(self, count: int, body: bytes) -> dict[str, Any]:
        """Items one behind the other, each with a key of its own."""
        found: dict[str, Any] = self._read(b"".join((map_header(count + 1), body, _SEAL_ITEM)))
        if found.popitem() != (_SEAL, None) or len(found) != count:
            raise damaged("a key occurs twice, or there are bytes behind its end")
        return found

    def made(self, number: int, body: Any, payload: Callable[[], bytes]) -> object:
        """The value of a kind from its body; opaque when this process lacks what it names."""
        try:
            return _MAKERS[number](self, body)
        except Unresolved as missing:
            return self._opaque(missing, number, payload())

    def _opaque(self, missing: Unresolved, number: int, payload: bytes) -> Opaque:
        if self._strict and not self._shows:
            raise damaged(f"{missing.label}: {missing.reason}", missing.hint) from None
        return Opaque(missing.label, number, payload, missing.reason, missing.hint)

    def _record(self, body: Any) -> object:
        head, fields = body
        if type(fields) is not dict or type(head) is not list:
            raise ValueError("a record has a label and fields")
        return (self._makers.get(head[0]) or self._maker_of(head[0]))(head, fields)

    def _maker_of(self, label: object) -> Callable[[list[Any], Fields], object]:
        """Look a class up once for all its objects in this piece."""
        if type(label) is not str:
            raise ValueError("the label of a record is text")
        make = self._makers[label] = self._registry.maker_of(label, strict=self._strict)
        return make

    def _member(self, body: Any) -> object:
        label, key = body
        return self._registry.make_member(label, key, strict=self._strict)

    def _custom(self, body: Any) -> object:
        label, value = body
        try:
            return self._registry.make_custom(label, value)
        except SerializationError:
            raise
        except _CAUSED_BY_BYTES as error:
            raise SerializationError(
                f"The decode function that is registered for {label} failed: {error!r}.",
                hint="It gets what the encode function gave when the value was saved.",
            ) from error

    def _read(self, data: bytes) -> Any:
        try:
            return unpackb(data, ext_hook=self._hook)
        except _CAUSED_BY_BYTES as error:
            failure = self._failure or damaged(str(error))
            raise failure from failure.__cause__

    def _hook(self, code: int, payload: bytes) -> object:
        """Called by `unpackb` for each ext; it swallows errors, so the first is kept aside."""
        self._level += 1
        try:
            return self._ext(code, payload)
        except BaseException as error:
            if self._failure is None:
                self._failure = as_damage(error)
            raise ValueError from None
        finally:
            self._level -= 1

    def _ext(self, code: int, payload: bytes) -> object:
        make = _PACKED.get(code)
        if make is None:
            return _unpacked(code, payload)
        if self._level >= CHECKED_LEVEL:
            self._check_depth(payload)
        sealed = b"".join((b"\x92", payload, _SEAL_BYTES))
        body, seal = unpackb(sealed, ext_hook=self._hook)
        if seal != _SEAL:
            raise damaged("there are bytes behind its end")
        try:
            return make(self, body)
        except Unresolved as missing:
            return self._opaque(missing, code, payload)

    def _check_depth(self, payload: bytes) -> None:
        """Measure once, at the level from where the native limits could add up to a crash."""
        deep = self._level == CHECKED_LEVEL and deeper_than(payload, _MAX_NESTING)
        if deep or self._level > _MAX_LEVELS:
            raise damaged("values nest too deep")


def _unpacked(code: int, payload: bytes) -> object:
    """The value of an ext whose payload holds no msgpack, or is none of ours."""
    if code in _RAW:
        return _RAW[code].make(payload)
    return Opaque(f"ext {code}", code, payload, "this version does not know its kind", _NEWER)


def _maker(kind: Kind) -> Callable[[Decoder, Any], object]:
    return lambda _, body: kind.make(body)


_CAUSED_BY_BYTES = (
    ArithmeticError,
    AttributeError,
    LookupError,
    MemoryError,
    RecursionError,
    SystemError,
    TypeError,
    ValueError,
)
_RAW = {number: kind for number, kind in KINDS.items() if kind.raw}
_MAKERS: dict[int, Callable[[Decoder, Any], object]] = {
    **{number: _maker(kind) for number, kind in KINDS.items()},
    Number.RECORD: Decoder._record,
    Number.ENUM: Decoder._member,
    Number.CUSTOM: Decoder._custom,
}
_PACKED = {number: make for number, make in _MAKERS.items() if number not in _RAW}


def damaged(why: str, hint: str = "") -> SerializationError:
    """The error for bytes that cannot be read."""
    return SerializationError(f"The stored value cannot be read: {why}.", hint=hint)


def as_damage(error: BaseException) -> BaseException:
    """An error met while reading, as the one error that callers handle.

    What bytes cannot cause (Ctrl-C, a timeout that a signal handler raises) stays itself.
    """
    if isinstance(error, SerializationError) or not isinstance(error, _CAUSED_BY_BYTES):
        return error
    return damaged(str(error) or type(error).__name__)
