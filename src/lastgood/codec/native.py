"""Whole values in one native call, and the hook for what msgpack has no word for.

Owns the fast path and the question whether its result can be trusted. Must not know paths or
policies: it answers None, and the walk then finds out why. Invariant: bytes that leave here
read back as the very value, or the native path declines.

An `ormsgpack.Ext` or `Fragment` in a state is refused where a walk meets one. Here it passes,
because looking for it would cost more than packing: it then reads back as whatever its bytes
say, which is data of the very process that wrote it and runs nothing.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from itertools import repeat
from operator import add, getitem
from typing import Any, NamedTuple

import ormsgpack
from ormsgpack import Ext, packb

from lastgood.codec.containers import SETS
from lastgood.codec.heads import Head
from lastgood.codec.kinds import Kind
from lastgood.codec.msgpack import OPTIONS, array, array_header, deeper_than
from lastgood.codec.opaque import Opaque
from lastgood.codec.records import Plan
from lastgood.codec.registry import Registry
from lastgood.codec.taking import NotTaken, take_each

# Each level of ext restarts the native depth limit, so levels are counted: this many natively,
# and at the checked one no payload deeper than the limit (the decoder checks at the same level).
_FREE_LEVELS = 16
CHECKED_LEVEL = 2

_FOREIGN = frozenset({bytearray, memoryview, Ext, ormsgpack.Fragment})
_BINARY = frozenset({bytes, bytearray, memoryview})
_NATIVE = frozenset({list, dict})
_TELLING = _FOREIGN | _BINARY | _NATIVE

ROW = 32
"""Elements that are packed in one call where only their bytes matter; more bring nothing."""

# Records that are taken apart before the first of them is packed. Fewer take longer; with more,
# more is done in vain when one of them must be walked.
_BATCH = 1024
# Packed values below this size are joined to look for a byte in many of them; above, copying them
# takes longer than looking at each.
_SMALL = 128


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
        self._plans = _Plans(self._kinds)
        self._max_depth = max_depth

    def pack(self, value: object) -> bytes | None:
        """The bytes of a value, or None when it must be walked."""
        if type(value) in _FOREIGN:
            return None
        try:
            if type(value) is list and (len(value) > ROW or self._begins_with_record(value)):
                return self._list(value.copy())  # another thread may change it
            data = self._packed(value)
        except TypeError:
            self._check_interrupt()
            return None
        return None if _may_hide(data) and _hides([value]) else data

    def pack_each(self, values: Sequence[object]) -> list[bytes] | None:
        """The bytes of each value, not yet `exact`, or None when one of them must be walked."""
        try:
            if not self._begins_with_record(values):
                return self._singly(values)
            found: list[bytes] = []
            for start in range(0, len(values), _BATCH):
                batch = values[start : start + _BATCH]
                flat = self._records(batch)
                found += map(add, flat[::2], flat[1::2]) if flat else self._singly(batch)
        except TypeError:
            self._check_interrupt()
            return None
        return found

    def view_row(self, values: list[object]) -> memoryview | None:
        """The bytes of values one behind the other, not yet `exact`, or None as above."""
        try:
            return self._view(values)
        except TypeError:
            self._check_interrupt()
            return None

    def _list(self, values: list[object]) -> bytes:
        """A list in parts: a single growing buffer of its size would be new memory each time."""
        parts = [array_header(len(values))]
        for start in range(0, len(values), _BATCH):
            batch = values[start : start + _BATCH]
            flat = self._records(batch) if self._begins_with_record(batch) else None
            parts += flat or self._rows(batch)
        return b"".join(parts)

    def _rows(self, values: list[object]) -> list[bytes]:
        found = []
        for start in range(0, len(values), ROW):
            row = values[start : start + ROW]
            data = bytes(self._view(row))
            if not _is_exact(row, data):
                raise TypeError
            found.append(data)
        return found

    def _view(self, values: list[object]) -> memoryview:
        """One call for many small values takes three quarters of the time of one for each."""
        flat = self._records(values) if self._begins_with_record(values) else None
        if flat is not None:
            return memoryview(b"".join(flat))
        data = self._packed(values)
        return memoryview(data)[len(array_header(len(values))) :]

    def _singly(self, values: Sequence[object]) -> list[bytes]:
        try:
            return list(map(packb, values, repeat(None), repeat(OPTIONS)))
        except TypeError:
            return [self._hooked(value) for value in values]

    def _packed(self, value: object) -> bytes:
        try:
            return packb(value, None, OPTIONS)
        except TypeError:
            return self._hooked(value)

    def _hooked(self, value: object) -> bytes:
        """While our hook runs, other threads may: `packb` ends the process over a list that one of
        them makes shorter. So it is given lists and dicts that nobody else has.
        """
        try:
            return packb(_apart(value), self._hook, OPTIONS)
        except RecursionError:
            raise TypeError from None

    def _begins_with_record(self, values: Sequence[object]) -> bool:
        first = values[:1]  # another thread may empty it
        kind = self._kinds.get(type(first[0])) if first else None
        return kind is not None and kind.plan is not None and not self.level

    def _records(self, values: Sequence[object]) -> list[bytes] | None:
        """The front and the fields of each in turn, exact; None unless all are records."""
        self.level = 1
        try:
            return self._fronted(*take_each(values, self._plans))
        except NotTaken:
            return None
        finally:
            self.level = 0

    def _fronted(self, heads: list[Head], bodies: list[Any]) -> list[bytes]:
        """A call for each takes less time than one for all, in which the cuts had to be found."""
        packed = self._singly(bodies)
        sizes = list(map(len, packed))
        if _hides(_suspects(bodies, packed, max(sizes))):
            raise TypeError
        flat = packed * 2
        flat[::2] = map(getitem, heads, sizes)
        flat[1::2] = packed
        return flat

    def _check_interrupt(self) -> None:
        """`packb` turns whatever its hook raises into a TypeError, a Ctrl-C too."""
        if self._interrupt is not None:
            raise self._interrupt

    def inspect(self, values: Sequence[object], packed: Sequence[bytes]) -> Inspection:
        """What natively packed values are made of, as far as packing can hide it."""
        if _TELLING.isdisjoint(map(type, values)):
            return PLAIN
        types = _types_in(_suspects(values, packed, max(map(len, packed))))
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
        lead = b""
        if kind.plan is not None:
            head, body = body
            if type(head) is Head:
                lead = head.lead
            else:
                body = [head, body]
        if kind.number in SETS:
            payload = array(sorted(self._singly(body)))
        else:
            payload = self._packed(body)
        if _may_hide(payload) and _hides([body]):
            raise TypeError
        payload = lead + payload
        if self.level == CHECKED_LEVEL and deeper_than(payload, self._max_depth):
            raise RecursionError
        return payload


class _Plans(dict[type, Plan]):
    """Class -> how its records are taken apart; KeyError for a class not (yet) known as such."""

    def __init__(self, kinds: dict[type, Kind]) -> None:
        self._kinds = kinds

    def __missing__(self, cls: type) -> Plan:
        plan: Plan | None = self._kinds[cls].plan
        if plan is None:
            raise KeyError(cls)
        self[cls] = plan
        return plan


def _apart(value: Any) -> Any:
    """A value in lists and dicts of its own."""
    if type(value) not in _NATIVE:
        return value
    held = value.copy()
    if type(held) is list:
        if not _NATIVE.isdisjoint(map(type, held)):
            held = [_apart(part) if type(part) in _NATIVE else part for part in held]
    elif not _NATIVE.isdisjoint(map(type, held.values())):
        for key, part in held.items():
            if type(part) in _NATIVE:
                held[key] = _apart(part)
    return held


def _may_hide(data: bytes) -> bool:
    """Whether there can be a bin token; `in` is a memchr, so this costs next to nothing."""
    return 0xC4 in data or 0xC5 in data or (len(data) > 0xFFFF and 0xC6 in data)


def _suspects(values: Sequence[object], packed: Sequence[bytes], longest: int) -> list[object]:
    """The values for which `_may_hide`; if all are small, they are looked at together first."""
    together, long = longest < _SMALL, longest > 0xFFFF
    size = ROW if together else len(packed)
    found: list[object] = []
    for start in range(0, len(packed), size):
        row = packed[start : start + size]
        if not together or _may_hide(b"".join(row)):
            found += [
                value
                for value, data in zip(values[start : start + size], row, strict=True)
                if 0xC4 in data or 0xC5 in data or (long and 0xC6 in data)
            ]
    return found


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
            part
            for whole in inner
            for part in (list(whole.values()) if type(whole) is dict else whole.copy())
        ]
    return found
