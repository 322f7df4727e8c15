"""Large lists and dicts of which little changes: found by rows, and exact all the same."""

from __future__ import annotations

import random
from collections import Counter, OrderedDict
from collections.abc import Callable
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from dict_store import Shop, check_counts, made, play
from lastgood import recurring, tree
from lastgood.codec import Encoder
from lastgood.pages import SLICE
from lastgood.tree import Sequence
from test_splitter import EXAMPLES

COUNT = 1500
LOOK_ALIKES = [True, 1.0, b"1", bytearray(b"1"), (1,), [1]]


def _value(seed: int) -> str:
    return random.Random(seed).randbytes(100).hex()


LIST: list[Any] = [{"n": 1, "text": _value(n)} for n in range(COUNT)]
DICT: dict[str, Any] = {f"key {n}": {"n": 1, "text": _value(n)} for n in range(COUNT)}


@pytest.fixture
def ways(monkeypatch: pytest.MonkeyPatch) -> Counter[bool]:
    """How often a large sequence was found by rows, and how often not."""
    found: Counter[bool] = Counter()

    def counted(*given: Any) -> Sequence | None:
        made = _mended(*given)
        found[made is not None] += 1
        return made

    _mended = recurring._mended
    monkeypatch.setattr(recurring, "_mended", counted)
    return found


def _in_list(change: Callable[[list[Any]], object]) -> list[Any]:
    after = list(LIST)
    change(after)
    return after


def _in_dict(change: Callable[[dict[str, Any]], object]) -> dict[str, Any]:
    after = dict(DICT)
    change(after)
    return after


ONE = {"n": 2, "text": "one"}
EDITS: dict[str, tuple[Any, Any]] = {
    "a value": (DICT, _in_dict(lambda d: d.update({"key 700": ONE}))),
    "the first value": (DICT, _in_dict(lambda d: d.update({"key 0": ONE}))),
    "the last value": (DICT, _in_dict(lambda d: d.update({"key 1499": ONE}))),
    "a key goes": (DICT, _in_dict(lambda d: d.pop("key 700"))),
    "a key comes": (DICT, _in_dict(lambda d: d.update({"new": ONE}))),
    "a value, and a key comes": (DICT, _in_dict(lambda d: d.update({"key 700": ONE, "new": ONE}))),
    "nothing in a dict": (DICT, dict(DICT)),
    "two values": (DICT, _in_dict(lambda d: d.update({"key 300": ONE, "key 900": ONE}))),
    "an element": (LIST, _in_list(lambda e: e.__setitem__(700, ONE))),
    "one inserted": (LIST, _in_list(lambda e: e.insert(700, ONE))),
    "one removed": (LIST, _in_list(lambda e: e.pop(700))),
    "one moved": (LIST, _in_list(lambda e: e.insert(900, e.pop(700)))),
    "an element, and one more": (
        LIST,
        _in_list(lambda e: (e.__setitem__(700, ONE), e.append(ONE))),
    ),
    "many removed": (LIST, LIST[:300] + LIST[1200:]),
    "equal ones removed": (["same"] * 60_000, ["same"] * 35_000),
    "equal ones and another": (["same"] * 60_000, ["same"] * 20_000 + ["x"] + ["same"] * 9_000),
}


@pytest.mark.parametrize(("before", "after"), EDITS.values(), ids=EDITS)
def test_a_change_is_found_by_rows_and_costs_little(
    ways: Counter[bool], before: Any, after: Any
) -> None:
    costs = play([{"v": before}, {"v": after}], lay=9)
    assert ways == {True: 1}
    assert costs[1] <= 8192


@pytest.mark.parametrize("like", LOOK_ALIKES, ids=repr)
@pytest.mark.parametrize("before", [LIST, DICT], ids=["list", "dict"])
def test_what_is_almost_the_same_is_not_taken_for_it(before: Any, like: Any) -> None:
    after = list(before) if isinstance(before, list) else dict(before)
    after[700 if isinstance(before, list) else "key 700"] = {"n": like, "text": _value(700)}
    play([{"v": before}, {"v": after}, {"v": before}], lay=9)


OUT_OF_THE_ORDINARY = {
    "binary": b"bytes",
    "huge": "x" * (SLICE + 1),
    "special": {1: {2, 3}, "t": (4, 5)},
    "surrogate": "\ud800",
}


@pytest.mark.parametrize("odd", OUT_OF_THE_ORDINARY.values(), ids=OUT_OF_THE_ORDINARY)
def test_what_is_out_of_the_ordinary_is_kept(odd: Any) -> None:
    middle = {**DICT, "key 700": odd}
    play([{"v": DICT}, {"v": middle}, {"v": {**middle, "key 900": ONE}}, {"v": DICT}], lay=9)
    longer = [*LIST[:700], odd, *LIST[701:], odd]
    play([{"v": LIST}, {"v": longer}, {"v": LIST}], lay=9)


def test_what_was_read_from_the_store_is_found_by_rows_from_the_second_save_on(
    ways: Counter[bool],
) -> None:
    """What a store gave does not say what its pages hold, until all of it was encoded once."""
    shop = Shop()
    data, slots, _, _ = shop.save(made({"v": DICT}))
    base, state = shop.load(data, slots), dict(DICT)
    for number in (300, 600, 900):
        state[f"key {number}"] = ONE
        node = made({"v": state}, base.tree)
        assert node.hash == made({"v": state}).hash
        data, slots, base, cost = shop.save(node, base)
        assert cost <= 8192
        check_counts(shop.load(data, slots).tree)
    assert ways == {True: 2}


def test_kinds_are_kept_apart() -> None:
    versions = [DICT, OrderedDict(DICT), Counter(dict.fromkeys(DICT, 1)), DICT]
    play([{"v": version} for version in versions], lay=9)


def test_a_value_that_cannot_be_kept_is_named() -> None:
    base = made({"v": DICT})
    with pytest.raises(Exception, match=r'state.v\["key 700"\]'):
        made({"v": {**DICT, "key 700": object()}}, base)


@pytest.mark.slow
class TestAnyEdits:
    """Random changes, one after the other, each on top of the last."""

    changes = st.lists(
        st.tuples(
            st.sampled_from(["put", "insert", "remove", "append", "move"]),
            st.integers(0, COUNT - 1),
            st.one_of(st.integers(0, 3), st.text(max_size=9), st.sampled_from(LOOK_ALIKES)),
        ),
        min_size=1,
        max_size=3,
    )

    @EXAMPLES
    @given(st.lists(changes, min_size=1, max_size=4), st.integers(1, 4))
    def test_of_a_list(self, steps: list[list[tuple[str, int, Any]]], forget: int) -> None:
        versions = [list(LIST)]
        for step in steps:
            after = list(versions[-1])
            for what, at, value in step:
                _change_list(after, what, at, value)
            versions.append(after)
        play([{"v": version} for version in versions], forget=forget, lay=9)

    @EXAMPLES
    @given(st.lists(changes, min_size=1, max_size=4), st.integers(1, 4))
    def test_of_a_dict(self, steps: list[list[tuple[str, int, Any]]], forget: int) -> None:
        versions = [dict(DICT)]
        for step in steps:
            items = list(versions[-1].items())
            for what, at, value in step:
                key = f"key {at}" if what == "put" else f"new {at}"
                _change_list(items, what, at, (key, value))
            versions.append(dict(items))
        play([{"v": version} for version in versions], forget=forget, lay=9)


def _change_list(items: list[Any], what: str, at: int, value: Any) -> None:
    at = min(at, len(items) - 1)
    match what:
        case "put":
            items[at] = value
        case "insert":
            items.insert(at, value)
        case "remove":
            items.pop(at)
        case "append":
            items.append(value)
        case "move":
            items.insert(len(items) - at, items.pop(at))


def test_rows_end_with_pages_of_any_size() -> None:
    """One element of a page each, and many: rows are cut between pages."""
    vast = [*["y" * 60_000] * 8, *range(60_000), *["y" * 60_000] * 8]
    play([{"v": vast}, {"v": [*vast[:30_000], "x", *vast[30_001:]]}], lay=9)


def test_an_encoder_is_asked_for_few_elements(monkeypatch: pytest.MonkeyPatch) -> None:
    asked: list[int] = []
    pack_plain = Encoder.pack_plain

    def counted(self: Encoder, values: Any) -> list[bytes] | None:
        asked.append(len(values))
        return pack_plain(self, values)

    base = made({"v": DICT})
    monkeypatch.setattr(Encoder, "pack_plain", counted)
    node = made({"v": {**DICT, "key 700": ONE}}, base)
    assert isinstance(node, tree.Fields)
    assert 0 < sum(asked) < COUNT
