"""Runs in company: two entries of one run, a lane that is moved under a run, a base that goes.

The one invariant: what somebody else does may stop a run, loudly, but never ends it in secret.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Coroutine
from contextlib import suppress
from typing import Any

import pytest

from lastgood import CheckpointIntegrityError, StaleWriterError
from lastgood.client import Client
from lastgood.testing.cases import case
from lastgood.testing.operations import LARGE, save
from lastgood.testing.store import Store, branches, status, thread_info

BEAT = 0.05


class Custom(Exception):
    """Raised inside of a run."""


async def becomes(client: Client, thread: str, wanted: str) -> None:
    """Wait until a thread has a status."""
    for _ in range(100):
        if await status(client, thread) == wanted:
            return
        await asyncio.sleep(BEAT / 2)
    assert await status(client, thread) == wanted


async def left(run: Any, error: BaseException | None) -> None:
    """Leave a run as its block would."""
    await run.__aexit__(error and type(error), error, None)


EXITS: dict[str, BaseException | None] = {
    "clean": None,
    "exception": Custom("one of two"),
    "keyboard interrupt": KeyboardInterrupt(),
}


@case(each=EXITS, slow=True)
async def one_of_two_leaves_a_run(store: Store, error: BaseException | None) -> None:
    """The other one's next heartbeat says that it runs, and its own exit is what is recorded."""
    for thread, leaver in (("first leaves", 0), ("second leaves", 1)):
        one, two = (store.client(heartbeat_seconds=BEAT) for _ in range(2))
        runs = [one.run(thread, initial={"n": 0}), two.run(thread)]
        for run in runs:
            await run.__aenter__()
        assert runs[0].run_id == runs[1].run_id
        await left(runs.pop(leaver), error)
        stayed = runs.pop()
        await becomes(one, thread, "running")
        await asyncio.sleep(2 * BEAT)
        info = await thread_info(one, thread)
        assert info is not None
        assert (info.status, info.error) == ("running", None)
        await stayed.save({"n": 1})
        third = store.client(heartbeat_seconds=600).run(thread)
        await third.__aenter__()
        assert (third.run_id, third.attempt, third.resumed) == (stayed.run_id, 3, True)
        await left(third, Custom("a third"))
        await becomes(one, thread, "running")
        await left(stayed, None)
        await asyncio.sleep(2 * BEAT)
        assert await status(one, thread) == "idle"


@case()
async def the_slower_of_two_is_refused(store: Store) -> None:
    """Its StaleWriterError does not make the other's run a failed one."""
    client = store.client(heartbeat_seconds=BEAT)
    async with client.run("s", initial={"n": 0}) as quick:
        with pytest.raises(StaleWriterError):  # noqa: PT012
            async with client.run("s") as slow:
                await quick.save({"n": 1})
                await slow.save({"n": "late"})
        await becomes(client, "s", "running")
        await quick.save({"n": 2})
    assert await status(client, "s") == "idle"
    latest = await client.latest(agent_id="agent", session_id="s")
    assert latest is not None
    assert latest.state == {"n": 2}


@case()
async def the_slower_of_two_leaves_last(store: Store) -> None:
    """Nor does it where the other has come to its end by then. A run that failed stays failed."""
    client = store.client()
    for thread, error in (("clean", None), ("failed", Custom("the quick one"))):
        with pytest.raises(StaleWriterError):  # noqa: PT012
            async with client.run(thread, initial={"n": 0}) as slow:
                quick = client.run(thread)
                await quick.__aenter__()
                await quick.save({"n": 1})
                await left(quick, error)
                await slow.save({"n": "late"})
    assert await status(client, "clean") == "idle"
    assert await status(client, "failed") == "failed"
    async with client.run("clean") as later:
        assert not later.resumed


@case(each={"before a heartbeat": 600.0, "behind a heartbeat": BEAT})
async def the_slower_one_began_last(store: Store, heartbeat: float) -> None:
    """Nor where it had entered last, so that the other's end was not the end of the run."""
    client, other = store.client(), store.client(heartbeat_seconds=heartbeat)
    for thread, error in (("clean", None), ("failed", Custom("the quick one"))):
        quick = client.run(thread, initial={"n": 0})
        await quick.__aenter__()
        with pytest.raises(StaleWriterError):  # noqa: PT012
            async with other.run(thread) as slow:
                await quick.save({"n": 1})
                await left(quick, error)
                assert await status(client, thread) == "running"
                await asyncio.sleep(2 * BEAT)
                await slow.save({"n": "late"})
    assert await status(client, "clean") == "idle"
    assert await status(client, "failed") == "failed"
    async with client.run("clean") as later:
        assert not later.resumed


@case()
async def who_enters_behind_an_exit_goes_on_with_the_run(store: Store) -> None:
    """As long as somebody is in it; and what that one's refusal is worth is looked at anew."""
    client = store.client()
    quick, slow = client.run("s", initial={"n": 0}), client.run("s")
    for run in (quick, slow):
        await run.__aenter__()
    await left(quick, None)
    with pytest.raises(StaleWriterError):  # noqa: PT012
        async with client.run("s") as third:
            assert (third.run_id, third.attempt) == (slow.run_id, 3)
            await client.save("agent", session_id="s", execution_state={"n": "from outside"})
            await third.save({"n": "late"})
    assert await status(client, "s") == "failed"
    await left(slow, None)
    assert await status(client, "s") == "idle"


@case()
async def a_refusal_from_elsewhere_is_a_failure(store: Store) -> None:
    """A StaleWriterError of another thread's save inside of the block is an exit like others."""
    client = store.client()
    old = await save(client, "other", {"n": 0})
    await save(client, "other", {"n": 1})
    with pytest.raises(StaleWriterError):
        async with client.run("s", initial={}):
            await save(client, "other", {"n": 2}, parent_id=old, on_conflict="reject")
    assert await status(client, "s") == "failed"


@case()
async def a_late_heartbeat_reopens_nothing(store: Store) -> None:
    """Fifty runs are left while their heartbeats are under way: all of them stay left."""
    client = store.client(heartbeat_seconds=0.001)
    for group in range(2):
        runs = [client.run(f"{group} {number}", initial={}) for number in range(25)]
        for run in runs:
            await run.__aenter__()
        for number, run in enumerate(runs):
            await left(run, Custom("failed") if number % 5 == 0 else None)
    await asyncio.sleep(0.05)
    found = {info.thread_id: info.status for info in await client.threads(limit=100)}
    assert len(found) == 50
    assert {name for name, state in found.items() if state == "failed"} == {
        f"{group} {number}" for group in range(2) for number in range(0, 25, 5)
    }
    assert set(found.values()) == {"failed", "idle"}
    async with client.run("1 1") as run:
        assert (run.resumed, run.attempt) == (False, 1)


@case()
async def staleness_follows_the_stores_clock(store: Store) -> None:
    """A run that stopped beating goes stale by the clock that stamped its beats."""
    if not store.harness.turns_clock:
        pytest.skip("this store's clock cannot be turned")
    client = store.client(heartbeat_seconds=600, stale_after_seconds=60)
    await store.pass_time(365 * 86400)
    abandoned = client.run("s", initial={})
    await abandoned.__aenter__()
    assert await status(client, "s") == "running"
    await store.pass_time(50)
    assert await status(client, "s") == "running"
    await store.pass_time(20)
    assert await status(client, "s") == "stale"
    await left(abandoned, None)


@case()
async def staleness_after_a_clock_excursion(store: Store) -> None:
    """The clock was a year ahead once: a run entered since then still goes stale."""
    if not store.harness.turns_clock:
        pytest.skip("this store's clock cannot be turned")
    client = store.client(heartbeat_seconds=600, stale_after_seconds=60)
    year = 365 * 86400
    await store.pass_time(year)
    await save(client, "future", {})
    await store.pass_time(-year)
    abandoned = client.run("s", initial={})
    await abandoned.__aenter__()
    assert await status(client, "s") == "running"
    await store.pass_time(year + 120)
    assert await status(client, "s") == "stale"
    await left(abandoned, None)


@case()
async def entering_on_a_damaged_base(store: Store) -> None:
    """It raises, and nobody is said to be running."""
    async with store.client().run("s", initial=LARGE) as run:
        await run.append("messages", "x")
    await store.close()
    store.harness.flip_part("s")
    client = store.client(heartbeat_seconds=600)
    with pytest.raises(CheckpointIntegrityError):
        async with client.run("s"):
            pytest.fail("entered")
    info = await thread_info(client, "s")
    assert info is not None
    assert info.status == "failed"
    assert info.error is not None
    assert "CheckpointIntegrityError" in info.error


@case()
async def a_base_removed_under_a_run(store: Store) -> None:
    """The next save is refused and says what to do; opened again, the run goes on."""
    one, two = store.client(), store.client()
    for thread, first in (("small", {"n": [0]}), ("large", {"n": list(LARGE["messages"])})):
        with pytest.raises(StaleWriterError, match=r"[Oo]pen the run again"):  # noqa: PT012
            async with one.run(thread, initial=first) as run:
                await run.append("n", 1)
                assert run.base is not None
                assert await two.expire(run.base)
                await run.save({"n": [2]})
        with pytest.raises(StaleWriterError, match=r"[Oo]pen the run again"):  # noqa: PT012
            async with one.run(thread) as run:
                assert run.state == first
                await run.append("n", 3)
                assert await two.expire(run.base or "")
                await run.append("n", 4)
        async with one.run(thread) as run:
            assert run.state == first
            await run.append("n", 5)
        latest = await two.latest(agent_id="agent", session_id=thread)
        assert latest is not None
        assert latest.state == {"n": [*first["n"], 5]}


# lanes whose current branch is moved


async def _hand_over(client: Client) -> str:
    source = await save(client, "s", {"from": "elsewhere"})
    return await client.handoff(source, "agent")


async def _start_over(client: Client) -> str:
    return await client.save("agent", execution_state={"anew": 1}, session_id="s", parent_id=None)


Move = Callable[[Client], Coroutine[Any, Any, str]]
MOVES: dict[str, Move] = {"handoff": _hand_over, "start over": _start_over}


@case(each=MOVES)
async def a_lane_moved_under_a_run(store: Store, move: Move) -> None:
    """A run that follows the current branch is refused; both lines stay."""
    one, two = store.client(), store.client()
    for step in ("save", "append"):
        with pytest.raises(StaleWriterError):  # noqa: PT012
            async with one.run("s", initial={"m": []}) as run:
                run.state = {"m": [step]}
                kept = await run.save()
                moved = await move(two)
                await (run.save({"m": ["late"]}) if step == "save" else run.append("m", "late"))
        assert (await two.restore(kept)).state == {"m": [step]}
        latest = await two.latest(agent_id="agent", session_id="s")
        assert latest is not None
        assert latest.checkpoint_id == moved
        assert {latest.branch, (await two.restore(kept)).branch} <= await branches(two, "s")


@case(each=MOVES)
async def a_lane_moved_under_a_run_on_a_branch(store: Store, move: Move) -> None:
    """A run that was entered with a branch of its own goes on undisturbed."""
    one, two = store.client(), store.client()
    with suppress(Custom):
        async with one.run("s", initial={"m": []}):
            raise Custom("the run stays open")
    async with one.run("s", branch="main") as run:
        moved = await move(two)
        await run.append("m", 1)
        await run.save({"m": [1, 2]})
        last = await run.append("m", 3)
    found = await two.restore(last)
    assert (found.state, found.branch) == ({"m": [1, 2, 3]}, "main")
    latest = await two.latest(agent_id="agent", session_id="s")
    assert latest is not None
    assert latest.checkpoint_id == moved


@case("S22")
async def only_who_has_the_head_finishes(store: Store) -> None:
    """A run that somebody else entered and saved in is theirs to finish, to leave and to resume."""
    one, two = store.client(), store.client()
    first = one.run("s", initial={"n": 0})
    await first.__aenter__()

    async def failing() -> None:
        async with two.run("s") as second:
            await second.save({"n": 1})
            with pytest.raises(StaleWriterError):
                await first.finish({"answer": "of n = 0"})
            assert await status(one, "s") == "running"
            raise OSError("the disk is full")

    with pytest.raises(OSError, match="full"):
        await failing()
    assert await status(one, "s") == "failed"
    async with two.run("s") as third:
        assert (third.resumed, third.state) == (True, {"n": 1})
        await third.finish()
    assert await status(one, "s") == "done"


@case("S22")
async def a_result_is_recorded_or_refused(store: Store) -> None:
    """Who finishes after somebody else did so, or began anew, is not told that all is well."""
    one, two = store.client(), store.client()
    first, second = one.run("s", initial={"n": 0}), two.run("s")
    await first.__aenter__()
    await second.__aenter__()
    await first.finish("of the first")
    await second.save({"n": 1})
    await second.finish("of the second")
    assert (await one.threads())[0].result == "of the second"
    late = two.run("s")
    await first.__aexit__(None, None, None)
    async with one.run("s") as before, late:
        await before.save({"n": 1, "paid": True})
        await before.finish("of who has the head")
        with pytest.raises(StaleWriterError, match="moved on"):
            await late.finish("of who has not")
    assert (await one.threads())[0].result == "of who has the head"
    third, fourth = one.run("s"), two.run("s")
    await third.__aenter__()
    async with fourth:
        pass
    async with two.run("s"):
        await third.save({"n": 2})
        with pytest.raises(StaleWriterError, match=r"s/agent: another run has begun since"):
            await third.finish("lost")
    for run in (second, third):
        await run.__aexit__(None, None, None)
    assert (await one.threads())[0].result is None


@case("S22", each={"cached": 64 << 20, "uncached": 0})
async def an_append_to_what_was_removed(store: Store, cache: int) -> None:
    """Whether its state is remembered or not, the run is refused as one that others overtook."""
    client, other = store.client(cache_bytes=cache), store.client()
    async with client.run("s", initial=LARGE) as run:
        assert run.base is not None
        await other.expire(run.base)
        await other.sweep(grace_seconds=0)
        with pytest.raises(StaleWriterError, match="a checkpoint that was removed"):
            await run.append("messages", "one more")
