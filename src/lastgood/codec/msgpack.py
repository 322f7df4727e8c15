"""Msgpack tokens: headers, lengths and nesting, without decoding any type of ours.

Owns the byte layout and the options under which `ormsgpack` keeps its hands off our types.
Must not know kinds or classes. Invariant: headers are the shortest possible, as `ormsgpack`
writes them, so bytes put together here equal bytes packed natively.
"""

from __future__ import annotations

from collections.abc import Container

import ormsgpack

from lastgood.errors import SerializationError

OPTIONS = (
    ormsgpack.OPT_PASSTHROUGH_TUPLE
    | ormsgpack.OPT_PASSTHROUGH_BIG_INT
    | ormsgpack.OPT_PASSTHROUGH_DATACLASS
    | ormsgpack.OPT_PASSTHROUGH_DATETIME
    | ormsgpack.OPT_PASSTHROUGH_SUBCLASS
    | ormsgpack.OPT_PASSTHROUGH_UUID
    | ormsgpack.OPT_PASSTHROUGH_ENUM
)

# Every byte that can open an array or a map; what is left out of a count of these is no nesting.
_OPENERS = bytes((*range(0x80, 0xA0), *range(0xDC, 0xE0)))
# Every byte that can open an ext; an ext may hold further levels.
_EXT_OPENERS = bytes((*range(0xC7, 0xCA), *range(0xD4, 0xD9)))
_NESTERS = _OPENERS + _EXT_OPENERS

# First byte -> (bytes of a length field that follows, fixed payload bytes, nested values).
# For a length field the count it holds adds to the payload (str, bin, ext) or, times the
# factor, to the nested values (array, map).
_Token = tuple[int, int, int]


def _fixed_tokens() -> dict[int, _Token]:
    tokens: dict[int, _Token] = {}
    tokens |= dict.fromkeys((*range(0x80), *range(0xE0, 0x100), 0xC0, 0xC2, 0xC3), (0, 0, 0))
    tokens |= {0x80 + n: (0, 0, 2 * n) for n in range(16)}
    tokens |= {0x90 + n: (0, 0, n) for n in range(16)}
    tokens |= {0xA0 + n: (0, n, 0) for n in range(32)}
    tokens |= {0xCA: (0, 4, 0), 0xCB: (0, 8, 0)}
    tokens |= {0xCC + n: (0, 1 << n, 0) for n in range(4)}
    tokens |= {0xD0 + n: (0, 1 << n, 0) for n in range(4)}
    tokens |= {0xD4 + n: (0, 1 + (1 << n), 0) for n in range(5)}
    return tokens


_FIXED = _fixed_tokens()
# First byte -> (width of the length field, extra payload bytes, nested values per count).
_SIZED: dict[int, _Token] = (
    {0xC4 + n: (1 << n, 0, 0) for n in range(3)}
    | {0xC7 + n: (1 << n, 1, 0) for n in range(3)}
    | {0xD9 + n: (1 << n, 0, 0) for n in range(3)}
    | {0xDC: (2, 0, 1), 0xDD: (4, 0, 1), 0xDE: (2, 0, 2), 0xDF: (4, 0, 2)}
)


def array_header(count: int) -> bytes:
    """What stands in front of the elements of an array."""
    return _header(count, 0x90, 0xDC)


def map_header(count: int) -> bytes:
    """What stands in front of the (key, value) items of a map."""
    return _header(count, 0x80, 0xDE)


def _header(count: int, short: int, long: int) -> bytes:
    if count < 16:
        return bytes((short | count,))
    if count < 1 << 16:
        return bytes((long,)) + count.to_bytes(2, "big")
    return bytes((long + 1,)) + count.to_bytes(4, "big")


def array(parts: list[bytes]) -> bytes:
    """An array of elements that are packed already."""
    return b"".join((array_header(len(parts)), *parts))


_FIXED_EXT = {1: 0xD4, 2: 0xD5, 4: 0xD6, 8: 0xD7, 16: 0xD8}


def ext_header(code: int, size: int) -> bytes:
    """What stands in front of the payload of an ext."""
    if size in _FIXED_EXT:
        return bytes((_FIXED_EXT[size], code))
    width = 0 if size < 1 << 8 else 1 if size < 1 << 16 else 2
    return bytes((0xC7 + width,)) + size.to_bytes(1 << width, "big") + bytes((code,))


def ext(code: int, payload: bytes, head: bytes = b"") -> bytes:
    """An ext value, as `ormsgpack` writes `Ext(code, head + payload)`."""
    return b"".join((ext_header(code, len(head) + len(payload)), head, payload))


def skip(data: bytes, offset: int) -> int:
    """The offset just behind the value that begins at `offset`."""
    waiting = 1
    while waiting:
        offset, nested = _step(data, offset)
        waiting += nested - 1
    return offset


def _step(data: bytes, offset: int) -> tuple[int, int]:
    """Pass one token: where it ends, and how many values belong inside it."""
    if offset >= len(data):
        raise _truncated()
    first = data[offset]
    width = 0
    payload, nested = 0, 0
    if first in _FIXED:
        width, payload, nested = _FIXED[first]
    elif first in _SIZED:
        width, payload, factor = _SIZED[first]
        count = int.from_bytes(data[offset + 1 : offset + 1 + width], "big")
        payload, nested = (payload, count * factor) if factor else (payload + count, 0)
    else:
        raise SerializationError("The stored bytes are no msgpack: 0xc1 opens no value.")
    end = offset + 1 + width + payload
    if end > len(data):
        raise _truncated()
    return end, nested


def _truncated() -> SerializationError:
    return SerializationError("The stored bytes end in the middle of a value.")


def entries(data: bytes, names: Container[object]) -> dict[str, bytes]:
    """The encodings of some values of a map with plain keys; of anything else none."""
    found = ormsgpack.unpackb(data, ext_hook=ormsgpack.Ext)
    if type(found) is not dict:
        return {}
    return {
        key: ormsgpack.packb(value, option=OPTIONS) for key, value in found.items() if key in names
    }


def deeper_than(data: bytes, limit: int) -> bool:
    """Whether values nest more than `limit` levels deep, ext payloads included.

    Deep nesting is what overflows the C stack of a recursive decoder (measured: about 0.8 KB
    a level), so hostile bytes are measured before they are decoded. The first test is a
    memchr-like pass that settles nearly everything; only the rest is walked.
    """
    if len(data) <= limit or len(data) - len(data.translate(None, _NESTERS)) <= limit:
        return False
    return _walk_depth(data, limit)


def _walk_depth(data: bytes, limit: int) -> bool:
    """Walk the tokens; an entry of `open_ends` is a count of values still to come."""
    waiting = [1]
    offset = 0
    while waiting and offset < len(data):
        start = offset
        offset, nested = _step(data, offset)
        waiting[-1] -= 1
        if data[start] in _EXT_OPENERS:
            # The payload is walked as if its bytes were values of one more level. Payloads
            # that hold no msgpack only make the estimate larger, never smaller.
            offset, nested = _ext_body(data, start), 1
        if nested:
            waiting.append(nested)
        if len(waiting) > limit:
            return True
        while waiting and not waiting[-1]:
            waiting.pop()
    return False


def _ext_body(data: bytes, start: int) -> int:
    first = data[start]
    return start + 2 + (1 << (first - 0xC7)) if first <= 0xC9 else start + 2
