"""The other spelling of the same values: JSON, for files, bundles and `--json`.

Text is spelled from binary and read into binary, token by token, so a type can never come out
of one spelling that did not go into the other. Owns the grammar: `{"$lg": tag, "v": body}` for
whatever JSON has no word for, a user's key that starts with `$` gets a second one. Must not
know classes: a record is spelled by its label whether its class is imported or not.
Invariant: `to_binary(from_binary(data)) == data`, and the text is valid UTF-8 JSON.
"""

from __future__ import annotations

import base64
import json
import math
import struct
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from json.encoder import encode_basestring
from typing import Any

from ormsgpack import Ext, packb, unpackb

from lastgood.codec.decoder import KINDS, as_damage, damaged
from lastgood.codec.kinds import Number
from lastgood.codec.msgpack import OPTIONS

WIDTH = 100
"""A value that fits is on one line."""
LEVELS = 12
"""So deep, values are broken into lines."""

_NAN = struct.pack(">d", math.nan)
_JSON = json.JSONEncoder(ensure_ascii=False, allow_nan=False)
_TAG, _BODY = "$lg", "v"
_TAGS = {number: kind.tag for number, kind in KINDS.items()} | {
    Number.RECORD: "record",
    Number.ENUM: "enum",
    Number.CUSTOM: "custom",
}
_NUMBERS = {tag: number for number, tag in _TAGS.items()}
_RAW = frozenset(number for number, kind in KINDS.items() if kind.raw)


@dataclass(frozen=True, slots=True)
class _Token:
    code: int
    payload: bytes


def from_binary(data: bytes, *, indent: int | None = None) -> str:
    """Spell packed bytes as text."""
    try:
        return json.dumps(_spell(_tokens(data)), ensure_ascii=False, indent=indent, allow_nan=False)
    except Exception as error:
        raise as_damage(error) from None


def to_binary(spelled: str) -> bytes:
    """Read text back into packed bytes; keys that occur twice are refused."""
    return pack(parse(spelled))


# A document with values among other things is made of `spell` and `lines`, read by `parse` and
# `pack`. What is not a value must have no key that begins with `$`.


def spell(data: bytes) -> object:
    """What JSON will show of packed bytes."""
    try:
        return _spell(_tokens(data))
    except Exception as error:
        raise as_damage(error) from None


def parse(document: str) -> Any:
    """Everything in a document; a value in it is ready for `pack`."""
    try:
        return json.loads(document, object_pairs_hook=_object, parse_constant=_no_constant)
    except Exception as error:
        raise as_damage(error) from None


def pack(found: object) -> bytes:
    """The packed bytes of a value that was parsed."""
    try:
        return packb(found, option=OPTIONS)
    except Exception as error:
        raise as_damage(error) from None


def lines(value: Any, pad: str = "\n") -> str:
    """JSON that people read and compare: what is long is broken into lines, by key and element."""
    kind = type(value)
    if kind not in _LEAST:
        return _SCALARS[kind](value)
    whole = "" if _is_long(value, kind) and len(pad) <= LEVELS else compact(value)
    if whole and (len(whole) <= WIDTH or len(pad) > LEVELS):
        return whole
    inner = pad + " "
    if kind is dict:
        parts = [f"{encode_basestring(key)}: {lines(item, inner)}" for key, item in value.items()]
        return f"{{{inner}{f',{inner}'.join(parts)}{pad}}}"
    parts = [lines(item, inner) for item in value]
    return f"[{inner}{f',{inner}'.join(parts)}{pad}]"


_SCALARS: dict[type, Callable[[Any], str]] = {
    str: encode_basestring,
    int: int.__repr__,
    float: float.__repr__,
    bool: lambda value: "true" if value else "false",
    type(None): lambda _: "null",
}
_LEAST: dict[type, int] = {dict: 6, list: 3}
"""So many characters an item or an element takes at least."""


def _is_long(value: Any, kind: type) -> bool:
    """Whether a value needs more than a line for sure: spares spelling it to find out."""
    if len(value) * _LEAST[kind] > WIDTH:
        return True
    parts = value.values() if kind is dict else value
    return sum([len(part) for part in parts if type(part) is str]) > WIDTH


def compact(value: object) -> str:
    """JSON on one line."""
    try:
        return _JSON.encode(value)
    except Exception as error:
        raise as_damage(error) from None


def _tokens(data: bytes) -> object:
    return unpackb(data, ext_hook=_Token)


def _spell(root: object) -> object:
    """Spell a tree from the top down, without recursion: it may be deep."""
    top: list[Any] = [root]
    places: list[tuple[Any, Any]] = [(top, 0)]
    while places:
        holder, key = places.pop()
        speller = _SPELLERS.get(type(holder[key]))
        if speller is not None:
            spelled, inner = speller(holder[key])
            holder[key] = spelled
            places.extend((spelled, step) for step in inner)
    return top[0]


# What a value is spelled as, and the steps inside it that are yet to be spelled.
_Spelled = tuple[object, Iterable[object]]


def _spell_dict(value: dict[str, object]) -> _Spelled:
    escaped = {f"${key}" if key.startswith("$") else key: item for key, item in value.items()}
    return escaped, [key for key, item in escaped.items() if _is_special(item)]


def _is_special(item: object) -> bool:
    """Whether JSON may need another word for it."""
    return type(item) in _SPELLERS and (type(item) is not float or not math.isfinite(item))


def _spell_float(value: float) -> _Spelled:
    return (value if math.isfinite(value) else _tagged("float", _special_float(value))), ()


def _special_float(value: float) -> str:
    """What JSON has no word for; of a NaN that is not the usual one, its bits too."""
    bits = struct.pack(">d", value)
    return repr(value) if math.isinf(value) or bits == _NAN else f"nan {bits.hex()}"


def _spell_token(token: _Token) -> _Spelled:
    if token.code in _RAW:
        return _tagged(_TAGS[token.code], _base64(token.payload)), ()
    if token.code in _TAGS:
        return _tagged(_TAGS[token.code], _tokens(token.payload)), (_BODY,)
    return _tagged("ext", [token.code, _base64(token.payload)]), ()


_SPELLERS: dict[type, Callable[[Any], _Spelled]] = {
    dict: _spell_dict,
    list: lambda value: (value, [n for n, item in enumerate(value) if _is_special(item)]),
    float: _spell_float,
    bytes: lambda value: (_tagged("bytes", _base64(value)), ()),
    _Token: _spell_token,
}


def _tagged(tag: str, body: object) -> object:
    return {_TAG: tag, _BODY: body}


def _base64(data: bytes) -> str:
    return base64.b64encode(data).decode()


def _object(pairs: list[tuple[str, Any]]) -> object:
    """One JSON object: called from the inside out, so bodies are already read."""
    found = dict(pairs)
    if len(found) != len(pairs):
        raise damaged("a key occurs twice in the text")
    if _TAG in found:
        return _read_tagged(found)
    return {_user_key(key): item for key, item in found.items()}


def _user_key(key: str) -> str:
    if key.startswith("$") and not key.startswith("$$"):
        raise damaged(f"the key {key!r} is not ours, and a user's would have a second $")
    return key.removeprefix("$")


def _read_tagged(found: dict[str, Any]) -> object:
    if found.keys() != {_TAG, _BODY}:
        raise damaged("a tagged value has exactly a tag and a body")
    tag, body = found[_TAG], found[_BODY]
    reader = _READERS.get(tag)
    if reader is not None:
        return reader(body)
    if tag not in _NUMBERS:
        raise damaged(f"{tag!r} is no tag of ours")
    number = _NUMBERS[tag]
    return Ext(number, _bytes(body) if number in _RAW else packb(body, option=OPTIONS))


def _read_float(body: str) -> float:
    word, _, bits = body.partition(" ")
    value = float(struct.unpack(">d", bytes.fromhex(bits))[0]) if bits else float(word)
    if math.isfinite(value) or _special_float(value) != body:
        raise damaged(f"{body!r} needs no tag")
    return value


def _bytes(body: str) -> bytes:
    return base64.b64decode(body, validate=True)


_READERS: dict[str, Callable[[Any], object]] = {
    "float": _read_float,
    "bytes": _bytes,
    "ext": lambda body: Ext(body[0], _bytes(body[1])),
}


def _no_constant(name: str) -> float:
    raise damaged(f"{name} is not JSON")
