"""Moves beside others: under running runs, at once with saves, with an outcome nobody learnt."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import Any

import pytest

from lastgood import StaleWriterError, StorageError
from lastgood.client import Client
from lastgood.rules import Save
from lastgood.testing.cases import case
from lastgood.testing.moves import numbered
from lastgood.testing.operations import save
from lastgood.testing.store import (
    Store,
    core_of,
    current,
    everything,
    head_state,
    headers,
    reachable,
)


@case("S44")
async def a_run_that_is_rewound_under_its_feet(store: Store) -> None:
    """Its next save is refused, whatever it is; opened again it goes on from the new head."""
    client, other = store.client(), store.client()
    async with client.run("s", initial={"n": 0, "l": [1]}) as run:
        await run.save({"n": 1, "l": [1]})
        move = await other.rewind("s", 1)
        for attempt in (run.save({"n": 2, "l": [1]}), run.append("l", 2)):
            with pytest.raises(StaleWriterError) as caught:
                await attempt
        assert move.head is not None
        assert caught.value.expected == run.base
        assert "Open the run again" in str(caught.value)
    async with client.run("s") as run:
        assert (run.state, run.branch) == ({"n": 0, "l": [1]}, move.branch)
        await run.save({"n": "after"})
    assert [h.seq for h in await headers(client, "s")] == [4, 3, 2, 1]
    assert (await client.resolve("s@")).parent_id == move.head.checkpoint_id


MOVES: dict[str, Callable[[Client], Any]] = {
    "switch": lambda client: client.switch("s", "side"),
    "fork": lambda client: client.fork("s@1", switch=True),
    "start over": lambda client: save(client, "s", {"n": "over"}, parent_id=None),
    "rewind to the head": lambda client: client.rewind("s", "@"),
}


@case("S44", each=MOVES)
async def runs_follow_the_current_branch(store: Store, move: Callable[[Client], Any]) -> None:
    """A run without a branch is refused when that moves; one that was given its own is not."""
    client, other = store.client(), store.client()
    ids = await numbered(client, "s", 2)
    await client.fork(ids[0], branch="side")
    async with (
        client.run("s", agent_id="a") as run,
        other.run("s", agent_id="a", branch="main") as own,
    ):
        await move(store.client())
        with pytest.raises(StaleWriterError):
            await run.save({"n": "refused"})
        await own.save({"n": "own"})
    assert (await client.restore("s@branch:main")).state == {"n": "own"}
    assert (await client.resolve("s@")).branch != "main"


@case("S44")
async def undone_before_anybody_noticed(store: Store) -> None:
    """A run whose branch is current again goes on."""
    client = store.client()
    async with client.run("s", agent_id="a", initial={"n": 0}) as run:
        await store.client().rewind("s", 1)
        await store.client().undo("s")
        await run.save({"n": 1})
    assert await head_state(client, "s") == {"n": 1}


@case("S22", "S44")
async def rewinds_and_saves_at_once(store: Store) -> None:
    """Two clients rewind while four save: whatever was acknowledged is reachable afterwards."""
    clients = [store.client() for _ in range(6)]
    ids = await numbered(clients[0], "s", 4)

    async def saves(client: Client, name: str) -> list[str]:
        return [await save(client, "s", {"by": name, "n": n}) for n in range(5)]

    async def rewinds(client: Client) -> list[str]:
        moves = [await client.rewind("s", ids[n % 4]) for n in range(5)]
        return [move.head.checkpoint_id for move in moves if move.head is not None]

    calls = [partial(saves, client, f"{n}") for n, client in enumerate(clients[:4])]
    outcomes = await store.together([*calls, *(partial(rewinds, c) for c in clients[4:])])
    assert all(isinstance(outcome, list) for outcome in outcomes), outcomes
    made = {id for outcome in outcomes for id in outcome}
    assert len(made) == 30
    fresh = store.client()
    assert await reachable(fresh, "s") == {*ids, *made}
    seqs = [header.seq for header in await headers(fresh, "s")]
    assert seqs == list(range(34, 0, -1))
    entries = [await fresh.undo("s") for _ in range(2)]
    assert (entries[0].left, entries[0].branch) == (entries[1].branch, entries[1].left)


@case("S44")
async def a_rewind_whose_outcome_was_not_learnt(store: Store) -> None:
    """Carried out again it is the same one: one checkpoint, one move, the same answer."""
    client = store.client()
    ids = await numbered(client, "s", 2)
    core, sent = core_of(client), list[Any]()
    whole = core.backend.commit

    async def twice(intent: Any) -> Any:
        sent.append(intent)
        await whole(intent)
        return await whole(intent.again())

    core.backend.commit = twice  # type: ignore[method-assign]
    try:
        move = await client.rewind("s", ids[0])
        undone = await client.undo("s")
        switched = await client.switch("s", move.branch)
    finally:
        core.backend.commit = whole  # type: ignore[method-assign]
    assert (move.kind, move.left) == ("rewind", "main")
    assert (undone.left, switched.left) == (move.branch, "main")
    assert move.head == switched.head
    assert isinstance(sent[0], Save)
    assert len(await headers(client, "s")) == 3
    assert await current(client, "s") == move.branch
    assert (await client.undo("s")).branch == "main"


@case("S16")
async def a_move_on_a_full_disk(store: Store) -> None:
    """It raises, and everything is as before."""
    client = store.client()
    ids = await numbered(client, "s", 2)
    await client.fork(ids[0], branch="side")
    before = await everything(client, "s")
    with store.full_disk(client):
        for attempt in (
            client.rewind("s", ids[0]), client.switch("s", "side"), client.fork(ids[0]),
            client.tag(ids[0], "t"),
        ):  # fmt: skip
            with pytest.raises(StorageError):
                await attempt
    assert await everything(client, "s") == before
    assert await current(client, "s") == "main"
    assert await client.tags("s") == {}
    assert (await client.rewind("s", ids[0])).left == "main"
