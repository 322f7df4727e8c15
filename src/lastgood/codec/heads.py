"""The heads of records: what stands in front of the fields, ready to be put there.

Owns how a head that many objects share is packed once for all of them. Must not know classes.
Invariant: a head followed by packed fields is the very ext that packing `[head, fields]` gives.
"""

from __future__ import annotations

from ormsgpack import packb

from lastgood.codec.kinds import Number
from lastgood.codec.msgpack import OPTIONS, array_header, ext_header

_PAIR = array_header(2)
# Objects of a class come in many sizes, and each costs some hundred bytes here.
_MAX_SIZES = 1024


class Head(dict[int, bytes]):
    """Size of what stands behind it -> all that stands in front of that, the ext's own included."""

    __slots__ = ("lead",)

    def __init__(self, lead: bytes) -> None:
        super().__init__()
        self.lead = lead

    @property
    def packed(self) -> bytes:
        """The sections alone, as they are stored apart from the fields."""
        return self.lead[1:]

    def __missing__(self, size: int) -> bytes:
        if len(self) >= _MAX_SIZES:
            self.clear()
        front = self[size] = ext_header(Number.RECORD, len(self.lead) + size) + self.lead
        return front


BARE = Head(b"")
"""For a record that is packed with its head in one."""


def shared_head(sections: list[object]) -> Head | list[object]:
    """The head that many objects share; the sections themselves if they cannot be packed."""
    try:
        return Head(_PAIR + packb(sections, option=OPTIONS))
    except TypeError:
        return sections
