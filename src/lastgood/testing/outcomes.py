"""Outcomes that nobody learned: a cancelled or failed call is unknown, never a loss or a double.

Also what several calls on one run at once come to: they take turns, and none of them is refused.
"""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Callable, Coroutine, Iterator
from contextlib import contextmanager
from functools import partial
from typing import Any

import pytest

from lastgood import StorageError
from lastgood.client import Client
from lastgood.commits import Intent, Writes
from lastgood.rules import Save
from lastgood.testing.cases import case
from lastgood.testing.operations import LARGE, save
from lastgood.testing.store import Store, core_of, headers

SIZES: dict[str, list[str]] = {"small": ["a"], "large": LARGE["messages"]}
Call = Callable[[Any], Coroutine[Any, Any, str]]


async def _save_as_it_is(run: Any) -> str:
    return str(await run.save())


async def _save_as_given(run: Any) -> str:
    return str(await run.save(run.state))


SAVES = {"save()": _save_as_it_is, "save(run.state)": _save_as_given}
"""Two ways to say the same."""


@contextmanager
def outcome_lost(client: Client, *, kept: bool) -> Iterator[None]:
    """Within the block one checkpoint is committed, or not; its writer only gets an error."""
    backend = core_of(client).backend
    whole = backend.commit

    async def lossy(intent: Intent) -> Writes:
        if not isinstance(intent, Save):
            return await whole(intent)
        backend.commit = whole  # type: ignore[method-assign]
        if kept:
            await whole(intent)
        raise StorageError("the disk failed; whether this was kept is unknown.")

    backend.commit = lossy  # type: ignore[method-assign]
    yield
    assert backend.commit is not lossy, "nothing was committed"


async def stored(client: Client, thread: str = "s") -> Any:
    """The state at the head of the run's lane, which is one line of checkpoints."""
    found = await headers(client, thread)
    assert {header.branch for header in found} == {"main"}
    assert [h.parent_id for h in found[:-1]] == [h.checkpoint_id for h in found[1:]]
    latest = await client.latest(agent_id="agent", session_id=thread)
    assert latest is not None
    assert latest.checkpoint_id == found[0].checkpoint_id
    return latest.state


@case(each=SIZES)
async def an_append_of_unknown_outcome_is_repeated(store: Store, first: list[str]) -> None:
    """The very same call again stores nothing twice, whether the first one was kept or not."""
    client = store.client(heartbeat_seconds=600)
    for thread, kept in (("s", True), ("t", False)):
        async with client.run(thread, initial={"m": list(first)}) as run:
            with outcome_lost(client, kept=kept), pytest.raises(StorageError):
                await run.append("m", "b", "c")
            await run.append("m", "b", "c")
            assert run.state == await stored(client, thread) == {"m": [*first, "b", "c"]}
            assert len(await headers(client, thread)) == 2
            await run.append("m", "b", "c")  # now it is another one
            await run.save()
            assert run.state == await stored(client, thread)
            assert run.state == {"m": [*first, "b", "c", "b", "c"]}


@case(each=SIZES)
async def an_append_of_unknown_outcome_is_not_lost(store: Store, first: list[str]) -> None:
    """What was kept after all is in run.state by the next append or save, and stays stored."""
    client = store.client(heartbeat_seconds=600)
    for thread in ("appends", "saves", "replaces"):
        async with client.run(thread, initial={"m": list(first)}) as run:
            with outcome_lost(client, kept=True), pytest.raises(StorageError):
                await run.append("m", "b")
            if thread == "appends":
                await run.append("m", "c")
            elif thread == "saves":
                await run.save()
            else:
                await run.save({"m": ["other"]})
            last = {"appends": [*first, "b", "c"], "saves": [*first, "b"], "replaces": ["other"]}
            assert run.state == await stored(client, thread) == {"m": last[thread]}


@case(each=SIZES)
async def an_append_that_was_not_kept(store: Store, first: list[str]) -> None:
    """After the next append or save, run.state is what is stored."""
    client = store.client(heartbeat_seconds=600)
    for thread in ("appends", "saves"):
        async with client.run(thread, initial={"m": list(first)}) as run:
            with outcome_lost(client, kept=False), pytest.raises(StorageError):
                await run.append("m", "b")
            if thread == "appends":
                await run.append("m", "c")
            else:
                await run.save()
            assert run.state == await stored(client, thread)


@case()
async def a_save_of_unknown_outcome(store: Store) -> None:
    """The run recognises its own commit and goes on from it."""
    client = store.client(heartbeat_seconds=600)
    for thread, kept in (("s", True), ("t", False)):
        async with client.run(thread, initial={"n": 0}) as run:
            with outcome_lost(client, kept=kept), pytest.raises(StorageError):
                await run.save({"n": 1})
            await run.save({"n": 2})
            assert run.state == await stored(client, thread) == {"n": 2}
            assert len(await headers(client, thread)) == 2 + kept


@case("S27", each=SIZES)
async def cancelled_appends(store: Store, first: list[str]) -> None:
    """Half of the appends are cancelled: none is doubled, and none that was stored is lost."""
    client = store.client()
    async with client.run("s", initial={"m": list(first)}) as run:
        sure = await _appended(run, 30)
        await run.append("m", "end")
        assert run.state == await stored(client)
        before = list(run.state["m"])
        assert len(set(before)) == len(before)
        added = before[len(first) : -1]
        assert added == sorted(added)
        assert sure <= set(added)
        await run.save()
        assert run.state == await stored(client) == {"m": before}


async def _appended(run: Any, count: int) -> set[int]:
    """Append numbers, and cancel every second call at a later moment; those that succeeded."""
    sure = set()
    for number in range(count):
        task = asyncio.ensure_future(run.append("m", number))
        for _ in range(number % 5):
            await asyncio.sleep(0)
        if number % 2:
            task.cancel()
        await asyncio.wait([task])
        if not task.cancelled() and task.exception() is None:
            sure.add(number)
    return sure


@case("S27", each=SIZES)
async def a_save_after_a_cancelled_append(store: Store, first: list[str]) -> None:
    """What a cancelled append has stored is not overwritten by a shorter list."""
    client = store.client()
    async with client.run("s", initial={"m": list(first)}) as run:
        for number in range(8):
            task = asyncio.ensure_future(run.append("m", number))
            await asyncio.sleep(0)
            task.cancel()
            await asyncio.wait([task])
            await save(client, "other", {})  # behind the append, which is over by then
            there = await stored(client)
            await (_save_as_given(run) if number % 2 else _save_as_it_is(run))
            assert run.state == await stored(client)
            assert run.state["m"][: len(there["m"])] == there["m"]


@case(each=SIZES)
async def appends_at_once(store: Store, first: list[str]) -> None:
    """Ten tasks or threads append to one run: all succeed, in order, nothing lost."""
    client = store.client()
    async with client.run("s", initial={"m": list(first)}) as run:
        done = await store.together([partial(run.append, "m", number) for number in range(10)])
        assert [one for one in done if not isinstance(one, str)] == []
        found = {header.checkpoint_id for header in await headers(client, "s")}
        assert len(set(done) & found) == 10
        assert run.state == await stored(client)
        assert run.state["m"][: len(first)] == first
        added = run.state["m"][len(first) :]
        assert (added if store.colour == "async" else sorted(added)) == list(range(10))
        await run.append("m", "end")
        assert run.state == await stored(client)


@case()
async def saves_at_once(store: Store) -> None:
    """Ten tasks or threads save one run: all succeed, one line, run.state is what is stored."""
    client = store.client()
    async with client.run("s", initial={"n": -1}) as run:
        done = await store.together([partial(run.save, {"n": number}) for number in range(10)])
        assert [one for one in done if not isinstance(one, str)] == []
        states = [checkpoint.state["n"] for checkpoint in await client.timeline("agent", "s")]
        assert sorted(states) == list(range(-1, 10))
        assert run.state == await stored(client)
        if store.colour == "async":
            assert states == sorted(states, reverse=True)


@case(each=SAVES)
async def a_save_behind_appends(store: Store, save_run: Call) -> None:
    """It was called after them and comes after them: what it stores has what they appended."""
    client = store.client()
    async with client.run("s", initial={"m": []}) as run:
        appends = [partial(run.append, "m", number) for number in range(4)]
        done = await store.together([*appends, partial(save_run, run)])
        assert [one for one in done if not isinstance(one, str)] == []
        assert sorted(run.state["m"]) == list(range(4))
        assert run.state == await stored(client)


@case()
async def a_save_that_others_overtake(store: Store) -> None:
    """Threads that share a state: who looked at it first and comes last does not bring it back.

    A hook that waits for what the other one holds keeps nobody from its turn.
    """
    looked, overtaken, lock = threading.Event(), threading.Event(), threading.RLock()

    def slow(state: dict[str, Any]) -> dict[str, Any]:
        assert lock.acquire(timeout=20)
        lock.release()
        seen = {"done": list(state["done"])}
        if seen["done"] == ["one"] and store.colour == "blocking" and not looked.is_set():
            looked.set()
            assert overtaken.wait(20)
        return seen

    client = store.client(before_save=slow)

    async def first() -> None:
        run.state["done"].append("one")
        await run.save()

    async def second() -> None:
        if store.colour == "blocking":
            assert looked.wait(20)
        with lock:
            run.state["done"].append("two")
            await run.save()
            overtaken.set()
            await asyncio.sleep(0.05)  # the first has its turn meanwhile
            await run.save()

    async with client.run("s", initial={"done": []}) as run:
        assert await store.together([first, second]) == [None, None]
        assert await stored(client) == {"done": ["one", "two"]}


@case()
async def a_save_behind_a_state_that_was_given(store: Store) -> None:
    """A state that is given becomes the working copy: a save behind it stores that, or it itself
    came first.
    """
    client = store.client()
    async with client.run("s", initial={"n": 0}) as run:
        await store.together([partial(run.save), partial(run.save, {"n": 1}), partial(run.save)])
        assert run.state == await stored(client) == {"n": 1}


@case("S27")
async def a_save_that_is_cancelled_twice_is_recognised(store: Store) -> None:
    """Who does not even wait for the cancel leaves a commit that nobody waits for. Wherever it
    is then, what the run does next comes after it or instead of it.
    """
    client = store.client()
    async with client.run("s", initial={"m": [], "n": 0}) as run:
        for turns in range(30):
            run.state["n"] = turns
            task = asyncio.ensure_future(run.save(step_name="cancelled"))
            for _ in range(turns):
                await asyncio.sleep(0)
            for _ in range(2):
                task.cancel()
                await asyncio.sleep(0)
            await asyncio.wait([task])
            await run.append("m", turns, step_name="settled")
    found = await headers(client, "s")
    assert {h.branch for h in found} == {"main"}
    assert [h.parent_id for h in found[:-1]] == [h.checkpoint_id for h in found[1:]]
    assert sum(h.step_name == "settled" for h in found) == 30
    newest = await client.latest(agent_id="agent", session_id="s")
    assert newest is not None
    assert newest.state["m"] == list(range(30))
