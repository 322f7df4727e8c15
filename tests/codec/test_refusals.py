"""What cannot be stored is refused with its path, or left out and reported."""

import socket
import subprocess
import sys
import threading
import types
from collections import Counter, OrderedDict, UserDict, defaultdict
from dataclasses import dataclass
from datetime import datetime, tzinfo

import numpy as np
import ormsgpack
import pydantic
import pytest
from codec_samples import Celsius, Frozen, Order, Outer, Pair, Point

from lastgood.codec import DROPPED, Codec, Family, Registry
from lastgood.errors import SerializationError

codec = Codec()
dropping = Codec(on_unserializable="drop")


_NOTED = np.dtype("i4", metadata={"unit": "m"})
_RECORDS = np.zeros(2, (np.record, [("a", "i4")]))


def _noted(value):
    """With an attribute that has no place in the stored form."""
    value.note = "of mine"
    return value


class Strange(tzinfo):
    pass


class MyDict(dict):
    pass


class MyStr(str):
    __slots__ = ()


class MyInt(int):
    pass


class MyList(list):
    pass


@dataclass
class DataDict(dict):
    a: int


@dataclass
class Closing:
    a: int

    def __del__(self):
        pass


class Failure(Exception):
    pass


class Trip:
    """Stored by a function of its own."""

    def __init__(self, start: object, end: object) -> None:
        self.start, self.end = start, end


def travelling(encode, decode, **options) -> Codec:
    """A dropping codec that knows trips."""
    found = Codec(Registry(), on_unserializable="drop")
    found.registry.register(Trip, "trip", encode=encode, decode=decode, **options)
    found.registry.register(Point, "point", **options)
    return found


def refusal_of(value: object, using: Codec = codec) -> SerializationError:
    with pytest.raises(SerializationError) as caught:
        using.pack(value)
    return caught.value


def test_a_function_is_named_with_its_file_and_line():
    error = refusal_of({"items": [0, 1, 2, {"callback": lambda: None}]})
    assert error.path == "state.items[3].callback"
    line = test_a_function_is_named_with_its_file_and_line.__code__.co_firstlineno + 1
    assert str(error) == (
        f"state.items[3].callback: a function cannot be stored "
        f"(<lambda>, test_refusals.py:{line}). "
        'Keep it out of the state, or on_unserializable="drop".'
    )


@pytest.mark.parametrize(
    ("make", "words"),
    [
        (lambda: len, "a function cannot be stored (len)"),
        (lambda: [].append, "a function cannot be stored (list.append)"),
        (lambda: Point, "a class cannot be stored (Point)"),
        (lambda: socket, "a module cannot be stored (socket)"),
        (lambda: (x for x in []), "a generator cannot be stored (<genexpr>, test_refusals.py:"),
        (threading.Lock, "a lock cannot be stored"),
        (lambda: memoryview(b"a"), "a memoryview cannot be stored"),
        (lambda: Failure("x"), "an exception cannot be stored"),
        (lambda: Celsius(1), "a value of class codec_samples.Celsius cannot be stored"),
        (lambda: MyDict(), "a value of class test_refusals.MyDict cannot be stored"),
        (lambda: MyStr("a"), "a value of class test_refusals.MyStr cannot be stored"),
        (lambda: MyInt(1), "a value of class test_refusals.MyInt cannot be stored"),
        (lambda: MyList(), "a value of class test_refusals.MyList cannot be stored"),
        (lambda: DataDict(1), "a value of class test_refusals.DataDict cannot be stored"),
        (lambda: Closing(1), "a value of class test_refusals.Closing cannot be stored"),
        (lambda: defaultdict(lambda: 1), "a defaultdict with the factory"),
        (lambda: defaultdict(Point), "a defaultdict with the factory Point"),
        (lambda: datetime(2024, 1, 1, tzinfo=Strange()), "a value of class test_refusals.Strange"),
        (lambda: 256 ** (16 * 1024), "an integer of more than 16384 bytes"),
        (lambda: np.array([object()]), "a numpy array of dtype object"),
        (lambda: np.ma.array([1]), "a value of class numpy.ma.MaskedArray"),
        (lambda: ormsgpack.Ext(5, b""), "a value of class ormsgpack.Ext"),
        (lambda: Outer(), "a value of class codec_samples.Outer"),
    ],
    ids=lambda value: value if isinstance(value, str) else "",
)
def test_each_refusal_says_what_and_where(make, words):
    error = refusal_of({"a": [{1: None, "odd": make()}]})
    assert error.path == "state.a[0].odd"
    assert str(error).startswith(f"state.a[0].odd: {words}")
    assert error.hint


@pytest.mark.parametrize(
    ("value", "words"),
    {
        "metadata": (np.zeros(2, _NOTED), "a numpy dtype with metadata"),
        "of a field": (np.zeros(2, [("a", _NOTED), ("b", "i1")]), "a numpy dtype with metadata"),
        "of many": (np.zeros(2, [("a", _NOTED, (3,))]), "a numpy dtype with metadata"),
        "records": (_RECORDS, "a numpy dtype with metadata, or of numpy.record,"),
        "a record": (_RECORDS[0], "a numpy dtype with metadata, or of numpy.record,"),
        "ordered": (
            _noted(OrderedDict(a=1)),
            "OrderedDict with attributes beside its items (note)",
        ),
        "other keys": (_noted(OrderedDict({1: 1})), "OrderedDict with attributes beside"),
        "counter": (_noted(Counter("a")), "Counter with attributes beside its items (note)"),
    }.values(),
)
def test_what_has_no_place_in_the_stored_form_is_refused_with_what_it_is_on(value, words):
    error = refusal_of({"a": [{1: None, "odd": value}]})
    assert error.path == "state.a[0].odd"
    assert str(error).startswith(f"state.a[0].odd: {words}")
    assert dropping.unpack(dropping.pack({"odd": value, "b": 1})) == {"b": 1}


def test_an_open_file_is_called_one(tmp_path):
    with (tmp_path / "f").open("w") as file:
        assert "state.f: an open file cannot be stored" in str(refusal_of({"f": file}))


def test_a_coroutine_is_called_one():
    async def work():
        pass

    pending = work()
    told = str(refusal_of([pending]))
    pending.close()
    assert "a coroutine cannot be stored (work, test_refusals.py:" in told
    assert "Write `await` before the call that gave it" in told


class Shout(str):
    __slots__ = ()


class Basket(dict):
    __slots__ = ()


@pytest.mark.parametrize(
    ("value", "advice"),
    [
        (Shout("a"), "Store str(value), which is plain, or register the class with lastgood"),
        (Basket(), "encode=dict, decode=...)"),
        (ValueError("no answer"), "its text: repr(error)"),
        ({}.keys(), "Store list(value), which is plain."),
        (zip("ab", "cd", strict=True), "Store list(value), which is plain."),
        (types.MappingProxyType({}), "Store dict(value), which is plain"),
        (UserDict(), "encode=dict, decode=...)"),
        (pydantic.SecretStr("a"), "stored in the clear"),
        (pydantic.SecretBytes(b"a"), "encode=SecretBytes.get_secret_value, decode=SecretBytes)"),
        (object(), "Register the class with lastgood.register"),
    ],
)
def test_what_has_a_plain_form_is_told_which(value, advice):
    assert advice in str(refusal_of([value]))


PATTERN = """
import re
from lastgood.codec import Codec
from lastgood.errors import SerializationError
try:
    Codec().pack([re.compile("a")])
except SerializationError as error:
    print(error)
"""


def test_a_pattern_has_a_plain_form_unless_an_adapter_has_registered_it():
    told = subprocess.run([sys.executable, "-c", PATTERN], capture_output=True, check=True)
    assert b"Store its text, value.pattern" in told.stdout


@pytest.mark.parametrize(
    ("value", "path"),
    [
        (Point(1, [len]), "state.y[0]"),
        (Order.model_construct(id=len), "state.id"),
        (Pair(1, {"a": len}), "state.right.a"),
        (Frozen("a", (len,)), "state.tags[0]"),
        ((1, [len]), "state[1][0]"),
        ({MyStr("k"): 1}, "state['k']"),
        ({(1, len): 1}, None),
        ([1, len], "state[1]"),
        ([{"a b": len}], 'state[0]["a b"]'),
    ],
)
def test_a_path_leads_through_every_kind_of_container(value, path):
    error = refusal_of(value)
    assert path is None or error.path.replace("[k]", "['k']") in {path, "state['k']"}


def test_a_memoryview_and_an_ext_are_refused_even_when_native_packing_would_take_them():
    for value in (memoryview(b"a"), [{"a": memoryview(b"a" * 300)}], (memoryview(b"a" * 70000),)):
        assert "memoryview" in str(refusal_of(value))


def test_the_root_word_is_the_callers():
    with pytest.raises(SerializationError, match=r"^metadata\.f: a function"):
        codec.pack({"f": len}, "metadata")


def test_a_class_that_cannot_be_found_again_is_refused_at_save():
    @dataclass
    class Local:
        a: int

    error = refusal_of({"x": Local(1)})
    assert "state.x: " in str(error)
    assert "cannot be found again by its name" in str(error)
    assert "lastgood.register" in str(error)
    assert "value.model_dump()" in error.hint


def test_a_value_that_contains_itself_is_named():
    inner: dict = {}
    inner["b"] = {"c": inner}
    error = refusal_of({"a": inner})
    assert error.path == "state.a.b.c"
    assert "state.a.b.c contains itself." in str(error)


def test_an_object_that_contains_itself_is_named():
    point = Point(1)
    point.y = (point,)
    assert "state.y[0] contains itself" in str(refusal_of(point))


WRAPS = {
    "list": lambda v: [v],
    "dict": lambda v: {"a": v},
    "tuple": lambda v: (v,),
    "odd dict": lambda v: {1: v},
    "record": lambda v: Point(1, v),
    "mixed": lambda v: [({1: Point(1, v)},)],
}
every_wrap = pytest.mark.parametrize("wrap", WRAPS.values(), ids=WRAPS)


@every_wrap
@pytest.mark.parametrize("depth", [300, 10_000])
def test_values_that_nest_too_deep_are_refused(wrap, depth):
    value: object = None
    for _ in range(depth):
        value = wrap(value)
    error = refusal_of(value)
    assert "values nest deeper than 200 levels" in str(error)
    assert len(str(error)) < 400
    _unravel(value)


def test_long_runs_of_lists_between_tuples_are_refused_before_they_add_up():
    value: object = None
    for _ in range(10):
        for _ in range(100):
            value = [value]
        value = (value,)
    assert "values nest deeper than 200 levels" in str(refusal_of(value))
    _unravel(value)


def _unravel(value):
    """Take a deep value apart from the outside, so that freeing it does not recurse."""
    while value is not None:
        value = (
            value.y
            if type(value) is Point
            else next(iter(value.values() if type(value) is dict else value))
        )


@every_wrap
def test_200_levels_are_fine(wrap):
    value: object = None
    for _ in range(200 if wrap is not WRAPS["mixed"] else 50):
        value = wrap(value)
    assert codec.unpack(codec.pack(value)) == value
    assert codec.loads_text(codec.dumps_text(value)) == value


def test_dropping_keeps_the_rest_and_reports_each_loss():
    encoder = dropping.encoder()
    state = {
        "a": 1,
        "f": len,
        "items": [1, len, {"x": (2, len)}],
        "p": Point(1, len),
        "s": {3, len},
    }
    packed = encoder.pack(state)
    kept = dropping.unpack(packed)
    assert kept["items"] == [1, {"x": (2,)}]
    assert kept["s"] == {3}
    assert kept["p"].x == 1
    assert kept["p"].y is None  # its plain default
    assert "f" not in kept
    assert [loss.path for loss in encoder.losses] == [
        "state.f",
        "state.items[1]",
        "state.items[2].x[1]",
        "state.p.y",
        *[loss.path for loss in encoder.losses if loss.path.startswith("state.s")],
    ]
    assert encoder.losses[0].type_name == "builtin_function_or_method"
    assert "a function cannot be stored (len)" in encoder.losses[0].reason


def test_dropping_leaves_out_elements_and_items():
    encoder = dropping.encoder()
    assert encoder.pack_each([1, len, 2], ("items",)) == [b"\x01", b"\x02"]
    assert encoder.pack_items([("a", 1), ("b", len)], ("map",)) == [b"\xa1a\x01"]
    assert [loss.path for loss in encoder.losses] == ["state.items[1]", "state.map.b"]


def test_dropping_the_whole_value_is_told():
    encoder = dropping.encoder()
    assert encoder.pack(len) is DROPPED
    assert encoder.shape(len) is DROPPED
    assert encoder.shape(Celsius(1), ("a",)) is DROPPED
    with pytest.raises(SerializationError):
        dropping.pack(len)


def test_a_named_tuple_is_dropped_whole_because_it_cannot_lack_a_field():
    encoder = dropping.encoder()
    assert dropping.unpack(encoder.pack({"p": Pair(1, len), "q": 2})) == {"q": 2}
    assert encoder.losses[0].path == "state.p.right"
    assert encoder.shape(Pair(1, 2)) == Codec().encoder().shape(Pair(1, 2))
    assert codec.encoder().shape(Pair(1, 2)).family is Family.MAP


ENCODED = {
    "a list": (lambda trip: [trip.start, trip.end], lambda stored: Trip(*stored)),
    "a dict": (vars, lambda stored: Trip(**stored)),
    "an element": (lambda trip: trip.end, lambda stored: Trip(1, stored)),
}


@pytest.mark.parametrize("bad", [len, [1, len], {"k": (1, len)}, Point(1, len)])
@pytest.mark.parametrize(("encode", "decode"), ENCODED.values(), ids=ENCODED.keys())
def test_what_an_encode_function_gives_is_kept_whole_or_dropped_whole(encode, decode, bad):
    own = travelling(encode, decode)
    encoder = own.encoder()
    state = {"a": [0, Trip(1, bad), Trip(1, 2)], "b": Trip(1, bad), "c": [len, 3]}
    kept = own.unpack(encoder.pack(state))
    assert [vars(part) if part else part for part in kept["a"]] == [0, {"start": 1, "end": 2}]
    assert kept.keys() == {"a", "c"}
    assert kept["c"] == [3]
    assert [loss.path for loss in encoder.losses] == ["state.a[1]", "state.b", "state.c[0]"]
    assert encoder.losses[0].type_name == f"{__name__}.Trip"
    assert "a function cannot be stored (len)" in encoder.losses[0].reason
    assert encoder.shape(Trip(1, bad), ("d",)) is DROPPED


def test_an_encode_function_in_an_encode_function_is_told_by_the_outer_object():
    own = travelling(*ENCODED["a list"])
    encoder = own.encoder()
    assert own.unpack(encoder.pack({"t": Trip(Trip(1, len), 2)})) == {}
    assert [loss.path for loss in encoder.losses] == ["state.t"]


def test_with_gaps_there_is_none_in_the_place_of_what_cannot_be_kept():
    for encode, decode in (ENCODED["a list"], ENCODED["a dict"]):
        own = travelling(encode, decode, gaps=True)
        encoder = own.encoder()
        trip = own.unpack(encoder.pack({"t": Trip(len, {"k": len, "l": 1})}))["t"]
        assert (trip.start, trip.end) == (None, {"l": 1})
        assert len(encoder.losses) == 2
        assert encoder.losses[1].path.endswith(".k")


def test_a_record_with_gaps_has_none_in_the_place_of_a_field_however_it_is_packed():
    own = travelling(*ENCODED["a list"], gaps=True)
    encoder = own.encoder()
    point = own.unpack(encoder.pack([Point(len, 2)]))[0]
    assert (point.x, point.y) == (None, 2)
    assert [loss.path for loss in encoder.losses] == ["state[0].x"]
    opened = own.encoder()
    shape = opened.shape(Point(len, [1, len]), ("p",))
    assert shape.content == [("x", None), ("y", [1, len])]
    assert [loss.path for loss in opened.losses] == ["state.p.x"]
    with pytest.raises(SerializationError):
        own.encoder(policy="raise").pack(Point(len, 2))


def test_dropping_cuts_a_cycle_and_a_depth():
    loop: list = [1]
    loop.append(loop)
    encoder = dropping.encoder()
    assert dropping.unpack(encoder.pack(loop)) == [1]
    assert encoder.losses[0].path == "state[1]"
    deep: list = []
    for _ in range(400):
        deep = [deep]
    assert encoder.pack(deep) is not DROPPED
    assert len(encoder.losses) == 2


def test_raising_reports_no_losses_and_an_object_half_made_is_refused():
    half = Order.__new__(Order)
    assert "cannot be taken apart" in str(refusal_of({"order": half}))
