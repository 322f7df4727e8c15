"""`sweep`: what nobody can read any more goes, and nothing else is touched by it."""

from __future__ import annotations

from collections.abc import AsyncIterator
from dataclasses import replace
from datetime import timedelta
from typing import Any

import pytest

from lastgood import (
    CheckpointNotFoundError,
    StaleWriterError,
    Swept,
    ThreadDeletedError,
    operations,
)
from lastgood import thread_sweep as sweeps
from lastgood.client import Client
from lastgood.commits import Found, Scope
from lastgood.model import Gap, Header
from lastgood.scanning import advance
from lastgood.testing.cases import case
from lastgood.testing.items_cases import item, put
from lastgood.testing.operations import LARGE, save
from lastgood.testing.store import (
    Store,
    core_of,
    driven,
    everything,
    head_state,
    headers,
    line,
    thread_info,
)

DAY = 86_400
IMAGE = bytes(range(256)) * 400


def messages(first: int, count: int = 60) -> dict[str, Any]:
    """A state that shares nothing with that of another `first`."""
    return {"messages": [f"message {first}-{number} " * 20 for number in range(count)]}


async def _stored(client: Client, thread: str) -> int:
    return (await client.stats(thread)).physical


async def _swept_now(client: Client, thread: str) -> None:
    async for _ in sweeps.ThreadSweep(core_of(client), thread, sweeps.Rules()).steps():
        pass


async def _next(steps: AsyncIterator[int]) -> int:
    return await anext(steps)


async def _whole(store: Store) -> None:
    report = await store.client().verify(data=True)
    assert report.clean, str(report)


@case()
async def what_is_over_its_time_goes(store: Store) -> None:
    """After the grace, and not before; readers see no difference, the space is free."""
    client = store.client()
    for number in range(6):
        ttl = 60 if number % 2 else None
        await save(client, "s", messages(number), ttl_seconds=ttl, step_name=f"step {number}")
    await store.pass_time(100)
    before, taken = await everything(client, "s"), await _stored(client, "s")
    early = await client.sweep()
    assert (early.checkpoints, early.waiting, early.parts) == (0, 3, 0)
    await store.pass_time(DAY)
    swept = await client.sweep()
    assert (swept.checkpoints, swept.waiting, swept.threads, swept.skipped) == (3, 0, 0, ())
    assert await everything(store.client(), "s") == before
    assert await _stored(client, "s") < taken * 0.7
    assert await head_state(store.client(), "s") == messages(4)
    info = await thread_info(client, "s")
    assert info is not None
    assert info.checkpoints == 3
    walked = await line(client, "s@")
    assert [type(each) for each in walked] == [Header, Gap, Header, Gap, Header]
    await _whole(store)
    assert await client.sweep() == Swept()


@case()
async def pages_of_removed_checkpoints_go(store: Store) -> None:
    """Those that others share stay; what is left is restored exactly by everybody."""
    client = store.client()
    ids = [await save(client, "s", messages(0))]
    for number in range(1, 6):
        state = {**messages(0), "own": messages(number)}
        ids.append(await save(client, "s", state))
    for each in ids[1:4]:
        await client.expire(each)
    before, taken = await everything(client, "s"), await _stored(client, "s")
    size = (await client.threads())[0].size
    swept = await client.sweep("s")
    assert swept.checkpoints == 0
    assert await everything(store.client(), "s") == before
    if not core_of(client).backend.copies:
        assert swept.parts > 0
        assert await _stored(client, "s") == taken - swept.bytes
        assert (await client.threads())[0].size == size - swept.bytes
    await _whole(store)
    assert (await client.sweep()).parts == 0
    longer = {**messages(0), "own": messages(5, 61)}
    saved = await save(client, "s", longer)
    assert (await store.client().restore(saved)).state == longer


@case()
async def a_page_that_was_swept_is_stored_again(store: Store) -> None:
    """By a client that had seen it in the store."""
    client, other = store.client(), store.client()
    await save(client, "s", {"n": 0})
    shown = await save(client, "s", {"n": 1, "image": IMAGE, **LARGE})
    await save(other, "s", {"n": 2})
    await client.expire(shown)
    await other.sweep()
    for number, writer in enumerate((client, other)):
        state = {"n": number, "again": IMAGE, **LARGE}
        saved = await save(writer, "s", state)
        assert (await store.client().restore(saved)).state == state
    await _whole(store)


@case()
async def lines_go_on_after_a_sweep(store: Store) -> None:
    """A stream that two branches grew, of which one went."""
    client = store.client()
    async with client.run("s", agent_id="a", initial=messages(0, 200)) as run:
        for number in range(3):
            await run.append("messages", f"main {number} " * 30)
        fork = await client.fork("s@2", branch="other")
        beside = {**messages(0, 200), "note": "x" * 9000}
        await save(client, "s", beside, parent_id=fork)
        for header in await headers(client, "s", branch="other"):
            await client.expire(header.checkpoint_id)
        await client.sweep("s")
        await run.append("messages", "and on")
    again = await client.fork("s@2", branch="third")
    await save(client, "s", {**messages(0, 201), "note": "y" * 9000}, parent_id=again)
    state = await head_state(store.client(), "s")
    assert state["messages"][-1] == "and on"
    assert len(state["messages"]) == 204
    await _whole(store)


@case()
async def a_hole_in_a_stream_is_not_grown_over(store: Store) -> None:
    """What a sweep left behind the page that it took is overwritten by nobody."""
    client = store.client()
    shared = messages(0, 40)["messages"]
    states = [
        {"messages": [*shared, *(f"{name}-{number} " * 700 for number in range(count))]}
        for name, count in (("first", 0), ("gone", 1), ("kept", 3), ("over", 4), ("into", 1))
    ]
    ids = [await save(client, "s", state) for state in states[:3]]
    await client.expire(ids[1])
    await client.sweep("s")
    for state in states[3:]:
        beside = store.client()
        await beside.restore(ids[0])
        ids.append(await save(beside, "s", state, parent_id=ids[0]))
    states.append({"messages": [*states[4]["messages"], *states[3]["messages"]]})
    ids.append(await save(beside, "s", states[5], parent_id=ids[4]))
    reader = store.client()
    for number in (0, 2, 3, 4, 5):
        assert (await reader.restore(ids[number])).state == states[number]
    await _whole(store)


@case()
async def a_thread_that_is_over_goes_as_a_whole(store: Store) -> None:
    """Who still works on it learns that; the id can begin anew."""
    client = store.client()
    run = client.run("s", initial=messages(0), ttl_seconds=60)
    async with run:
        await run.save(messages(1))
        await store.pass_time(DAY + 100)
        swept = await store.client().sweep()
        assert (swept.threads, swept.checkpoints) == (1, 2)
        with pytest.raises((ThreadDeletedError, StaleWriterError)):
            await run.save(messages(2))
    assert await thread_info(client, "s") is None
    await save(client, "s", {"n": 1})
    assert await head_state(client, "s") == {"n": 1}
    await _whole(store)


@case()
async def a_thread_that_is_used_again_does_not_go(store: Store) -> None:
    """Who keeps something in it, or begins a run, while it is read or before."""
    client, other = store.client(), store.client()
    names = ("item", "run", "run before")
    for name in names:
        await save(client, name, messages(0), ttl_seconds=60)
    await store.pass_time(DAY + 100)
    earlier = other.run("run before", agent_id="a")
    await earlier.__aenter__()
    assert (await client.sweep("run before")).waiting == 1
    await earlier.save({"n": 1})
    sweep = sweeps.ThreadSweep(core_of(client), "item", sweeps.Rules(0))
    steps = sweep.steps()
    await driven(client, _next(steps))
    await put(other, "item", item(b"k", b"value"))
    while await driven(client, advance(steps)):
        pass
    assert (sweep.swept.threads, sweep.swept.checkpoints) == (0, 1)
    sweep = sweeps.ThreadSweep(core_of(client), "run", sweeps.Rules(DAY * 1_000_000))
    steps = sweep.steps()
    await driven(client, _next(steps))
    async with other.run("run", agent_id="a") as run:
        while await driven(client, advance(steps)):
            pass
        assert (sweep.swept.threads, sweep.swept.checkpoints, sweep.swept.waiting) == (0, 0, 1)
        await run.save({"n": 1})
    await earlier.__aexit__(None, None, None)
    assert {info.thread_id for info in await client.threads()} == set(names)
    assert await head_state(store.client(), "run") == {"n": 1}
    await _whole(store)


@case()
async def what_else_is_in_a_thread_keeps_it(store: Store) -> None:
    """A tag, an item, a checkpoint that stays."""
    client = store.client()
    for name in ("tagged", "with-items", "mixed"):
        await save(client, name, messages(0), ttl_seconds=60)
    await client.tag("tagged@1", "golden")
    await put(client, "with-items", item(b"k", b"value"))
    await save(client, "mixed", {"n": 1})
    await store.pass_time(DAY + 100)
    swept = await client.sweep()
    assert (swept.threads, swept.checkpoints) == (0, 3)
    assert {info.thread_id: info.checkpoints for info in await client.threads()} == {
        "tagged": 0,
        "with-items": 0,
        "mixed": 1,
    }
    await _whole(store)


@case()
async def heads_fall_back_and_lines_go_on(store: Store) -> None:
    """To what they read as before; on every branch."""
    client = store.client()
    first = await save(client, "s", {"n": 0})
    await client.fork(first, branch="other")
    for branch in ("main", "other"):
        for number in range(4):
            await save(client, "s", {branch: number}, branch=branch, ttl_seconds=60)
    await store.pass_time(DAY + 100)
    before = [(b.name, b.head and b.head.seq) for b in await client.branches("s")]
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(sweeps, "TOGETHER", 3)
        assert (await client.sweep()).checkpoints == 8
    assert [(b.name, b.head and b.head.seq) for b in await store.client().branches("s")] == before
    saved = await save(client, "s", {"n": 9})
    assert (await client.restore(saved)).parent_id == first
    await _whole(store)


@case()
async def a_dry_run_of_a_sweep(store: Store) -> None:
    """Tells the same numbers, and changes nothing."""
    client = store.client()
    for number in range(4):
        await save(client, "s", messages(number), ttl_seconds=60 if number < 3 else None)
    await save(client, "over", messages(9), ttl_seconds=60)
    await store.pass_time(200)
    taken = (await client.stats()).physical
    planned = await client.sweep(grace_seconds=timedelta(seconds=50), dry_run=True)
    assert (await client.stats()).physical == taken
    assert (planned.checkpoints, planned.threads, planned.dry_run) == (4, 1, True)
    swept = await client.sweep(grace_seconds=50)
    assert replace(swept, dry_run=True) == planned


@case()
async def a_sweep_beside_writers(store: Store) -> None:
    """Nothing that anybody saved is lost, whoever sweeps meanwhile."""
    client = store.client()
    await save(client, "s", {"image": IMAGE, **messages(0)})
    kept: list[tuple[str, Any]] = []

    async def work(number: int) -> Any:
        mine = store.client()
        for step in range(8):
            if number == 0:
                await mine.sweep(grace_seconds=0)
                continue
            # One is removed as soon as it is there; the next one brings the same pages.
            state = {"image": IMAGE + bytes([number]), "by": messages(number), "step": step}
            await mine.expire(await save(mine, "s", state))
            kept.append((await save(mine, "s", {**state, "kept": True}), {**state, "kept": True}))
        return None

    results = await store.together([lambda n=number: work(n) for number in range(3)])  # type: ignore[misc]
    assert results == [None] * 3
    await client.sweep(grace_seconds=0)
    reader = store.client()
    for id, state in kept:
        assert (await reader.restore(id)).state == state
    await _whole(store)


@case()
async def two_sweeps_at_once(store: Store) -> None:
    """What one of them was about to read, the other has removed: it reads the thread again."""
    client, other = store.client(), store.client()
    for number in range(4):
        state = {**messages(number), **{f"{key} of {number}": "x" * 60 for key in range(40)}}
        await save(client, "s", state, ttl_seconds=60 if number else None)
    sweep = sweeps.ThreadSweep(core_of(client), "s", sweeps.Rules())
    steps = sweep.steps()
    await driven(client, _next(steps))
    await store.pass_time(100)
    swept = await other.sweep(grace_seconds=0)
    assert swept.checkpoints == 3
    while await driven(client, advance(steps)):
        pass
    assert sweep.swept == Swept()
    await _whole(store)


@case()
async def a_head_that_goes_while_it_is_read(store: Store) -> None:
    """A reader takes the next one, a save that would have built on it is stored whole."""
    client = store.client()
    first = await save(client, "s", messages(0))
    for call in ("latest", "save"):
        doomed = await save(client, "s", messages(1))
        other = store.client()
        backend = core_of(other).backend
        looks = [backend.look]

        async def look(scope: Scope, doomed: str = doomed, looks: list[Any] = looks) -> Found:
            found: Found = await looks[0](scope)
            if await operations.expire(core_of(client), doomed):
                await _swept_now(client, "s")
            return found

        with pytest.MonkeyPatch.context() as patch:
            patch.setattr(backend, "look", look)
            if call == "latest":
                found = await other.latest(agent_id="a", session_id="s")
                assert found is not None
                assert found.checkpoint_id == first
            else:
                saved = await save(other, "s", messages(2))
                assert (await store.client().restore(saved)).state == messages(2)
    await _whole(store)


@case()
async def a_damaged_thread_is_not_swept(store: Store) -> None:
    """What a damaged row needs is not known: nothing of its thread goes, and it is named."""
    client = store.client()
    for name in ("hurt", "well"):
        for number in range(3):
            ttl = 60 if number == 1 else None
            await save(client, name, messages(number), ttl_seconds=ttl)
    await store.pass_time(DAY + 100)
    await store.close()
    store.harness.edit_row("checkpoint", "hurt", "manifest", b"\x00\x80")
    client = store.client()
    taken = await _stored(client, "well")
    swept = await client.sweep()
    assert [each.partition(":")[0] for each in swept.skipped] == ["hurt"]
    assert swept.checkpoints == 1
    assert (await client.restore("hurt@1")).state == messages(0)
    if not core_of(client).backend.copies:
        assert 0 < swept.bytes <= taken - await _stored(client, "well")


@case()
async def a_sweep_of_one_thread_or_tenant(store: Store) -> None:
    """Leaves all others alone; one that is not there is an error."""
    client, other = store.client(), store.client(tenant="other")
    for each in (client, other):
        await save(each, "s", messages(0), ttl_seconds=60)
        await save(each, "t", messages(0), ttl_seconds=60)
    await store.pass_time(DAY + 100)
    seen: list[int] = []
    assert (await client.sweep("s", progress=seen.append)).threads == 1
    assert seen == [1]
    assert (await client.sweep()).threads == 1
    assert (await other.sweep()).threads == 2
    with pytest.raises(CheckpointNotFoundError, match="nowhere"):
        await client.sweep("nowhere")
    for wrong in (-1, float("nan"), "1", True):
        with pytest.raises((ValueError, TypeError), match="grace_seconds"):
            await client.sweep(grace_seconds=wrong)  # type: ignore[arg-type]
