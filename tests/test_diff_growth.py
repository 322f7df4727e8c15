"""Differences of long lists: the work grows with the lists, however they were mixed up."""

from __future__ import annotations

import random
from collections.abc import Callable
from time import process_time
from typing import Any

import pytest

from lastgood import Diff
from lastgood.aligning import aligned

pytestmark = pytest.mark.slow

Lists = tuple[list[Any], list[Any]]


def every_second_changed(count: int) -> Lists:
    return list(range(count)), [n if n % 2 else n + count for n in range(count)]


def shuffled(count: int) -> Lists:
    new = list(range(count))
    random.Random(1).shuffle(new)
    return list(range(count)), new


def one_anchor_at_a_time(count: int) -> Lists:
    """Each element is unique only once all before it are paired."""
    numbers = range(count // 4, 0, -1)
    old = [part for n in numbers for part in (f"a {n}", n - 1, f"b {n}", n)]
    return old, [part for n in numbers for part in (n, f"c {n}")]


def seconds(work: Callable[[], object]) -> float:
    """Of the processor, at best."""
    times = []
    for _ in range(3):
        start = process_time()
        work()
        times.append(process_time() - start)
    return min(times)


def growth(small: Callable[[], object], large: Callable[[], object]) -> float:
    """How many times as long the large one takes."""
    small()
    return seconds(large) / seconds(small)


def test_a_diff_of_long_lists_costs_what_they_hold() -> None:
    small, large = every_second_changed(1_000), every_second_changed(10_000)
    assert growth(lambda: Diff.between(*small), lambda: Diff.between(*large)) < 30


def test_a_json_patch_of_many_moves_costs_what_they_are() -> None:
    old, new = shuffled(2_000)
    small = Diff.between(old, new)
    old, new = shuffled(20_000)
    large = Diff.between(old, new)
    assert growth(small.to_json_patch, large.to_json_patch) < 30


class Key:
    """Counts how often it is asked for its hash."""

    asked = 0

    def __init__(self, value: object) -> None:
        self.value = value

    def __hash__(self) -> int:
        Key.asked += 1
        return hash(self.value)

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Key) and self.value == other.value


def asked(old: list[Any], new: list[Any]) -> int:
    before = Key.asked
    pairs = aligned([Key(each) for each in old], [Key(each) for each in new])
    assert [old[i] for i, _ in pairs] == [new[j] for _, j in pairs]
    assert pairs
    return Key.asked - before


def test_an_alignment_gives_up_where_each_round_pairs_one_element() -> None:
    assert asked(*one_anchor_at_a_time(20_000)) < 20 * asked(*one_anchor_at_a_time(2_000))


@pytest.mark.parametrize("lists", [every_second_changed, shuffled, one_anchor_at_a_time])
def test_a_diff_of_long_lists_is_exact(lists: Callable[[int], Lists]) -> None:
    old, new = lists(12_000)
    diff = Diff.between(old, new)
    assert diff.patch(old) == new
    assert moved(old, diff.to_json_patch()) == new


def moved(document: list[Any], operations: list[dict[str, Any]]) -> list[Any]:
    """The operations on a list, one after the other."""
    document = list(document)
    for each in operations:
        at = int(each["path"][1:])
        if each["op"] in ("remove", "replace"):
            del document[at]
        if each["op"] != "remove":
            from_ = each.get("from")
            document.insert(at, each["value"] if from_ is None else document.pop(int(from_[1:])))
    return document
