"""Appending in a run: commits exactly base + items, at the price of the items."""

from __future__ import annotations

import asyncio
from collections import defaultdict, deque
from dataclasses import dataclass, field
from typing import Any

import pytest

from lastgood import SerializationError
from lastgood.testing.cases import case
from lastgood.testing.operations import LARGE
from lastgood.testing.store import Store, headers, thread_info


@case()
async def appending(store: Store) -> None:
    """Appends to run.state too, commits exactly base + items, costs what is appended."""
    client = store.client()
    async with client.run("s", initial={"m": [], "deep": {"x": [{"y": []}]}}) as run:
        for number in range(300):
            await run.append("m", f"message {number} " * 20)
        await run.append("m", 1, 2, step_name="two")
        await run.append("deep.x[0].y", "z" * 100_000)
        run.state["m"].append("not saved")
        last = await run.append("m", "last")
        assert run.state["m"][-2:] == ["not saved", "last"]
    found = await store.client().restore(last)
    expected = [f"message {number} " * 20 for number in range(300)]
    assert found.state == {"m": [*expected, 1, 2, "last"], "deep": {"x": [{"y": ["z" * 100_000]}]}}
    assert found.verify_integrity()
    info = await thread_info(client, "s")
    assert info is not None
    unique = sum(map(len, expected)) + 100_000
    assert info.size < 3 * unique


@case()
async def appending_cold(store: Store) -> None:
    """A client that remembers nothing appends just as well."""
    async with store.client().run("s", initial=LARGE) as run:
        await run.append("messages", "a")
    before = await thread_info(store.client(), "s")
    async with store.client(cache_bytes=0).run("s") as run:
        saved = await run.append("messages", "b", ("c",))
    found = await store.client().restore(saved)
    assert found.state == {"messages": [*LARGE["messages"], "a", "b", ("c",)]}
    after = await thread_info(store.client(), "s")
    assert before is not None
    assert after is not None
    assert after.size - before.size < 2000


BAD_APPENDS: dict[str, tuple[str, type[Exception]]] = {
    "missing": ("nothing", KeyError),
    "missing below": ("m[9].x", KeyError),
    "not a list": ("n", TypeError),
    "a dict": ("d", TypeError),
    "text": ("t", TypeError),
    "not a path": ("m..x", ValueError),
}


@case(each=BAD_APPENDS)
async def appending_where_no_list_is(store: Store, row: tuple[str, type[Exception]]) -> None:
    """TypeError for what is not a list, KeyError for what is not there; nothing is written."""
    path, expected = row
    client = store.client()
    state: dict[str, Any] = {"m": [], "n": 1, "d": {}, "t": "x" * 5000}
    async with client.run("s", initial=state) as run:
        with pytest.raises(expected):
            await run.append(path, 1)
        with pytest.raises(SerializationError):
            await run.append("m", len)
        assert run.state == state
        await run.append("m", 1)
    assert len(await headers(client, "s")) == 2
    async with client.run("empty") as run:
        with pytest.raises(KeyError):
            await run.append("m", 1)


@case(each={"small": 10, "large": 5000})
async def appending_where_a_defaultdict_has_nothing(store: Store, size: int) -> None:
    """It is not asked to make a list: nothing is stored there, now or with the next save."""
    client = store.client()
    known = defaultdict[str, list[str]](list, old=["x" * size])
    async with client.run("s", initial={"d": known}) as run:
        with pytest.raises(KeyError):
            await run.append("d.new", "y")
        saved = await run.save()
        await run.append("d.old", "y")
        assert run.state["d"] == {"old": ["x" * size, "y"]}
    assert (await client.restore(saved)).state == {"d": {"old": ["x" * size]}}


async def _again_if_cancelled(run: Any, path: str, item: object, edit: object = None) -> None:
    task = asyncio.ensure_future(run.append(path, item))
    await asyncio.sleep(0)
    task.cancel()
    await asyncio.wait([task])
    if edit is not None:
        run.state[path].append(edit)
    if task.cancelled():
        await run.append(path, item)


@case("S27")
async def editing_the_list_of_an_append(store: Store) -> None:
    """What the caller puts into the list meanwhile neither hides the items nor doubles them."""
    client = store.client()
    async with client.run("s", initial={"log": [], "last": deque([1, 2, 3], maxlen=3)}) as run:
        under_way = asyncio.ensure_future(run.append("log", "a"))
        await asyncio.sleep(0)
        run.state["log"].append("meanwhile")
        await under_way
        await run.save()
        assert sorted(run.state["log"]) == ["a", "meanwhile"]
        await _again_if_cancelled(run, "log", "b", edit="a note of it")
        await run.save()
        assert sorted(run.state["log"]) == ["a", "a note of it", "b", "meanwhile"]
        await _again_if_cancelled(run, "last", 4)
        await run.save()
        found = await store.client().restore("s@")
        assert found.state == run.state
        assert found.state["last"] == deque([2, 3, 4], maxlen=3)


@dataclass
class Ring:
    """An object whose fields are named like the methods of a mapping."""

    keys: list[int] = field(default_factory=list)
    items: list[int] = field(default_factory=list)


@case()
async def appending_inside_of_an_object(store: Store) -> None:
    """Whatever its fields are called."""
    client = store.client()
    async with client.run("s", initial={"ring": Ring()}) as run:
        await run.append("ring.items", 1)
        await run.append("ring.keys", 2)
    assert (await client.restore("s@")).state == {"ring": Ring([2], [1])}


@case()
async def what_cannot_be_appended_is_told_by_its_place(store: Store) -> None:
    """By the number that it would have in the list."""
    client, lenient = store.client(), store.client(on_unserializable="drop")
    async with client.run("s", initial={"l": [1, 2, 3]}) as run:
        with pytest.raises(SerializationError) as caught:
            await run.append("l", 4, {"k": len})
        assert caught.value.path == "state.l[4].k"
    async with lenient.run("s") as run:
        await run.append("l", 4, {"k": len})
    assert [loss.path for loss in (await client.resolve("s@")).losses] == ["state.l[4].k"]
