"""Rewind, undo, switch: which line an agent follows changes, and no line is ever lost."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any
from uuid import uuid4

import pytest

from lastgood import CheckpointExpiredError, CheckpointNotFoundError
from lastgood.client import Client
from lastgood.model import Header
from lastgood.testing.cases import case
from lastgood.testing.operations import LARGE, save
from lastgood.testing.store import (
    Store,
    current,
    everything,
    head_state,
    headers,
    line,
    reachable,
)


async def numbered(client: Client, thread: str, count: int) -> list[str]:
    """Saves of {"n": 0}, {"n": 1}, ..."""
    return [await save(client, thread, {"n": number}) for number in range(count)]


@case("S44")
async def a_rollback_is_undoable_and_complete(store: Store) -> None:
    """Keys of the beginning come back, later ones leave no ghosts, and undo restores all."""
    client = store.client()
    messages = list(LARGE["messages"])
    states: list[dict[str, Any]] = [
        {"made": {"at": "creation"}, "dropped": [1, 2], "messages": messages},
        {"made": {"at": "creation"}, "dropped": [1, 2], "messages": [*messages, "one"]},
        {"made": {"at": "creation"}, "messages": [*messages, "one", "two"], "added": "later"},
        {"messages": [*messages, "one", "two", "three"], "added": "later"},
    ]
    async with client.run("s", agent_id="a", initial=states[0]) as run:
        for state in states[1:]:
            await run.save(state)
    before = await everything(client, "s")
    move = await store.client().rewind("s", "@step:1")
    assert (move.kind, move.left) == ("rewind", "main")
    assert move.head is not None
    assert (move.head.step_index, move.head.step_name) == (1, "rewind_to_2")
    assert str(move) == (f"s/a is on {move.branch} at @5; main stays as it was. undo() goes back.")
    assert await head_state(store.client(), "s") == states[1]
    async with store.client().run("s", agent_id="a") as run:
        assert run.state == states[1]
        assert run.base == move.head.checkpoint_id
    after = await everything(store.client(), "s")
    assert {id: after[id] for id in before} == before
    undone = await client.undo("s")
    assert (undone.kind, undone.left, undone.branch) == ("undo", move.branch, "main")
    assert await head_state(store.client(), "s") == states[3]
    again = await store.client().undo("s")
    assert again.head is not None
    assert (again.branch, again.head.checkpoint_id) == (move.branch, move.head.checkpoint_id)
    assert await head_state(store.client(), "s") == states[1]


REFS: dict[str, Any] = {
    "an id": None,
    "a seq": 2,
    "a short seq": "@2",
    "an address": "s@2",
    "with the agent": "s/a@2",
    "counted back": "@~3",
    "a step": "s@step:1",
    "a tag": "@tag:good",
    "a branch": "@branch:side",
}


@case("S44", each=REFS)
async def a_rewind_to_any_ref(store: Store, ref: Any) -> None:
    """The new checkpoint has the target's state and step, follows it, and is current."""
    client = store.client()
    ids = await numbered(client, "s", 5)
    await client.tag(ids[1], "good")
    side = await client.fork(ids[1], branch="side")
    move = await client.rewind("s", ids[1] if ref is None else ref)
    found = await store.client().latest(agent_id="a", session_id="s")
    assert found is not None
    assert (found.state, found.step_index) == ({"n": 1}, 1)
    assert move.head is not None
    assert found.checkpoint_id == move.head.checkpoint_id
    assert found.parent_id in (ids[1], side)
    assert found.branch == move.branch == await current(client, "s")
    assert await reachable(client, "s") == {*ids, side, found.checkpoint_id}
    follower = await client.resolve(await save(store.client(), "s", {"n": "next"}))
    assert (follower.parent_id, follower.step_index) == (found.checkpoint_id, 2)
    assert (await client.resolve("s@branch:main")).checkpoint_id == ids[4]


@case("S44")
async def a_rewind_onto_itself(store: Store) -> None:
    """To the head is a move like any other."""
    client = store.client()
    ids = await numbered(client, "s", 2)
    first = await client.rewind("s", "@")
    second = await client.rewind("s", "@")
    assert first.head is not None
    assert second.head is not None
    assert first.head.parent_id == ids[1]
    assert second.head.parent_id == first.head.checkpoint_id
    assert await head_state(client, "s") == {"n": 1}
    assert {b.name for b in await client.branches("s")} == {"main", first.branch, second.branch}
    for branch in (first.branch, second.branch, first.branch):
        assert (await client.undo("s")).branch == branch


@case("S44")
async def names_of_rewinds_do_not_grow(store: Store) -> None:
    """A rewind of a rewind is named after the first branch; every line stays."""
    client = store.client()
    await numbered(client, "s", 3)
    moves = [await client.rewind("s", "@~1") for _ in range(5)]
    names = {move.branch for move in moves}
    assert len(names) == 5
    assert all(name.startswith("main-") and len(name) == 11 for name in names), names
    assert len(await reachable(client, "s")) == 8


@case("S44")
async def rewinds_across_branches_and_agents(store: Store) -> None:
    """Any checkpoint of the agent, on whichever branch; another agent's or thread's is refused."""
    client = store.client()
    ids = await numbered(client, "s", 3)
    side = await client.fork(ids[0], branch="side", edits={"n": "side"})
    other = await client.save("b", execution_state={"n": "b"}, session_id="s")
    elsewhere = await save(client, "t", {"n": "t"})
    before = await everything(client, "s")
    for to, where in ((other, "s/b"), (elsewhere, "t/a"), ("t@", "t/a")):
        with pytest.raises(ValueError, match=f"{where}, not in s/a"):
            await client.rewind("s", to, agent_id="a")
    with pytest.raises(ValueError, match="t/a, not in s"):
        await client.rewind("s", elsewhere)
    assert await everything(client, "s") == before
    move = await client.rewind("s", side)
    assert (move.agent_id, move.left) == ("a", "main")
    assert await head_state(client, "s") == {"n": "side"}
    assert await head_state(client, "s", "b") == {"n": "b"}
    move = await client.rewind("s", other)
    assert move.agent_id == "b"
    assert await head_state(client, "s") == {"n": "side"}


@case("S44")
async def the_agent_is_named_once(store: Store) -> None:
    """In a thread with several agents, agent_id tells what a ref without one is about."""
    client = store.client()
    await numbered(client, "s", 3)
    for number in range(3):
        await client.save("b", execution_state={"b": number}, session_id="s")
    for to in ("@~1", "s@~1", "@step:1", "s/b@~1"):
        move = await client.rewind("s", to, agent_id="b")
        assert move.agent_id == "b"
        assert await head_state(client, "s", "b") == {"b": 1}
        await client.undo("s", agent_id="b")
    parent = await client.resolve("s/b@~1")
    found = await client.resolve(
        await client.save("b", execution_state={}, session_id="s", parent_id="@~1")
    )
    assert found.parent_id == parent.checkpoint_id
    calls = (
        (client.rewind("s", "@~1"), "s/a@~1"), (client.undo("s"), "s/a@"),
        (client.switch("s", "main"), "s/a@"), (client.resolve("s@"), "s/a@"),
        (client.rewind("s", "@~1", agent_id="c"), "s/a@~1"),
        (client.latest(session_id="s"), "s/a@"),
    )  # fmt: skip
    for call, ref in calls:
        with pytest.raises(ValueError, match=rf"thread 's' has 2 agents: a, b\. .*, or '{ref}'"):
            await call


@case("S44")
async def the_latest_of_the_only_agent(store: Store) -> None:
    """Where there is one agent, nobody has to know what it is called."""
    client = store.client()
    assert await client.latest(session_id="s") is None
    await numbered(client, "s", 2)
    found = await client.latest(session_id="s")
    assert found == await client.latest(session_id="s", agent_id="a")
    assert found is not None
    assert found.state == {"n": 1}


@case("S44")
async def rewinds_to_what_is_gone(store: Store) -> None:
    """Expired, removed, never there: an error, and nothing moves."""
    client = store.client()
    first = await save(client, "s", {"n": 0}, ttl_seconds=10)
    second = await save(client, "s", {"n": 1})
    third = await save(client, "s", {"n": 2})
    await client.tag(first, "over")
    await client.tag(second, "removed")
    await client.expire(second)
    await store.pass_time(11)
    over: list[str | int] = [first, "@1", 1, "@tag:over"]
    gone: list[str | int] = [second, "@2", 2, 99, str(uuid4())]
    gone += ["@tag:removed", "@branch:no", "@~1", "@step:1"]
    for to in over:
        with pytest.raises(CheckpointExpiredError, match="over its time"):
            await client.rewind("s", to)
    for to in gone:
        with pytest.raises(CheckpointNotFoundError):
            await client.rewind("s", to)
    with pytest.raises(CheckpointNotFoundError):
        await client.rewind("nowhere", "@1")
    assert [h.checkpoint_id for h in await headers(client, "s")] == [third]
    assert await current(client, "s") == "main"


@case("S44")
async def a_rewind_keeps_the_time_that_is_left(store: Store) -> None:
    """Going back to a checkpoint does not make it live longer."""
    client = store.client()
    await save(client, "s", {"n": 0}, ttl_seconds=100)
    await save(client, "s", {"n": 1})
    move = await client.rewind("s", 1)
    assert move.head is not None
    assert move.head.expires_at == (await client.resolve("s@1")).expires_at
    await store.pass_time(101)
    assert await head_state(client, "s") is None
    assert await head_state(store.client(), "s") is None
    await client.undo("s")
    assert await head_state(client, "s") == {"n": 1}


@case("S44")
async def nothing_to_undo(store: Store) -> None:
    """Plain saves are not undone; the message says what does that."""
    client = store.client()
    await numbered(client, "a/b@c", 2)
    with pytest.raises(CheckpointNotFoundError) as caught:
        await client.undo("a/b@c")
    assert "nothing to undo" in str(caught.value)
    ref = str(caught.value).split("'")[1]
    assert (await client.resolve(ref)).seq == 1
    with pytest.raises(CheckpointNotFoundError):
        await client.undo("nowhere")
    with pytest.raises(CheckpointNotFoundError, match="no thread 'a/b@c' with an agent 'nobody'"):
        await client.undo("a/b@c", agent_id="nobody")


@case("S44")
async def every_change_of_branch_can_be_undone(store: Store) -> None:
    """Switch, starting over, a handoff that takes over, a fork with switch, a rewind."""
    client = store.client()
    ids = await numbered(client, "s", 2)
    await client.fork(ids[0], branch="side")
    other = await client.save("b", execution_state={"n": "b"}, session_id="s")

    async def over() -> str:
        return await save(client, "s", {"n": "over"}, parent_id=None)

    changes: dict[str, Callable[[], Any]] = {
        "switch": lambda: client.switch("s", "side", agent_id="a"),
        "start over": over,
        "handoff": lambda: client.handoff(other, "a"),
        "fork": lambda: client.fork(ids[0], switch=True),
        "rewind": lambda: client.rewind("s", ids[0]),
    }
    for kind, change in changes.items():
        before = await client.resolve("s/a@")
        await change()
        after = await client.resolve("s/a@")
        assert after.branch != before.branch, kind
        assert (await client.undo("s", agent_id="a")).head == before
        assert (await client.undo("s", agent_id="a")).head == after
    assert len(await headers(client, "s")) == len(await reachable(client, "s")) == 8
    assert await current(client, "s", "b") == "main"


@case("S44")
async def undo_goes_to_the_branch_and_not_to_a_moment(store: Store) -> None:
    """Saves after a move stay; back on the old branch, its own newest is current."""
    client = store.client()
    ids = await numbered(client, "s", 3)
    await client.rewind("s", ids[0])
    onward = await save(client, "s", {"n": "onward"})
    late = await save(client, "s", {"n": "late"}, branch="main")
    assert (await client.undo("s")).head == await client.resolve(late)
    assert (await client.undo("s")).head == await client.resolve(onward)


@case("S44")
async def switching(store: Store) -> None:
    """To a branch that is there; to the current one is no move; to none is an error."""
    client = store.client()
    ids = await numbered(client, "s", 2)
    side = await client.fork(ids[0], branch="side", edits={"n": "side"})
    move = await store.client().switch("s", "side")
    assert (move.kind, move.left, move.branch) == ("switch", "main", "side")
    assert move.head == await client.resolve(side)
    stays = await client.switch("s", "side")
    assert (stays.left, stays.branch) == ("side", "side")
    assert str(stays) == "s/a stays on side at @3."
    assert (await client.undo("s")).branch == "main"
    with pytest.raises(CheckpointNotFoundError, match=r"has no branch 'none'.*branches\(\)"):
        await client.switch("s", "none")
    with pytest.raises(CheckpointNotFoundError, match="no thread 's' with an agent 'nobody'"):
        await client.switch("s", "side", agent_id="nobody")
    with pytest.raises(CheckpointNotFoundError):
        await client.switch("nowhere", "side")
    async with client.run("s", agent_id="a", branch="side") as run:
        assert run.state == {"n": "side"}
        await run.save({"n": "explicit"})
    assert await head_state(client, "s") == {"n": 1}
    assert (await client.switch("s", "side")).branch == "side"
    assert await head_state(client, "s") == {"n": "explicit"}


@case("S44")
async def an_empty_branch_is_followed(store: Store) -> None:
    """A branch of which all is gone reads as nothing, and undo leads away from it."""
    client = store.client()
    first = await save(client, "s", {"n": 0})
    root = await save(client, "s", {"n": 1}, parent_id=None)
    await client.expire(first)
    move = await client.undo("s")
    assert (move.branch, move.head) == ("main", None)
    assert str(move).startswith("s/a is on main, which is empty;")
    assert await head_state(client, "s") is None
    assert (await client.undo("s")).head == await client.resolve(root)


@case("S44")
async def a_move_in_a_thread_that_was_deleted(store: Store) -> None:
    """Nothing of the old incarnation is moved to, or undone, in the new one."""
    client = store.client()
    ids = await numbered(client, "s", 2)
    move = await client.rewind("s", ids[0])
    await client.delete("s")
    await save(client, "s", {"n": "new"})
    for attempt in (
        client.undo("s"), client.switch("s", move.branch), client.rewind("s", ids[0]),
    ):  # fmt: skip
        with pytest.raises(CheckpointNotFoundError):
            await attempt
    assert await head_state(client, "s") == {"n": "new"}


@case("S44")
async def seq_order_stays_the_truth(store: Store) -> None:
    """After any moves the log is in the order of commits, and a line only goes back in it."""
    client = store.client()
    await numbered(client, "s", 3)
    await client.rewind("s", 1)
    await save(client, "s", {"n": "x"})
    await client.undo("s")
    await client.rewind("s", 5)
    await save(client, "s", {"n": "y"})
    assert [h.seq for h in await headers(client, "s")] == [7, 6, 5, 4, 3, 2, 1]
    seqs = [each.seq for each in await line(client, "s@") if isinstance(each, Header)]
    assert seqs == [7, 6, 5, 4, 1]
