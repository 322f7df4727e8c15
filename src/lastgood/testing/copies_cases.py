"""Copying threads into another store: everything goes over, nothing is seen before it is whole."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from typing import Any
from uuid import uuid4

import pytest

from lastgood import (
    CheckpointNotFoundError,
    Diff,
    Gap,
    ThreadDeletedError,
)
from lastgood.backend import ItemListing
from lastgood.backends.memory import MemoryBackend
from lastgood.client import Client
from lastgood.item_rules import KINDS, hidden
from lastgood.reports import CopyReport
from lastgood.shelving import list_items
from lastgood.testing.cases import case
from lastgood.testing.items_cases import item, put
from lastgood.testing.operations import LARGE, save
from lastgood.testing.store import Store, core_of, driven, everything, headers, line
from lastgood.testing.verification import DAMAGES, Damage, victims

MANY = {"notes": [f"note {n} " + "x" * 900 for n in range(40)]}


async def filled(client: Client) -> None:
    """A store with everything that there is in one."""
    async with client.run("talk", agent_id="a", initial={"messages": [], "goal": "pay"}) as run:
        for number in range(30):
            run.state["messages"].append({"n": number, "text": f"{number} " * 300})
            await run.save(step_name=f"step {number}", metadata={"model": "m"})
    await client.tag("talk@7", "checked")
    await client.fork("talk/a@9", branch="refund", edits={"goal": "refund"})
    await client.handoff("talk/a@", "b", note="please look")
    await client.rewind("talk", "talk/a@5", agent_id="a")
    await client.expire("talk@12")
    await save(client, "short", {"n": 1}, ttl_seconds=3600)
    await put(client, "short", item(b"k", b"v", text="found", ttl=3600.0), item(b"l"))
    picture = b"\x00\xff" * 60_000
    for number in range(3):
        await save(
            client, "large", {**MANY, **{f"k{n}": "y" * n for n in range(900)}, "p": picture}
        )
        await save(client, "large", {"p": picture, "n": number, **LARGE})


async def copied(source: Client, target: Client, **options: Any) -> CopyReport:
    """Copy, with both clients in the colour under test."""
    report: CopyReport = await source.copy_to(target, **options)
    return report


def elsewhere(store: Store, tenant: str = "elsewhere") -> Client:
    """Another place in the same store: as good as another store of its kind."""
    return store.client(tenant=tenant)


async def same(one: Client, other: Client, *threads: str, states: bool = True) -> None:
    """Whatever a reader sees of threads is equal; their checksums speak for long ones."""
    seen = everything if states else headers
    for thread in threads:
        assert await seen(one, thread) == await seen(other, thread)
        for ask in (_branches, _tags, _info, *((_lines,) if states else ())):
            assert await ask(one, thread) == await ask(other, thread)


async def _branches(client: Client, thread: str) -> object:
    return sorted(await client.branches(thread), key=lambda branch: (branch.agent_id, branch.name))


async def _tags(client: Client, thread: str) -> object:
    return await client.tags(thread)


async def _info(client: Client, thread: str) -> object:
    return [info for info in await client.threads(limit=100) if info.thread_id == thread]


async def _lines(client: Client, thread: str) -> object:
    heads = [b.head for b in await client.branches(thread) if b.head is not None]
    return {head.checkpoint_id: await line(client, head.checkpoint_id) for head in heads}


@case()
async def everything_goes_over(store: Store) -> None:
    """Histories, branches, tags, titles, runs, states, gaps and checksums are equal there."""
    client, target = store.client(), elsewhere(store)
    await filled(client)
    report = await copied(client, target)
    assert (report.threads, report.same, report.problems) == (3, 0, ())
    assert report.checkpoints == 30 + 4 + 1 + 6 - 1
    await same(client, target, "talk", "short", "large")
    assert any(isinstance(each, Gap) for each in await line(target, "talk/b@"))
    assert (await store.client(tenant="elsewhere").verify(data=True)).clean
    again = await copied(client, target)
    assert (again.threads, again.same, again.problems, again.complete) == (0, 3, (), True)


@case()
async def to_memory_and_back(store: Store) -> None:
    """Between different kinds of stores, in both directions."""
    client, target = store.client(), elsewhere(store)
    await filled(client)
    memory = store.client_on(MemoryBackend())
    assert (await copied(client, memory)).threads == 3
    assert (await copied(memory, target)).threads == 3
    await same(memory, target, "talk", "short", "large")
    assert (await copied(target, client)).same == 3


async def _torn_run(client: Client) -> None:
    async with client.run("job", initial={"notes": []}) as run:
        await run.append("notes", *MANY["notes"], step_name="first")
        await run.append("notes", "second", step_name="second")
        raise RuntimeError("torn")


@case()
async def work_goes_on_there(store: Store) -> None:
    """Runs resume, saves follow the head, blame and undo find what they found before."""
    client, target = store.client(), elsewhere(store)
    with pytest.raises(RuntimeError, match="torn"):
        await _torn_run(client)
    await client.rewind("job", "job@2")
    blamed = await client.blame("job@3", "notes[40]")
    await copied(client, target)
    assert await target.blame("job@3", "notes[40]") == blamed
    assert await target.undo("job") == await client.undo("job")
    async with target.run("job") as run:
        assert run.resumed
        assert run.state["notes"][-1] == "second"
        await run.append("notes", "third")
    assert isinstance(await target.diff("job@3", "job@"), Diff)
    assert (await target.verify(data=True)).clean
    assert len(await headers(target, "job")) == len(await headers(client, "job")) + 1


@case()
async def items_go_over(store: Store) -> None:
    """Items of threads, and those of hidden threads, as they are."""
    client, target = store.client(), elsewhere(store)
    drafts = [item(f"{n}".encode(), b"x" * n, text=f"text {n}") for n in range(700)]
    await put(client, "many", *drafts)
    await put(client, "many", drops=(("shelf", b"3"),))
    for kind in KINDS:
        await put(client, "inside", item(b"k", kind.encode()), tenant=hidden("default", kind))
    report = await copied(client, target)
    assert (report.threads, report.items) == (1 + len(KINDS), 699 + len(KINDS))
    for tenant, its in (
        ("default", "elsewhere"),
        *((hidden("default", k), hidden("elsewhere", k)) for k in KINDS),
    ):
        thread = "many" if tenant == "default" else "inside"
        listing = ItemListing(thread, "shelf", limit=1000)
        ours = (await driven(client, list_items(core_of(client), [listing], tenant)))[0]
        theirs = (await driven(target, list_items(core_of(target), [listing], its)))[0]
        assert ours
        assert [row[1:] for row in ours] == [row[1:] for row in theirs]


@case()
async def other_content_is_left_alone(store: Store) -> None:
    """A thread that is there with other content is refused, with its place; others are copied."""
    client, target = store.client(), elsewhere(store)
    await save(client, "s", {"n": 1})
    await save(client, "t", {"n": 2})
    await copied(client, target)
    await save(client, "s", {"n": 3})
    await save(client, "u", {"n": 4})
    report = await copied(client, target)
    assert (report.threads, report.same) == (1, 1)
    assert [(p.thread, p.kind) for p in report.problems] == [("s", "differs")]
    assert "@2 in the source and at @1 in the target" in report.problems[0].message
    assert len(await headers(target, "s")) == 1
    await target.tag("t@", "mine")
    assert [p.thread for p in (await copied(client, target)).problems] == ["s", "t"]


@case()
async def what_was_deleted_there(store: Store) -> None:
    """It does not come back unasked; asked for, it is a later incarnation."""
    client, target = store.client(), elsewhere(store)
    await save(client, "s", LARGE)
    await copied(client, target)
    assert await target.delete("s") is True
    report = await copied(client, target)
    assert [problem.kind for problem in report.problems] == ["deleted"]
    assert list(await target.threads()) == []
    assert (await copied(client, target, revive=True)).complete
    await same(client, target, "s")
    await client.delete("s")
    begun = await save(client, "s", {"again": 1})
    report = await copied(client, target)
    assert [problem.kind for problem in report.problems] == ["differs"]
    await target.delete("s")
    await copied(client, target, revive=True)
    assert (await target.restore(begun)).state == {"again": 1}


@case()
async def what_was_deleted_here(store: Store) -> None:
    """A late writer learns in the target too that its thread was deleted."""
    client, target = store.client(), elsewhere(store)
    old = await save(client, "s", {"n": 1})
    await client.delete("s")
    assert (await copied(client, target)).threads == 0
    with pytest.raises(ThreadDeletedError):
        await save(target, "s", {"n": 2}, parent_id=old)
    await save(target, "s", {"n": 3})
    assert (await target.verify()).clean


@case()
async def what_was_deleted_between_two_copies(store: Store) -> None:
    """It is reported as long as the target shows it, and removed by no copy."""
    client, target = store.client(), elsewhere(store)
    await save(client, "s", {"n": 1})
    await copied(client, target)
    await client.delete("s")
    for dry_run in (True, False):
        report = await copied(client, target, dry_run=dry_run)
        assert [(p.thread, p.kind) for p in report.problems] == [("s", "differs")]
        assert "deleted in the source" in report.problems[0].message
        assert not report.complete
    assert len(await headers(target, "s")) == 1
    await target.delete("s")
    assert (await copied(client, target)).complete
    await save(target, "s", {"mine": 1})
    assert (await copied(client, target)).complete
    assert len(await headers(target, "s")) == 1


@case()
async def what_was_revived_and_deleted_here(store: Store) -> None:
    """A later incarnation in the target is the same thread still, and is reported too."""
    client, target = store.client(), elsewhere(store)
    await save(client, "s", {"n": 1})
    await copied(client, target)
    await target.delete("s")
    await copied(client, target, revive=True)
    await client.delete("s")
    report = await copied(client, target)
    assert [(p.thread, p.kind) for p in report.problems] == [("s", "differs")]


@case()
async def a_choice_of_threads(store: Store) -> None:
    """By name, by time, or only to see what would be copied."""
    client, target = store.client(), elsewhere(store)
    for thread in ("r", "s", "t"):
        await save(client, thread, {"n": 1})
    report = await copied(client, target, session_ids=["s"], dry_run=True)
    assert (report.threads, report.checkpoints, report.complete) == (1, 1, False)
    assert list(await target.threads()) == []
    later = datetime.now(UTC) + timedelta(days=1)
    assert (await copied(client, target, since=later)).threads == 0
    assert (await copied(client, target, session_ids=["s", "s"])).threads == 1
    assert [info.thread_id for info in await target.threads()] == ["s"]
    assert (await copied(client, target, since=later - timedelta(days=2))).threads == 2
    with pytest.raises(CheckpointNotFoundError, match="'x'"):
        await copied(client, target, session_ids=["s", "x"])
    with pytest.raises(CheckpointNotFoundError, match="'rs'"):
        await copied(client, target, session_ids="rs")
    with pytest.raises(TypeError, match="copy_to"):
        await copied(client, "sqlite:///x.db")  # type: ignore[arg-type]


@case()
async def an_id_that_is_taken(store: Store) -> None:
    """An id stands for one checkpoint of a tenant, wherever it came from."""
    client, target, chosen = store.client(), elsewhere(store), str(uuid4())
    await save(client, "s", {"n": 1}, checkpoint_id=chosen)
    await save(client, "t", {"n": 1})
    await save(target, "mine", {"n": 2}, checkpoint_id=chosen)
    report = await copied(client, target)
    assert [(p.thread, p.kind) for p in report.problems] == [("s", "conflict")]
    assert (await target.restore(chosen)).state == {"n": 2}
    assert {info.thread_id for info in await target.threads()} == {"mine", "t"}
    await save(target, "s", {"n": 3})  # nothing that has arrived of it is in the way


@case()
async def damage_is_not_carried_on(store: Store) -> None:
    """A thread that cannot be read is reported and does not appear; the others are copied."""
    client, target = store.client(), elsewhere(store)
    for thread in ("s", "t", "u"):
        await save(client, thread, LARGE)
    store.harness.flip_part("s")
    store.harness.edit_row("checkpoint", "t", "step", 7)
    report = await copied(store.client(), target)
    assert {(p.thread, p.kind) for p in report.problems} == {("s", "damaged"), ("t", "damaged")}
    assert [info.thread_id for info in await target.threads()] == ["u"]
    assert (await target.verify(data=True)).clean


@case(each=DAMAGES)
async def no_damage_is_taken_for_whole(store: Store, damage: Damage) -> None:
    """What `verify` would find in a thread keeps it from being copied, also a row that is gone."""
    await victims(store.client())
    await store.close()
    damage.act(store.harness)
    target = elsewhere(store)
    for whole in (1, 0):
        report = await copied(store.client(), target)
        assert [(p.thread, p.kind) for p in report.problems] == [("hurt", "damaged")]
        assert report.threads == whole
    assert [info.thread_id for info in await target.threads()] == ["whole"]
    await save(target, "hurt", {"begun": "anew"})  # nothing that has arrived of it is in the way


@case()
async def what_was_swept_since(store: Store) -> None:
    """Is the same thread still, though it takes less."""
    client, target = store.client(), store.client_on(MemoryBackend())
    for number in range(3):
        await save(client, "s", {"notes": [f"{number} {note}" for note in MANY["notes"]]})
    await client.expire((await client.resolve("s@2")).checkpoint_id)
    assert (await copied(client, target)).threads == 1
    await client.sweep()
    again = await copied(client, target)
    assert (again.same, again.problems) == (1, ())


@case()
async def what_is_over_its_time(store: Store) -> None:
    """Expiry is a moment, not a duration: it does not begin anew."""
    client, target = store.client(), elsewhere(store)
    await save(client, "s", LARGE)
    over = await save(client, "s", {**LARGE, "n": 1}, ttl_seconds=1)
    await store.pass_time(1.5)
    assert (await copied(client, target)).complete
    assert len(await headers(target, "s")) == 1
    with pytest.raises(CheckpointNotFoundError):
        await target.restore(over)
    await same(client, target, "s")
