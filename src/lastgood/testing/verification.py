"""`verify`: clean where nothing is wrong; where something is, it names exactly what is hurt."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, NamedTuple

import pytest

from lastgood import CheckpointNotFoundError, LastgoodError, Report
from lastgood.client import Client
from lastgood.testing.cases import case
from lastgood.testing.harness import BackendHarness
from lastgood.testing.items_cases import item, put
from lastgood.testing.operations import LARGE, save
from lastgood.testing.store import Store, branches, headers

IMAGE = bytes(range(256)) * 400


async def _by_every_operation(store: Store, client: Client) -> None:
    """A store that has seen everything."""
    for number in range(3):
        await save(client, "s", {"n": number, "image": IMAGE, **LARGE})
    await client.tag("s@2", "golden")
    await client.fork("s@2", branch="other", edits={"n": 7, "again": IMAGE})
    await client.rewind("s", "@1")
    await client.undo("s")
    await client.switch("s", "other")
    await client.handoff("s@3", "b", note="yours")
    await client.save("b", session_id="s", execution_state={"nested": [["x" * 100_000], "y"] * 3})
    await save(client, "s", {"a": "root"}, parent_id=None)
    await save(client, "s", {"late": True}, parent_id=(await client.resolve("s@1")).checkpoint_id)
    await client.tag("s@4", "doomed")
    await client.tag("s@5", "gone")
    await client.untag("s", "gone")
    await save(client, "s", {"brief": True}, ttl_seconds=5)
    for seq in (2, 4, 6):
        await client.expire(f"s@{seq}")
    await _by_runs(client)
    await save(client, "ended", LARGE)
    await client.delete("ended")
    await save(client, "ended", {"anew": LARGE})
    await save(client, "deleted", LARGE)
    await client.delete("deleted")
    await store.pass_time(6)


async def _by_runs(client: Client) -> None:
    async with client.run("r", initial={"items": list(range(3000)), "wide": _wide()}) as run:
        for number in range(4):
            await run.append("items", number, "z" * 70_000)
        run.state["wide"][f"key 3 {'k' * 60}"] = ["changed"] * 900
        await run.save()
    with pytest.raises(ZeroDivisionError):
        async with client.run("r") as run:
            await run.append("items", 1 // 0)
    async with client.run("empty"):
        pass


def _wide() -> dict[str, list[str]]:
    """So many large values that the manifest itself is stored as pages."""
    return {f"key {n} {'k' * 60}": [f"value {n} " * 20] * 30 for n in range(60)}


@case("S20")
async def a_whole_store_is_clean(store: Store) -> None:
    """After every kind of operation, by structure and by every byte, as a whole and by thread."""
    client = store.client()
    await _by_every_operation(store, client)
    for data in (False, True):
        report = await client.verify(data=data)
        assert report.problems == ()
        assert (report.clean, report.exit_code, report.threads) == (True, 0, 4)
        assert report.parts > 100
        assert report.bytes > len(IMAGE)
        assert str(report).startswith("clean: 4 threads")
        for thread in ("s", "r", "empty", "ended"):
            assert (await client.verify(thread, data=data)).clean


@case()
async def verify_of_an_empty_store_and_of_no_thread(store: Store) -> None:
    """Nothing is clean; a thread that is not there is an error, as everywhere."""
    client = store.client()
    assert await client.verify(data=True) == Report(data=True)
    await save(client, "deleted", {})
    await client.delete("deleted")
    for thread in ("nobody", "deleted"):
        with pytest.raises(CheckpointNotFoundError, match=thread):
            await client.verify(thread)
    assert (await client.verify()).threads == 0


@case()
async def verify_tells_how_far_it_is(store: Store) -> None:
    """The function is called with growing numbers, at the end with all."""
    client = store.client()
    for thread in ("one", "two"):
        for number in range(400):
            await save(client, thread, {"n": number})
    calls: list[tuple[int, int]] = []
    report = await client.verify(progress=lambda *done: calls.append(done))
    assert report.checkpoints == 800
    assert calls == sorted(calls)
    assert calls[-1] == (800, 800)
    assert len(calls) > 2


@case()
async def verify_can_be_stopped(store: Store) -> None:
    """By an error of the function that is told how far it is; nothing is left behind."""
    client = store.client()
    await save(client, "s", LARGE)

    def stop(done: int, total: int) -> None:
        raise RuntimeError(f"{done} of {total} are enough")

    with pytest.raises(RuntimeError, match="are enough"):
        await client.verify(progress=stop)
    await save(client, "s", LARGE)
    assert (await client.verify()).clean


@case("S66")
async def verify_sees_one_tenant(store: Store) -> None:
    """Nothing of another's threads is counted or named."""
    await save(store.client(tenant="other"), "theirs", LARGE)
    await save(store.client(), "ours", {"n": 1})
    report = await store.client().verify(data=True)
    assert (report.clean, report.threads, report.checkpoints) == (True, 1, 1)
    await store.close()
    store.harness.edit_row("thread", "theirs", "title", "forged")
    store.harness.flip_part("theirs")
    report = await store.client().verify(data=True)
    assert [(p.kind, p.checkpoints) for p in report.problems] == [("seal", ())]
    assert "theirs" not in str(report)


class Damage(NamedTuple):
    """Something done to the thread "hurt", and what `verify` has to say of it."""

    act: Callable[[BackendHarness], None]
    kind: str
    hurt: str
    """The seqs that cannot be restored any more."""
    code: int
    data: bool = False


def _edit(table: str, column: str, value: object) -> Callable[[BackendHarness], None]:
    return lambda harness: harness.edit_row(table, "hurt", column, value)


def _lose(table: str) -> Callable[[BackendHarness], None]:
    return lambda harness: harness.lose_row(table, "hurt")


DAMAGES: dict[str, Damage] = {
    "checkpoint step": Damage(_edit("checkpoint", "step", 9), "seal", "7", 2),
    "checkpoint manifest": Damage(_edit("checkpoint", "manifest", b"\x00\x80"), "seal", "7", 2),
    "checkpoint id": Damage(_edit("checkpoint", "id", b"\x01" * 16), "seal", "7", 2),
    "checkpoint lost": Damage(_lose("checkpoint"), "row", "7", 2),
    "lane current": Damage(_edit("lane", "current", "x"), "seal", "67", 1),
    "lane agent": Damage(_edit("lane", "agent", "c"), "seal", "67", 2),
    "lane lost": Damage(_lose("lane"), "row", "67", 2),
    "branch head": Damage(_edit("branch", "head", b"\x00" * 16), "seal", "", 1),
    "branch lost": Damage(_lose("branch"), "row", "", 1),
    "move kind": Damage(_edit("move", "kind", "x"), "seal", "", 1),
    "move lost": Damage(_lose("move"), "row", "", 1),
    "tag target": Damage(_edit("tag", "checkpoint", b"\x00" * 16), "seal", "", 1),
    "tag lost": Damage(_lose("tag"), "row", "", 1),
    "item value": Damage(_edit("item", "value", b"x"), "seal", "", 2),
    "item lost": Damage(_lose("item"), "row", "", 2),
    "run status": Damage(_edit("run", "status", "done"), "seal", "", 1),
    "run lost": Damage(_lose("run"), "row", "", 1),
    "thread title": Damage(_edit("thread", "title", "x"), "seal", "1234567", 1),
    "thread count": Damage(_edit("thread", "checkpoints", 3), "seal", "1234567", 1),
    "part flipped": Damage(lambda h: h.flip_part("hurt"), "part", "1235", 2, data=True),
    "part lost": Damage(lambda h: h.lose_part("hurt"), "part", "1235", 2),
    "part digest": Damage(lambda h: h.flip_digest("hurt"), "part", "", 1, data=True),
}


async def victims(client: Client) -> dict[str, str]:
    """Threads "hurt", of which @1, @2, @3 and @5 share a page, and "whole": names and ids."""
    for _ in range(2):
        await save(client, "hurt", LARGE)
    await save(client, "hurt", {"messages": [*LARGE["messages"], "more"]})
    await save(client, "hurt", {"small": 1})
    await client.rewind("hurt", "@1")
    async with client.run("hurt", agent_id="b", initial={"b": 1}) as run:
        await run.save({"b": 2})
    await client.tag("hurt@7", "last")
    await put(client, "hurt", item(b"k"))
    await save(client, "whole", LARGE)
    found = [*await headers(client, "hurt"), *await headers(client, "whole")]
    return {header.name: header.checkpoint_id for header in found}


async def _lost(client: Client, ids: dict[str, str]) -> set[str]:
    lost = set()
    for name, id in ids.items():
        try:
            await client.restore(id)
        except LastgoodError:
            lost.add(name)
    return lost


@case("S20", each=DAMAGES)
async def damage_is_named_and_hurts_nothing_else(store: Store, damage: Damage) -> None:
    """What `verify` names is what cannot be restored, no more and no less."""
    ids = await victims(store.client())
    await store.close()
    damage.act(store.harness)
    client = store.client()
    report = await client.verify(data=damage.data)
    named = {name for problem in report.problems for name in problem.checkpoints}
    assert named == {f"hurt@{seq}" for seq in damage.hurt}
    assert await _lost(store.client(), ids) == named
    assert damage.kind in {problem.kind for problem in report.problems}
    assert all(problem.where.startswith("hurt") for problem in report.problems)
    assert (report.clean, report.exit_code) == (False, damage.code)
    assert (await client.verify("hurt", data=damage.data)).problems == report.problems
    assert (await client.verify("whole", data=True)).clean


@case("S20")
async def a_thread_whose_row_is_lost(store: Store) -> None:
    """Its name is not known any more; its checkpoints are, by number."""
    ids = await victims(store.client())
    await store.close()
    store.harness.lose_row("thread", "hurt")
    report = await store.client().verify()
    assert report.exit_code == 2
    assert {problem.kind for problem in report.problems} == {"orphan"}
    named = [name for problem in report.problems for name in problem.checkpoints]
    assert [name.rpartition("@")[2] for name in named] == list("1234567")
    lost = await _lost(store.client(), ids)
    assert lost == {name for name in ids if name.startswith("hurt")}


@case("S20")
async def damage_in_many_rows_at_once(store: Store) -> None:
    """Every piece is found; none hides another."""
    client = store.client()
    for thread in ("one", "two", "three"):
        for _ in range(3):
            await save(client, thread, {**LARGE, "thread": thread})
    await store.close()
    for thread in ("one", "two"):
        store.harness.edit_row("checkpoint", thread, "root", b"\x00" * 32)
        store.harness.edit_row("branch", thread, "head", b"\x00" * 16)
    store.harness.flip_part("three")
    report = await store.client().verify(data=True)
    found = sorted((problem.kind, problem.where) for problem in report.problems)
    assert found == [
        ("part", f"three stream {found[0][1].split()[2]} part 1"),
        ("seal", "one/a branch main"),
        ("seal", "one@3"),
        ("seal", "two/a branch main"),
        ("seal", "two@3"),
    ]
    assert report.checkpoints == 9
    assert "three@1, three@2, three@3" in str(report)


@case()
async def verify_beside_writers(store: Store) -> None:
    """Saves, removals and deletions under way are not taken for damage."""
    client = store.client()
    for _ in range(3):
        await save(client, "s", LARGE)

    async def work(number: int) -> Any:
        mine = store.client()
        for _ in range(10):
            if number == 0:
                assert (await mine.verify(data=True)).problems == ()
                continue
            saved = await save(mine, "s", {**LARGE, "by": number})
            await save(mine, f"own-{number}", LARGE)
            await mine.expire(saved)
            await mine.delete(f"own-{number}")
        return None

    results = await store.together([lambda n=number: work(n) for number in range(4)])  # type: ignore[misc]
    assert results == [None] * 4
    assert await branches(client, "s") == {"main"}
