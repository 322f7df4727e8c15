"""Editing a value by paths: all of them are those of the value as it was."""

import copy
from collections import Counter, OrderedDict, defaultdict, deque
from dataclasses import dataclass, field
from typing import Any, NamedTuple

import pytest
from hypothesis import given
from hypothesis import strategies as st

from lastgood import paths
from lastgood.codec import Codec
from lastgood.editing import edited

CODEC = Codec()


def change(state: object, edits: Any = (), *remove: str) -> Any:
    return edited(CODEC, state, dict(edits), remove)


@dataclass
class Goal:
    text: str
    done: list[int] = field(default_factory=list)
    is_hidden: bool = field(default=False, init=False)


@dataclass(frozen=True)
class Point:
    x: int
    y: Any = None


class Pair(NamedTuple):
    left: Any
    right: Any


KINDS: dict[str, tuple[Any, str, Any]] = {
    "dict": ({"k": 1, "l": 2}, "k", {"k": "new", "l": 2}),
    "dict of numbers": ({1: "a", 2: "b"}, "[1]", {1: "new", 2: "b"}),
    "odd keys": ({"a.b": 1}, '["a.b"]', {"a.b": "new"}),
    "list": ([1, 2], "[1]", [1, "new"]),
    "tuple": ((1, 2), "[0]", ("new", 2)),
    "deque": (deque([1, 2], maxlen=2), "[0]", deque(["new", 2], maxlen=2)),
    "ordered dict": (OrderedDict(b=1, a=2), "b", OrderedDict(b="new", a=2)),
    "defaultdict": (defaultdict(list, k=[1]), "k", defaultdict(list, k="new")),
    "counter": (Counter(k=1), "k", Counter(k="new")),  # type: ignore[arg-type]
    "dataclass": (Goal("t", [1]), "text", Goal("new", [1])),
    "inside of a dataclass": (Goal("t", [1]), "done[0]", Goal("t", ["new"])),  # type: ignore[list-item]
    "frozen dataclass": (Point(1, 2), "x", Point("new", 2)),  # type: ignore[arg-type]
    "named tuple": (Pair(1, {"k": 2}), "right.k", Pair(1, {"k": "new"})),
    "all the way down": (
        {"a": [Goal("t"), (Point(1, Pair(1, [deque([0])])),)]},
        "a[1][0].y.right[0][0]",
        {"a": [Goal("t"), (Point(1, Pair(1, [deque(["new"])])),)]},
    ),
}


@pytest.mark.parametrize(("value", "path", "expected"), KINDS.values(), ids=KINDS)
def test_every_kind_of_value_is_edited(value: Any, path: str, expected: Any) -> None:
    before = copy.deepcopy(value)
    found = change(value, {path: "new"})
    assert found == expected
    assert type(found) is type(expected)
    assert value == before, "the value that was given stays as it is"


def test_a_bounded_deque_and_a_defaultdict_stay_what_they_are() -> None:
    found = change({"d": deque([1, 2], maxlen=3), "f": defaultdict(list)}, {"d[2]": 3, "f.k": [1]})
    assert found["d"].maxlen == 3
    assert found["f"]["other"] == []


def test_keys_and_elements_are_added() -> None:
    assert change({"a": {}}, {"a.b": 1, "c": 2}) == {"a": {"b": 1}, "c": 2}
    assert change([[]], {"[0][0]": "x", "[1]": "y"}) == [["x"], "y"]


def test_a_field_that_is_still_in_the_class_alone_is_put_on_the_object() -> None:
    goal = Goal("t")
    found = edited(CODEC, {"a": goal}, {"a.is_hidden": True}, ())
    assert found["a"].is_hidden is True  # type: ignore[index]
    assert "is_hidden" not in vars(goal)


def test_removing_does_not_shift_what_other_paths_mean() -> None:
    assert change([0, 1, 2, 3], {"[1]": "one"}, "[0]", "[2]") == ["one", 3]
    assert change([0, 1, 2], {"[3]": 3}, "[0]", "[1]", "[2]") == [3]
    assert change({"a": 1, "b": {"c": 2, "d": 3}}, (), "a", "b.c") == {"b": {"d": 3}}


def test_counting_from_the_end_means_the_end_as_it_was() -> None:
    assert change([0, 1, 2], {"[3]": 3, "[-1]": "two"}) == [0, 1, "two", 3]
    assert change([0, 1, 2], {"[3]": 3}, "[-1]") == [0, 1, 3]
    assert change([0, 1, 2], {"[-3]": "zero"}) == ["zero", 1, 2]


TWICE: dict[str, tuple[Any, Any, tuple[str, ...]]] = {
    "as a whole and inside": ({"a": {"b": 1}}, {"a": 2, "a.b": 3}, ()),
    "removed and inside": ({"a": {"b": 1}}, {"a.b": 3}, ("a",)),
    "edited and removed": ({"a": 1}, {"a": 2}, ("a",)),
    "two spellings": ({"a": 1}, {"a": 2, '["a"]': 3}, ()),
    "from both ends": ({"a": [1, 2]}, {"a[1]": 3, "a[-1]": 4}, ()),
    "from both ends, inside": ({"a": [[1], [2]]}, {"a[1]": 3, "a[-1][0]": 4}, ()),
    "removed from both ends": ({"a": [1, 2]}, {}, ("a[1]", "a[-1]")),
}


@pytest.mark.parametrize(("value", "edits", "remove"), TWICE.values(), ids=TWICE)
def test_one_place_is_edited_once(value: Any, edits: Any, remove: tuple[str, ...]) -> None:
    with pytest.raises(ValueError, match=r"a(\[1\])? is edited twice"):
        change(value, edits, *remove)


ABSENT: dict[str, tuple[Any, str]] = {
    "a key in a key": ({"a": {}}, "a.b.c"),
    "far past the end": ({"a": [1]}, "a[2]"),
    "far before the beginning": ({"a": [1]}, "a[-2]"),
    "a name in a list": ({"a": [1]}, "a.b"),
    "inside of what would be appended": ({"a": [{}]}, "a[1].b"),
    "a field that is not there": ({"a": Goal("t")}, "a.other"),
}


@pytest.mark.parametrize(("value", "path"), ABSENT.values(), ids=ABSENT)
def test_what_is_not_there_is_named(value: Any, path: str) -> None:
    with pytest.raises(KeyError) as caught:
        change(value, {path: 1})
    named = path.removesuffix(".c").removesuffix("[1].b") + ("[1]" if path == "a[1].b" else "")
    assert f"there is no {named} in the state" in str(caught.value)


REFUSED: dict[str, tuple[Any, str]] = {
    "a missing key": ({"a": {}}, "a.b"),
    "the place past the end": ({"a": [1]}, "a[1]"),
    "a field": ({"a": Goal("t")}, "a.text"),
}


@pytest.mark.parametrize(("value", "path"), REFUSED.values(), ids=REFUSED)
def test_what_cannot_be_removed_is_named(value: Any, path: str) -> None:
    with pytest.raises(KeyError) as caught:
        change(value, (), path)
    assert path in str(caught.value)


def test_a_member_of_a_set_is_named_by_itself() -> None:
    assert change({"a": {"x", 3}}, {"a.y": "y", "a[3]": 3}, "a.x") == {"a": {3, "y"}}
    assert change(frozenset([1, 2]), (), "[1]") == frozenset([2])
    with pytest.raises(KeyError, match=r"no a\[0\] in the state"):
        change({"a": {5, 6}}, (), "a[0]")
    with pytest.raises(KeyError, match=r"no a\.x in the state"):
        change({"a": {"y"}}, {"a.x.b": 1})
    with pytest.raises(KeyError, match=r"a\.x is a str: there is nothing inside"):
        change({"a": {"x"}}, {"a.x.b": 1})


@pytest.mark.parametrize(("path", "value"), [("a.x", "y"), ("a.y", []), ("a[1]", True)])
def test_a_member_of_a_set_cannot_become_another(path: str, value: Any) -> None:
    with pytest.raises(ValueError, match="names a member of a set by its value"):
        change({"a": {"x"}}, {path: value})


@pytest.mark.parametrize("value", [5, "text", b"bytes", None])
def test_there_is_nothing_inside_of_a_plain_value(value: Any) -> None:
    with pytest.raises(KeyError, match=r"a\.b is an? \w+: there is nothing inside to edit"):
        change({"a": {"b": value}}, {"a.b[0]": 1})
    with pytest.raises(KeyError, match="the state is a"):
        change(value, {"[0]": 1})


def test_a_value_is_compared_with_nothing() -> None:
    """Values of users may have an `==` of their own."""
    numpy = pytest.importorskip("numpy")
    found = change({"goal": Goal("t"), "a": [1]}, {"goal.text": numpy.ones(3), "a[0]": 2})
    assert found["goal"].text.sum() == 3


def test_the_whole_state_is_not_a_path() -> None:
    with pytest.raises(ValueError, match="the whole state"):
        change({}, {"": 1})
    with pytest.raises(ValueError, match="not a path"):
        change({}, {"a..b": 1})


def test_what_the_codec_drops_has_nothing_inside() -> None:
    with pytest.raises(KeyError, match="nothing inside"):
        edited(Codec(on_unserializable="drop"), {"a": len}, {"a.b": 1}, ())


def containers(inner: st.SearchStrategy[Any]) -> st.SearchStrategy[Any]:
    return st.lists(inner, max_size=4) | st.dictionaries(st.text("ab", min_size=1), inner)


values = containers(st.recursive(st.integers(), containers, max_leaves=12))


def places(value: Any, at: paths.Steps = ()) -> list[paths.Steps]:
    """Every place in a value but itself."""
    pairs = list(enumerate(value)) if isinstance(value, list) else []
    pairs += value.items() if isinstance(value, dict) else []
    return [step for key, inner in pairs for step in [(*at, key), *places(inner, (*at, key))]]


def without(value: Any, gone: set[paths.Steps], at: paths.Steps = ()) -> Any:
    """The value without some places, made the slow way."""
    if isinstance(value, list):
        kept = [(n, inner) for n, inner in enumerate(value) if (*at, n) not in gone]
        return [without(inner, gone, (*at, n)) for n, inner in kept]
    if isinstance(value, dict):
        kept = [(key, inner) for key, inner in value.items() if (*at, key) not in gone]
        return {key: without(inner, gone, (*at, key)) for key, inner in kept}
    return value


@given(values, st.data())
def test_any_set_of_places_is_removed(value: Any, data: st.DataObject) -> None:
    every = places(value)
    chosen = data.draw(st.sets(st.sampled_from(every))) if every else set()
    apart = {p for p in chosen if not any(p[:n] in chosen for n in range(1, len(p)))}
    expected = without(value, apart)
    assert change(value, (), *map(paths.render, apart)) == expected


@given(values, st.data())
def test_putting_back_what_is_there_changes_nothing(value: Any, data: st.DataObject) -> None:
    every = places(value)
    place = data.draw(st.sampled_from(every)) if every else None
    if place is None:
        return
    inner = value
    for step in place:
        inner = inner[step]
    assert change(value, {paths.render(place): inner}) == value
