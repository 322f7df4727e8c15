"""Headers and lengths agree with ormsgpack, without decoding anything."""

import ormsgpack
import pytest
from codec_samples import SAMPLES
from hypothesis import given
from hypothesis import strategies as st

from lastgood.codec import Codec, array_header, map_header, skip
from lastgood.codec.msgpack import deeper_than, ext
from lastgood.errors import SerializationError

SIZES = [0, 1, 15, 16, 17, 31, 32, 255, 256, 65535, 65536, 70000]


@pytest.mark.parametrize("count", SIZES)
def test_headers_are_those_of_ormsgpack(count):
    assert array_header(count) + b"\xc0" * count == ormsgpack.packb([None] * count)
    named = {str(n): None for n in range(count)}
    body = b"".join(ormsgpack.packb(key) + b"\xc0" for key in named)
    assert map_header(count) + body == ormsgpack.packb(named)


@pytest.mark.parametrize("size", [*SIZES, 2, 4, 8])
def test_exts_are_those_of_ormsgpack(size):
    assert ext(5, b"x" * size) == ormsgpack.packb(ormsgpack.Ext(5, b"x" * size))


@pytest.mark.parametrize("size", SIZES)
@pytest.mark.parametrize("kind", [str, bytes])
def test_a_text_of_any_length_is_skipped(size, kind):
    data = ormsgpack.packb("x" * size if kind is str else b"x" * size)
    assert skip(b"\xc0" + data + b"\xc0", 1) == 1 + len(data)


def test_every_sample_is_skipped_to_its_end_and_not_beyond():
    for value in SAMPLES.values():
        data = Codec().pack(value)
        assert skip(data, 0) == len(data)
        assert skip(b"\x01" + data + data, 1) == len(data) + 1
        for end in range(0, len(data), 7):
            with pytest.raises(SerializationError):
                skip(data[:end], 0)


@given(st.binary())
def test_skipping_random_bytes_ends_within_them_or_fails(data):
    try:
        end = skip(data, 0)
    except SerializationError:
        return
    assert 0 < end <= len(data)


def test_skipping_needs_no_stack():
    depth = 1_000_000
    assert skip(b"\x91" * depth + b"\xc0", 0) == depth + 1


@pytest.mark.parametrize("depth", [1, 5, 50])
def test_depth_is_measured_through_lists_maps_and_exts(depth):
    data = b"\xc0"
    for level in range(depth):
        data = (b"\x91" + data, b"\x81\xa1a" + data, ext(17, b"\x91" + data))[level % 3]
    levels = depth + depth // 3  # an ext is one, and the array in it another
    assert not deeper_than(data + b"\x90" * 200, levels + 1)
    assert deeper_than(data, levels - 1)
