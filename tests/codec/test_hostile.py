"""Whatever the bytes are: a value or a SerializationError, soon, and nothing else."""

import contextlib
import json
import random
import subprocess
import sys
import time
import tracemalloc

import numpy as np
import ormsgpack
import pytest
from codec_samples import SAMPLES, calls
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from lastgood.codec import Codec, array_header, nested_token
from lastgood.codec.kinds import Number
from lastgood.codec.msgpack import ext
from lastgood.errors import SerializationError

codec = Codec()
patient = settings(
    suppress_health_check=[HealthCheck.too_slow],
    deadline=None,
    max_examples=4 * settings.default.max_examples,
)
packed_samples = [codec.pack(value) for value in SAMPLES.values()]
codes = st.sampled_from(sorted(v for k, v in vars(Number).items() if k.isupper())) | st.integers(
    0, 127
)


def survives(read, *arguments) -> None:
    modules = set(sys.modules)
    calls.clear()
    with contextlib.suppress(SerializationError):
        read(*arguments)
    assert set(sys.modules) == modules
    assert calls == []


@patient
@given(st.binary(max_size=200))
def test_random_bytes_are_harmless(data):
    survives(codec.unpack, data)
    survives(codec.unpack_array, 3, data)
    survives(codec.unpack_map, 2, data)
    survives(codec.join, Number.DEQUE, data, [])


@patient
@given(codes, st.binary(max_size=60))
def test_random_payloads_of_our_own_kinds_are_harmless(code, payload):
    survives(codec.unpack, ext(code, payload))


bodies = st.recursive(
    st.none()
    | st.booleans()
    | st.integers(-5, 2**63)
    | st.floats()
    | st.text(max_size=8)
    | st.binary(max_size=20)
    | st.sampled_from(["codec_samples:Point", "codec_samples:Order", "codec_samples:Outer.Phase"])
    | st.sampled_from(["os:system", "|O8", "<i4", "V99999999999", "list", "../../etc/passwd"]),
    lambda inner: (
        st.lists(inner, max_size=4) | st.dictionaries(st.text(max_size=3), inner, max_size=3)
    ),
    max_leaves=10,
)


@patient
@given(codes, bodies)
def test_well_formed_bodies_of_the_wrong_shape_are_harmless(code, body):
    survives(codec.unpack, ext(code, ormsgpack.packb(body)))
    survives(codec.join, code, ormsgpack.packb(body), body)


@patient
@given(st.sampled_from(packed_samples), st.randoms(use_true_random=False), st.integers(1, 4))
def test_damaged_samples_are_harmless(packed, chance: random.Random, hits):
    damaged = bytearray(packed)
    for _ in range(hits):
        damaged[chance.randrange(len(damaged))] = chance.randrange(256)
    survives(codec.unpack, bytes(damaged))
    survives(codec.unpack, packed[: chance.randrange(len(packed))])


def test_reading_a_text_of_numpy_imports_nothing():
    """Not even the codec of the standard library, which comes with the first use of its name."""
    packed = codec.pack([np.str_("é"), np.array("é", ">U1")[()]])
    script = (
        "import sys, numpy; from lastgood.codec import Codec; codec = Codec();"
        "codec.unpack(b'\\x01');"
        f"before = set(sys.modules); found = codec.unpack({packed!r});"
        "assert found == ['é', 'é'], found; assert set(sys.modules) == before"
    )
    subprocess.run([sys.executable, "-c", script], check=True)


@patient
@given(st.sampled_from(packed_samples), st.binary(min_size=1, max_size=9))
def test_bytes_behind_the_end_are_refused(packed, tail):
    with pytest.raises(SerializationError):
        codec.unpack(packed + tail)


def test_bytes_behind_the_end_of_a_payload_or_body_are_refused():
    with pytest.raises(SerializationError, match="bytes behind its end"):
        codec.unpack(ext(Number.TUPLE, b"\x90\xc0"))
    with pytest.raises(SerializationError):
        codec.unpack_array(1, b"\x01\x02")
    with pytest.raises(SerializationError):
        codec.unpack_array(3, b"\x01\x02")
    with pytest.raises(SerializationError):
        codec.unpack_map(1, b"\xa1a\x01\xa1b\x01")
    with pytest.raises(SerializationError):
        codec.unpack_map(2, b"\xa1a\x01\xa1a\x01")


def test_keys_and_elements_that_occur_twice_are_refused():
    for code, body in ((Number.PAIRS, [1, 1, 1, 2]), (Number.SET, [1, 1]), (Number.PAIRS, [1])):
        with pytest.raises(SerializationError):
            codec.unpack(ext(code, ormsgpack.packb(body)))


def tower(levels: int, wrap) -> bytes:
    data = b"\xc0"
    for _ in range(levels):
        data = wrap(data)
    return data


BOMBS = {
    "lists": lambda: b"\x91" * 1_000_000 + b"\xc0",
    "maps": lambda: b"\x81\xa1a" * 100_000 + b"\xc0",
    "tuples": lambda: tower(5_000, lambda data: ext(Number.TUPLE, b"\x91" + data)),
    # Each ext restarts the native depth limit: without a check of our own this is a crash.
    "lists in tuples": lambda: tower(100, lambda data: ext(Number.TUPLE, b"\x91" * 900 + data)),
    "records": lambda: tower(
        3_000,
        lambda data: ext(Number.RECORD, b"\x92\x91\xb3codec_samples:Point\x81\xa1y" + data),
    ),
    "claimed length": lambda: b"\xdd\xff\xff\xff\xff",
    "claimed text": lambda: b"\xdb\xff\xff\xff\xff",
    "claimed ext": lambda: b"\xc9\xff\xff\xff\xff\x11",
    "claimed map in ext": lambda: ext(Number.TUPLE, b"\xdf\xff\xff\xff\xff"),
    "endless integer": lambda: ext(Number.BIG_INT, ormsgpack.packb("f" * 100_000)),
    "array of nothing": lambda: ext(Number.NDARRAY, ormsgpack.packb(["<i4", [2**40, 2**40], b""])),
    "array of pointers": lambda: ext(Number.NDARRAY, ormsgpack.packb(["|O8", [1], b"12345678"])),
    "array of disguised pointers": lambda: ext(
        Number.NDARRAY,
        array_header(3)
        + codec.pack(("|V8", "|O8"))
        + ormsgpack.packb([1])
        + codec.pack(b"12345678"),
    ),
    "array of pointers in a field": lambda: ext(
        Number.NDARRAY,
        array_header(3)
        + codec.pack([("a", "|V8", "|O8")])
        + ormsgpack.packb([1])
        + codec.pack(b"12345678"),
    ),
    "array of a giant": lambda: ext(Number.NDARRAY, ormsgpack.packb(["|V2000000000", [1], b""])),
    "scalar of a giant": lambda: ext(Number.NUMPY_SCALAR, ormsgpack.packb(["<U500000000", b""])),
    "zone outside": lambda: ext(Number.ZONE, ormsgpack.packb("../../../etc/passwd")),
    "zone as package": lambda: ext(Number.ZONE, ormsgpack.packb("a.b/c")),
}


@pytest.mark.parametrize("bomb", BOMBS.values(), ids=BOMBS)
def test_a_bomb_is_refused_quickly_and_without_memory(bomb):
    data = bomb()
    tracemalloc.start()
    began = time.perf_counter()
    try:
        with pytest.raises(SerializationError):
            codec.unpack(data)
        assert tracemalloc.get_traced_memory()[1] < 50_000_000
    finally:
        tracemalloc.stop()
    assert time.perf_counter() - began < 10  # a hang, not a benchmark


def test_an_unknown_zone_and_an_unknown_code_are_kept_opaque():
    for data in (ext(Number.ZONE, ormsgpack.packb("Mars/Olympus")), ext(99, b"future")):
        assert codec.pack(codec.unpack(data)) == data
        assert codec.pack(codec.loads_text(codec.dumps_text(codec.unpack(data)))) == data


def test_a_stray_nested_token_is_data_and_cannot_be_saved():
    stray = codec.unpack(nested_token(b"digest"))
    assert stray.digest == b"digest"
    with pytest.raises(SerializationError, match="Nested cannot be stored"):
        codec.pack(stray)


def test_an_ext_in_a_user_state_can_only_forge_data():
    forged = ormsgpack.Ext(Number.RECORD, ormsgpack.packb([["os:system"], {"command": "true"}]))
    survives(lambda: codec.unpack(codec.pack({"a": forged})))


@patient
@given(st.text(max_size=60))
def test_random_text_is_harmless(text):
    survives(codec.loads_text, text)


@patient
@given(
    st.sampled_from([codec.dumps_text(v) for v in SAMPLES.values()]),
    st.randoms(),
    st.text(max_size=2),
)
def test_damaged_text_is_harmless(text, chance, splinter):
    at = chance.randrange(len(text))
    survives(codec.loads_text, text[:at] + splinter + text[at + chance.randrange(3) :])


@pytest.mark.parametrize(
    "text",
    [
        '{"a": 1, "a": 2}',
        '{"a": {"b": 1, "b": 2}}',
        '{"$lg": "tuple"}',
        '{"$lg": "tuple", "v": [], "x": 1}',
        '{"$lg": "nonsense", "v": []}',
        '{"$lg": ["tuple"], "v": []}',
        '{"$x": 1}',
        '{"$lg": "float", "v": "1.5"}',
        '{"$lg": "bytes", "v": "not base64!"}',
        "[NaN]",
        "[Infinity]",
        "",
        "[1] 2",
        "[" * 100_000,
        '{"a":' * 100_000,
        '"\\ud800"',
        "1" * 5000,
    ],
    ids=lambda text: text[:30],
)
def test_text_that_is_not_ours_is_refused(text):
    with pytest.raises(SerializationError):
        codec.loads_text(text)


def test_text_is_json_that_any_reader_understands():
    text = codec.dumps_text({"a": ("x\ud800", float("nan"), b"\x00")}, indent=2)
    assert json.loads(text)["a"]["$lg"] == "tuple"
    assert "NaN" not in text
    assert "\n  " in text
