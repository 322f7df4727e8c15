"""Damage and failing disks: told loudly, kept small, never served as good."""

from __future__ import annotations

from typing import Any

import pytest

from lastgood import CheckpointIntegrityError, LastgoodError, StorageError
from lastgood.client import Client
from lastgood.testing.cases import case
from lastgood.testing.lists import names
from lastgood.testing.operations import LARGE, save
from lastgood.testing.store import Store, headers, thread_info

TEXT = "x" * 70_000
OF_PAGES: dict[str, dict[str, Any]] = {
    "a list": LARGE,
    "a text": {"text": TEXT},
    "a large element of a list": {"messages": [{"role": "user", "content": TEXT}, "small"]},
    "a large value among many": {"files": {"big": TEXT, **{f"{n}.py": n for n in range(100)}}},
}


@case("S20", each=OF_PAGES)
async def one_damaged_part(store: Store, state: dict[str, Any]) -> None:
    """Hurts the checkpoints that need it, by name; nobody else."""
    client = store.client()
    hurt = await save(client, "hurt", state)
    later = await save(client, "hurt", {"small": 1})
    whole = await save(client, "whole", state)
    await store.close()
    store.harness.flip_part("hurt")
    client = store.client()
    with pytest.raises(CheckpointIntegrityError, match=hurt):
        await client.restore(hurt)
    with pytest.raises(CheckpointIntegrityError):
        await client.restore(hurt, verify=False)
    assert (await client.restore(later)).state == {"small": 1}
    assert (await client.restore(whole)).state == state
    assert not (await client.verify(data=True)).clean
    assert len(await client.threads()) == 2
    assert [h.checkpoint_id for h in await client.log("hurt")] == [later, hurt]
    with pytest.raises(CheckpointIntegrityError, match=hurt):
        await client.timeline("a", "hurt")
    latest = await client.latest(agent_id="a", session_id="hurt")
    assert latest is not None
    assert latest.checkpoint_id == later


@case("S20")
async def a_damaged_part_is_not_built_upon(store: Store) -> None:
    """A writer that saves on top of a damaged page does not carry the damage on."""
    client = store.client()
    await save(client, "s", LARGE)
    await store.close()
    store.harness.flip_part("s")
    client = store.client()
    longer = {"messages": [*LARGE["messages"], "new"]}
    try:
        saved = await save(client, "s", longer)
    except CheckpointIntegrityError:
        return
    assert (await store.client().restore(saved)).state == longer


EDITS: dict[str, tuple[str, str, Any]] = {
    "checkpoint root": ("checkpoint", "root", b"\x00" * 32),
    "checkpoint manifest": ("checkpoint", "manifest", b"\x00\x80"),
    "checkpoint parent": ("checkpoint", "parent", b"\x00" * 16),
    "checkpoint step": ("checkpoint", "step", 99),
    "checkpoint metadata": ("checkpoint", "metadata", b""),
    "checkpoint branch": ("checkpoint", "branch", "other"),
    "checkpoint expiry": ("checkpoint", "expires_at", 1),
    "branch head": ("branch", "head", b"\x00" * 16),
    "lane current": ("lane", "current", "other"),
    "thread counter": ("thread", "seq", 7),
    "thread newest": ("thread", "newest", b"\x01" * 16),
}


@case("S20", each=EDITS)
async def an_edited_row(store: Store, edit: tuple[str, str, Any]) -> None:
    """Nobody serves it as good: every reader of it raises or answers as before the edit."""
    table, column, value = edit
    client = store.client()
    await save(client, "hurt", {"n": 1}, metadata={"m": 1})
    newest = await save(client, "hurt", {"n": 2}, metadata={"m": 1}, ttl_seconds=5000)
    whole = await save(client, "whole", {"n": 3})
    before = [h.checkpoint_id for h in await headers(client, "hurt")]
    await store.close()
    store.harness.edit_row(table, "hurt", column, value)
    client = store.client()
    with pytest.raises(CheckpointIntegrityError):
        await _read_everything(client, newest, before)
    assert (await client.restore(whole)).state == {"n": 3}
    assert len(await client.log("whole")) == 1


async def _read_everything(client: Client, newest: str, before: list[str]) -> None:
    """Ask every reader; raise the first error, after checking that no answer was wrong."""
    errors: list[LastgoodError] = []
    for ask in (
        lambda: client.latest(agent_id="a", session_id="hurt"),
        lambda: client.restore(newest),
        lambda: client.log("hurt"),
        lambda: client.timeline("a", "hurt"),
    ):
        try:
            answer: Any = await ask()
        except LastgoodError as error:
            errors.append(error)
        else:
            found = answer if hasattr(answer, "__iter__") else [answer]
            assert [c.checkpoint_id for c in found] in (before, before[:1])
    if errors:
        raise errors[0]


@case("S20", each={"checkpoint": "checkpoint", "branch": "branch", "lane": "lane"})
async def a_row_that_is_gone(store: Store, table: str) -> None:
    """An absence that should not be is damage, never an empty answer; the error says what to do."""
    client = store.client()
    await save(client, "hurt", {"n": 1})
    newest = await save(client, "hurt", {"n": 2})
    await store.close()
    store.harness.lose_row(table, "hurt")
    client = store.client()
    for ask in (
        lambda: client.latest(agent_id="a", session_id="hurt"),
        lambda: client.timeline("a", "hurt"),
        lambda: save(client, "hurt", {"n": 3}),
    ):
        with pytest.raises(CheckpointIntegrityError) as gone:
            await ask()
        assert gone.value.hint
    with pytest.raises(LastgoodError):
        await _restored(client, newest, table)


async def _restored(client: Client, newest: str, table: str) -> None:
    """By id only what leads to the row is needed: a lost branch does not hurt."""
    found = await client.restore(newest)
    assert (table, found.state) == ("branch", {"n": 2})
    raise LastgoodError("as good as it can be")


OF_A_THREAD = {"thread": "title", "lane": "agent", "run": "status"}


@case("S20", each=OF_A_THREAD)
async def one_damaged_thread_does_not_hide_the_others(store: Store, column: str) -> None:
    """A list with a damaged thread says so; threads beside it go on."""
    client = store.client()
    for thread in ("hurt", "whole"):
        async with client.run(thread, agent_id="a", initial={"n": 1}):
            pass
    await store.close()
    [table] = [table for table, of in OF_A_THREAD.items() if of == column]
    store.harness.edit_row(table, "hurt", column, "forged")
    client = store.client()
    for sort in ("updated", "created", "name"):
        listed = {info.thread_id: info for info in await client.threads(sort=sort, limit=1)}
        page = await client.threads(sort=sort)
        assert set(listed) < {info.thread_id for info in page}
        found = {info.thread_id: (info.status, info.checkpoints) for info in page}
        assert found == {"hurt": ("damaged", 0), "whole": ("idle", 1)}
        assert sorted(await names(client, limit=1, sort=sort)) == ["hurt", "whole"]
    [hurt] = await client.threads(status="damaged")
    assert hurt.error
    with pytest.raises(CheckpointIntegrityError):
        async with client.run("hurt", agent_id="a"):
            pass
    await save(client, "whole", {"n": 3})
    latest = await client.latest(agent_id="a", session_id="whole")
    assert latest is not None
    assert latest.state == {"n": 3}


@case("S16")
async def a_full_disk_is_loud(store: Store) -> None:
    """The save raises; the old head stays readable; saving goes on when there is space again."""
    client = store.client()
    first = await save(client, "s", LARGE)
    longer = {"messages": [*LARGE["messages"], "more"]}
    with store.full_disk(client), pytest.raises(StorageError):
        await save(client, "s", longer)
    latest = await client.latest(agent_id="a", session_id="s")
    assert latest is not None
    assert (latest.checkpoint_id, latest.state) == (first, LARGE)
    assert len(await headers(store.client(), "s")) == 1
    saved = await save(client, "s", longer)
    assert (await store.client().restore(saved)).state == longer


@case("S16")
async def a_run_survives_a_full_disk(store: Store) -> None:
    """The step that failed can be saved again in the same run; nothing is there twice."""
    client = store.client()
    async with client.run("s", initial={"items": list(range(2000))}) as run:
        with store.full_disk(client), pytest.raises(StorageError):
            await run.save({"items": [1]})
        with store.full_disk(client), pytest.raises(StorageError):
            await run.append("items", 5)
        await run.save({"items": [2]})
        await run.append("items", 3)
    assert [c.state["items"] for c in await client.timeline("agent", "s", limit=2)] == [[2, 3], [2]]
    assert len(await headers(client, "s")) == 3


@case("S16")
async def a_failed_append_can_be_repeated(store: Store) -> None:
    """Working copy and store agree after the second try."""
    client = store.client()
    async with client.run("s", initial=LARGE) as run:
        with store.full_disk(client), pytest.raises(StorageError):
            await run.append("messages", "x")
        await run.append("messages", "x")
        latest = await client.latest(agent_id="agent", session_id="s")
        assert latest is not None
        assert latest.state["messages"][100:] == ["x"]
        assert run.state == latest.state


@case("S16")
async def a_failed_first_save_leaves_nothing(store: Store) -> None:
    """No thread, no lane, no row."""
    client = store.client()
    await save(client, "other", {"n": 1})
    with store.full_disk(client), pytest.raises(StorageError):
        await save(client, "s", LARGE)
    assert await thread_info(client, "s") is None
    assert await client.latest(agent_id="a", session_id="s") is None
    assert (await client.restore(await save(client, "s", LARGE))).seq == 1


async def _moved(client: Client) -> str:
    """A thread with a tag, a fork and a lane that was moved twice; the id that the tag names."""
    first = await save(client, "hurt", {"n": 1})
    await save(client, "hurt", {"n": 2})
    await client.tag(first, "good")
    await client.fork(first, branch="side")
    await client.switch("hurt", "side")
    await client.rewind("hurt", "@branch:main")
    return first


MARKS: dict[str, tuple[str, str, Any]] = {
    "tag checkpoint": ("tag", "checkpoint", b"\x00" * 16),
    "tag name": ("tag", "name", "bad"),
    "move old branch": ("move", "old_branch", "main"),
    "move new branch": ("move", "new_branch", "main"),
    "move number": ("move", "number", 7),
    "lane moves": ("lane", "moves", 1),
    "lane current": ("lane", "current", "main"),
}


@case("S20", each=MARKS)
async def an_edited_mark(store: Store, edit: tuple[str, str, Any]) -> None:
    """A tag, a move or a lane that was changed outside leads nowhere: not to another place."""
    table, column, value = edit
    first = await _moved(store.client())
    await store.close()
    store.harness.edit_row(table, "hurt", column, value)
    await _marks_are_damaged(store, table)
    if table != "lane":
        assert (await store.client().restore(first)).state == {"n": 1}


@case("S20", each={"tag": "tag", "move": "move", "lane": "lane"})
async def a_mark_that_is_gone(store: Store, table: str) -> None:
    """An absence that should not be is damage: no "not found", no "nothing to undo"."""
    await _moved(store.client())
    await store.close()
    store.harness.lose_row(table, "hurt")
    await _marks_are_damaged(store, table)


async def _marks_are_damaged(store: Store, table: str) -> None:
    client = store.client()
    asked: dict[str, list[Any]] = {
        "tag": [
            lambda: client.resolve("hurt@tag:good"),
            lambda: client.tags("hurt"),
            lambda: client.tag("hurt@1", "good"),
            lambda: client.untag("hurt", "good"),
        ],
        "move": [lambda: client.undo("hurt"), lambda: client.switch("hurt", "main")],
        "lane": [
            lambda: client.resolve("hurt@"),
            lambda: client.branches("hurt"),
            lambda: client.undo("hurt"),
            lambda: client.switch("hurt", "main"),
            lambda: client.rewind("hurt", "@1"),
        ],
    }
    for ask in asked[table]:
        with pytest.raises(CheckpointIntegrityError):
            await ask()
    if table == "lane":
        assert [info.status for info in await client.threads()] == ["damaged"]
