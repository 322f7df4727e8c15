"""Histories that break naive designs: every version restores exactly, and costs what changed.

Each history gives its versions and how many bytes storing all of them may take. The bounds are
on what the backend really keeps (a file, after closing) or on the thread's own count.
"""

from __future__ import annotations

import random
from collections.abc import Callable, Iterator
from itertools import pairwise
from typing import Any

import pytest

from lastgood.codec import Codec
from lastgood.testing.cases import case
from lastgood.testing.store import Store

Versions = Iterator[dict[str, Any]]
OVERHEAD = 1600
"""Bytes of row, index and page remainder per save, with the rest of a database file shared out."""


def message(number: int) -> dict[str, Any]:
    """A chat message of about 1 KiB that compresses badly."""
    noise = random.Random(number).randbytes(480).hex()
    return {"role": "user", "id": number, "content": noise}


def chat(count: int) -> list[dict[str, Any]]:
    """So many messages."""
    return [message(number) for number in range(count)]


def a_growing_list_beside_a_changing_field() -> Versions:
    """The state of most agents."""
    messages = chat(100)
    for number in range(40):
        messages.append(message(100 + number))
        yield {"messages": messages, "step": number, "note": f"at {number}"}


def two_growing_lists() -> Versions:
    """Neither may cost the other its range."""
    left, right = chat(60), chat(60)
    for number in range(40):
        (left if number % 2 else right).append(message(1000 + number))
        yield {"left": left, "right": right}


def a_sliding_window() -> Versions:
    """Front and back move at every step."""
    for number in range(40):
        yield {"window": [message(i) for i in range(number, number + 100)]}


def summarise_the_first_hundred() -> Versions:
    """A long history becomes one line and goes on."""
    messages = chat(200)
    for number in range(20):
        messages.append(message(200 + number))
        if number == 10:
            messages[:100] = [{"role": "system", "content": "summary"}]
        yield {"messages": messages}


def an_edit_in_the_middle() -> Versions:
    """One message changes, again and again, elsewhere each time."""
    messages = chat(150)
    for number in range(30):
        messages[number * 5] = message(5000 + number)
        yield {"messages": messages}


def one_key_of_ten_thousand() -> Versions:
    """A dict as a table."""
    table = {f"key {number}": number * 1.5 for number in range(10_000)}
    for number in range(20):
        table[f"key {number * 37}"] = -1.0 * number
        yield {"table": table}


def a_list_three_dicts_down() -> Versions:
    """Depth must not matter."""
    messages = chat(100)
    for number in range(30):
        messages.append(message(100 + number))
        yield {"a": {"b": {"c": messages, "n": number}, "k": 1}, "z": number}


def a_pydantic_state_with_a_growing_list() -> Versions:
    """Records are taken apart like dicts."""
    pytest.importorskip("pydantic")
    from lastgood.testing.models import Plan

    plan = Plan(name="p", steps=[str(message(n)) for n in range(100)])
    for number in range(30):
        plan.steps.append(str(message(100 + number)))
        plan.name = f"p {number}"
        yield {"plan": plan}


def one_character_of_a_long_text() -> Versions:
    """20 MB with one character changed."""
    text = random.Random(1).randbytes(10_000_000).hex()
    for number in range(3):
        at = 7_000_000 * number + 5
        text = f"{text[:at]}X{text[at + 1 :]}"
        yield {"text": text}


def one_float_of_a_million() -> Versions:
    """An embedding, or a table of numbers, as a list."""
    numbers = [float(number) for number in range(1_000_000)]
    for number in range(3):
        numbers[number * 300_000 + 17] = 0.5
        yield {"numbers": numbers}


def lists_that_shrink_and_swap() -> Versions:
    """Truncate, reverse halves, empty, and the old one again."""
    messages = chat(100)
    yield from (
        {"m": part}
        for part in (messages, messages[:50], messages[50:] + messages[:50], [], messages[10:])
    )


def a_value_that_changes_its_kind() -> Versions:
    """A list becomes a dict, a text, nothing and a list again."""
    messages = chat(50)
    yield {"v": messages}
    yield {"v": {str(n): m for n, m in enumerate(messages)}}
    yield {"v": str(messages)}
    yield {"v": None}
    yield {"v": tuple(messages)}
    yield {"v": messages}


def large_elements_in_a_list() -> Versions:
    """Documents of 200 KB, each edited a little."""
    documents = [random.Random(n).randbytes(100_000).hex() for n in range(4)]
    for number in range(8):
        text = documents[number % 4]
        documents[number % 4] = f"{text[:500]}{number}{text[500:]}"
        yield {"documents": documents, "nested": [{"text": documents[0]}]}


KIB, MIB = 1024, 1 << 20
HISTORIES: dict[str, tuple[Callable[[], Versions], int]] = {
    "a growing list beside a changing field": (
        a_growing_list_beside_a_changing_field,
        140 * KIB + 40 * (KIB + OVERHEAD),
    ),
    "two growing lists": (two_growing_lists, 130 * KIB + 40 * (KIB + OVERHEAD)),
    "a sliding window": (a_sliding_window, 110 * KIB + 40 * (3 * KIB + OVERHEAD)),
    "summarise the first hundred": (summarise_the_first_hundred, 240 * KIB + 20 * OVERHEAD),
    "an edit in the middle": (an_edit_in_the_middle, 160 * KIB + 30 * (4 * KIB + OVERHEAD)),
    "one key of ten thousand": (one_key_of_ten_thousand, 260 * KIB + 20 * (3 * KIB + OVERHEAD)),
    "a list three dicts down": (a_list_three_dicts_down, 140 * KIB + 30 * OVERHEAD),
    "a pydantic state": (a_pydantic_state_with_a_growing_list, 150 * KIB + 30 * OVERHEAD),
    # each version may reuse its predecessor only: 100, 0, 50 and 90 messages are new
    "lists that shrink and swap": (lists_that_shrink_and_swap, 260 * KIB),
    "a value that changes its kind": (a_value_that_changes_its_kind, 380 * KIB),
    "large elements in a list": (large_elements_in_a_list, 4 * MIB),
}
HEAVY: dict[str, tuple[Callable[[], Versions], int]] = {
    "one character of 20 MB": (one_character_of_a_long_text, 21 * MIB),
    "one float of a million": (one_float_of_a_million, 12 * MIB),
}


@case("S33", each=HISTORIES)
async def a_history(store: Store, row: tuple[Callable[[], Versions], int]) -> None:
    """Every version restores exactly, and all of them together cost what changed."""
    await play(store, *row)


@case("S33", slow=True, each=HEAVY)
async def a_heavy_history(store: Store, row: tuple[Callable[[], Versions], int]) -> None:
    """The same with states of many megabytes."""
    await play(store, *row)


async def play(store: Store, history: Callable[[], Versions], bound: int) -> None:
    """Save every version, read each in a fresh client, compare, weigh."""
    await store.client().save("a", execution_state={}, session_id="first")
    empty = await store.footprint()
    codec, client = Codec(), store.client()
    packed: dict[str, bytes] = {}
    for number, state in enumerate(history()):
        if number % 7 == 6:
            client = store.client()  # a process that saw nothing goes on
        saved = await client.save("a", execution_state=state, session_id="s")
        packed[saved] = codec.pack(state)
    fresh = store.client(cache_bytes=0)
    for saved, expected in packed.items():
        found = await fresh.restore(saved)
        assert codec.pack(found.state) == expected
    assert found.verify_integrity()
    assert await store.footprint() - empty <= bound


@case("S33", slow=True)
async def storage_is_linear(store: Store) -> None:
    """Twice the turns, about twice the bytes; at most three times the unique data."""
    client, messages, sizes = store.client(), [], []
    for number in range(500):
        messages.append(message(number))
        for part in ("input", "loop", "output"):
            state = {"messages": messages, "part": part}
            await client.save("a", execution_state=state, session_id="s")
        if number in (249, 499):
            sizes.append((await client.threads())[0].size)
    short, long = sizes
    unique = sum(len(Codec().pack(each)) for each in messages)
    assert long / short < 2.3
    assert long <= 3 * unique
    assert await store.footprint() <= 3 * unique


@case("S34", slow=True)
async def a_repeated_image(store: Store) -> None:
    """5 MB in the state for 50 steps are stored once, wherever they turn up in the thread."""
    image = random.Random(0).randbytes(5_000_000)
    client = store.client()
    messages: list[dict[str, Any]] = [{"role": "user", "image": image}]
    for number in range(50):
        if number == 25:
            messages.append({"role": "user", "again": True, "image": bytes(image)})
        messages.append({"role": "assistant", "content": f"step {number}"})
        saved = await client.save("a", execution_state={"m": messages}, session_id="s")
    elsewhere = {"found": {"image": image, "at": 1}}
    other = await store.client().save("b", execution_state=elsewhere, session_id="s")
    fresh = store.client()
    assert (await fresh.restore(saved)).state == {"m": messages}
    assert (await fresh.restore(other)).state == elsewhere
    assert await store.footprint() < 6_000_000


@case("S33")
async def a_save_costs_what_changed(store: Store) -> None:
    """Promise 6 in one number: a kilobyte more costs about a kilobyte, whatever there was."""
    client = store.client()
    messages = chat(1000)
    sizes = []
    for number in range(4):
        await client.save("a", execution_state={"m": messages}, session_id="s")
        sizes.append((await client.threads())[0].size)
        messages.append(message(1000 + number))
    assert all(1000 < after - before < 2500 for before, after in pairwise(sizes))
