"""Aliases: checkpoints under a framework's ids, revisions of them, and the removal of many."""

from __future__ import annotations

from typing import Any

import pytest

from lastgood import ThreadDeletedError
from lastgood.alias_rules import SHELF, Alias, Known, SaveAs, read_alias
from lastgood.checkpoints import CheckpointBuilder
from lastgood.client import Client
from lastgood.commits import Place, Scope, Writes
from lastgood.core import About
from lastgood.ids import read_id, show_id
from lastgood.item_rules import ItemDraft
from lastgood.model import Framework
from lastgood.removal_rules import Remove, Seen
from lastgood.rules import Save
from lastgood.testing.cases import case
from lastgood.testing.items_cases import keys, listed
from lastgood.testing.operations import LARGE, save
from lastgood.testing.store import Store, core_of, current, driven, headers


def place(name: str) -> Place:
    """Where an alias is."""
    return SHELF, name.encode()


async def put(client: Client, name: str, state: Any, **options: Any) -> Writes:
    """Save a state under an alias in the thread "s"."""
    core = core_of(client)
    follows = options.pop("follows", b"")
    draft = core.draft(core.encode(state, "s", "a"), About("a"))
    intent = SaveAs(
        Save(core.tenant, "s", draft, parent=follows or None, switch=True), place(name), **options
    )
    return await driven(client, core.backend.commit(intent))


def row_id(writes: Writes) -> bytes:
    """The checkpoint that was written."""
    assert writes.checkpoint is not None
    return writes.checkpoint.id


async def alias(client: Client, name: str) -> Alias:
    """What an alias names."""
    found = {row.key: row for row in await listed(client, "s", shelf=SHELF)}
    return read_alias(found[name.encode()])


@case()
async def an_alias_is_written_with_its_checkpoint(store: Store) -> None:
    """And a child finds its parent by it."""
    client = store.client()
    first = row_id(await put(client, "one", LARGE))
    assert await alias(client, "one") == Alias(first, 1)
    second = await put(client, "two", {"n": 2}, follows=first, parent=place("one"), parent_id=first)
    assert (await client.restore(show_id(row_id(second)))).parent_id == show_id(first)
    assert await keys(client, "s", shelf=SHELF) == [b"one", b"two"]
    assert (await client.verify(data=True)).clean


@case()
async def what_an_alias_was_believed_to_name_is_checked(store: Store) -> None:
    """Otherwise nothing is written, and the truth is told."""
    client = store.client()
    first = row_id(await put(client, "one", {"n": 1}))
    told = await put(client, "two", {"n": 2}, parent=place("one"))
    assert told.answer == Known(own=None, parent=Alias(first, 1))
    told = await put(client, "one", {"n": 3})
    assert told.answer == Known(own=Alias(first, 1), parent=None)
    assert len(await headers(client, "s")) == 1


@case()
async def a_revision_keeps_the_place_of_the_first(store: Store) -> None:
    """It follows the one that it replaces, on the same branch."""
    client = store.client()
    first = row_id(await put(client, "one", {"n": 1}))
    second = row_id(await put(client, "one", {"n": 2}, follows=first, replaces=Alias(first, 1)))
    assert await alias(client, "one") == Alias(second, 1)
    assert [header.branch for header in await headers(client, "s")] == ["main", "main"]


@case()
async def the_lane_follows_whatever_was_put_last(store: Store) -> None:
    """A fork becomes current, and going on with the old line makes that current again."""
    client = store.client()
    first = row_id(await put(client, "one", {"n": 1}))
    old = row_id(await put(client, "two", {"n": 2}, follows=first))
    await put(client, "three", {"n": 3}, follows=first)
    assert await current(client, "s") != "main"
    core = core_of(client)
    draft = core.draft(core.encode({"n": 4}, "s", "a"), About("a"))
    again = Save(core.tenant, "s", draft, branch="main", parent=old, switch=True)
    await driven(client, core.backend.commit(SaveAs(again, place("four"))))
    assert await current(client, "s") == "main"
    assert (await client.restore("s/a@")).state == {"n": 4}


@case()
async def a_late_child_of_a_deleted_thread(store: Store) -> None:
    """It brings nothing back, not even into a new thread of that name."""
    client = store.client()
    first = row_id(await put(client, "one", {"n": 1}))
    late = {"parent": place("one"), "parent_id": b""}
    await client.delete("s")
    with pytest.raises(ThreadDeletedError):
        await put(client, "two", {"n": 2}, **late)
    await save(client, "s", {"n": 3})
    with pytest.raises(ThreadDeletedError):
        await put(client, "two", {"n": 2}, **late)
    assert first
    assert len(await headers(client, "s")) == 1


@case()
async def a_copy_of_a_graphs_checkpoint_has_its_own_alias(store: Store) -> None:
    """Whether LangGraph is installed or not: the copy stays when the original goes."""
    client = store.client()
    made = CheckpointBuilder("graph", Framework.LANGGRAPH).session("s").execution_state({"n": 1})
    original = await client.put(made.context({"id": "x", "parent_id": "w"}).build())
    names = set()
    for copy in (
        (await client.rewind("s", 1)).head,
        await client.restore(await client.fork("s@1")),
        await client.restore(await client.fork("s@1", edits={"n": 2})),
    ):
        assert copy is not None
        context = copy.agent_context
        assert (context["parent_id"], context["copy_of"]) == ("w", "x")
        found = await listed(client, "s", shelf=SHELF)
        assert read_id(copy.checkpoint_id) in [read_alias(row).id for row in found]
        names.add(context["id"])
    assert len(names | {"x"}) == 4
    assert (await client.restore(original)).agent_context["id"] == "x"
    assert (await client.verify(data=True)).clean


async def _removed(client: Client, ids: list[str], **options: Any) -> object:
    core = core_of(client)
    found = await driven(client, core.backend.look(Scope(core.tenant, "s")))
    assert found.live is not None
    seen = options.pop("seen", Seen.of(found.live))
    raw = tuple(id for each in ids if (id := read_id(each)))
    intent = Remove(core.tenant, "s", seen, raw, **options)
    return (await driven(client, core.backend.commit(intent))).answer


@case("S35")
async def many_checkpoints_are_removed_at_once(store: Store) -> None:
    """What is left follows what is left, however many went in between."""
    client = store.client()
    ids = [await save(client, "s", {**LARGE, "n": number}) for number in range(100)]
    gone = [*ids[1:4], *ids[5:97]]
    kept = [ids[0], ids[4], *ids[97:]]
    drafts = (ItemDraft("shelf", b"k", b"v"),)
    assert await _removed(client, gone, puts=drafts) is True
    client = await store.reopen()
    assert [header.checkpoint_id for header in await headers(client, "s")] == kept[::-1]
    core = core_of(client)
    newest = read_id(kept[-1])
    assert newest is not None
    line = await driven(client, core.backend.lineage(core.tenant, newest, 100))
    assert [show_id(one.row.id) for one in line] == kept[::-1]
    assert [(await client.restore(id)).state["n"] for id in kept] == [0, 4, 97, 98, 99]
    assert await keys(client, "s") == [b"k"]
    assert (await client.verify(data=True)).clean


@case()
async def a_removal_that_was_thought_out_too_early(store: Store) -> None:
    """Does nothing: somebody has saved since."""
    client = store.client()
    first = await save(client, "s", {"n": 1})
    core = core_of(client)
    found = await driven(client, core.backend.look(Scope(core.tenant, "s")))
    assert found.live is not None
    await save(client, "s", {"n": 2})
    assert await _removed(client, [first], seen=Seen.of(found.live)) is False
    assert len(await headers(client, "s")) == 2
