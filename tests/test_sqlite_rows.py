"""A checkpoint's row in SQLite's columns: nothing is lost by packing, and no damage goes unseen."""

from typing import Any

import ormsgpack
import pytest
from hypothesis import given
from hypothesis import strategies as st

from lastgood.backends.sqlite.rows import STORED, folded, unfolded
from lastgood.rows import CheckpointRow, intact, seal_of, sealed, unsealed

NUMBERS = st.integers(0, (1 << 32) - 1)
TIMES = st.integers(0, (1 << 62) - 1)
BYTES = st.binary(max_size=40)
TEXTS = st.text(st.characters(codec="utf-8"), max_size=20)
OPTIONAL = st.none() | TEXTS
FIELDS: dict[str, st.SearchStrategy[Any]] = {
    "thread": st.integers(1, (1 << 31) - 1),
    "seq": NUMBERS,
    "id": st.binary(min_size=16, max_size=16),
    "lane": NUMBERS,
    "branch": TEXTS,
    "parent": st.sampled_from([b"", bytes(range(16))]),
    "parent_digest": st.sampled_from([b"", bytes(range(16))]),
    "parent_gone": st.integers(0, 1),
    "fallback": st.sampled_from([b"", bytes(range(16))]),
    "step": NUMBERS,
    "step_name": OPTIONAL,
    "framework": TEXTS,
    "created_at": TIMES,
    "ttl": st.none() | st.floats(0, 1e12),
    "expires_at": st.none() | TIMES,
    "context": BYTES,
    "metadata": BYTES,
    "target": OPTIONAL,
    "schema": OPTIONAL,
    "source_lane": st.none() | NUMBERS,
    "losses": BYTES,
    "root": st.binary(min_size=32, max_size=32),
    "digest": st.binary(min_size=16, max_size=16),
    "size": TIMES,
    "manifest": BYTES,
    "slots": BYTES,
}
ROWS = st.builds(CheckpointRow, **FIELDS)


@given(ROWS)
def test_a_row_comes_back_as_it_was(row: CheckpointRow) -> None:
    stored = folded(row, seal_of(row))
    assert len(stored) == len(STORED)
    assert unfolded(stored) == sealed(row)
    found = unsealed(CheckpointRow, unfolded(stored))
    assert found == row
    assert [type(value) for value in found] == [type(value) for value in row]


@given(ROWS, st.data())
def test_no_damage_to_what_is_packed_goes_unseen(row: CheckpointRow, data: st.DataObject) -> None:
    """A flipped bit, an end that is lost, something behind it."""
    *columns, rest = folded(row, seal_of(row))
    assert isinstance(rest, bytes)
    place = data.draw(st.integers(0, 8 * len(rest) - 1))
    flipped = bytearray(rest)
    flipped[place // 8] ^= 1 << place % 8
    for damaged in (bytes(flipped), rest[: place // 8], rest + bytes(flipped[:1])):
        found = unfolded((*columns, damaged))
        assert found[:2] == row[:2], "it can be told which row it is"
        assert intact(CheckpointRow, found) is None


@given(ROWS)
def test_another_spelling_of_the_same_is_not_ours(row: CheckpointRow) -> None:
    *columns, rest = folded(row, seal_of(row))
    assert isinstance(rest, bytes)
    values = ormsgpack.unpackb(rest)
    usual = [b"", 0, "", b"", b"", b"", b"", None, None, None, 0]
    longer = ormsgpack.packb([*values, *usual[len(values) :]])
    wider = b"\xdd" + len(values).to_bytes(4) + rest[1:]
    assert ormsgpack.unpackb(wider) == values
    for other in {longer, wider} - {rest}:
        assert intact(CheckpointRow, unfolded((*columns, other))) is None


@pytest.mark.parametrize(
    "rest",
    [b"", b"\xc1", None, 7, "text", *map(ormsgpack.packb, (0, {}, [], [1], [b""], [b"x"] * 99))],
    ids=repr,
)
def test_whatever_stands_in_its_place_is_no_row(rest: object) -> None:
    row = CheckpointRow(*[b""] * len(CheckpointRow._fields))._replace(thread=3, seq=4)  # type: ignore[arg-type]
    found = unfolded((*folded(row, seal_of(row))[:-1], rest))
    assert found[:2] == (3, 4)
    assert intact(CheckpointRow, found) is None
