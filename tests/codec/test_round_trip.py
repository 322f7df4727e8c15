"""What comes back equals what went in, type for type, in both spellings and piece by piece."""

import json
import math
import pickle
from collections import Counter, OrderedDict, defaultdict, deque
from datetime import UTC, date, datetime, time, timedelta, timezone
from decimal import Decimal
from pathlib import PureWindowsPath
from uuid import UUID

import numpy as np
import pydantic
import pytest
from codec_samples import SAMPLES, Frozen, Outer, Pair, Point, Word, calls, same
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from lastgood.codec import DROPPED, Codec, Family, keyed_by_text
from lastgood.errors import SerializationError

codec = Codec()
every_sample = pytest.mark.parametrize("value", SAMPLES.values(), ids=SAMPLES)


@every_sample
def test_a_value_survives_the_binary_spelling(value):
    assert same(codec.unpack(codec.pack(value)), value)


@every_sample
def test_a_value_survives_the_text_spelling(value):
    text = codec.dumps_text(value)
    text.encode("utf-8")
    json.loads(text)
    assert same(codec.loads_text(text), value)


@every_sample
def test_packing_again_what_came_back_gives_the_same_bytes(value):
    packed = codec.pack(value)
    assert codec.pack(codec.unpack(packed)) == packed
    assert codec.pack(codec.loads_text(codec.dumps_text(value))) == packed


LOCAL = timezone(timedelta(0), "UTC")


@pytest.mark.parametrize("value", [datetime(2024, 1, 1, tzinfo=LOCAL), time(1, tzinfo=LOCAL)])
def test_local_time_on_a_machine_in_utc_comes_back_as_it_is(value):
    """`datetime.now().astimezone()` has a time zone there that is equal to `UTC`, and is not it."""
    packed = codec.pack(value)
    found = codec.unpack(packed)
    assert (found, repr(found)) == (value, repr(value))
    assert codec.pack(found) == packed


@every_sample
def test_a_value_can_be_opened_and_closed_again(value):
    shape = codec.encoder().shape(value)
    assert same(codec.join(shape.kind, shape.extra, shape.content), value)


@every_sample
def test_an_opened_value_can_be_stored_in_pieces(value):
    encoder = codec.encoder()
    shape = encoder.shape(value)
    content = shape.content
    if shape.family is Family.ARRAY:
        parts = encoder.pack_each(content, ())
        content = codec.unpack_array(len(parts), b"".join(parts))
    elif shape.family is Family.MAP:
        content = _through_items(encoder.pack_items(content, ()), keyed_by_text(shape.kind))
    assert same(codec.join(shape.kind, shape.extra, content), value)


def _through_items(parts, by_text):
    if by_text:
        return list(codec.unpack_map(len(parts), b"".join(parts)).items())
    flat = codec.unpack_array(2 * len(parts), b"".join(parts))
    return list(zip(flat[::2], flat[1::2], strict=True))


@every_sample
def test_a_value_has_the_same_bytes_alone_and_next_to_one_that_needs_the_walk(value):
    alone = codec.pack(value)
    assert alone in codec.pack([value, {1: "an odd key"}])
    assert codec.encoder().pack_each([value, {1: 1}], ())[0] == alone


@every_sample
def test_parts_have_the_same_bytes_together_and_each_alone(value):
    alone, odd = codec.pack(value), {1: "an odd key"}
    assert codec.pack_parts((value, "text"), "parts") == b"\x92" + alone + codec.pack("text")
    assert codec.pack_parts((odd, value), "parts") == b"\x92" + codec.pack(odd) + alone


def test_no_code_of_a_class_runs_while_its_objects_are_rebuilt():
    packed = codec.pack(list(SAMPLES.values()))
    calls.clear()
    codec.unpack(packed)
    assert calls == []


def test_a_default_dict_still_makes_defaults():
    restored = codec.unpack(codec.pack(defaultdict(list)))
    restored["new"].append(1)
    assert restored == {"new": [1]}


def test_an_enum_member_is_the_same_object_afterwards():
    assert codec.unpack(codec.pack(Outer.Phase.END)) is Outer.Phase.END


def test_a_long_integer_is_kept_up_to_16_kilobytes():
    largest = 256 ** (16 * 1024) - 1
    assert codec.unpack(codec.pack(-largest)) == -largest
    assert codec.loads_text(codec.dumps_text(largest)) == largest


scalars = st.one_of(
    st.none(),
    st.booleans(),
    st.integers(),
    st.integers(min_value=-(2**90), max_value=2**90),
    st.floats(),
    st.text(st.characters(exclude_categories=())),
    st.binary(max_size=300),
    st.complex_numbers(),
    st.decimals(),
    st.uuids(),
    st.dates(),
    st.datetimes(timezones=st.none() | st.just(UTC) | st.timezones()),
    st.times(),
    st.timedeltas(),
    st.sampled_from([*Outer.Phase, *Word]),
    st.builds(range, st.integers(), st.integers()),
)


def _equals_itself(value):
    return "nan" not in repr(value).lower() or isinstance(value, str | bytes)


def _hashable(inner):
    return st.one_of(
        st.tuples(inner),
        st.frozensets(inner, max_size=4),
        st.builds(Frozen, st.text(), st.tuples(inner)),
        st.builds(Pair, st.integers(), inner),
    )


keys = st.recursive(scalars.filter(_equals_itself), _hashable, max_leaves=4)


def _containers(inner):
    items = st.dictionaries(keys, inner, max_size=5)
    named = st.dictionaries(st.text(max_size=5), inner, max_size=5)
    lists = st.lists(inner, max_size=5)
    return st.one_of(
        lists,
        named,
        items,
        lists.map(tuple),
        st.sets(keys, max_size=5),
        st.builds(deque, lists, st.none() | st.integers(5, 9)),
        items.map(OrderedDict),
        items.map(lambda d: defaultdict(dict, d)),
        st.dictionaries(keys, st.integers(), max_size=5).map(Counter),
        st.builds(Point, st.integers(), inner),
        st.binary(max_size=9).map(bytearray),
    )


values = st.recursive(scalars, _containers, max_leaves=25)


@settings(
    suppress_health_check=[HealthCheck.too_slow],
    deadline=None,
    max_examples=3 * settings.default.max_examples,
)
@given(values)
def test_any_value_survives_both_spellings(value):
    packed = codec.pack(value)
    assert same(codec.unpack(packed), value)
    assert same(codec.loads_text(codec.dumps_text(value)), value)


@settings(suppress_health_check=[HealthCheck.too_slow], deadline=None)
@given(st.lists(values, max_size=6))
def test_elements_packed_one_by_one_are_the_body_of_the_list(elements):
    parts = codec.encoder().pack_each(elements, ())
    assert codec.pack(elements).endswith(b"".join(parts))
    assert same(codec.unpack_array(len(parts), b"".join(parts)), elements)


@settings(suppress_health_check=[HealthCheck.too_slow], deadline=None)
@given(values)
def test_the_walk_and_the_native_path_write_the_same_bytes(value):
    encoder = codec.encoder()
    native = encoder._native.pack(value)
    if native is not None and type(value) in {list, dict, tuple, set, Point, deque}:
        encoder._native.pack_each = lambda _: None
        encoder._walker._quick = lambda v: encoder._native.pack(v) if type(v) in ATOMIC else None
        assert encoder._walker.pack(value, ()) == native


ATOMIC = {type(None), bool, int, float, str, bytes}


def test_a_set_has_one_encoding_whatever_its_history():
    forwards, backwards = set(), set()
    for n in range(1000):
        forwards.add(str(n))
        backwards.add(str(999 - n))
    assert codec.pack(forwards) == codec.pack(backwards)


def test_a_restored_value_shares_nothing_with_the_saved_one():
    saved = {"items": [1]}
    packed = codec.pack(saved)
    saved["items"].append(2)
    first = codec.unpack(packed)
    first["items"].append(3)
    assert codec.unpack(packed) == {"items": [1]}


class Meeting(pydantic.BaseModel):
    at: datetime
    daily: time


@pytest.mark.parametrize("offset", ["Z", "+02:00", "-03:30"])
def test_a_time_that_pydantic_parsed_keeps_its_offset(offset):
    """Its zones are of a class of their own, which is nothing but an offset."""
    text = f'{{"at": "2026-01-01T10:00:00{offset}", "daily": "10:00:00{offset}"}}'
    met = Meeting.model_validate_json(text)
    found = codec.unpack(codec.pack(met))
    assert found == met
    for parsed, restored in [(met.at, found.at), (met.daily, found.daily)]:
        assert type(parsed.tzinfo) is not timezone
        assert type(restored.tzinfo) is timezone
        assert restored.utcoffset() == parsed.utcoffset()
    assert codec.pack(found) == codec.pack(met)


def test_dropped_is_one_object_even_after_pickling():
    assert pickle.loads(pickle.dumps(DROPPED)) is DROPPED


def test_nan_stays_nan_inside_containers():
    assert math.isnan(codec.unpack(codec.pack({"a": [math.nan]}))["a"][0])


@pytest.mark.parametrize(
    "value",
    [
        date.max,
        datetime.max.replace(tzinfo=UTC),
        time.max,
        timedelta.min,
        Decimal("sNaN"),
        UUID(int=0),
    ],
    ids=repr,
)
def test_the_ends_of_a_range_survive(value):
    assert repr(codec.unpack(codec.pack(value))) == repr(value)


def test_what_lies_between_the_fields_of_an_array_is_kept_as_well():
    """A copy of numpy has there what was in the memory before: other bytes at each save, and those
    of somebody else.
    """
    layout = np.dtype([("a", "i1"), ("b", "i8")], align=True)
    filled = np.frombuffer(bytes(range(1, 17)) * 40, layout)
    for value in (filled[::2], filled.reshape(5, 8).T, filled[3:4][0]):
        packed = codec.pack(value)
        assert packed.count(bytes(range(1, 17))) == value.size
        assert codec.pack(codec.unpack(packed)) == packed


def test_a_path_of_windows_comes_back_as_itself_or_is_refused():
    """In Python 3.11 two paths have one text: as keys, nobody could read them."""
    paths = {PureWindowsPath("./c:a"): 1, PureWindowsPath("c:a"): 2}
    try:
        found = codec.unpack(codec.pack({"a": paths}))["a"]
    except SerializationError as refused:
        found, error = None, refused
    assert found == paths or (error.path.startswith("state.a") and "another one" in str(error))
