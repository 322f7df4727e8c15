"""Lists in memory: one costs what it lists, and is right whatever happened before."""

from __future__ import annotations

import random
import sys
from collections.abc import Callable
from types import FrameType
from typing import Any

import pytest

from lastgood import BlockingClient
from lastgood.backend import ItemListing, Listing
from lastgood.backends.memory import MemoryBackend
from lastgood.backends.tables import COUNTED
from lastgood.driver import run_blocking
from lastgood.item_rules import ChangeItems, ItemDraft

Trace = Callable[[FrameType, str, Any], Any]


class Items:
    """The items of one thread in a store of its own."""

    def __init__(self) -> None:
        self.backend = MemoryBackend()
        self.client = BlockingClient.on(self.backend)

    def change(self, *keys: bytes, shelf: str = "shelf", drops: tuple[bytes, ...] = ()) -> None:
        puts = tuple([ItemDraft(shelf, key, b"value") for key in keys])
        gone = tuple([(shelf, key) for key in drops])
        run_blocking(self.backend.commit(ChangeItems("default", "s", puts=puts, drops=gone)))

    def keys(self, shelf: str = "shelf", **options: Any) -> list[bytes]:
        listing = ItemListing("s", shelf, **{"limit": 10_000, **options})
        (rows,) = run_blocking(self.backend.items("default", [listing]))
        return [row.key for row in rows]


def number(value: int) -> bytes:
    return b"%06d" % value


def instructions(work: Callable[[], object]) -> int:
    """How many instructions of Python a piece of work takes in this thread."""
    count = 0

    def trace(frame: FrameType, event: str, _: object) -> Trace:
        nonlocal count
        frame.f_trace_opcodes = True
        count += event == "opcode"
        return trace

    sys.settrace(trace)
    try:
        work()
    finally:
        sys.settrace(None)
    return count


LISTINGS: dict[str, dict[str, Any]] = {
    "one by its key": {"prefix": number(50), "limit": 1},
    "a page behind a key": {"after": number(50), "limit": 5},
    "the last ones": {"reverse": True, "limit": 5},
    "the last ones below a key": {"before": number(50), "reverse": True, "limit": 5},
    "none": {"prefix": b"x"},
    "those of a shelf with few": {"shelf": "few"},
}


@pytest.mark.parametrize("options", LISTINGS.values(), ids=LISTINGS.keys())
def test_a_listing_costs_what_it_lists_however_many_items_there_are(
    options: dict[str, Any],
) -> None:
    items = Items()
    items.change(b"one", b"two", shelf="few")
    items.change(*map(number, range(100)))
    listed = items.keys(**options)
    few = instructions(lambda: items.keys(**options))
    items.change(*map(number, range(100, 2_000)))
    many = instructions(lambda: items.keys(**options))
    assert len(items.keys(**options)) == len(listed)
    assert many <= few * 1.1


def test_one_more_item_costs_the_same_however_many_there_are() -> None:
    items = Items()
    items.change(*map(number, range(0, 200, 2)))
    few = instructions(lambda: items.change(number(101)))
    items.change(*map(number, range(200, 4_000, 2)))
    assert instructions(lambda: items.change(number(103))) <= few * 1.1
    assert instructions(lambda: items.change(drops=(number(101),))) <= few * 1.1


PAGES = {
    "far below the newest": {"before": COUNTED // 2},
    "of what came since": {"before": COUNTED // 2, "above": COUNTED // 2 - 10},
}


@pytest.mark.parametrize("bounds", PAGES.values(), ids=PAGES.keys())
def test_a_page_of_a_history_costs_the_same_however_long_that_is(bounds: dict[str, int]) -> None:
    items = Items()

    def grow() -> None:
        for count in range(COUNTED + 10):
            items.client.save("a", session_id="s", execution_state={"n": count})

    def page() -> list[int]:
        listing = Listing("s", limit=5, **bounds)
        return [found.row.seq for found in run_blocking(items.backend.history("default", listing))]

    grow()
    newest = COUNTED // 2 - 1
    assert page() == [newest - number for number in range(5)]
    few = instructions(page)
    grow()
    assert instructions(page) <= few * 1.1


def test_listings_are_right_after_any_changes() -> None:
    chance, items = random.Random(1), Items()
    expected: dict[str, set[bytes]] = {"shelf": set(), "other": set()}
    for _ in range(300):
        shelf = chance.choice(list(expected))
        puts = {bytes(chance.choices(b"\x00a\xff", k=3)) for _ in range(chance.randrange(4))}
        drops = {bytes(chance.choices(b"\x00a\xff", k=3)) for _ in range(3)} - puts
        items.change(*puts, shelf=shelf, drops=tuple(drops))
        expected[shelf] = expected[shelf] - drops | puts
        if chance.random() < 0.02:
            items.client.delete("s")
            expected = {"shelf": set(), "other": set()}
        low, high = sorted(bytes(chance.choices(b"\x00a\xff", k=2)) for _ in range(2))
        for name, keys in expected.items():
            assert items.keys(name) == sorted(keys)
            between = sorted(key for key in keys if low < key < high)
            assert items.keys(name, after=low, before=high) == between
            assert items.keys(name, after=low, before=high, reverse=True) == between[::-1]
            assert items.keys(name, prefix=low) == sorted(k for k in keys if k.startswith(low))


class Stop(BaseException):
    """An interrupt."""


def stopped_at(line: int, work: Callable[[], object]) -> bool:
    """Whether some work was stopped before its line of that number."""
    count = 0

    def trace(frame: FrameType, event: str, _: object) -> Trace | None:
        nonlocal count
        if not frame.f_code.co_filename.endswith(("memory/writes.py", "memory/shelves.py")):
            return None
        count += event == "line"
        if count > line:
            sys.settrace(None)
            raise Stop
        return trace

    sys.settrace(trace)
    try:
        work()
    except Stop:
        return True
    finally:
        sys.settrace(None)
    return False


def test_a_change_that_is_interrupted_anywhere_leaves_the_listing_as_it_was() -> None:
    items = Items()
    items.change(b"a", b"b", b"d")
    line = 0
    while stopped_at(line, lambda: items.change(b"c", b"d", b"e", drops=(b"a", b"b"))):
        assert items.keys() == [b"a", b"b", b"d"]
        assert items.keys(prefix=b"c") == []
        line += 1
    assert line > 10
    assert items.keys() == [b"c", b"d", b"e"]
