"""Classes and values that the codec tests share, and a comparison that sees types."""

import dataclasses
import enum
import math
from collections import Counter, OrderedDict, defaultdict, deque
from datetime import UTC, date, datetime, time, timedelta, timezone
from decimal import Decimal
from functools import cached_property
from ipaddress import ip_address, ip_interface, ip_network
from pathlib import Path as RealPath
from pathlib import PurePosixPath, PureWindowsPath
from typing import Generic, NamedTuple, TypeVar
from uuid import UUID
from zoneinfo import ZoneInfo

import attrs
import msgspec
import numpy as np
import pydantic
from langchain_core.messages import AIMessage, HumanMessage, ToolMessage

calls: list[str] = []
"""Whatever code of a class below runs leaves its name here."""


class Outer:
    class Phase(enum.Enum):
        START = "start"
        END = "end"


class Level(enum.IntEnum):
    LOW = 1
    HIGH = 2


class Word(enum.StrEnum):
    YES = "yes"


class Right(enum.Flag):
    READ = 1
    WRITE = 2

    @classmethod
    def _missing_(cls, value):
        calls.append("_missing_")
        return super()._missing_(value)


class Bit(enum.IntFlag):
    A = 1
    B = 4


@dataclasses.dataclass
class Point:
    x: int
    y: object = None

    def __post_init__(self):
        calls.append("Point.__post_init__")

    def __setstate__(self, state):
        calls.append("Point.__setstate__")


@dataclasses.dataclass(frozen=True, slots=True)
class Frozen:
    name: str
    tags: tuple = ()


@dataclasses.dataclass
class Child(Point):
    z: list = dataclasses.field(default_factory=list)


@dataclasses.dataclass
class Derived:
    radius: float

    def __post_init__(self):
        self.area = math.pi * self.radius**2

    @cached_property
    def double(self):
        calls.append("double")
        return 2 * self.radius


@dataclasses.dataclass(slots=True)
class SlotParent:
    a: int


@dataclasses.dataclass
class DictChild(SlotParent):
    b: int


class Order(pydantic.BaseModel):
    id: int
    phase: Outer.Phase = Outer.Phase.START
    lines: list[dict] = []
    _secret: int = pydantic.PrivateAttr(default=7)

    @pydantic.field_validator("id")
    @classmethod
    def check(cls, value):
        calls.append("validator")
        return value

    def model_post_init(self, context):
        calls.append("model_post_init")


class Open(pydantic.BaseModel):
    model_config = pydantic.ConfigDict(extra="allow", frozen=True)
    a: int = 1


T = TypeVar("T")


class Box(pydantic.BaseModel, Generic[T]):
    content: T


IntBox = Box[int]


@dataclasses.dataclass
class Crate(Generic[T]):
    content: T


@attrs.define
class Slotted:
    a: int
    b: list = attrs.field(factory=list)

    def __attrs_post_init__(self):
        calls.append("__attrs_post_init__")


@attrs.frozen
class Fixed:
    a: int


class Job(msgspec.Struct):
    name: str
    args: list = []


class Loud(msgspec.Struct, frozen=True, kw_only=True):
    a: int
    b: str = "b"

    def __post_init__(self):
        calls.append("Loud.__post_init__")


class Pair(NamedTuple):
    left: int
    right: object = None


class Celsius:
    """No data class: only a registered pair of functions can store it."""

    def __init__(self, degrees):
        self.degrees = degrees

    def __eq__(self, other):
        return type(other) is Celsius and self.degrees == other.degrees

    def __hash__(self):
        return hash(self.degrees)


BERLIN = ZoneInfo("Europe/Berlin")
DERIVED = Derived(2.0)
OPEN = Open(a=2, other=[1], **{"odd name": {1, 2}})
ORDER = Order(id=3, phase=Outer.Phase.END, lines=[{"sku": "a", "n": (1, 2)}])
ORDER._secret = 8

SAMPLES: dict[str, object] = {
    "none": None,
    "true": True,
    "zero": 0,
    "minus": -1,
    "largest native": 2**64 - 1,
    "first big": 2**64,
    "smallest native": -(2**63),
    "first small": -(2**63) - 1,
    "huge": 10**400,
    "float": 1.5,
    "minus zero": -0.0,
    "nan": math.nan,
    "inf": [math.inf, -math.inf],
    "text": "Zürich \U0001f600",
    "nul": "a\x00b",
    "surrogate": "a\ud800b",
    "surrogate pair, apart": "\ud83d\ude00",
    "bytes": b"\x00\xff",
    "bytearray": bytearray(b"abc"),
    "bytearray inside": {"a": [(bytearray(b"x"), b"x")]},
    "list": [1, [2, []]],
    "tuple": (1, (2, ()), [3]),
    "set": {1, "a", (2, 3), None},
    "frozenset": frozenset({frozenset({1}), b"x"}),
    "dict": {"b": 1, "a": {"c": None}},
    "int keys": {1: "a", -5: "b"},
    "odd keys": {None: 1, True: 2, 2.5: 3, (1, "x"): 4, b"k": 5, "s": 6, "\udfff": 7},
    "typed keys": {Word.YES: 1, Level.LOW: 2, date(2024, 1, 1): 3, frozenset({1}): 4},
    "record keys": {Frozen("a"): 1, Pair(1, 2): 2},
    "dollar keys": {"$lg": "tuple", "v": [], "$": 1, "$$x": 2},
    "looks like ours": {"$lg": "record", "v": [["os:system"], {"a": 1}]},
    "deque": deque([1, 2, 3], maxlen=3),
    "deque without end": deque(["a"]),
    "defaultdict": defaultdict(list, {"a": [1]}),
    "defaultdict odd keys": defaultdict(None, {1: 2}),
    "counter": Counter("hello"),
    "counter odd keys": Counter([1, 1, (2,)]),
    "ordered": OrderedDict([("b", 1), ("a", 2)]),
    "ordered odd keys": OrderedDict([(2, 1), (1, 2)]),
    "naive": datetime(2024, 2, 29, 12, 30, 1, 5),  # noqa: DTZ001
    "utc": datetime(2024, 1, 1, tzinfo=UTC),
    "offset": datetime(2024, 1, 1, tzinfo=timezone(timedelta(hours=-3, minutes=-30))),
    "named offset": datetime(2024, 1, 1, tzinfo=timezone(timedelta(hours=1), "CET")),
    "zone and fold": datetime(2024, 10, 27, 2, 30, tzinfo=BERLIN, fold=1),
    "date": date(1, 1, 1),
    "time": time(23, 59, 59, 999999),
    "aware time": time(1, 2, tzinfo=UTC, fold=1),
    "timedelta": timedelta(days=-1, microseconds=1),
    "timezone": timezone(timedelta(seconds=1)),
    "utc itself": UTC,
    "zone": BERLIN,
    "decimal": [Decimal("1.50"), Decimal("-0"), Decimal("1E+400"), Decimal("Infinity")],
    "uuid": UUID("12345678-1234-5678-1234-567812345678"),
    "path": RealPath("/tmp/a b"),
    "pure paths": [PurePosixPath("a/b"), PureWindowsPath("C:\\x")],
    "undecodable path": PurePosixPath("a\udcff"),
    "IP addresses": [ip_address("10.0.0.1"), ip_address("fe80::1%eth0")],
    "IP networks": [ip_network("10.0.0.0/8"), ip_network("::/0"), ip_interface("10.0.0.1/8")],
    "URLs": [pydantic.HttpUrl("https://example.com/a?b=c#d"), pydantic.AnyUrl("urn:isbn:1")],
    "URL of several hosts": pydantic.PostgresDsn("postgresql://u:p@a:1,b:2/db"),
    "range": range(1, 10**30, 2),
    "complex": complex(1, -0.0),
    "nested enum": Outer.Phase.END,
    "int enum": Level.HIGH,
    "str enum": Word.YES,
    "flag": Right.READ,
    "combined flags": Right.READ | Right.WRITE,
    "no flags": Right(0),
    "combined int flags": Bit.A | Bit.B,
    "dataclass": Point(1, Point(2, [Point(3)])),
    "frozen dataclass with slots": Frozen("a", ("b",)),
    "inherited dataclass": Child(1, 2, [3]),
    "attributes beside the fields": DERIVED,
    "slots and dict": DictChild(1, 2),
    "pydantic": ORDER,
    "pydantic, not all set": Order(id=1),
    "pydantic with extra": OPEN,
    "pydantic generic": IntBox(content=1),
    "attrs": Slotted(1, [2]),
    "frozen attrs": Fixed(1),
    "struct": Job("a", [1]),
    "struct without a value": Job("a", msgspec.UNSET),
    "frozen struct with post_init": Loud(a=1),
    "named tuple": Pair(1, Pair(2)),
    "array": np.arange(6, dtype="<i4").reshape(2, 3),
    "empty array": np.zeros((0, 3)),
    "scalar array": np.array(5),
    "structured array": np.array(
        [(1, 2.5, "a")], dtype=[("n", "<i4"), ("f", "<f8", ()), ("s", "<U3")]
    ),
    "time array": np.array(["2024-01-01", "NaT"], dtype="datetime64[ns]"),
    "numpy scalars": [
        np.float64(1.5),
        np.int8(-1),
        np.bool_(True),
        np.str_("é"),
        np.datetime64("2024-01-01"),
    ],
    "numpy texts": [np.str_(""), np.str_("\0a\0"), np.bytes_(b""), np.bytes_(b"a\0")],
    "messages": [
        HumanMessage("hi", id="1"),
        AIMessage("", tool_calls=[{"name": "f", "args": {"a": 1}, "id": "t"}]),
        ToolMessage("done", tool_call_id="t"),
    ],
    "everything at once": {
        "a": [(1, {2: {"b": deque([Point(1, {Level.LOW})])}})],
        "c": {"d": b"\xc4"},
    },
}


def same(a: object, b: object) -> bool:
    """Equal in value, type and order, all the way down; NaN equals NaN."""
    if type(a) is not type(b):
        return False
    compare = _COMPARISONS.get(type(a))
    if compare is not None:
        return compare(a, b)
    if hasattr(a, "__dict__") and not isinstance(a, enum.Enum | type):
        return same(vars(a), vars(b)) and (dataclasses.is_dataclass(a) or a == b)
    return repr(a) == repr(b) if isinstance(a, float | complex | Decimal) else a == b


def _same_items(a, b):
    return len(a) == len(b) and all(map(same, a, b))


def _same_dict(a, b):
    return _same_items(list(a), list(b)) and _same_items(list(a.values()), list(b.values()))


def _same_array(a, b):
    equal = np.array_equal(a, b, equal_nan=a.dtype.kind in "fcmM")
    return (
        a.dtype == b.dtype
        and a.shape == b.shape
        and equal
        and a.flags.writeable
        and b.flags.writeable
    )


def _same_zoned(a, b):
    return a.isoformat() == b.isoformat() and a.fold == b.fold and same(a.tzinfo, b.tzinfo)


def _same_set(a, b):
    return a == b and {(type(x), x) for x in a} == {(type(x), x) for x in b}


_COMPARISONS = {
    list: _same_items,
    tuple: _same_items,
    Pair: _same_items,
    set: _same_set,
    frozenset: _same_set,
    dict: _same_dict,
    OrderedDict: _same_dict,
    Counter: _same_dict,
    defaultdict: lambda a, b: a.default_factory is b.default_factory and _same_dict(a, b),
    deque: lambda a, b: a.maxlen == b.maxlen and _same_items(a, b),
    datetime: _same_zoned,
    time: _same_zoned,
    timezone: lambda a, b: a == b and a.tzname(None) == b.tzname(None),
    ZoneInfo: lambda a, b: a is b,
    np.ndarray: _same_array,
    float: lambda a, b: repr(a) == repr(b),
}
