"""Comparing stored trees: the same answer as comparing values, for the price of what differs."""

from __future__ import annotations

import copy
import itertools
from collections import OrderedDict
from itertools import pairwise
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from dict_store import CODEC, Shop, made
from lastgood import Diff, manifest, tree
from lastgood.comparing import Shelf, StoredValue
from lastgood.diffing import compare
from lastgood.manifest import Slot, Spot, Stored
from lastgood.sharing import Layout, Share, Span, Sum, shared, solved
from test_diff import canonical
from test_splitter import EXAMPLES, edited, histories, values

Row = tuple[bytes, tuple[Slot, ...], Stored]


class Library(Shop):
    """A store that counts what is read from it."""

    def __init__(self) -> None:
        super().__init__()
        self.read: list[Spot] = []

    def rows(self, versions: list[Any], *, forget: int = 3) -> list[Row]:
        base: Stored | None = None
        rows: list[Row] = []
        for number, value in enumerate(versions):
            data, slots, stored, _ = self.save(made(value, base.tree if base else None), base)
            rows.append((data, slots, stored))
            base = self.load(data, slots) if number % forget == forget - 1 else stored
        return rows

    def part(self, row: Row, shelf: Shelf, *, remembered: bool = False) -> StoredValue:
        data, slots, stored = row
        node = stored.tree if remembered else manifest.read(data)[0]
        if not remembered and manifest.read(data)[1]:
            node = manifest.read_skeleton(self._filled(node, slots, None))
        return StoredValue(node, shelf)

    def diff(self, old: Row, new: Row, **how: bool) -> Diff:
        shelves = [Shelf(old[1]), Shelf(new[1])]
        while True:
            edit = compare(self.part(old, shelves[0], **how), self.part(new, shelves[1], **how))
            if not any(shelf.wanted for shelf in shelves):
                return Diff.of(CODEC, edit)
            for shelf in shelves:
                for span in shelf.wanted:
                    self._fetch(span, shelf)
                shelf.wanted.clear()

    def _fetch(self, span: Span, shelf: Shelf) -> None:
        spots = [Spot(span.stream, span.first + n) for n in range(span.length)]
        self.read += spots
        shelf.put(span, [self.pages[spot] for spot in spots])


def check(library: Library, old: Row, new: Row, values: tuple[Any, Any]) -> Diff:
    diff = library.diff(old, new)
    assert canonical(diff.patch(values[0])) == canonical(values[1])
    assert bool(diff) == (canonical(values[0]) != canonical(values[1]))
    library.read.clear()
    held = library.diff(old, new, remembered=True)
    assert held == diff
    assert library.read == [], "a remembered tree needs no reading"
    return diff


@pytest.mark.slow
@given(histories(), st.integers(1, 4))
@EXAMPLES
def test_any_two_of_a_history(versions: list[Any], forget: int) -> None:
    library = Library()
    rows = library.rows(versions, forget=forget)
    for a, b in itertools.permutations(range(len(versions)), 2):
        check(library, rows[a], rows[b], (versions[a], versions[b]))


@given(st.data(), values)
@EXAMPLES
def test_any_edits_of_one_value(data: st.DataObject, value: Any) -> None:
    versions = [value]
    for _ in range(data.draw(st.integers(1, 4))):
        versions.append(data.draw(edited(versions[-1])))
    library = Library()
    rows = library.rows(versions)
    check(library, rows[0], rows[-1], (versions[0], versions[-1]))


@given(st.lists(values, min_size=2, max_size=2))
@EXAMPLES
def test_values_that_share_nothing(pair: list[Any]) -> None:
    library = Library()
    [old], [new] = library.rows(pair[:1]), library.rows(pair[1:])
    check(library, old, new, (pair[0], pair[1]))


def messages(count: int) -> list[dict[str, Any]]:
    return [{"id": n, "role": "user", "content": f"message {n} " * 20} for n in range(count)]


EDITS: dict[str, Any] = {
    "append": lambda m: m.append({"id": -1}),
    "edit": lambda m: m[500].update(content="other"),
    "insert": lambda m: m.insert(0, {"id": -1}),
    "remove": lambda m: m.pop(300),
    "move": lambda m: m.insert(10, m.pop(700)),
    "trim": lambda m: m.__delitem__(slice(0, 3)),
    "three": lambda m: (m[900].update(content="x"), m.pop(500), m.insert(100, {"id": -1})),
}


@pytest.mark.parametrize("edit", EDITS.values(), ids=EDITS)
@pytest.mark.parametrize("detour", [False, True])
def test_shared_pages_are_not_read(edit: Any, detour: bool) -> None:
    """Also with versions in between, of which the stored ranges are patchwork."""
    old = {"messages": messages(1000), "n": 1}
    new = copy.deepcopy(old)
    edit(new["messages"])
    between = copy.deepcopy(old)
    between["messages"][200]["content"] = between["messages"][800]["content"] = "for a while"
    library = Library()
    rows = library.rows([old, between, new] if detour else [old, new], forget=2)
    diff = library.diff(rows[0], rows[-1])
    assert diff == Diff.between(old, new)
    assert len(library.read) <= 16
    back = library.diff(rows[-1], rows[0])
    assert canonical(back.patch(new)) == canonical(old)


def test_a_huge_element_is_gone_into() -> None:
    big = [{"id": n, "log": messages(400)} for n in range(5)]
    old = {"runs": big}
    new = copy.deepcopy(old)
    new["runs"][3]["log"][200]["content"] = "changed"
    library = Library()
    rows = library.rows([old, new])
    diff = library.diff(rows[0], rows[1])
    assert [change.path for change in diff] == ["runs[3].log[200].content"]
    assert len(library.read) <= 12


def test_huge_elements_are_told_apart_by_their_ids() -> None:
    old = {"runs": [{"id": n, "log": messages(300)} for n in range(4)]}
    new = {"runs": [{"id": 9, "log": messages(301)}, *old["runs"][1:]]}
    library = Library()
    rows = library.rows([old, new])
    ops = [(change.op, change.path) for change in library.diff(rows[0], rows[1])]
    assert ops == [("remove", "runs[0]"), ("add", "runs[0]")]


def test_a_large_dict_is_compared_by_key() -> None:
    old = {f"file {n}": f"text {n} " * 20 for n in range(1000)}
    new = {**old, "file 500": "other", "more": 1}
    del new["file 20"]
    library = Library()
    rows = library.rows([old, new])
    diff = library.diff(rows[0], rows[1])
    assert {(c.op, c.steps) for c in diff} == {
        ("remove", ("file 20",)),
        ("replace", ("file 500",)),
        ("add", ("more",)),
    }
    assert len(library.read) <= 10


def test_the_order_of_a_large_dict_counts_where_it_counts() -> None:
    old = OrderedDict((f"file {n}", f"text {n} " * 200) for n in range(300))
    turned = old.copy()
    turned.move_to_end("file 5")
    library = Library()
    rows = library.rows([old, turned])
    assert library.diff(rows[0], rows[1]).patch(old) == turned
    rows = library.rows([dict(old), dict(turned)])
    assert not library.diff(rows[0], rows[1])


def test_keys_that_look_the_same_are_all_kept() -> None:
    old: dict[Any, Any] = {float("nan"): 0, **{n: f"text {n} " * 20 for n in range(300)}}
    old[float("nan")] = 1
    library = Library()
    rows = library.rows([old, {**old, 150: "other"}])
    assert len(library.diff(rows[0], rows[1]).patch(old)) == len(old) == 302


def test_ranges_without_counts_are_read_and_counted() -> None:
    """As in a store that was written before ranges knew their counts."""
    old = {"messages": messages(1000)}
    new = copy.deepcopy(old)
    EDITS["three"](new["messages"])
    library = Library()
    rows = [(*row[:2], _uncounted(row[2])) for row in library.rows([old, new])]
    shelves = Shelf(rows[0][1]), Shelf(rows[1][1])
    parts = [StoredValue(row[2].tree, shelf) for row, shelf in zip(rows, shelves, strict=True)]
    assert Diff.of(CODEC, compare(parts[0], parts[1])) == Diff.between(old, new)


def test_a_count_that_is_not_known_is_not_made_up() -> None:
    old = {"messages": messages(100)}
    new = {"messages": [*messages(100), {"id": -1}, {"id": -2}]}
    library = Library()
    [row] = library.rows([old])
    base = _uncounted(row[2])
    _, _, stored, _ = library.save(made(new, base.tree), base)
    assert isinstance(stored.tree, tree.Fields)
    [sequence] = stored.tree.children.values()
    assert isinstance(sequence, tree.Sequence)
    assert [place.elements for place in sequence.places if isinstance(place, tree.Extent)] == [0]


def _uncounted(stored: Stored) -> Stored:
    assert isinstance(stored.tree, tree.Fields)
    children = {
        key: tree.moved(child, places=tuple(place._replace(elements=0) for place in child.places))
        for key, child in stored.tree.children.items()
        if isinstance(child, tree.Sequence)
    }
    return stored._replace(tree=tree.moved(stored.tree, children=children))


# pages by place


def test_the_heaviest_row_of_shares_wins() -> None:
    old = Layout([Span(1, 1, 10), Span(2, 1, 3), Span(1, 20, 5)])
    moved = Layout([Span(1, 20, 5), Span(1, 1, 4), Span(3, 1, 2), Span(1, 6, 5), Span(2, 2, 9)])
    assert shared(old, moved) == [Share(0, 5, 4), Share(5, 11, 5), Share(11, 16, 2)]
    assert shared(old, Layout([Span(4, 1, 3)])) == []


spans = st.lists(
    st.builds(Span, st.integers(1, 2), st.integers(1, 12), st.integers(1, 6)), max_size=8
)


@given(spans, spans)
@EXAMPLES
def test_shares_are_at_the_same_spots_and_in_order(old: list[Span], new: list[Span]) -> None:
    here, there = _pages(old), _pages(new)
    found = shared(Layout(old), Layout(new))
    for share in found:
        assert here[share.old :][: share.length] == there[share.new :][: share.length]
    for a, b in pairwise(found):
        assert a.old + a.length <= b.old
        assert a.new + a.length <= b.new


apart = st.permutations([Span(1, first, 4) for first in range(1, 40, 5)])
cut_up = st.permutations([Span(1, first, 6) for first in range(1, 45, 7)])


@given(apart, cut_up)
@EXAMPLES
def test_no_row_of_shares_is_heavier(old: list[Span], new: list[Span]) -> None:
    here, there = _pages(old), _pages(new)
    longest = [[0] * (len(there) + 1) for _ in range(len(here) + 1)]
    for i, j in itertools.product(range(len(here)), range(len(there))):
        both = longest[i][j] + 1 if here[i] == there[j] else 0
        longest[i + 1][j + 1] = max(both, longest[i][j + 1], longest[i + 1][j])
    assert sum(share.length for share in shared(Layout(old), Layout(new))) == longest[-1][-1]


def _pages(spans: list[Span]) -> list[Spot]:
    return [Spot(span.stream, span.first + n) for span in spans for n in range(span.length)]


def test_sums_are_solved_as_far_as_they_go() -> None:
    sums = [Sum(10, range(2)), Sum(9, range(1, 4)), Sum(4, range(1, 2))]
    assert solved(sums, 4) == [6, 4, None, None]
