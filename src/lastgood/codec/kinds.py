"""The vocabulary of the codec: which kinds of value there are, and how each is numbered.

A value that msgpack has no word for is stored under the number of its kind as a *body*: a
simpler value that the kind's `take` makes and its `make` turns back. Owns the numbers and
the shape of a kind; must not know how bodies become bytes or text. Invariant: a number or a
tag, once released, never changes its meaning.
"""

from __future__ import annotations

import enum
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

FORMAT = 1


class Family(enum.Enum):
    """How a value may be taken apart by whoever cuts it into pages."""

    MAP = "map"
    ARRAY = "array"
    TEXT = "text"
    RAW = "raw"


class Number:
    """The kinds; above zero also their msgpack ext codes (dict, list, str, bytes need none).

    Plain integers, because they are stored and compared once for every object.
    """

    RAW = 0
    DICT = 1
    PAIRS = 2
    ORDERED_DICT = 3
    ORDERED_PAIRS = 4
    DEFAULT_DICT = 5
    DEFAULT_PAIRS = 6
    COUNTER = 7
    COUNTER_PAIRS = 8
    RECORD = 9
    LIST = 16
    TUPLE = 17
    SET = 18
    FROZENSET = 19
    DEQUE = 20
    STR = 32
    BYTES = 33
    BYTEARRAY = 34
    SURROGATES = 35
    BIG_INT = 40
    COMPLEX = 41
    DECIMAL = 42
    DATETIME = 43
    DATE = 44
    TIME = 45
    TIMEDELTA = 46
    TIMEZONE = 47
    ZONE = 48
    UUID = 49
    PATH = 50
    RANGE = 51
    ENUM = 52
    CUSTOM = 53
    NDARRAY = 54
    NUMPY_SCALAR = 55
    IP = 56
    URL = 57
    UNSET = 58
    NESTED = 64


class Unresolved(Exception):
    """Raised by `make` when the body is sound but this process lacks what it names."""

    def __init__(self, label: str, reason: str, hint: str = "") -> None:
        super().__init__(label, reason)
        self.label = label
        self.reason = reason
        self.hint = hint


class Refused(Exception):
    """Raised by `take` when a value of a known type cannot be kept after all."""

    def __init__(self, reason: str, hint: str = "") -> None:
        super().__init__(reason)
        self.hint = hint


@dataclass(frozen=True, slots=True)
class Kind:
    """One row of the table.

    `raw` bodies are bytes and stand in the ext as they are; all others are packed. With
    `headed` the body is `[extra, content]`, otherwise it is the content alone. Of a `whole`
    one no part may be left out under the drop policy; of one with `gaps` None stands in the place
    of such a part. A record has a `plan` (`records.Plan`).
    """

    number: int
    tag: str
    take: Callable[[object], object]
    make: Callable[[object], object]
    family: Family = Family.RAW
    raw: bool = False
    headed: bool = False
    whole: bool = False
    gaps: bool = False
    plan: Any = None


@dataclass(frozen=True, slots=True)
class Shape:
    """One level of a value, opened up: everything `Codec.join` needs to close it again."""

    family: Family
    kind: int
    extra: bytes
    content: Any


class Nested:
    """A token that the paging layer leaves in a body for an element that is stored elsewhere.

    Not a dataclass, so that one can never be part of a stored value itself.
    """

    __slots__ = ("digest",)

    def __init__(self, digest: bytes) -> None:
        self.digest = digest


class Dropped(enum.Enum):
    """The answer of `pack` when the whole value was left out."""

    DROPPED = "dropped"


DROPPED = Dropped.DROPPED

_PAIRED = {
    Number.DICT: Number.PAIRS,
    Number.ORDERED_DICT: Number.ORDERED_PAIRS,
    Number.DEFAULT_DICT: Number.DEFAULT_PAIRS,
    Number.COUNTER: Number.COUNTER_PAIRS,
}
_PAIR_KINDS = frozenset(_PAIRED.values())
_UNPAIRED = {pairs: plain for plain, pairs in _PAIRED.items()}


def paired(kind: int) -> int:
    """The kind for the same mapping when a key is not plain text."""
    return _PAIRED[kind]


def unpaired(kind: int) -> int:
    """The kind for the same mapping when every key is plain text."""
    return _UNPAIRED.get(kind, kind)


def keyed_by_text(kind: int) -> bool:
    """Whether a MAP of this kind has plain text keys, so that its body is a msgpack map."""
    return kind not in _PAIR_KINDS
