"""`stats`: what the store and its threads take, as states see it and as it is stored."""

from __future__ import annotations

from typing import Any

import pytest

from lastgood import CheckpointIntegrityError, CheckpointNotFoundError, Size
from lastgood.testing.cases import case
from lastgood.testing.operations import LARGE, save
from lastgood.testing.store import Store, headers

IMAGE = bytes(range(256)) * 400


@case("S33")
async def a_growing_list_is_stored_once(store: Store) -> None:
    """Logical bytes are those of all states, physical ones what was appended."""
    client = store.client()
    async with client.run("s", agent_id="a", initial={"messages": []}) as run:
        for number in range(50):
            await run.append("messages", f"message {number} " * 20)
    found = await client.stats()
    assert (found.threads, found.checkpoints) == (1, 51)
    assert found.logical == sum(header.size for header in await headers(client, "s"))
    assert found.ratio == found.logical / found.physical > 5
    assert [size.name for size in found.by_thread] == ["s"]
    assert (found.by_thread[0].logical, found.by_thread[0].physical) == (
        found.logical,
        found.physical,
    )
    assert "51 checkpoints" in str(found)


@case()
async def the_largest_threads_come_first(store: Store) -> None:
    """And no more than a few of many; nothing of deleted ones."""
    client = store.client()
    for number in range(70):
        await save(client, f"small-{number}", {"n": number})
    await save(client, "large", LARGE)
    await save(client, "deleted", LARGE)
    await client.delete("deleted")
    found = await client.stats()
    assert (found.threads, found.checkpoints) == (71, 71)
    assert found.by_thread[0].name == "large"
    assert len(found.by_thread) == 20
    assert found.by_path == ()
    assert found.physical > found.by_thread[0].physical


def _by_name(sizes: tuple[Size, ...]) -> dict[str, Size]:
    return {size.name: size for size in sizes}


@case()
async def sizes_by_key_path(store: Store) -> None:
    """Top-level keys and two levels below; a list is one entry, an image is stored once."""
    client = store.client()
    state: dict[Any, Any] = {
        "messages": [f"message {i} " * 20 for i in range(100)],
        "plan": {"goal": {"text": {"deep": "g" * 5000}}, "steps": ["s" * 100] * 100, "n": 1},
        "image": IMAGE,
        "again": IMAGE,
        "odd key": "o" * 100,
        7: "seven",
    }
    for number in range(4):
        state["plan"]["n"] = number
        await save(client, "s", state)
    found = await client.stats("s")
    assert (found.threads, found.checkpoints, found.by_thread) == (1, 4, ())
    assert found.logical == sum(header.size for header in await headers(client, "s"))
    sizes = _by_name(found.by_path)
    messages, plan = sizes["messages"], sizes["plan"]
    assert messages.checkpoints == 4
    assert messages.logical == 4 * messages.physical
    assert sizes["image"].physical == len(IMAGE)
    assert sizes["again"].physical == len(IMAGE)
    assert found.physical < 2 * len(IMAGE)
    assert plan.logical > sizes["plan.steps"].logical > 4 * 100 * 100
    assert sizes["plan.goal.text"].logical > 4 * 5000
    assert sizes["plan.n"] == Size("plan.n", 4, 4, 4)
    assert sizes['["odd key"]'].physical == 4 * 102
    assert "[7]" in sizes
    assert not any("deep" in name for name in sizes)
    assert found.by_path[0].physical == max(size.physical for size in found.by_path)


@case()
async def sizes_of_small_states_and_of_wide_ones(store: Store) -> None:
    """A state in one piece is told apart by its keys; a manifest that is stored as pages counts."""
    client = store.client()
    await save(client, "small", {"a": {"b": "x" * 10}, "c": [1, 2, 3]})
    sizes = _by_name((await client.stats("small")).by_path)
    assert set(sizes) == {"a", "a.b", "c"}
    assert sizes["a.b"] == Size("a.b", 1, 11, 11)
    wide = {f"key{n}_{'k' * 60}": [f"value {n} " * 20] * 30 for n in range(60)}
    for _ in range(3):
        await save(client, "wide", wide)
    found = await client.stats("wide")
    assert {size.name for size in found.by_path} == set(wide)
    assert all(size.logical == 3 * size.physical for size in found.by_path)


@case()
async def stats_of_no_thread_and_of_an_empty_store(store: Store) -> None:
    """Zeros, and the usual error."""
    client = store.client()
    found = await client.stats()
    assert (found.threads, found.checkpoints, found.logical, found.physical) == (0, 0, 0, 0)
    assert found.ratio == 1.0
    await save(client, "deleted", {})
    await client.delete("deleted")
    for thread in ("nobody", "deleted"):
        with pytest.raises(CheckpointNotFoundError, match=thread):
            await client.stats(thread)


@case("S20")
async def stats_beside_damage(store: Store) -> None:
    """A damaged row is left out of sums; a damaged thread, asked for by name, is an error."""
    client = store.client()
    for thread in ("hurt", "whole"):
        await save(client, thread, LARGE)
        await save(client, thread, {"n": 1})
    await store.close()
    store.harness.edit_row("checkpoint", "hurt", "root", b"\x00" * 32)
    found = await store.client().stats("hurt")
    assert [size.name for size in found.by_path] == ["messages"]
    await store.close()
    store.harness.edit_row("thread", "hurt", "title", "forged")
    client = store.client()
    assert [size.name for size in (await client.stats()).by_thread] == ["whole"]
    with pytest.raises(CheckpointIntegrityError):
        await client.stats("hurt")


@case("S66")
async def stats_measure_one_tenant(store: Store) -> None:
    """Nothing of another's is counted, not even by the size of the file."""
    alone = store.client(tenant="one")
    await save(alone, "s", {"n": 1})
    before = await alone.stats()
    assert before.file_bytes is None or before.file_bytes > 0
    await save(store.client(tenant="two"), "s", LARGE)
    after = await alone.stats()
    assert (after.threads, after.logical, after.physical) == (1, before.logical, before.physical)
    assert after.file_bytes is None
    assert (await alone.stats("s")).by_path[0].name == "n"
