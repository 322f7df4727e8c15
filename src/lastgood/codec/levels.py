"""One level of an encoding, opened and closed again without decoding anything.

Owns the way from the bytes of a container to the bytes of its parts and back. Must not know
values or classes: nothing is looked up, so nothing can be missing. Invariant: closing what was
opened gives the same bytes.

A mapping counts as one kind whether its keys are all text or not; closing it decides anew.
"""

from __future__ import annotations

from collections.abc import Sequence

import ormsgpack

from lastgood.codec.decoder import KINDS
from lastgood.codec.kinds import Family, Number, Shape, paired, unpaired
from lastgood.codec.msgpack import array_header, ext, map_header, skip
from lastgood.errors import SerializationError

# First byte -> width of the count behind it; 0: the count is in the byte itself.
_ARRAYS = {**dict.fromkeys(range(0x90, 0xA0), 0), 0xDC: 2, 0xDD: 4}
_MAPS = {**dict.fromkeys(range(0x80, 0x90), 0), 0xDE: 2, 0xDF: 4}
_FIXED_EXT = range(0xD4, 0xD9)
_SIZED_EXT = range(0xC7, 0xCA)
_TEXT_OPENERS = frozenset((*range(0xA0, 0xC0), 0xD9, 0xDA, 0xDB))

# From so many bytes on, one native pass is quicker than stepping from token to token (measured).
_LONG = 128

_FAMILIES = {number: kind.family for number, kind in KINDS.items()} | {Number.RECORD: Family.MAP}
_HEADED = frozenset({Number.RECORD, *(n for n, kind in KINDS.items() if kind.headed)})


def opened(data: bytes) -> Shape:
    """The parts of an encoding: elements, (key, value) items, or all of it where it has none."""
    first = data[0]
    if first in _ARRAYS:
        return Shape(Family.ARRAY, Number.LIST, b"", _elements(data, 0))
    if first in _MAPS:
        return Shape(Family.MAP, Number.DICT, b"", _items(data, 0))
    if first in _FIXED_EXT or first in _SIZED_EXT:
        code, start = _ext_start(data)
        if _FAMILIES.get(code) in (Family.MAP, Family.ARRAY):
            return _opened_ext(code, data, start)
    return Shape(Family.RAW, Number.RAW, b"", data)


def _ext_start(data: bytes) -> tuple[int, int]:
    """The code of an ext, and where its payload begins."""
    start = 2 if data[0] in _FIXED_EXT else 2 + (1 << (data[0] - 0xC7))
    return data[start - 1], start


def _opened_ext(code: int, data: bytes, start: int) -> Shape:
    extra = b""
    if code in _HEADED:
        end = skip(data, start + 1)  # behind the header of the pair
        extra, start = data[start + 1 : end], end
    if _FAMILIES[code] is Family.MAP:
        return Shape(Family.MAP, unpaired(code), extra, _items(data, start))
    return Shape(Family.ARRAY, code, extra, _elements(data, start))


def _count(data: bytes, start: int) -> tuple[int, int]:
    """How many parts a header announces (a map's key and value are two), and where they begin."""
    first = data[start]
    factor = 2 if first in _MAPS else 1
    width = _MAPS[first] if factor == 2 else _ARRAYS[first]
    if not width:
        return (first & 0x0F) * factor, start + 1
    return int.from_bytes(data[start + 1 : start + 1 + width]) * factor, start + 1 + width


def _elements(data: bytes, start: int) -> list[bytes]:
    count, start = _count(data, start)
    return split_values(data[start:], count)


def _items(data: bytes, start: int) -> list[tuple[bytes, bytes]]:
    flat = _elements(data, start)
    return list(zip(flat[::2], flat[1::2], strict=True))


def split_values(body: bytes, count: int | None = None) -> list[bytes]:
    """The encodings that stand one behind the other in a body; quicker when their count is known.

    A native pass reads all of them with exts left closed and packs each again, which is the same
    bytes wherever we wrote them; if it is not, they are stepped over one by one.
    """
    if count is not None and len(body) >= _LONG:
        parts = _native_split(body, count)
        if b"".join(parts) == body:
            return parts
    parts, start = [], 0
    while start < len(body):
        end = skip(body, start)
        parts.append(body[start:end])
        start = end
    if count is not None and len(parts) != count:
        raise SerializationError("The stored bytes do not hold as many values as they say.")
    return parts


def _native_split(body: bytes, count: int) -> list[bytes]:
    try:
        found = ormsgpack.unpackb(array_header(count) + body, ext_hook=ormsgpack.Ext)
        return [ormsgpack.packb(value) for value in found]
    except (ValueError, TypeError, RecursionError):
        return []


def closed(shape: Shape, parts: Sequence[bytes], count: int | None = None) -> bytes:
    """The encoding of a container from those of its parts; of a mapping, keys and values in turn.

    Of a text or an atom the one part is its body. The parts of an array may be joined already; then
    their count must be told.
    """
    if shape.family is Family.RAW:
        return parts[0]
    if shape.family is Family.TEXT:
        return _closed_text(shape.kind, parts[0])
    number, body = shape.kind, b"".join(parts)
    if shape.family is Family.MAP and all(key[0] in _TEXT_OPENERS for key in parts[::2]):
        number, header = unpaired(number), map_header(len(parts) // 2)
    elif shape.family is Family.MAP:
        number, header = paired(unpaired(number)), array_header(len(parts))
    else:
        header = array_header(len(parts) if count is None else count)
    if number in (Number.LIST, Number.DICT):
        return header + body
    head = b"\x92" + shape.extra if number in _HEADED else b""
    return ext(number, head + header + body)


def _closed_text(number: int, body: bytes) -> bytes:
    if number == Number.STR:
        return ormsgpack.packb(body.decode())
    return ormsgpack.packb(body) if number == Number.BYTES else ext(number, body)


def container_body(data: bytes) -> bytes:
    """The parts of a container one behind the other, from its encoding."""
    start = 0
    if data[0] not in _ARRAYS and data[0] not in _MAPS:
        code, start = _ext_start(data)
        start = skip(data, start + 1) if code in _HEADED else start
    return data[_count(data, start)[1] :]


def text_body(number: int, data: bytes) -> bytes:
    """The body of a text or of bytes, from its encoding."""
    if number == Number.STR:
        return str(ormsgpack.unpackb(data)).encode()
    return bytes(ormsgpack.unpackb(data)) if number == Number.BYTES else data[_ext_start(data)[1] :]
