"""Runs: what entering finds, what saving commits, and every way of leaving one."""

from __future__ import annotations

import asyncio

import pytest

from lastgood import (
    CheckpointConflictError,
    CheckpointNotFoundError,
    RunStateError,
    SerializationError,
    StaleWriterError,
    ThreadDeletedError,
)
from lastgood.testing.cases import case
from lastgood.testing.operations import LARGE, save
from lastgood.testing.store import Store, branches, headers, status, thread_info


@case("S14")
async def a_thread_exists_before_its_first_step(store: Store) -> None:
    """Entering commits the run and its input; it is running, then stale when its beat is old."""
    client = store.client(heartbeat_seconds=600)
    watcher = store.client(stale_after_seconds=60)
    impatient = store.client(stale_after_seconds=0.05)
    async with client.run("s", initial={"input": 1}) as run:
        assert (run.is_new, run.resumed, run.attempt, run.step_index) == (True, False, 1, 0)
        assert await status(watcher, "s") == "running"
        await asyncio.sleep(0.1)
        assert await status(impatient, "s") == "stale"
        latest = await watcher.latest(agent_id="agent", session_id="s")
        assert latest is not None
        assert (latest.state, latest.step_index) == ({"input": 1}, 0)
    async with client.run("empty") as run:
        assert run.state is None
        assert (run.base, run.is_new) == (None, True)
        assert await status(watcher, "empty") == "running"


@case("S14", slow=True)
async def a_heartbeat_keeps_a_run_from_going_stale(store: Store) -> None:
    """A run that lives is running, however long its step takes."""
    client = store.client(heartbeat_seconds=0.05, stale_after_seconds=0.4)
    async with client.run("s", initial={}):
        await asyncio.sleep(0.9)
        assert await status(client, "s") == "running"
    assert await status(client, "s") == "idle"


class Custom(Exception):
    """Raised inside of a run."""


Mute = type("Mute", (Exception,), {"__str__": lambda _: 1 / 0})
LEAVING: dict[str, tuple[BaseException | None, str, bool]] = {
    "end of block": (None, "idle", True),
    "exception": (Custom("the cause"), "failed", False),
    "exception without text": (Mute(), "failed", False),
    "cancelled": (asyncio.CancelledError(), "stale", False),
    "keyboard interrupt": (KeyboardInterrupt(), "stale", False),
    "system exit": (SystemExit(3), "stale", False),
}


@case("S14", each=LEAVING)
async def leaving_a_run(store: Store, row: tuple[BaseException | None, str, bool]) -> None:
    """The table of api.md: status, whether it is open, and the exception propagates."""
    error, expected, closed = row
    client = store.client()
    caught: BaseException | None = None
    try:
        async with client.run("s", initial={"n": 0}) as run:
            first = run.run_id
            await run.save({"n": 1}, step_name="one")
            run.state = {"n": "never saved"}
            if error is not None:
                raise error
    except BaseException as raised:
        caught = raised
    assert caught is error
    assert await status(client, "s") == expected
    async with store.client().run("s") as again:
        assert again.state == {"n": 1}
        assert (again.run_id == first) is not closed
        assert (again.resumed, again.attempt) == (not closed, 1 if closed else 2)
        assert (again.is_new, again.step_index) == (False, 1)


@case("S14")
async def a_failure_is_described_without_the_state(store: Store) -> None:
    """Type, message and step; cleared when the run goes on."""
    client = store.client()
    with pytest.raises(Custom):  # noqa: PT012
        async with client.run("s", initial={"secret": "payload"}) as run:
            await run.save(step_name="charge")
            raise Custom("the \ud800 cause")
    info = await thread_info(client, "s")
    assert info is not None
    assert info.error is not None
    assert "Custom" in info.error
    assert "cause" in info.error
    assert "payload" not in info.error
    async with client.run("s"):
        info = await thread_info(client, "s")
        assert info is not None
        assert (info.status, info.error) == ("running", None)


@case()
async def finishing_a_run(store: Store) -> None:
    """finish() makes the thread done; the run takes nothing more; the next entry is a new run."""
    client = store.client()
    async with client.run("s", initial={"n": 0}) as run:
        await run.finish({"answer": 42})
        assert await status(client, "s") == "done"
        with pytest.raises(RunStateError):
            await run.save({"n": 1})
        with pytest.raises(RunStateError):
            await run.finish()
    assert await status(client, "s") == "done"
    async with client.run("s") as again:
        assert (again.resumed, again.attempt, again.is_new) == (False, 1, False)
        assert again.run_id != run.run_id
        assert await status(client, "s") == "running"
    assert await status(client, "s") == "idle"


@case()
async def a_run_outside_of_its_block(store: Store) -> None:
    """RunStateError before, after, and on a second entry; there is no state before either."""
    client = store.client()
    run = client.run("s", initial={"l": []})
    with pytest.raises(RunStateError):
        await run.save({})
    with pytest.raises(RunStateError, match="not open"):
        run.state["l"].append(1)
    with pytest.raises(RunStateError, match="not open"):
        run.state = {"l": [1]}
    async with run:
        await run.append("l", 1)
    assert run.state == {"l": [1]}
    for call in (lambda: run.save({}), lambda: run.append("l", 1), run.finish):
        with pytest.raises(RunStateError):
            await call()
    with pytest.raises(RunStateError):
        async with run:
            pass
    assert len(await headers(client, "s")) == 2


@case()
async def leaving_saves_nothing(store: Store) -> None:
    """What was not saved is not there, in whatever way the block ends."""
    client = store.client()
    async with client.run("s", initial={"l": [1]}) as run:
        run.state["l"].append(2)
    async with client.run("s") as run:
        assert run.state == {"l": [1]}
        run.state["l"].append(3)
        await run.save()
    latest = await client.latest(agent_id="agent", session_id="s")
    assert latest is not None
    assert latest.state == {"l": [1, 3]}


@case()
async def initial_is_for_empty_lanes_only(store: Store) -> None:
    """A function is called where the lane is empty, and only there."""
    calls = []

    def make() -> dict[str, int]:
        calls.append(1)
        return {"n": 0}

    client = store.client()
    for _ in range(3):
        async with client.run("s", initial=make) as run:
            assert run.state == {"n": 0}
    assert len(calls) == 1
    with pytest.raises(SerializationError):
        async with client.run("bad", initial={"f": len}):
            pass
    assert await status(client, "bad") == "absent"


@case()
async def a_run_that_ended_before_its_first_step(store: Store) -> None:
    """It is resumed, and the lane is as empty as it was."""
    client = store.client()

    async def early(attempt: int) -> None:
        async with client.run("s") as run:
            assert (run.is_new, run.attempt, run.state) == (True, attempt, None)
            raise OSError("early")

    for attempt in (1, 2):
        with pytest.raises(OSError, match="early"):
            await early(attempt)
    async with client.run("s", initial={"n": 0}) as run:
        assert (run.is_new, run.resumed, run.state) == (True, True, {"n": 0})
    async with client.run("s") as run:
        assert not run.is_new


@case()
async def expectations(store: Store) -> None:
    """expect="new" refuses what is there, expect="existing" what is not; nothing is made."""
    client = store.client()
    with pytest.raises(CheckpointNotFoundError):
        async with client.run("s", expect="existing"):
            pass
    assert await status(client, "s") == "absent"
    async with client.run("s", expect="new", initial={"n": 0}) as run:
        assert run.is_new
    with pytest.raises(CheckpointConflictError):
        async with client.run("s", expect="new"):
            pass
    assert await status(client, "s") == "idle"
    async with client.run("s", expect="existing") as run:
        assert run.state == {"n": 0}
    with pytest.raises(ValueError, match="expect"):
        client.run("s", expect="old")  # type: ignore[call-overload]


@case()
async def steps_of_a_run(store: Store) -> None:
    """Each save is a step on top of the one before, with its name, context and metadata."""
    client = store.client()
    async with client.run("s", agent_id="a", initial={"n": 0}, ttl_seconds=500) as run:
        base = run.base
        saved = await run.save({"n": 1}, step_name="one", context={"c": 1}, metadata={"m": 1})
        assert (run.base, run.step_index, run.state) == (saved, 1, {"n": 1})
        run.state["n"] = 2
        second = await run.save()
    one, two = await client.restore(saved), await client.restore(second)
    assert (one.parent_id, one.step_name, one.context, one.metadata) == (
        base,
        "one",
        {"c": 1},
        {"m": 1},
    )
    assert (two.parent_id, two.step_index, two.state) == (saved, 2, {"n": 2})
    assert [c.ttl_seconds for c in await client.timeline("a", "s")] == [500, 500, 500]


@case("S22")
async def two_in_one_open_run(store: Store) -> None:
    """Two may enter one open run; the slower one's save is rejected with both ids."""
    one, two = store.client(), store.client()
    async with one.run("s", initial=LARGE) as fast:
        async with two.run("s") as slow:
            assert slow.run_id == fast.run_id
            assert (slow.attempt, slow.resumed) == (2, True)
            base = fast.base
            won = await fast.save({**LARGE, "n": 1})
            with pytest.raises(StaleWriterError) as caught:
                await slow.save({"messages": list(LARGE["messages"]), "n": 2})
            assert (caught.value.expected, caught.value.head) == (base, won)
            with pytest.raises(StaleWriterError):
                await slow.append("messages", "x")
        await fast.save({**LARGE, "n": 3})
    assert len(await headers(one, "s")) == 3
    assert await branches(one, "s") == {"main"}


@case("S22")
async def two_enter_an_empty_lane(store: Store) -> None:
    """Without a first state, whoever saves first wins."""
    one, two = store.client(), store.client()
    async with one.run("s") as first, two.run("s") as second:
        await first.save({"n": 1})
        with pytest.raises(StaleWriterError):
            await second.save({"n": 2})
    assert [c.state for c in await one.timeline("agent", "s")] == [{"n": 1}]


@case("S22")
async def many_enter_at_once(store: Store) -> None:
    """One first state, one run, and each learns the same."""
    clients = [store.client() for _ in range(6)]
    runs = [client.run("s", initial={**LARGE, "by": n}) for n, client in enumerate(clients)]
    await store.together([run.__aenter__ for run in runs])
    assert len({run.run_id for run in runs}) == 1
    assert len({run.base for run in runs}) == 1
    assert len({run.state["by"] for run in runs}) == 1
    assert sorted(run.attempt for run in runs) == [1, 2, 3, 4, 5, 6]
    assert [run.is_new for run in runs].count(True) == 1
    for run in runs:
        await run.__aexit__(None, None, None)
    assert len(await headers(clients[0], "s")) == 1


@case("S22")
async def a_save_from_outside_moves_the_head(store: Store) -> None:
    """A run rejects it whoever it was; opening it again goes on from there."""
    client = store.client()
    with pytest.raises(StaleWriterError):  # noqa: PT012
        async with client.run("s", agent_id="a", initial={"n": 0}) as run:
            await save(client, "s", {"n": 1})
            await run.save({"n": 2})
    assert await status(client, "s") == "failed"
    async with client.run("s", agent_id="a") as run:
        assert (run.state, run.attempt) == ({"n": 1}, 2)
        await run.save({"n": 3})


@case()
async def a_run_on_a_branch(store: Store) -> None:
    """A run works on the branch it names; the current one does not move."""
    client = store.client()
    await save(client, "s", {"n": 0})
    async with client.run("s", agent_id="a", branch="idea") as run:
        assert run.state == {"n": 0}
        await run.save({"n": 1})
        await run.save({"n": 2})
    async with client.run("s", agent_id="a", branch="idea") as run:
        assert run.state == {"n": 2}
    async with client.run("s", agent_id="a") as run:
        assert (run.state, run.branch) == ({"n": 0}, "main")
    assert len(await client.log("s", branch="idea")) == 2


@case()
async def a_deleted_thread_under_a_run(store: Store) -> None:
    """ThreadDeletedError for the run, also when the id lives again; leaving records nothing."""
    one, two = store.client(), store.client()
    with pytest.raises(ThreadDeletedError):  # noqa: PT012
        async with one.run("s", initial=LARGE) as run:
            await two.delete("s")
            await run.save({"n": 1})
    assert await status(two, "s") == "absent"
    async with one.run("s", initial=LARGE) as run:
        await two.delete("s")
        await save(two, "s", {"new": True})
        with pytest.raises(ThreadDeletedError):
            await run.append("messages", "x")
    assert await status(two, "s") == "idle"
    assert [c.state for c in await two.timeline("a", "s")] == [{"new": True}]


@case()
async def a_deleted_thread_is_not_finished(store: Store) -> None:
    """Its result would be kept nowhere: ThreadDeletedError, also when the id lives again."""
    one, two = store.client(), store.client()
    for initial in (None, {"n": 0}):
        async with one.run("s", initial=initial) as run:
            await two.delete("s")
            with pytest.raises(ThreadDeletedError):
                await run.finish({"answer": 42})
    async with one.run("s", initial={"n": 0}) as run:
        await two.delete("s")
        await save(two, "s", {"new": True})
        with pytest.raises(ThreadDeletedError):
            await run.finish({"answer": 42})
    assert await status(two, "s") == "idle"


@case()
async def a_deleted_thread_under_an_empty_run(store: Store) -> None:
    """A run that has no checkpoint yet holds the thread all the same."""
    one, two = store.client(), store.client()
    async with one.run("s") as run:
        await two.delete("s")
        with pytest.raises(ThreadDeletedError):
            await run.save({"n": 1})
        assert await status(two, "s") == "absent"
        async with two.run("s") as newer:
            with pytest.raises(ThreadDeletedError):
                await run.save({"n": 2})
            await newer.save({"n": 3})
    assert [c.state for c in await two.timeline("agent", "s")] == [{"n": 3}]


@case("S27")
async def a_cancelled_save_is_recognised(store: Store) -> None:
    """Cancelled means unknown: the run finds its own commit and goes on, on one line."""
    client = store.client()
    async with client.run("s", initial={"m": list(LARGE["messages"]), "n": 0}) as run:
        for number in range(1, 6):
            task = asyncio.ensure_future(run.save({"m": LARGE["messages"], "n": number}))
            await asyncio.sleep(0)
            task.cancel()
            await asyncio.wait([task])
        saved = await run.save({"m": list(LARGE["messages"]), "n": 6})
        await run.append("m", "end")
    found = await headers(client, "s")
    assert {h.branch for h in found} == {"main"}
    assert [h.parent_id for h in found[:-1]] == [h.checkpoint_id for h in found[1:]]
    assert found[1].checkpoint_id == saved
    assert [h.step_index for h in found] == list(range(len(found)))[::-1]
    numbers = [c.state["n"] for c in await client.timeline("agent", "s")]
    assert numbers[:2] == [6, 6]
    assert numbers[1:] == sorted(set(numbers), reverse=True)
    assert numbers[-1] == 0
