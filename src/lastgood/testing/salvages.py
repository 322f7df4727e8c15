"""Salvage: what can be restored of a damaged thread goes over into another store, all of it."""

from __future__ import annotations

from typing import Any

import pytest

from lastgood import CheckpointNotFoundError, Header
from lastgood.backends.memory import MemoryBackend
from lastgood.client import Client
from lastgood.testing.cases import case
from lastgood.testing.copies_cases import copied
from lastgood.testing.items_cases import item, put
from lastgood.testing.operations import LARGE, save
from lastgood.testing.store import Store, headers, line
from lastgood.testing.verification import DAMAGES, Damage, victims


async def _states(client: Client, ids: dict[str, str]) -> dict[str, Any]:
    return {name: (await client.restore(id)).state for name, id in ids.items()}


async def _for_good(client: Client) -> set[str]:
    """What `verify` names as lost, and not only out of reach in this store."""
    problems = (await client.verify(data=True)).problems
    return {name for each in problems if not each.repairable for name in each.checkpoints}


@case("S20", each=DAMAGES)
async def all_that_is_left_goes_over(store: Store, damage: Damage) -> None:
    """Every checkpoint that is not lost, equal and with its place; the thread is whole there."""
    client = store.client()
    ids = await victims(client)
    states = await _states(client, ids)
    await store.close()
    damage.act(store.harness)
    client, target = store.client(), store.client_on(MemoryBackend())
    lost = await _for_good(client)
    report = await copied(client, target, salvage=True)
    assert report.problems == ()
    assert (report.threads, report.complete) == (2, False)
    assert [(each.thread, set(each.lost)) for each in report.salvaged] == [("hurt", lost)]
    left = {name: id for name, id in ids.items() if name not in lost}
    assert report.checkpoints == len(left)
    assert await _states(target, left) == {name: states[name] for name in left}
    found = [*await headers(target, "hurt"), *await headers(target, "whole")]
    assert {header.name: header.checkpoint_id for header in found} == left
    assert (await target.verify(data=True)).problems == ()
    assert (await copied(store.client(), target, salvage=True)).same == 2
    await _goes_on(target, lost)


async def _goes_on(client: Client, lost: set[str]) -> None:
    """An agent works in the thread as in any other: forward, back, and after undoing that."""
    latest = await client.latest(agent_id="a", session_id="hurt")
    assert latest is not None
    assert latest.name == ("hurt@5" if "hurt@5" not in lost else "hurt@4")
    saved = await save(client, "hurt", {"late": 1})
    assert (await client.resolve("hurt/a@~1")).checkpoint_id == latest.checkpoint_id
    await client.rewind("hurt", latest.checkpoint_id, agent_id="a")
    await client.undo("hurt", agent_id="a")
    restored = await client.latest(agent_id="a", session_id="hurt")
    assert restored is not None
    assert restored.checkpoint_id == saved
    assert (await client.verify(data=True)).clean


@case("S20")
async def a_thread_that_nothing_leads_to(store: Store) -> None:
    """It stays behind, and the report says so: nobody takes the copy for all there was."""
    client = store.client()
    await victims(client)
    await store.close()
    store.harness.lose_row("thread", "hurt")
    client, target = store.client(), store.client_on(MemoryBackend())
    report = await copied(client, target, salvage=True)
    assert (report.threads, report.complete) == (1, False)
    assert [problem.kind for problem in report.problems] == ["damaged"]
    assert (await copied(client, target, salvage=True, session_ids="whole")).complete


@case("S20")
async def history_leads_past_what_is_lost(store: Store) -> None:
    """What followed a lost checkpoint follows what that one followed; runs resume behind it."""
    client = store.client()
    async with client.run("hurt", initial={"n": 1}) as run:
        await run.save({"n": 2, **LARGE})
        await run.save({"n": 3})
    await client.tag("hurt@1", "kept")
    await client.tag("hurt@2", "gone")
    await store.close()
    store.harness.flip_part("hurt")
    target = store.client_on(MemoryBackend())
    (salvaged,) = (await copied(store.client(), target, salvage=True)).salvaged
    assert (salvaged.lost, salvaged.remarks) == (("hurt@2",), ("without 1 tag row",))
    assert set(await target.tags("hurt")) == {"kept"}
    async with target.run("hurt") as run:
        assert run.state == {"n": 3}
        await run.save({"n": 4})
    followed = [each.seq for each in await line(target, "hurt@") if isinstance(each, Header)]
    assert followed == [4, 3, 1]
    assert (await target.verify(data=True)).clean


@case("S20")
async def a_branch_that_lost_its_first_checkpoint(store: Store) -> None:
    """What is left of it goes back to where it had begun, not to what was saved beside it."""
    client = store.client()
    await save(client, "hurt", {"n": 1})
    await save(client, "hurt", {"n": 2})
    await client.fork("hurt@1", branch="other", edits=LARGE)
    await save(client, "hurt", {"n": 4}, branch="other")
    await store.close()
    store.harness.flip_part("hurt")
    target = store.client_on(MemoryBackend())
    (salvaged,) = (await copied(store.client(), target, salvage=True)).salvaged
    assert (salvaged.lost, salvaged.remarks) == (("hurt@3",), ())
    followed = await line(target, "hurt@branch:other")
    assert [each.seq for each in followed if isinstance(each, Header)] == [4, 1]
    assert (await target.resolve("hurt@")).seq == 2


@case("S20")
async def nothing_is_undone_by_half_a_log(store: Store) -> None:
    """Where the last move is lost, an undo of the one before is not what is asked for."""
    client = store.client()
    for number in range(3):
        await save(client, "hurt", {"n": number})
    for seq in (2, 1):
        await client.rewind("hurt", f"@{seq}")
    await store.close()
    store.harness.lose_row("move", "hurt")
    target = store.client_on(MemoryBackend())
    (salvaged,) = (await copied(store.client(), target, salvage=True)).salvaged
    assert (salvaged.lost, salvaged.remarks) == ((), ("without 2 move rows",))
    with pytest.raises(CheckpointNotFoundError, match="nothing to undo"):
        await target.undo("hurt")


@case("S20")
async def nothing_is_left(store: Store) -> None:
    """A thread of which nothing can be restored is named, and does not begin anew there."""
    client = store.client()
    await save(client, "hurt", LARGE)
    await save(client, "whole", LARGE)
    await store.close()
    store.harness.flip_part("hurt")
    target = store.client_on(MemoryBackend())
    report = await copied(store.client(), target, salvage=True)
    assert [(each.thread, each.kind) for each in report.problems] == [("hurt", "damaged")]
    assert (report.threads, report.salvaged) == (1, ())
    assert [info.thread_id for info in await target.threads()] == ["whole"]


@case("S20")
async def only_looked_at(store: Store) -> None:
    """A dry run says what would be missing, and writes nothing; whole threads are no salvage."""
    await victims(store.client())
    await store.close()
    store.harness.edit_row("checkpoint", "hurt", "step", 77)
    target = store.client_on(MemoryBackend())
    report = await copied(store.client(), target, salvage=True, dry_run=True)
    assert (report.threads, report.checkpoints, report.complete) == (2, 7, False)
    assert [(each.thread, each.lost) for each in report.salvaged] == [("hurt", ("hurt@7",))]
    assert list(await target.threads()) == []


@case("S20")
async def items_of_a_damaged_thread(store: Store) -> None:
    """Every item but the damaged one goes over."""
    client = store.client()
    for number in range(9):
        await put(client, "hurt", item(f"{number}".encode(), b"x" * number))
    await store.close()
    store.harness.edit_row("item", "hurt", "value", b"forged")
    target = store.client_on(MemoryBackend())
    report = await copied(store.client(), target, salvage=True)
    assert report.problems == ()
    assert (report.items, report.salvaged[0].remarks) == (8, ("without 1 item row",))
    assert (await target.verify(data=True)).clean
