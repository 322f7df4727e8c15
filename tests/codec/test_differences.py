"""Every type of the codec can be compared and patched."""

from itertools import pairwise

import pytest
from codec_samples import SAMPLES, Child, Frozen, Job, Open, Order, Pair, Point, Slotted, same

from lastgood import Diff, SerializationError
from lastgood.codec import Codec, Family, closed, opened, split_values

codec = Codec()
every_sample = pytest.mark.parametrize("value", SAMPLES.values(), ids=SAMPLES)


@every_sample
def test_a_value_does_not_differ_from_itself(value):
    again = codec.unpack(codec.pack(value))
    diff = Diff.between({"x": value}, {"x": again})
    assert not diff
    assert same(diff.patch({"x": value}), {"x": value})


@pytest.mark.parametrize(("old", "new"), list(pairwise([*SAMPLES.values(), None])))
def test_a_value_turns_into_any_other(old, new):
    for before, after in (({"x": old}, {"x": new}), ([old, 1, old], [1, new]), ([old], [new, old])):
        diff = Diff.between(before, after)
        assert diff
        assert same(diff.patch(before), after)
        assert same(Diff.between(after, before).patch(after), before)


@pytest.mark.parametrize(
    ("old", "new", "path"),
    [
        (Point(1, [Point(2)]), Point(1, [Point(3)]), "y[0].x"),
        (Frozen("a", ("b",)), Frozen("a", ("b", "c")), "tags[1]"),
        (Child(1, 2, [3]), Child(1, 2, [4, 3]), "z[0]"),
        (Order(id=1, lines=[{"n": 1}]), Order(id=2, lines=[{"n": 1}]), "id"),
        (Open(a=2, b=1), Open(a=3, b=1), "a"),
        (Slotted(1, [2]), Slotted(1, []), "b[0]"),
        (Job("a", [1]), Job("b", [1]), "name"),
        (Pair(1, Pair(2)), Pair(1, Pair(3)), "right.left"),
    ],
)
def test_records_are_compared_by_field(old, new, path):
    diff = Diff.between(old, new)
    assert [change.path for change in diff] == [path]
    assert same(diff.patch(old), new)


def test_values_are_split_as_they_are_spelled():
    long_ones = [b"\xcc\x01"] * 300  # not how we write them, so packing anew would differ
    assert split_values(b"".join(long_ones), 300) == long_ones
    assert split_values(b"".join(long_ones)) == long_ones
    with pytest.raises(SerializationError):
        split_values(b"".join(long_ones), 301)


@every_sample
def test_an_encoding_closes_as_it_opened(value):
    todo = [codec.pack(value)]
    while todo:
        data = todo.pop()
        shape = opened(data)
        if shape.family is Family.RAW:
            assert closed(shape, [shape.content]) == data
            continue
        parts = (
            [p for item in shape.content for p in item]
            if shape.family is Family.MAP
            else shape.content
        )
        assert closed(shape, parts) == data
        todo += parts
