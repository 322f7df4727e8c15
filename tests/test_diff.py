"""Differences of values: patching gives the new value, and what is reported is what was done."""

from __future__ import annotations

import copy
import itertools
import json
import math
import random
from collections import Counter, OrderedDict, defaultdict, deque
from dataclasses import dataclass
from typing import Any, NamedTuple

import pytest
from hypothesis import given
from hypothesis import strategies as st

from lastgood import Change, Diff, Opaque
from lastgood.aligning import aligned
from lastgood.codec import Codec, Dropped, Family
from test_splitter import EXAMPLES, edited, histories, values

CODEC = Codec()


def canonical(value: object) -> object:
    """A value by its encoding, without the order of keys where equality does not know it."""
    shape = CODEC.encoder().shape(value)
    assert not isinstance(shape, Dropped)
    if shape.family is Family.MAP:
        items = [(CODEC.pack(key), canonical(item)) for key, item in shape.content]
        ordered = isinstance(value, OrderedDict)
        return shape.kind, shape.extra, items if ordered else sorted(items, key=lambda i: i[0])
    if shape.family is Family.ARRAY:
        return shape.kind, shape.extra, [canonical(element) for element in shape.content]
    return shape.kind, shape.content


def check(old: object, new: object) -> Diff:
    """The diff of two values, which must be one in every respect."""
    diff = Diff.between(old, new)
    before = CODEC.pack(old)
    assert canonical(diff.patch(old)) == canonical(new)
    assert CODEC.pack(old) == before, "patching changed the old value"
    assert bool(diff) == (canonical(old) != canonical(new))
    assert (diff.summary() == "no changes") == (not diff)
    assert len(str(diff).splitlines()) >= len(diff)
    for change in diff:
        _check_places(change, old, new)
    return diff


def _check_places(change: Change, old: Any, new: Any) -> None:
    """Paths lead to the values that a change names, wherever plain indexing follows them."""
    try:
        if change.op == "remove":
            assert canonical(_at(old, change.steps)) == canonical(change.old)
        else:
            assert canonical(_at(new, change.steps)) == canonical(change.new)
        if change.source_steps is not None:
            assert canonical(_at(old, change.source_steps)) == canonical(change.old)
    except (TypeError, AttributeError):
        return  # through a set or a record


def _at(value: Any, steps: tuple[Any, ...]) -> Any:
    for step in steps:
        value = value[step]
    return value


def applied(document: Any, operations: list[dict[str, Any]]) -> Any:
    """RFC 6902, one operation after the other."""
    document, operations = json.loads(json.dumps([{"": document}, operations]))
    for operation in operations:
        op, value = operation["op"], operation.get("value")
        if op == "move":
            value = _taken(document, operation["from"])
        if op in ("remove", "replace"):
            _taken(document, operation["path"])
        if op != "remove":
            _put(document, operation["path"], value)
    return document[""]


def _parent(document: Any, pointer: str) -> tuple[Any, Any]:
    names = [name.replace("~1", "/").replace("~0", "~") for name in pointer.split("/")]
    for name in names[:-1]:
        document = document[int(name) if isinstance(document, list) else name]
    return document, int(names[-1]) if isinstance(document, list) else names[-1]


def _taken(document: Any, pointer: str) -> Any:
    parent, name = _parent(document, pointer)
    return parent.pop(name)


def _put(document: Any, pointer: str, value: Any) -> None:
    parent, name = _parent(document, pointer)
    if isinstance(parent, list):
        assert 0 <= name <= len(parent)
        parent.insert(name, value)
    else:
        parent[name] = value


def messages(count: int) -> list[dict[str, Any]]:
    return [{"role": "user", "content": f"message {n}", "n": n} for n in range(count)]


def ops(diff: Diff) -> list[tuple[str, str]]:
    return [(change.op, change.path) for change in diff]


# what is found


def test_equal_states_have_no_diff() -> None:
    diff = check(
        {"messages": messages(50), "x": math.nan}, {"x": math.nan, "messages": messages(50)}
    )
    assert not diff
    assert len(diff) == 0
    assert diff.summary() == "no changes"
    assert diff == Diff.between(1, 1)


def test_an_inserted_message_is_one_change() -> None:
    old = messages(100)
    new = [{"role": "system", "content": "first"}, *old]
    [change] = check({"messages": old}, {"messages": new})
    assert change == Change("add", "messages[0]", ("messages", 0), None, new[0])


def test_an_edited_message_is_a_change_inside_of_it() -> None:
    old = messages(100)
    new = [*old[:40], {**old[40], "content": "other"}, *old[41:]]
    diff = check({"messages": old}, {"messages": new})
    [change] = diff
    assert change.path == "messages[40].content"
    assert (change.op, change.old, change.new) == ("replace", "message 40", "other")
    assert diff.summary() == "1 message changed"


def test_a_moved_message_is_one_move() -> None:
    old = messages(100)
    new = [*old[:10], *old[11:60], old[10], *old[60:]]
    diff = check({"messages": old}, {"messages": new})
    [change] = diff
    assert (change.op, change.source, change.path) == ("move", "messages[10]", "messages[59]")
    assert change.old == change.new == old[10]


def test_edits_beside_insertions_and_removals_keep_their_places() -> None:
    old = messages(100)
    new = copy.deepcopy(old)
    new[70]["content"] = "edited"
    del new[20]
    new.insert(5, {"role": "tool", "content": "inserted"})
    diff = check({"messages": old}, {"messages": new})
    assert ops(diff) == [
        ("add", "messages[5]"),
        ("remove", "messages[20]"),
        ("replace", "messages[70].content"),
    ]


def test_a_message_with_an_id_is_known_by_it() -> None:
    old = [{"id": n, "content": f"text {n}", "tokens": n} for n in range(3)]
    new = [old[0], {"id": 1, "content": "other", "tokens": 7, "more": True}, old[2]]
    assert {op for op, _ in ops(check(old, new))} == {"replace", "add"}
    replaced = [old[0], {"id": 9, "content": "text 1", "tokens": 1}, old[2]]
    assert ops(check(old, replaced)) == [("remove", "[1]"), ("add", "[1]")]


def test_a_summary_in_place_of_many_messages_is_no_edit() -> None:
    old = messages(150)
    new = [{"role": "system", "content": "what was said"}, *old[100:]]
    diff = check({"messages": old}, {"messages": new})
    assert diff.summary() == "1 message added, 100 messages removed"


def test_reordered_keys_are_no_change_at_any_depth() -> None:
    old = {"a": 1, "b": {"c": [{"x": 1, "y": 2}], "d": 2}}
    new = {"b": {"d": 2, "c": [{"y": 2, "x": 1}]}, "a": 1}
    assert not check(old, new)
    assert not check(Counter(a=1, b=2), Counter(b=2, a=1))
    assert check(OrderedDict(old), OrderedDict(new))


@pytest.mark.parametrize(
    ("old", "new"),
    [(1, 1.0), (1, True), (0.0, -0.0), ([1], (1,)), ("a", b"a"), (b"a", bytearray(b"a"))],
)
def test_equal_but_of_another_type_is_a_change(old: object, new: object) -> None:
    [change] = check({"x": old}, {"x": new})
    assert (change.op, change.path) == ("replace", "x")


def test_sets_change_by_member() -> None:
    diff = check({"tags": {"a", "b"}}, {"tags": {"b", "c", (1, 2)}})
    assert sorted(ops(diff)) == [("add", "tags.c"), ("add", "tags[(1, 2)]"), ("remove", "tags.a")]
    assert diff.summary() == "2 tags added, 1 tag removed"


def test_a_dict_may_get_keys_that_are_no_text() -> None:
    assert ops(check({"a": 1}, {"a": 1, 2: 3})) == [("add", "[2]")]
    assert ops(check({"a": 1, 2: 3}, {"a": 1})) == [("remove", "[2]")]


def test_keys_and_members_that_look_the_same_are_all_kept() -> None:
    twins = {float("nan"): 1, float("nan"): 2, "n": 1}
    assert len(Diff.between(twins, {**twins, "n": 2}).patch(twins)) == 3
    members = {float("nan"), float("nan"), 1}
    assert len(Diff.between(members, {*members, 2}).patch(members)) == 4


def test_a_list_that_has_nothing_in_common_is_replaced() -> None:
    assert ops(check({"v": [1, 2, 3]}, {"v": [7, 8, 9, 10]})) == [("replace", "v")]
    assert ops(check({"v": []}, {"v": [7, 8]})) == [("add", "v[0]"), ("add", "v[1]")]


@dataclass
class Task:
    name: str
    done: bool = False
    notes: Any = None


class Point(NamedTuple):
    x: int
    y: int


def test_records_change_by_field() -> None:
    old = {"tasks": [Task("a"), Task("b", notes=deque([1, 2], maxlen=5))], "at": Point(1, 2)}
    new = {"tasks": [Task("a"), Task("b", True, deque([1, 2, 3], maxlen=5))], "at": Point(1, 3)}
    diff = check(old, new)
    assert ops(diff) == [
        ("replace", "tasks[1].done"),
        ("add", "tasks[1].notes[2]"),
        ("replace", "at.y"),
    ]
    assert diff.patch(old) == new
    assert type(diff.patch(old)["tasks"][1].notes) is deque


def test_records_of_unknown_classes_are_patched_too() -> None:
    here = {"task": Task("a"), "n": 1}
    there = {"task": Task("b"), "n": 1}
    old, new = (CODEC.unpack(CODEC.pack(v).replace(b"Task", b"Gone")) for v in (here, there))
    assert isinstance(old["task"], Opaque)  # type: ignore[index]
    diff = check(old, new)
    assert ops(diff) == [("replace", "task.name")]
    assert CODEC.pack(diff.patch(old)) == CODEC.pack(new)


def test_a_default_factory_or_maxlen_is_part_of_the_value() -> None:
    assert len(check(defaultdict(list, a=[1]), defaultdict(int, a=[1]))) == 1
    assert len(check(deque([1], 3), deque([1], 4))) == 1
    assert ops(check(defaultdict(list, a=[1]), defaultdict(list, a=[1, 2]))) == [("add", "a[1]")]


def test_deep_values_are_compared() -> None:
    def nest(core: object, depth: int) -> object:
        for _ in range(depth):
            core = {"down": [core]}
        return core

    assert len(check(nest(1, 20), nest(2, 20))) == 1
    assert len(check(nest(1, 90), nest(2, 90))) == 1


def test_large_lists_of_equal_values_take_no_time() -> None:
    check([0] * 3000 + [1] + [0] * 3000, [0] * 2990 + [1, 2] + [0] * 3020)
    check(list(range(5000)), list(range(2500, 5000)) + list(range(2500)))


# patching


@pytest.mark.parametrize(
    ("state", "where"),
    [
        ({"a": 2, "m": [1, 2], "s": {1}}, "a has another value"),
        ({"m": [1, 2], "s": {1}}, "a is not there"),
        ({"a": 1, "m": [1], "s": {1}}, "m has 1 elements instead of 2"),
        ({"a": 1, "m": [5, 2], "s": {1}}, r"m\[0\] has another value"),
        ({"a": 1, "m": (1, 2), "s": {1}}, "m is of another type"),
        ({"a": 1, "m": [1, 2], "s": {2}}, "s has other members"),
        ({"a": 1, "m": [1, 2], "s": {1}, "z": 1}, "z is there already"),
        ([], "the state is of another type"),
    ],
)
def test_another_state_is_not_patched(state: object, where: str) -> None:
    diff = Diff.between({"a": 1, "m": [1, 2], "s": {1}}, {"a": 3, "m": [2], "s": {2}, "z": 0})
    with pytest.raises(ValueError, match=where):
        diff.patch(state)


def test_the_order_of_keys_does_not_hinder_patching() -> None:
    diff = Diff.between([{"a": 1, "b": 2}, 3], [3])
    assert diff.patch([{"b": 2, "a": 1}, 3]) == [3]


# reading


def test_the_summary_reads_well() -> None:
    old = {"messages": messages(5), "plan": "a", "tool_results": [1, 2, 3], "n": 1}
    new = {
        "messages": [*messages(5), {"role": "x"}, {"role": "y"}],
        "plan": "b",
        "tool_results": [1, 3],
        "n": 1,
    }
    assert check(old, new).summary() == "2 messages added, plan changed, 1 tool result removed"


@pytest.mark.parametrize(
    ("old", "new", "summary"),
    [
        ({"a": 1}, {"b": 1}, "a removed, b added"),
        ({"history": [1]}, {"history": [1, 2]}, "1 item of history added"),
        ({"entries": [1, 2]}, {"entries": [2]}, "1 entry removed"),
        ({"boxes": [1, 2]}, {"boxes": [2, 1]}, "1 box moved"),
        (
            {"agent": {"memory": {"notes": [1]}, "n": 1}},
            {"agent": {"memory": {"notes": [1, 2, 3]}, "n": 2}},
            "2 notes added, agent changed",
        ),
        ([1, 2, 3], [1, 3, 4, 5], "2 items added, 1 item removed"),
        (1, 2, "the whole state replaced"),
        ({"": 1}, {"": 2}, "'' changed"),
        ({"s": {1}}, {"s": {2}}, "1 item of s added, 1 item of s removed"),
        (
            {"a": {"items": [1]}, "b": {"items": [1]}, "c": {"x": 1, "y": 1}},
            {"a": {"items": [1, 2]}, "b": {"items": [1, 2, 3]}, "c": {"x": 2, "y": 2}},
            "3 items added, c changed",
        ),
        (
            dict.fromkeys("abcdefgh", 1),
            dict.fromkeys("abcdefgh", 2),
            "a changed, b changed, c changed, d changed, e changed, and 3 more",
        ),
    ],
)
def test_summaries(old: object, new: object, summary: str) -> None:
    assert check(old, new).summary() == summary


def test_a_diff_shows_as_lines() -> None:
    old = {"messages": ["a", "b", "c"], "plan": "x" * 500, "gone": None}
    new = {"messages": ["c", "a", "b", "d"], "plan": "y" * 500}
    lines = str(check(old, new)).splitlines()
    assert lines[0] == "> messages[0] (was messages[2])"
    assert lines[1] == "+ messages[3]: 'd'"
    assert lines[2].startswith("~ plan: 'xxxx")
    assert len(lines[2]) < 160
    assert lines[3] == "- gone: None"


# JSON Patch


def test_a_json_patch_is_applied_one_by_one() -> None:
    old = {"messages": messages(20), "a/b": {"~": 1}, "gone": 1}
    new = copy.deepcopy(old)
    new["messages"][3]["content"] = "edited"
    new["messages"].insert(0, new["messages"].pop(12))
    del new["messages"][7]
    new["messages"].append({"role": "tool"})
    new["a/b"]["~"] = 2
    del new["gone"]
    patch = check(old, new).to_json_patch()
    assert applied(old, patch) == new
    assert len(patch) == 6
    assert {"op": "replace", "path": "/a~1b/~0", "value": 2} in patch


@pytest.mark.parametrize(
    ("old", "new", "where"),
    [
        ({"a": [1]}, {"a": [{2}]}, r"a\[0\] is a set"),
        ({"a": (1,)}, {"a": (1, 2)}, "a is neither a plain list nor a plain dict"),
        ({"a": 1}, {"a": math.nan}, "a is the number nan"),
        ({"a": 1}, {"a": {"b": {1: 2}}}, r"a\.b\[1\] is under a key of type int"),
        ({"a": 1}, {"a": 1, 2: 2}, r"\[2\] is under a key of type int"),
        (Task("a"), Task("b"), "the state is neither"),
    ],
)
def test_what_is_no_json_is_named(old: object, new: object, where: str) -> None:
    with pytest.raises(TypeError, match=where):
        check(old, new).to_json_patch()


# everything


json_values = st.recursive(
    st.none()
    | st.booleans()
    | st.integers()
    | st.floats(allow_nan=False, allow_infinity=False)
    | st.text(max_size=3),
    lambda inner: st.lists(inner, max_size=6) | st.dictionaries(st.text("ab~/", max_size=2), inner),
    max_leaves=12,
)
few = st.lists(st.sampled_from([0, 1, 2, "a", None, [1], {"a": 1}, {"a": 1, "b": 2}]), max_size=12)


@given(json_values, json_values)
@EXAMPLES
def test_any_json_value_after_any_other(old: Any, new: Any) -> None:
    assert canonical(applied(old, check(old, new).to_json_patch())) == canonical(new)


@given(few, few)
@EXAMPLES
def test_lists_with_much_in_common(old: list[Any], new: list[Any]) -> None:
    assert canonical(applied(old, check(old, new).to_json_patch())) == canonical(new)


@given(histories())
@EXAMPLES
def test_any_history(versions: list[Any]) -> None:
    for old, new in itertools.pairwise(versions):
        check(old, new)
    check(versions[-1], versions[0])


@given(st.data(), st.lists(values, min_size=2, max_size=3))
@EXAMPLES
def test_any_value_after_any_other(data: st.DataObject, drawn: list[Any]) -> None:
    check(drawn[0], drawn[1])
    check(drawn[0], data.draw(edited(drawn[0])))


@given(st.lists(st.integers(0, 5), max_size=30), st.lists(st.integers(0, 5), max_size=30))
@EXAMPLES
def test_alignments_are_in_order(old: list[int], new: list[int]) -> None:
    pairs = aligned(old, new)
    assert all(old[i] == new[j] for i, j in pairs)
    assert all(a < c and b < d for (a, b), (c, d) in itertools.pairwise(pairs))
    assert bool(pairs) == bool(set(old) & set(new))


def test_a_shuffled_list_keeps_its_longest_row() -> None:
    old = list(range(200))
    new = old[:]
    random.Random(1).shuffle(new)
    diff = check(old, new)
    assert {change.op for change in diff} == {"move"}
    assert len(diff) < 190
    assert applied(old, diff.to_json_patch()) == new
