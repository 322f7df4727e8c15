"""Whole values in one native call, and the hook for what msgpack has no word for.

Owns the fast path and the question whether its result can be trusted. Must not know paths or
policies: it answers None, and the walk then finds out why. Invariant: bytes that leave here
read back as the very value, or the native path declines.

An `ormsgpack.Ext` or `Fragment` in a state is refused where a walk meets one. Here it passes,
because looking for it would cost more than packing: it then reads back as whatever its bytes
say, which is data of the very process that wrote it and runs nothing.
"""

from __future__ import annotations

import secrets
from collections.abc import Callable, Iterable, Sequence
from operator import add
from typing import Any, NamedTuple

import ormsgpack
from ormsgpack import Ext, packb

from lastgood.codec.containers import SETS
from lastgood.codec.kinds import Kind, Number
from lastgood.codec.msgpack import OPTIONS, array, array_header, deeper_than, ext_header
from lastgood.codec.opaque import Opaque
from lastgood.codec.registry import Registry

# Each level of ext restarts the native depth limit, so levels are counted: this many natively,
# and at the checked one no payload deeper than the limit (the decoder checks at the same level).
_FREE_LEVELS = 16
CHECKED_LEVEL = 2

_FOREIGN = frozenset({bytearray, memoryview, Ext, ormsgpack.Fragment})
_BINARY = frozenset({bytes, bytearray, memoryview})
_NATIVE = frozenset({list, dict})
_TELLING = _FOREIGN | _BINARY | _NATIVE
_MAX_HEADERS = 4096

ROW = 32
"""Elements that are packed in one call where only their bytes matter; more bring nothing."""

# Stands between records that are packed together. Of bytes that text does not hold, which makes
# the search for it quick; random, so that it hardly ever occurs by chance.
_MARK_BYTES = b"\xd8\x7f" + bytes(secrets.choice(range(0xFB, 0x100)) for _ in range(16))
_MARK: Any = ormsgpack.Fragment(_MARK_BYTES)


class _Headers(dict[int, bytes]):
    """Size -> the ext header of a record of so many bytes."""

    def __missing__(self, size: int) -> bytes:
        if len(self) > _MAX_HEADERS:
            self.clear()
        header = self[size] = ext_header(Number.RECORD, size)
        return header


_RECORD_HEADERS = _Headers()


class Inspection(NamedTuple):
    """Whether values read back as what they were, and whether they hold anything binary.

    Where nothing is binary, nothing can later be exchanged for its look-alike unnoticed.
    """

    exact: bool
    binary: bool


PLAIN = Inspection(exact=True, binary=False)


class Native:
    """The fast path of one encoder."""

    def __init__(self, registry: Registry, *, strict_types: bool, max_depth: int) -> None:
        self.level = 0
        self._interrupt: BaseException | None = None
        self._registry = registry
        self._strict = strict_types
        self._kinds = registry.kinds(strict=strict_types)
        self._takers = _Takers(self._kinds)
        self._max_depth = max_depth

    def pack(self, value: object) -> bytes | None:
        """The bytes of a value, or None when it must be walked."""
        if type(value) in _FOREIGN:
            return None
        if type(value) is list and len(value) > ROW:
            return self._pack_long(value)
        try:
            data = packb(value, default=self._hook, option=OPTIONS)
        except TypeError:
            self._check_interrupt()
            return None
        return None if _may_hide(data) and _hides([value]) else data

    def _pack_long(self, values: list[object]) -> bytes | None:
        """A list row by row: a single growing buffer of its size would be new memory each time."""
        parts = [array_header(len(values))]
        for start in range(0, len(values), ROW):
            row = values[start : start + ROW]
            data = self.pack_row(row)
            if data is None or not _is_exact(row, data):
                return None
            parts.append(data)
        return b"".join(parts)

    def pack_each(self, values: Sequence[object]) -> list[bytes] | None:
        """The bytes of each value, not yet `exact`, or None when one of them must be walked."""
        if not self._begins_with_record(values):
            return self._pack_singly(values)
        found: list[bytes] = []
        for start in range(0, len(values), ROW):
            row = values[start : start + ROW]
            flat = self._pack_records(row)
            packed = map(add, flat[::2], flat[1::2]) if flat else self._pack_singly(row)
            if packed is None:
                return None
            found += packed
        return found

    def _pack_singly(self, values: Sequence[object]) -> list[bytes] | None:
        hook = self._hook
        try:
            return [packb(value, default=hook, option=OPTIONS) for value in values]
        except TypeError:
            self._check_interrupt()
            return None

    def pack_row(self, values: list[object]) -> bytes | None:
        """The bytes of values one behind the other, not yet `exact`, or None as above."""
        view = self.view_row(values)
        return None if view is None else bytes(view)

    def view_row(self, values: list[object]) -> memoryview | None:
        """The same, not copied.

        One call for many small values takes three quarters of the time of one call for each.
        """
        if self._begins_with_record(values):
            flat = self._pack_records(values)
            if flat is not None:
                return memoryview(b"".join(flat))
        try:
            data = packb(values, default=self._hook, option=OPTIONS)
        except TypeError:
            self._check_interrupt()
            return None
        return memoryview(data)[len(array_header(len(values))) :]

    def _begins_with_record(self, values: Sequence[object]) -> bool:
        kind = self._kinds.get(type(values[0])) if values else None
        return kind is not None and kind.number == Number.RECORD and not self.level

    def _pack_records(self, row: Sequence[object]) -> list[bytes] | None:
        """The header and payload of each in turn; None unless all are records, and exact."""
        takers = self._takers
        self.level = 1
        try:
            return _flat([takers[type(value)](value) for value in row], self._hook)
        except Exception:
            self._check_interrupt()
            return None
        finally:
            self.level = 0

    def _check_interrupt(self) -> None:
        """`packb` turns whatever its hook raises into a TypeError, a Ctrl-C too."""
        if self._interrupt is not None:
            raise self._interrupt

    def inspect(self, values: Sequence[object], packed: Sequence[bytes]) -> Inspection:
        """What natively packed values are made of, as far as packing can hide it."""
        if _TELLING.isdisjoint(map(type, values)):
            return PLAIN
        suspects = [value for value, data in zip(values, packed, strict=True) if _may_hide(data)]
        types = _types_in(suspects)
        return Inspection(types.isdisjoint(_FOREIGN), not types.isdisjoint(_BINARY))

    def kind_of(self, value: object) -> Kind | None:
        """The kind of a value; None, or `Refused` with a reason, when it cannot be stored."""
        known = self._kinds.get(type(value))
        return known or self._registry.kind_of(type(value), strict=self._strict)

    def _hook(self, value: object) -> Ext:
        """Called by `packb` for types it does not know; an error it raises leads to the walk."""
        try:
            return self._ext(value)
        except Exception:
            raise
        except BaseException as interrupt:
            self._interrupt = interrupt
            raise

    def _ext(self, value: object) -> Ext:
        kind = self._kinds.get(type(value))
        if kind is None:
            if type(value) is Opaque:
                return Ext(value.lastgood_code, value.lastgood_payload)
            kind = self.kind_of(value)
            if kind is None:
                raise TypeError
        body: Any = kind.take(value)
        if not kind.raw:
            self.level += 1
            try:
                body = self._payload(kind, body)
            finally:
                self.level -= 1
        return Ext(kind.number, body)

    def _payload(self, kind: Kind, body: Any) -> bytes:
        if self.level > _FREE_LEVELS:
            raise RecursionError
        if kind.number in SETS:
            parts = [packb(item, default=self._hook, option=OPTIONS) for item in body]
            payload = array(sorted(parts))
        else:
            payload = packb(body, default=self._hook, option=OPTIONS)
        if _may_hide(payload) and _hides_in(body, headed=kind.headed):
            raise TypeError
        if self.level == CHECKED_LEVEL and deeper_than(payload, self._max_depth):
            raise RecursionError
        return payload


class _Takers(dict[type, Callable[[Any], Any]]):
    """Class -> how its records are taken apart; KeyError for a class not (yet) known as such."""

    def __init__(self, kinds: dict[type, Kind]) -> None:
        self._kinds = kinds

    def __missing__(self, cls: type) -> Callable[[Any], Any]:
        kind = self._kinds[cls]
        if kind.number != Number.RECORD:
            raise KeyError(cls)
        self[cls] = kind.take
        return kind.take


def _flat(bodies: list[Any], hook: Callable[[Any], Ext]) -> list[bytes]:
    """The header and payload of each record in turn, from one native call for all of them.

    A call for each would take longer. So a mark stands in front of each body, and the bytes are
    cut there. Its first byte occurs in it only once, so nothing can be found that overlaps it;
    and if it should occur elsewhere, there are too many parts.
    """
    flat = [_MARK] * (2 * len(bodies))
    flat[1::2] = bodies
    data = packb(flat, hook, OPTIONS)
    payloads = data.split(_MARK_BYTES)[1:]
    if len(payloads) != len(bodies):
        raise TypeError
    if _may_hide(data):
        pairs = zip(payloads, bodies, strict=True)
        suspects = [body for payload, body in pairs if _may_hide(payload)]
        if any(_hides_in(body, headed=True) for body in suspects):
            raise TypeError
    flat[::2] = map(_RECORD_HEADERS.__getitem__, map(len, payloads))
    flat[1::2] = payloads
    return flat


def _may_hide(data: bytes) -> bool:
    """Whether there can be a bin token; `in` is a memchr, so this costs next to nothing."""
    return 0xC4 in data or 0xC5 in data or (len(data) > 0xFFFF and 0xC6 in data)


def _hides_in(body: Any, *, headed: bool) -> bool:
    """The same for the body of a kind; a head that was packed once is none of the user's."""
    ready = headed and type(body[0]) is ormsgpack.Fragment
    return _hides(body[1:] if ready else [body])


def _is_exact(values: Sequence[object], data: bytes) -> bool:
    """Whether values that were packed together read back as what they were."""
    return _TELLING.isdisjoint(map(type, values)) or not (_may_hide(data) and _hides(values))


def _hides(values: Iterable[object]) -> bool:
    """Whether natively packed parts are of a type that packing changed without a word."""
    return not _types_in(values).isdisjoint(_FOREIGN)


def _types_in(values: Iterable[object]) -> set[type]:
    """The types of values and of all that plain lists and dicts among them hold."""
    found: set[type] = set()
    level: list[Any] = list(values)
    while level:
        found.update(map(type, level))
        inner = [part for part in level if type(part) in _NATIVE]
        level = [
            part for whole in inner for part in (whole.values() if type(whole) is dict else whole)
        ]
    return found
