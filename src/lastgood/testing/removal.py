"""Deleted and expired things are gone from every reader at once, and nobody brings them back."""

from __future__ import annotations

from datetime import timedelta
from typing import Any

import pytest

from lastgood import (
    CheckpointExpiredError,
    CheckpointNotFoundError,
    LastgoodError,
    ThreadDeletedError,
)
from lastgood.testing.cases import case
from lastgood.testing.operations import LARGE, save
from lastgood.testing.store import Store, headers, status, thread_info


async def latest_state(store: Store, thread: str = "s") -> Any:
    """What a new client finds at the head."""
    found = await store.client().latest(agent_id="a", session_id=thread)
    return None if found is None else found.state


@case()
async def an_expired_head_reads_as_its_ancestor(store: Store) -> None:
    """By time: the nearest live ancestor, then saves go on from there."""
    client = store.client()
    first = await save(client, "s", LARGE)
    for number in range(3):
        await save(client, "s", {**LARGE, "n": number}, ttl_seconds=1)
    last = (await headers(client, "s"))[0].checkpoint_id
    await store.pass_time(1.5)
    assert await latest_state(store) == LARGE
    assert [h.checkpoint_id for h in await headers(client, "s")] == [first]
    assert [c.checkpoint_id for c in await client.timeline("a", "s")] == [first]
    with pytest.raises(CheckpointExpiredError):
        await client.restore(last)
    with pytest.raises(CheckpointExpiredError):
        await client.handoff(last, "b")
    assert await client.expire(last) is False
    found = await client.restore(await save(client, "s", {**LARGE, "n": 9}))
    assert (found.parent_id, found.step_index, found.branch) == (first, 1, "main")
    assert await latest_state(store) == {**LARGE, "n": 9}


@case()
async def everything_expired(store: Store) -> None:
    """A lane of which all is over its time is empty, and begins anew."""
    client = store.client()
    await save(client, "s", LARGE, ttl_seconds=1)
    await store.pass_time(1.5)
    assert await latest_state(store) is None
    assert await headers(client, "s") == []
    found = await client.restore(await save(client, "s", {"n": 1}))
    assert (found.parent_id, found.step_index) == (None, 0)
    assert await latest_state(store) == {"n": 1}


@case()
async def an_expired_head_as_an_explicit_parent(store: Store) -> None:
    """The nearest live ancestor may be named as parent: that advances the branch."""
    client = store.client()
    first = await save(client, "s", {"n": 0})
    await save(client, "s", {"n": 1}, ttl_seconds=1)
    await store.pass_time(1.5)
    found = await client.restore(
        await save(client, "s", {"n": 2}, parent_id=first, on_conflict="reject")
    )
    assert (found.parent_id, found.branch) == (first, "main")


@case()
async def a_run_on_an_expired_head(store: Store) -> None:
    """Enters at what the head reads as, and goes on; its own steps may expire too."""
    client = store.client()
    await save(client, "s", {"n": 0})
    await save(client, "s", {"n": 1}, ttl_seconds=1)
    await store.pass_time(1.5)
    async with client.run("s", agent_id="a", initial={"never": 1}) as run:
        assert run.state == {"n": 0}
        await run.save({"n": 2})
    assert await latest_state(store) == {"n": 2}
    async with client.run("short", initial={"n": 0}, ttl_seconds=1) as run:
        await store.pass_time(1.5)
        await run.save({"n": 1})
        await run.save({"n": 2})
    found = await client.latest(agent_id="agent", session_id="short")
    assert found is not None
    assert found.state == {"n": 2}


@case()
async def a_run_where_all_is_over(store: Store) -> None:
    """A lane of which everything expired is empty: `initial` is used, steps are saved."""
    client = store.client()
    await save(client, "s", {"old": 1}, ttl_seconds=1)
    await store.pass_time(1.5)
    async with client.run("s", agent_id="a", initial={"new": 1}) as run:
        assert (run.state, run.step_index) == ({"new": 1}, 0)
        await run.save({"new": 2})
    await save(client, "t", {"old": 1}, ttl_seconds=1)
    await store.pass_time(1.5)
    async with client.run("t", agent_id="a") as run:
        assert run.state is None
        await run.save({"new": 3})
    assert await latest_state(store) == {"new": 2}
    assert await latest_state(store, "t") == {"new": 3}


@case()
async def a_gap_on_a_side_branch(store: Store) -> None:
    """What a branch falls back to does not depend on the order in which things went."""
    client = store.client()
    root = await save(client, "s", {"n": 0})
    one = await save(client, "s", {"n": 1}, parent_id=root, branch="side")
    two = await save(client, "s", {"n": 2}, parent_id=one)
    await save(client, "s", {"n": 9})
    await client.expire(one)
    await client.expire(two)
    found = await client.restore(await save(client, "s", {"n": 3}, branch="side"))
    assert (found.parent_id, found.branch) == (root, "side")


@case()
async def a_gap_beside_a_handoff(store: Store) -> None:
    """A lane never falls back to what was handed to another one."""
    client = store.client()
    saves = [await save(client, "s", {"n": number}) for number in range(3)]
    await client.handoff(saves[0], "b")
    saves += [await save(client, "s", {"n": number}) for number in range(3, 5)]
    for number in (3, 4):
        await client.expire(saves[number])
    found = await client.latest(agent_id="a", session_id="s")
    assert found is not None
    assert (found.agent_id, found.checkpoint_id) == ("a", saves[2])


@case()
async def removing_from_the_middle(store: Store) -> None:
    """Its neighbours stay and restore; the chain has a gap, not a hole."""
    client = store.client()
    saves, states = [], []
    for number in range(5):
        states.append({"m": [f"{i} {number}" * 20 for i in range(80 + number)]})
        saves.append(await save(client, "s", states[-1]))
    for number in (2, 1):
        assert await client.expire(saves[number]) is True
        assert await client.expire(saves[number]) is False
        with pytest.raises(CheckpointNotFoundError):
            await client.restore(saves[number])
    fresh = store.client()
    for number in (0, 3, 4):
        assert (await fresh.restore(saves[number])).state == states[number]
    assert [h.checkpoint_id for h in await headers(fresh, "s")] == [saves[4], saves[3], saves[0]]
    found = await fresh.restore(await save(fresh, "s", {"n": 1}))
    assert found.parent_id == saves[4]


@case()
async def removing_the_head_again_and_again(store: Store) -> None:
    """Each time the head is the next live one; in between saves go on."""
    client = store.client()
    saves = [await save(client, "s", {**LARGE, "n": number}) for number in range(5)]
    await client.expire(saves[2])
    for expected in (3, 1, 0):
        await client.expire((await headers(client, "s"))[0].checkpoint_id)
        assert await latest_state(store) == {**LARGE, "n": expected}
    saved = await client.restore(await save(client, "s", {**LARGE, "n": 9}))
    assert saved.parent_id == saves[0]
    await client.expire(saved.checkpoint_id)
    await client.expire(saves[0])
    assert await latest_state(store) is None
    again = await client.restore(await save(client, "s", {"n": 10}))
    assert (again.parent_id, again.step_index) == (None, 0)
    assert again.seq == 7


@case()
async def a_base_that_expired_under_a_writer(store: Store) -> None:
    """A client whose diff base is removed by another stores what it needs in full."""
    one, two = store.client(), store.client()
    await save(one, "s", LARGE)
    base = await save(one, "s", {"messages": [*LARGE["messages"], "x"]})
    await two.expire(base)
    longer = {"messages": [*LARGE["messages"], "x", "y"]}
    saved = await save(one, "s", longer)
    assert (await store.client().restore(saved)).state == longer


@case()
async def a_parent_that_is_gone(store: Store) -> None:
    """Removed or over its time: an error that says so, and no branch out of nowhere."""
    client = store.client()
    await save(client, "s", {"n": 0})
    removed = await save(client, "s", {"n": 1})
    expired = await save(client, "s", {"n": 2}, ttl_seconds=1)
    await save(client, "s", {"n": 3})
    await client.expire(removed)
    await store.pass_time(1.5)
    with pytest.raises(CheckpointNotFoundError):
        await save(client, "s", {}, parent_id=removed)
    with pytest.raises(CheckpointExpiredError):
        await save(client, "s", {}, parent_id=expired)
    assert len(await headers(client, "s")) == 2


@case(each={"zero": 0, "negative": -1, "negative delta": timedelta(-1), "nan": float("nan")})
async def a_lifetime_of_nothing(store: Store, ttl: Any) -> None:
    """A TTL must be greater than 0: no "for ever", no "gone at once"."""
    client = store.client()
    with pytest.raises(ValueError, match="ttl_seconds"):
        await save(client, "s", {}, ttl_seconds=ttl)
    with pytest.raises(ValueError, match="ttl_seconds"):
        client.run("s", ttl_seconds=ttl)
    saved = await save(client, "t", {})
    with pytest.raises(ValueError, match="ttl_seconds"):
        await client.handoff(saved, "b", ttl_seconds=ttl)
    assert await thread_info(client, "s") is None


@case()
async def lifetimes(store: Store) -> None:
    """Half seconds, timedeltas and whole centuries; a later save without one is kept."""
    client = store.client()
    short = await client.restore(await save(client, "s", {"n": 0}, ttl_seconds=0.5))
    delta = await client.restore(await save(client, "s", {"n": 1}, ttl_seconds=timedelta(hours=1)))
    century = await client.restore(await save(client, "s", {"n": 2}, ttl_seconds=3.2e9))
    await save(client, "s", {"n": 3})
    assert (short.ttl_seconds, delta.ttl_seconds, century.ttl_seconds) == (0.5, 3600, 3.2e9)
    await store.pass_time(1)
    assert [h.step_index for h in await headers(client, "s")] == [3, 2, 1]


@case()
async def handoff_inherits_the_rest_of_the_time(store: Store) -> None:
    """Unless told otherwise."""
    client = store.client()
    source = await client.restore(await save(client, "s", {"n": 0}, ttl_seconds=100))
    await store.pass_time(1)
    inherited = await client.restore(await client.handoff(source.checkpoint_id, "b"))
    other = await client.restore(await client.handoff(source.checkpoint_id, "c", ttl_seconds=7))
    kept = await client.restore(await client.handoff(source.checkpoint_id, "d", ttl_seconds=None))
    assert inherited.expires_at == source.expires_at
    assert inherited.ttl_seconds is not None
    assert 90 < inherited.ttl_seconds <= 99
    assert (other.ttl_seconds, kept.ttl_seconds, kept.expires_at) == (7, None, None)
    assert inherited.verify_integrity()


@case("S39")
async def deleting_a_thread(store: Store) -> None:
    """Gone from every reader at once; late writers cannot bring it back; a new root can."""
    client, late = store.client(), store.client()
    parent = await save(client, "s", LARGE)
    await late.restore(parent)
    assert await client.delete("s") is True
    assert await client.delete("s") is False
    assert await status(client, "s") == "absent"
    assert await latest_state(store) is None
    assert await headers(late, "s") == []
    with pytest.raises(CheckpointNotFoundError):
        await late.restore(parent)
    with pytest.raises(ThreadDeletedError):
        await save(late, "s", LARGE, parent_id=parent)
    with pytest.raises(LastgoodError):
        await late.handoff(parent, "b")
    assert await status(client, "s") == "absent"
    found = await late.restore(await save(late, "s", {"new": 1}))
    assert (found.parent_id, found.step_index, found.branch) == (None, 0, "main")
    with pytest.raises(ThreadDeletedError):
        await save(client, "s", LARGE, parent_id=parent)
    assert [h.checkpoint_id for h in await headers(client, "s")] == [found.checkpoint_id]


@case("S39", each={"small": "00000000-0000-4000-8000-000000000001", "large": "ffffffff" * 4})
async def a_late_writer_with_a_chosen_id(store: Store, chosen: str) -> None:
    """What its parent's id looks like makes no difference, nor do the clocks."""
    client = store.client()
    parent = await save(client, "s", {"n": 1}, checkpoint_id=chosen)
    store.harness.time.shift = -5000.0
    await client.delete("s")
    await save(client, "s", {"n": 2})
    with pytest.raises(ThreadDeletedError):
        await save(client, "s", {"n": 3}, parent_id=parent)


@case("S39")
async def an_id_that_lives_again(store: Store) -> None:
    """Writers with a cache full of the old life store the new one whole."""
    clients = [store.client() for _ in range(3)]
    for life in range(3):
        for number, client in enumerate(clients):
            await save(client, "s", {**LARGE, "n": [life, number]})
        assert await latest_state(store) == {**LARGE, "n": [life, 2]}
        info = await thread_info(clients[0], "s")
        assert info is not None
        assert info.checkpoints == 3
        await clients[life].delete("s")
    assert len(await clients[0].threads()) == 0


@case("S39")
async def deleting_frees_nothing_of_others(store: Store) -> None:
    """A thread with the same pages keeps its own."""
    client = store.client()
    kept = await save(client, "kept", LARGE)
    for _ in range(3):
        await save(client, "gone", LARGE)
        await client.delete("gone")
    assert (await store.client().restore(kept)).state == LARGE
    assert [info.thread_id for info in await client.threads()] == ["kept"]


@case("S39")
async def what_expired_is_not_counted(store: Store) -> None:
    """A list of threads counts what can still be read."""
    client = store.client()
    await save(client, "s", {"n": 0}, step_name="kept")
    gone = await save(client, "s", {"n": 1}, step_name="removed")
    await client.expire(gone)
    info = await thread_info(client, "s")
    assert info is not None
    assert (info.checkpoints, info.last_step) == (1, "kept")


@case()
async def the_newest_that_errors_name_can_be_read(store: Store) -> None:
    """What was saved last and is gone is not what to try instead."""
    client = store.client()
    first, second = [await save(client, "s", {"n": number}) for number in range(2)]
    await save(client, "s", {"n": 2}, ttl_seconds=1)
    await store.pass_time(1.5)
    for newest, removed in (("@2", second), ("@1", first)):
        with pytest.raises(CheckpointNotFoundError) as caught:
            await client.resolve("s@~9")
        assert caught.value.hint == f"The newest checkpoint of the thread is {newest}."
        await client.expire(removed)
    with pytest.raises(CheckpointNotFoundError) as caught:
        await client.resolve("s@")
    assert caught.value.hint == "All checkpoints of the thread were removed or are over their time."
