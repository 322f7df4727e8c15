"""Splitting, planning and building: any sequence of edits restores exactly, and costs what changed.

The store is a dict of pages here, so that what fails is the algorithm and not a backend.
"""

from __future__ import annotations

import random
from collections import OrderedDict, deque
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from dict_store import CODEC, Shop, made, play
from lastgood.building import build, grafted
from lastgood.codec import Dropped, Encoder
from lastgood.errors import SerializationError
from lastgood.pages import SLICE
from lastgood.splitting import INLINE, addition, rebased, split

EXAMPLES = settings(
    max_examples=settings.default.max_examples * 6 // 10,
    deadline=None,
    suppress_health_check=[HealthCheck.too_slow, HealthCheck.data_too_large],
)


# random values, random edits

scalars = st.one_of(
    st.none(),
    st.booleans(),
    st.integers(),
    st.floats(),
    st.text(max_size=50),
    st.text(alphabet=st.characters(), max_size=5),
    st.binary(max_size=50),
)
sizes = st.sampled_from([1, 20, 300, 1500, 5000, 70_000, 200_000])
long_texts = st.builds(
    lambda n, seed: random.Random(seed).randbytes(n // 2).hex(), sizes, st.integers(0, 9)
)
long_bytes = st.builds(lambda n, seed: random.Random(seed).randbytes(n), sizes, st.integers(0, 9))
messages = st.fixed_dictionaries({"role": st.sampled_from("ab"), "content": long_texts})
elements = st.one_of(
    scalars, long_texts, messages, st.lists(scalars, max_size=5), st.tuples(scalars, scalars)
)
many = st.builds(
    lambda count, seed: [random.Random(seed + i).randbytes(150).hex() for i in range(count)],
    st.integers(0, 200),
    st.integers(0, 3),
)
lists = st.one_of(many, st.lists(elements, max_size=12))
dicts = st.dictionaries(st.one_of(st.text(max_size=8), st.integers(0, 5)), elements, max_size=8)
tables = st.builds(
    lambda count: {f"k{i}": "v" * (i % 90) for i in range(count)}, st.integers(0, 200)
)
values = st.one_of(
    lists,
    dicts,
    tables,
    long_texts,
    long_bytes,
    st.builds(tuple, lists),
    st.builds(deque, lists),
    st.builds(OrderedDict, tables),
    st.sets(st.integers(0, 5000), max_size=60).map(
        lambda s: s | set(range(9000, 9000 + 30 * len(s)))
    ),
)


@st.composite
def edited(draw: st.DrawFn, value: Any) -> Any:
    """The value after one edit of the sort that agents make."""
    if isinstance(value, list | tuple | deque):
        return type(value)(_edited_list(draw, list(value)))
    if isinstance(value, str | bytes):
        return _edited_text(draw, value)
    if isinstance(value, dict):
        return _edited_dict(draw, value)
    return draw(values)


def _edited_list(draw: st.DrawFn, items: list[Any]) -> list[Any]:
    at = draw(st.integers(0, len(items)))
    new = draw(st.lists(elements, max_size=3))
    edit = draw(
        st.sampled_from(
            ["append", "insert", "set", "trim", "cut", "swap", "slide", "deep", "double"]
        )
    )
    if edit == "deep" and items[at:]:
        items[at] = draw(edited(items[at]))
        return items
    return {
        "append": lambda: items + new,
        "insert": lambda: items[:at] + new + items[at:],
        "set": lambda: items[:at] + new + items[at + len(new) :],
        "trim": lambda: items[at:],
        "cut": lambda: items[:at],
        "swap": lambda: items[at:] + items[:at],
        "slide": lambda: items[len(new) :] + new,
        "deep": lambda: items,
        "double": lambda: items + items[:at],
    }[edit]()


def _edited_text(draw: st.DrawFn, text: Any) -> Any:
    at, new = draw(st.integers(0, len(text))), draw(st.text("xyz", max_size=5))
    piece = new if isinstance(text, str) else new.encode()
    return draw(
        st.sampled_from(
            [
                text[:at] + piece + text[at:],
                text[:at],
                text[at:],
                text + piece,
                text[:at] + piece + text[at + len(piece) :],
            ]
        )
    )


def _edited_dict(draw: st.DrawFn, given: dict[Any, Any]) -> Any:
    kind = type(given)
    pairs = list(given.items())
    at = draw(st.integers(0, len(pairs)))
    edit = draw(st.sampled_from(["set", "remove", "add", "reorder"]))
    if edit == "set" and pairs[at:]:
        pairs[at] = (pairs[at][0], draw(edited(pairs[at][1])))
    elif edit == "remove":
        del pairs[at : at + 1]
    elif edit == "add":
        pairs.insert(at, (draw(st.text(max_size=4)), draw(elements)))
    else:
        pairs = pairs[at:] + pairs[:at]
    return kind(pairs)


@st.composite
def histories(draw: st.DrawFn) -> list[Any]:
    state: dict[str, Any] = {
        "a": draw(values),
        "b": draw(values),
        "deep": {"c": {"d": draw(values)}},
    }
    versions = [state]
    for _ in range(draw(st.integers(1, 5))):
        key = draw(st.sampled_from(["a", "b", "deep", "all"]))
        if key == "deep":
            state = {**state, "deep": {"c": {"d": draw(edited(state["deep"]["c"]["d"]))}}}
        elif key == "all":
            state = {**state, "a": draw(edited(state["a"])), "n": draw(scalars)}
        else:
            state = {**state, key: draw(edited(state[key]))}
        versions.append(state)
    return versions


@given(histories(), st.integers(1, 4))
@EXAMPLES
def test_any_history_restores_exactly(versions: list[Any], forget: int) -> None:
    play(versions, forget=forget)


@given(st.lists(values, min_size=2, max_size=5))
@EXAMPLES
def test_any_value_after_any_other(versions: list[Any]) -> None:
    play(versions)


@given(histories(), st.data())
@EXAMPLES
def test_two_branches_of_one_history(versions: list[Any], data: st.DataObject) -> None:
    """Branches share streams until one of them finds its next number taken."""
    shop = Shop()
    manifest_, slots, trunk, _ = shop.save(made(versions[0]))
    lines = {0: trunk, 1: trunk}
    rows = [(versions[0], manifest_, slots)]
    for value in versions[1:]:
        line = data.draw(st.sampled_from([0, 1]))
        node = made(value, lines[line].tree)
        manifest_, slots, lines[line], _ = shop.save(node, lines[line])
        rows.append((value, manifest_, slots))
    for value, manifest_, slots in rows:
        assert CODEC.pack(build(CODEC, shop.load(manifest_, slots).tree)) == CODEC.pack(value)


@given(
    lists,
    st.lists(st.lists(elements, min_size=1, max_size=3), min_size=1, max_size=5),
    st.booleans(),
)
@EXAMPLES
def test_appending_is_the_same_as_saving(
    start: list[Any], tails: list[list[Any]], cold: bool
) -> None:
    shop = Shop()
    state = {"x": {"m": list(start)}, "n": 1}
    data, slots, base, _ = shop.save(made(state))
    for tail in tails:
        base = shop.load(data, slots) if cold else base
        encoder = CODEC.encoder()
        node = grafted(CODEC, encoder, base.tree, addition(encoder, ("x", "m"), tail, lambda: 0))
        state["x"]["m"].extend(tail)  # type: ignore[index]
        assert node.hash == made(state).hash
        data, slots, base, _ = shop.save(node, base)
        assert CODEC.pack(build(CODEC, shop.load(data, slots).tree)) == CODEC.pack(state)


# what an edit costs


def _texts(count: int, size: int = 500) -> list[str]:
    return [random.Random(i).randbytes(size // 2).hex() for i in range(count)]


def _table(count: int) -> dict[str, Any]:
    return {f"key {i}": [i, float(i), f"value {i}"] for i in range(count)}


def _put(items: list[Any], at: int, *new: Any) -> list[Any]:
    return [*items[:at], *new, *items[at + len(new) :]]


BIG = _texts(2000)
FLOATS = [i * 0.5 for i in range(200_000)]
TEXT = random.Random(7).randbytes(1_500_000).hex()
TABLE = _table(10_000)
DOCUMENTS = _texts(5, 200_000)
SMALL_EDITS: dict[str, tuple[Any, Any, int]] = {
    "append": (BIG, [*BIG, "x" * 300], 300),
    "edit the middle": (BIG, _put(BIG, 1000, "y" * 300), 300),
    "insert in the middle": (BIG, [*BIG[:1000], "z" * 300, *BIG[1000:]], 300),
    "trim the front": (BIG, BIG[100:], 0),
    "truncate": (BIG, BIG[:1900], 0),
    "swap halves": (BIG, [*BIG[1000:], *BIG[:1000]], 0),
    "sliding window": (BIG, [*BIG[1:], "new" * 100], 300),
    "summarise the first hundred": (BIG, ["summary", *BIG[100:]], 7),
    "edit first": (BIG, _put(BIG, 0, "a"), 1),
    "edit last": (BIG, _put(BIG, 1999, "b"), 1),
    "one float of many": (FLOATS, _put(FLOATS, 77_777, 0.25), 9),
    "a float inserted": (FLOATS, [*FLOATS[:50_000], 0.1, *FLOATS[50_000:]], 9),
    "one key of many": (TABLE, {**TABLE, "key 5000": None}, 10),
    "a key removed": (TABLE, {k: v for k, v in TABLE.items() if k != "key 17"}, 0),
    "a key added": (TABLE, {**TABLE, "new": 1}, 5),
    "an element of 64 KiB and more": (DOCUMENTS, [*DOCUMENTS, "x"], 1),
    "equal elements": (["same"] * 50_000, ["same"] * 50_001, 5),
    "equal elements and one other": ([0] * 50_000, [*[0] * 25_000, 1, *[0] * 25_000], 1),
    "nothing": (BIG, list(BIG), 0),
}


@pytest.mark.parametrize(("before", "after", "changed"), SMALL_EDITS.values(), ids=SMALL_EDITS)
@pytest.mark.parametrize("shape", ["alone", "beside", "below", "tuple"])
@pytest.mark.slow
def test_a_small_edit_costs_little(before: Any, after: Any, changed: int, shape: str) -> None:
    wrap = {
        "alone": lambda value: {"v": value},
        "beside": lambda value: {"other": BIG[:500], "v": value, "n": len(value)},
        "below": lambda value: {"a": {"b": {"v": value, "k": 1}}},
        "tuple": lambda value: {"v": tuple(value) if isinstance(value, list) else value},
    }[shape]
    costs = play([wrap(before), wrap(after)])
    assert costs[1] <= 8192 + 4 * changed


TEXT_EDITS: dict[str, tuple[Any, int]] = {
    "changed": (TEXT[:1_000_000] + "X" + TEXT[1_000_001:], 1),
    "inserted": (TEXT[:1_000_000] + "X" + TEXT[1_000_000:], 1),
    "appended": (TEXT + "X" * 100, 100),
    "cut": (TEXT[:2_000_000], 0),
    "trimmed": (TEXT[100:], 0),
}


@pytest.mark.parametrize(("after", "changed"), TEXT_EDITS.values(), ids=TEXT_EDITS)
@pytest.mark.parametrize("encoded", [False, True], ids=["str", "bytes"])
def test_an_edit_of_a_long_text_costs_a_few_slices(after: str, changed: int, encoded: bool) -> None:
    versions: list[Any] = [TEXT, after]
    if encoded:
        versions = [text.encode() for text in versions]
    costs = play([{"t": version} for version in versions])
    assert costs[1] <= 3 * SLICE + 4 * changed


TURNS = [{"role": "user", "content": f"turn {n}: " + "word " * 20, "n": n} for n in range(200)]


@pytest.mark.parametrize(
    "added",
    [
        [],
        [{"n": 200}, {"n": 201}],
        [b"bytes", bytearray(b"array")],
        [(1, 2), {3, 4}, {5: 6}, "\ud800"],
        ["x" * (SLICE + 1)],
    ],
    ids=["nothing", "plain", "binary", "special", "huge"],
)
@pytest.mark.parametrize("place", [None, 0, 70, 199], ids=["kept", "first", "middle", "last"])
@pytest.mark.parametrize("changed", [True, 1.0, b"1", bytearray(b"1")], ids=repr)
def test_a_long_list_that_grows_or_changes(
    added: list[Any], place: int | None, changed: Any
) -> None:
    before = [{**turn, "n": 1} for turn in TURNS]
    after = [*before, *added]
    if place is not None:
        after[place] = {**before[place], "n": changed}
    base = made({"turns": before})
    node = made({"turns": after}, base)
    assert node.hash == made({"turns": after}).hash
    assert CODEC.pack(build(CODEC, node)) == CODEC.pack({"turns": after})
    play([{"turns": before}, {"turns": after}, {"turns": [*after, "end"]}])


@pytest.mark.parametrize("held", ["text", b"bytes"], ids=["nothing binary", "bytes"])
def test_what_is_laid_over_a_base_afterwards_says_of_itself_what_it_holds(held: Any) -> None:
    """Bytes, a bytearray and a memoryview look alike as long as they are not told apart."""
    after = [*TURNS, {"n": held}]
    late = rebased(made({"turns": after}), made({"turns": [*TURNS, {"n": b"other"}]}))
    assert late.hash == made({"turns": after}).hash
    early = rebased(made({"turns": after}), made({"turns": TURNS}))
    for base in (late, early):
        state = {"turns": [*TURNS, {"n": bytearray(b"bytes")}]}
        found: Any = build(CODEC, made(state, base))
        assert type(found["turns"][-1]["n"]) is bytearray
        with pytest.raises(SerializationError):
            made({"turns": [*TURNS, {"n": memoryview(b"bytes")}]}, base)


@pytest.mark.parametrize("last", range(20))
def test_a_list_in_the_place_of_a_tuple_round_the_limit(last: int) -> None:
    elements = ["x" * 99] * 40 + ["x" * (40 + last)]
    base = made({"turns": tuple(elements), "text": "y" * 4000})
    state = {"turns": elements, "text": "y" * 4000}
    assert made(state, base).hash == made(state).hash


def test_what_cannot_be_kept_at_the_end_of_a_long_list_is_named() -> None:
    base = made({"turns": TURNS})
    with pytest.raises(SerializationError) as caught:
        made({"turns": [*TURNS, {"n": object()}]}, base)
    assert caught.value.path == "state.turns[200].n"


def test_a_long_history_keeps_its_manifests_small() -> None:
    """Two growing lists, a changing field, 1,500 saves: manifests stay small."""
    left: list[str] = []
    right: list[str] = []
    versions = []
    for number in range(1500):
        (left if number % 3 else right).append(f"message {number} " * 10)
        if number % 10 == 9:
            versions.append({"left": list(left), "right": list(right), "n": number})
    costs = play(versions, forget=7)
    assert max(costs[-20:]) < 6000


@pytest.mark.parametrize("keys", [64, 65, 200, pytest.param(5000, marks=pytest.mark.slow)])
def test_a_wide_record_of_large_values(keys: int) -> None:
    """A skeleton above 1 KiB is pages itself; a change in one field costs a page of it."""
    state = {f"field {i}": ["x" * 300] * 20 for i in range(keys)}
    changed = {**state, "field 7": [*["x" * 300] * 20, "more"]}
    costs = play([state, changed, {**changed, "field 8": None}])
    assert max(costs[1:]) <= 16_384


NEAR = range(INLINE - 16, INLINE + 14)
SLOW = [*(size for size in NEAR if abs(INLINE - size) > 4), *(SLICE + by for by in (-5, -1, 0, 1))]


@pytest.mark.parametrize(
    "size",
    [
        *range(INLINE - 4, INLINE + 5),
        *(pytest.param(size, marks=pytest.mark.slow) for size in SLOW),
    ],
)
def test_sizes_round_the_limits(size: int) -> None:
    """Inline or not follows from the value alone, whatever was there before."""
    values = ["x" * size, b"x" * size, [1] * size, ["x" * (size // 4)] * 4, {"k": "x" * size}]
    for value in values:
        for before in (None, "y" * 10_000, ["y"] * 10_000, {"k": "y" * 10_000}):
            play([{"v": before}, {"v": value}])
            play([before, value])


@EXAMPLES
@given(st.dictionaries(st.text(max_size=8), elements, max_size=8), st.data())
def test_what_is_said_to_be_the_same_is_that_of_the_base(
    before: dict[str, Any], data: st.DataObject
) -> None:
    """However large the value was and is; as if the value had been given with it."""
    base = split(CODEC.encoder(), before)
    assert not isinstance(base, Dropped)
    given = {key: data.draw(elements) for key in data.draw(st.permutations([*before, "new"]))}
    same = {key for key in before if data.draw(st.booleans())}
    expected = {key: before[key] if key in same else value for key, value in given.items()}
    found = split(CODEC.encoder(), given, base, same=same)
    whole = split(CODEC.encoder(), expected)
    assert not isinstance(found, Dropped)
    assert not isinstance(whole, Dropped)
    assert (type(found), found.hash, found.size) == (type(whole), whole.hash, whole.size)


def test_a_part_that_is_known_to_be_large_is_not_packed_to_see_its_size(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """With tuples in tuples, every level of them would be packed once more at each."""
    asked: list[tuple[object, ...]] = []
    pack = Encoder.pack

    def noted(encoder: Encoder, value: object, path: Any = ()) -> bytes | Dropped:
        asked.append(path)
        return pack(encoder, value, path)

    monkeypatch.setattr(Encoder, "pack", noted)
    inner = ("y" * 2 * SLICE, ("z" * 2 * SLICE, 1))
    split(CODEC.encoder(), ["x", inner])
    assert {(1,), (1, 1)}.isdisjoint(asked)
