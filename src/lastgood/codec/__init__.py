"""Values to bytes and back, type for type, data only.

One value tree, two spellings: binary (msgpack, with ext codes for what msgpack has no word
for) and text (JSON). Owns every stored form of a value; must not know pages, checkpoints or
stores. Invariant: nothing stored is ever imported, called or executed, and a value that
cannot come back as it was is refused with its path, not changed.
"""

from lastgood.codec.codec import Codec
from lastgood.codec.containers import SETS
from lastgood.codec.encoder import Encoder
from lastgood.codec.kinds import (
    DROPPED,
    FORMAT,
    Dropped,
    Family,
    Nested,
    Number,
    Shape,
    keyed_by_text,
    unpaired,
)
from lastgood.codec.levels import closed, container_body, opened, split_values, text_body
from lastgood.codec.members import cached_names, left_out, slots_of
from lastgood.codec.msgpack import array_header, entries, ext, map_header, skip
from lastgood.codec.native import ROW
from lastgood.codec.opaque import NOWHERE, Noticing, Opaque, name_places
from lastgood.codec.records import blank_record, fields_of, is_record, with_extra
from lastgood.codec.registry import Registry, is_encoded, register, registrations
from lastgood.model import Loss

DICT = Number.DICT
LIST = Number.LIST
ORDERED_DICT = Number.ORDERED_DICT


def nested_token(digest: bytes) -> bytes:
    """What stands in a body for an element that is stored elsewhere; unpacks to `Nested`."""
    return ext(Number.NESTED, digest)


_TOKEN = nested_token(bytes(32))[:-32]


def is_token(data: bytes) -> bool:
    """Whether an encoding is such a token."""
    return data.startswith(_TOKEN)


__all__ = [
    "DICT",
    "DROPPED",
    "FORMAT",
    "LIST",
    "NOWHERE",
    "ORDERED_DICT",
    "ROW",
    "SETS",
    "Codec",
    "Dropped",
    "Encoder",
    "Family",
    "Loss",
    "Nested",
    "Noticing",
    "Opaque",
    "Registry",
    "Shape",
    "array_header",
    "blank_record",
    "cached_names",
    "closed",
    "container_body",
    "entries",
    "fields_of",
    "is_encoded",
    "is_record",
    "is_token",
    "keyed_by_text",
    "left_out",
    "map_header",
    "name_places",
    "nested_token",
    "opened",
    "register",
    "registrations",
    "skip",
    "slots_of",
    "split_values",
    "text_body",
    "unpaired",
    "with_extra",
]
