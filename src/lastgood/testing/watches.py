"""Watching a thread: every new checkpoint once, in order, from wherever one left off."""

from __future__ import annotations

from collections.abc import AsyncIterator
from typing import Any

import pytest

from lastgood.testing.cases import case
from lastgood.testing.operations import save
from lastgood.testing.store import Store


async def taken(watch: AsyncIterator[Any], count: int) -> list[Any]:
    """The next so many; then the watch is closed."""
    found: list[Any] = []
    try:
        while len(found) < count:
            found.append(await anext(watch))
    finally:
        await watch.aclose()  # type: ignore[attr-defined]
    return found


async def numbers(watch: AsyncIterator[Any], count: int) -> list[int]:
    """The seqs of the next so many."""
    return [header.seq for header in await taken(watch, count)]


@case()
async def watching_another_client(store: Store) -> None:
    """What somebody else saves while we watch comes in its order, whole."""
    watcher, writer = store.client(), store.client()
    await save(writer, "s", {"n": "before"})

    async def watch() -> list[Any]:
        return await taken(watcher.watch("s", after=1), 20)

    async def write() -> list[str]:
        ids = []
        for number in range(20):
            if number % 7 == 3:
                ids.append(await writer.fork("s@1"))
            else:
                ids.append(await save(writer, "s", {"n": number}, step_name=f"{number}"))
        return ids

    seen, written = await store.together([watch, write])
    assert [header.checkpoint_id for header in seen] == written
    assert [header.seq for header in seen] == list(range(2, 22))
    assert [await watcher.resolve(header.checkpoint_id) for header in seen] == seen


@case()
async def watching_from_now_on(store: Store) -> None:
    """Without `after`, what was there before is not shown."""
    watcher, writer = store.client(), store.client()
    for number in range(3):
        await save(writer, "s", {"n": number})

    seen: list[int] = []

    async def watch() -> None:
        seen.extend(await numbers(watcher.watch("s"), 2))

    async def write() -> None:
        while not seen:
            await save(writer, "s", {"n": "new"})

    await store.together([watch, write])
    assert seen[0] > 3
    assert seen[1] == seen[0] + 1


@case(slow=True)
async def watching_from_a_place(store: Store) -> None:
    """Everything after a seq, also more than is read at a time; going on where one stopped."""
    client = store.client()
    async with client.run("s", agent_id="a", initial={"n": 0}) as run:
        for number in range(1, 300):
            await run.save({"n": number})
    assert await numbers(client.watch("s", after=0), 300) == list(range(1, 301))
    assert await numbers(client.watch("s", after=290), 10) == list(range(291, 301))
    first = await numbers(client.watch("s", after=0), 5)
    assert await numbers(client.watch("s", after=first[-1]), 2) == [6, 7]


@case()
async def watching_one_agent(store: Store) -> None:
    """Its checkpoints, and the handoffs that leave it."""
    client = store.client()
    await save(client, "s", {"n": 0})
    await client.save("b", execution_state={}, session_id="s")
    await client.handoff("s/a@", "b")
    await client.save("b", execution_state={}, session_id="s")
    await save(client, "s", {"n": 1})
    assert await numbers(client.watch("s", agent_id="a", after=0), 3) == [1, 3, 5]
    assert await numbers(client.watch("s", agent_id="b", after=0), 3) == [2, 3, 4]
    found = await taken(client.watch("s", agent_id="a", after=3), 1)
    assert found[0].agent_id == "a"


@case()
async def watching_what_is_not_there_yet(store: Store) -> None:
    """A thread that begins later is seen from its first checkpoint."""
    watcher, writer = store.client(), store.client()

    async def watch() -> list[int]:
        return await numbers(watcher.watch("s", after=0), 3)

    async def write() -> None:
        for number in range(3):
            await save(writer, "s", {"n": number})

    seen, _ = await store.together([watch, write])
    assert seen == [1, 2, 3]


@case()
async def watching_across_lives(store: Store) -> None:
    """Deleted and begun anew under a watch: the new one is shown from its beginning."""
    client = store.client()
    old = [await save(client, "s", {"n": number}) for number in range(3)]
    watch: Any = client.watch("s", after=1)
    seen = [(await anext(watch)).checkpoint_id for _ in range(2)]
    await client.delete("s")
    new = [await save(client, "s", {"n": f"new {number}"}) for number in range(4)]
    seen += [(await anext(watch)).checkpoint_id for _ in range(4)]
    assert seen == [*old[1:], *new]
    await client.delete("s")
    await save(client, "s", {"n": "third"})
    assert (await anext(watch)).seq == 1
    await watch.aclose()


@case()
async def going_on_after_another_life(store: Store) -> None:
    """A place beyond the end is one of an earlier life: the thread is shown from its beginning."""
    client = store.client()
    for number in range(5):
        await save(client, "s", {"n": number})
    await client.delete("s")
    new = [await save(client, "s", {"n": f"new {number}"}) for number in range(2)]
    found = await taken(client.watch("s", after=5), 2)
    assert [header.checkpoint_id for header in found] == new


@case()
async def a_watch_is_closed(store: Store) -> None:
    """Before its first, between two, and twice; afterwards the store closes and goes on."""
    client = store.client()
    for number in range(3):
        await save(client, "s", {"n": number})
    unused: Any = client.watch("s", after=0)
    await unused.aclose()
    used: Any = client.watch("s", after=0)
    assert (await anext(used)).seq == 1
    await used.aclose()
    await used.aclose()
    with pytest.raises(StopAsyncIteration):
        await anext(used)
    async for header in client.watch("s", after=0):
        if header.seq == 2:
            break
    await client.close()
    assert await numbers(client.watch("s", after=2), 1) == [3]


@case("S66")
async def a_watch_stays_with_its_tenant(store: Store) -> None:
    """Also with a place that makes no sense, which is refused."""
    ours, theirs = store.client(tenant="A"), store.client(tenant="B")
    for number in range(3):
        await save(theirs, "s", {"n": number})
        await save(theirs, "r", {"n": number})
        await save(ours, "s", {"n": number}, metadata={"ours": True})
    assert all(h.metadata == {"ours": True} for h in await taken(ours.watch("s", after=0), 3))
    for place in (-1, -2, -(2**40)):
        with pytest.raises(ValueError, match="after must be 0 or more"):
            await taken(ours.watch("s", after=place), 1)
    places: list[Any] = ["1", 1.0, True]
    for wrong in places:
        with pytest.raises(TypeError, match="after must be an int"):
            await taken(ours.watch("s", after=wrong), 1)
    with pytest.raises(ValueError, match="session_id"):
        await taken(ours.watch(""), 1)


@case()
async def a_watch_leaves_out_what_is_gone(store: Store) -> None:
    """Removed and expired ones are not shown, and hold nothing up."""
    client = store.client()
    for number in range(6):
        await save(client, "s", {"n": number}, ttl_seconds=10 if number % 2 else None)
    await client.expire("s@3")
    await store.pass_time(11)
    assert await numbers(client.watch("s", after=0), 2) == [1, 5]
