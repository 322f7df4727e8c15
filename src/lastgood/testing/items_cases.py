"""Items: values beside the checkpoints of a thread, kept and removed with it."""

from __future__ import annotations

from typing import Any

import pytest

from lastgood import CheckpointIntegrityError, StorageError, ThreadDeletedError
from lastgood.backend import ItemListing
from lastgood.backends.tables import COUNTED
from lastgood.client import Client
from lastgood.commits import Scope
from lastgood.core import About
from lastgood.item_rules import ChangeItems, ItemDraft, Outcome, SaveWithItems, hidden
from lastgood.rows import ItemRow
from lastgood.rules import Save
from lastgood.shelving import change_items, every_item, list_items, save_with_items
from lastgood.testing.cases import case
from lastgood.testing.operations import LARGE, save
from lastgood.testing.store import Store, core_of, driven, headers, thread_info

SHELF = "shelf"


def item(key: bytes, value: bytes = b"value", **options: Any) -> ItemDraft:
    """A draft on the shelf that most cases use."""
    return ItemDraft(options.pop("shelf", SHELF), key, value, **options)


async def put(client: Client, thread: str, *drafts: ItemDraft, **options: Any) -> Outcome:
    """Put items, and do what else an intent can."""
    core = core_of(client)
    tenant = options.pop("tenant", core.tenant)
    intent = ChangeItems(tenant, thread, puts=drafts, **options)
    return await driven(client, change_items(core, intent))


async def listed(client: Client, thread: str, shelf: str = SHELF, **options: Any) -> list[ItemRow]:
    """Items of a shelf."""
    tenant = options.pop("tenant", None)
    listing = ItemListing(thread, shelf, **options)
    return (await driven(client, list_items(core_of(client), [listing], tenant)))[0]


async def keys(client: Client, thread: str, **options: Any) -> list[bytes]:
    """The keys of a listing."""
    return [row.key for row in await listed(client, thread, **options)]


async def key_of(client: Client, thread: str) -> int:
    """The key of a live thread."""
    core = core_of(client)
    found = await driven(client, core.backend.look(Scope(core.tenant, thread)))
    assert found.live is not None
    return found.live.thread


@case()
async def items_alone(store: Store) -> None:
    """A thread may have items and nothing else: no lane, no branch, no checkpoint."""
    client = store.client()
    outcome = await put(client, "s", item(b"k", b"\x00\xff", text="some text"))
    assert outcome == Outcome(done=True, before={})
    (row,) = await listed(await store.reopen(), "s")
    assert (row.shelf, row.key, row.value, row.text) == (SHELF, b"k", b"\x00\xff", "some text")
    assert row.created_at == row.updated_at
    assert row.expires_at is None
    info = await thread_info(store.client(), "s")
    assert info is not None
    assert (info.checkpoints, info.agents) == (0, ())
    assert (await store.client().verify(data=True)).clean


def _save_intent(client: Client, thread: str, state: Any, *drafts: ItemDraft) -> SaveWithItems:
    core = core_of(client)
    draft = core.draft(core.capture(state, thread, "a"), About("a"))
    return SaveWithItems(Save(core.tenant, thread, draft), puts=drafts)


@case()
async def items_with_a_checkpoint(store: Store) -> None:
    """One commit writes both, or neither."""
    client = store.client()
    core = core_of(client)
    for number in range(3):
        intent = _save_intent(client, "s", {**LARGE, "n": number}, item(bytes([number])))
        await driven(client, save_with_items(core, intent))
    intent = _save_intent(client, "s", {"n": 9}, item(b"lost"))
    with store.full_disk(client), pytest.raises(StorageError):
        await driven(client, save_with_items(core, intent))
    client = await store.reopen()
    assert await keys(client, "s") == [b"\x00", b"\x01", b"\x02"]
    latest = await client.latest(agent_id="a", session_id="s")
    assert latest is not None
    assert latest.state == {**LARGE, "n": 2}
    assert (await client.verify(data=True)).clean


@case()
async def a_save_that_is_refused_writes_no_item(store: Store) -> None:
    """What is beside a checkpoint is not there without it."""
    client = store.client()
    first = await save(client, "s", {"n": 1})
    await save(client, "s", {"n": 2})
    core = core_of(client)
    intent = _save_intent(client, "s", {"n": 3}, item(b"k"))
    parent = bytes.fromhex(first.replace("-", ""))
    stale = intent.save._replace(parent=parent, on_conflict="reject")
    with pytest.raises(Exception, match="moved on"):
        await driven(client, save_with_items(core, SaveWithItems(stale, puts=intent.puts)))
    assert await keys(client, "s") == []


@case()
async def an_item_is_replaced(store: Store) -> None:
    """The newest value stays, with the time of the first; others are not touched."""
    client = store.client()
    await put(client, "s", item(b"a", b"1"), item(b"b", b"1"))
    await store.pass_time(1)
    outcome = await put(client, "s", item(b"a", b"2"))
    assert outcome.before[SHELF, b"a"].value == b"1"
    first, second = await listed(client, "s")
    assert (first.value, second.value) == (b"2", b"1")
    assert first.created_at == second.created_at == second.updated_at < first.updated_at
    assert (await client.verify()).clean


@case()
async def the_first_item_wins_if_asked_to(store: Store) -> None:
    """An item that is there stays; of two new ones for a place too."""
    client = store.client()
    await put(client, "s", item(b"a", b"1", first_wins=True))
    outcome = await put(
        client,
        "s",
        item(b"a", b"2", first_wins=True),
        item(b"b", b"1", first_wins=True),
        item(b"b", b"2", first_wins=True),
        item(b"c", b"1"),
        item(b"c", b"2"),
    )
    assert outcome.done
    assert [row.value for row in await listed(client, "s")] == [b"1", b"1", b"2"]
    assert (await client.verify()).clean


@case()
async def items_are_dropped(store: Store) -> None:
    """What is dropped is gone; what is not there may be dropped too."""
    client = store.client()
    await put(client, "s", *(item(bytes([n])) for n in range(5)), item(b"x", shelf="other"))
    drops = ((SHELF, b"\x01"), (SHELF, b"\x03"), (SHELF, b"none"), ("other", b"\x01"))
    assert (await put(client, "s", item(b"new"), drops=drops)).done
    assert await keys(client, "s") == [b"\x00", b"\x02", b"\x04", b"new"]
    assert await keys(client, "s", shelf="other") == [b"x"]
    assert (await put(client, "nowhere", drops=drops)).done
    assert await thread_info(client, "nowhere") is None
    assert (await client.verify()).clean


LISTS: dict[str, tuple[dict[str, Any], list[bytes]]] = {
    "all": ({}, [b"", b"a", b"a\x00", b"ab", b"b", b"\xff", b"\xff\xff"]),
    "prefix": ({"prefix": b"a"}, [b"a", b"a\x00", b"ab"]),
    "prefix of highest bytes": ({"prefix": b"\xff"}, [b"\xff", b"\xff\xff"]),
    "after": ({"after": b"a"}, [b"a\x00", b"ab", b"b", b"\xff", b"\xff\xff"]),
    "before": ({"before": b"ab"}, [b"", b"a", b"a\x00"]),
    "between": ({"after": b"a", "before": b"b"}, [b"a\x00", b"ab"]),
    "prefix and bounds": ({"prefix": b"a", "after": b"\x01", "before": b"ab"}, [b"a", b"a\x00"]),
    "reverse": ({"reverse": True, "limit": 3}, [b"\xff\xff", b"\xff", b"b"]),
    "reverse between": ({"reverse": True, "after": b"", "before": b"b"}, [b"ab", b"a\x00", b"a"]),
    "offset and limit": ({"offset": 2, "limit": 2}, [b"a\x00", b"ab"]),
    "contains": ({"contains": "100% _of"}, [b"a", b"b"]),
    "contains, case": ({"contains": "OF"}, []),
    "contains nothing": ({"contains": ""}, [b"a", b"b", b"\xff"]),
    "contains, offset": ({"contains": "of", "offset": 1, "reverse": True}, [b"b", b"a"]),
    "no such shelf": ({"shelf": "Shelf"}, []),
}
TEXTS = {b"a": "100% _of it", b"b": "it 100% _of", b"\xff": "of \u00e9"}


@case(each=LISTS)
async def items_are_listed(store: Store, row: tuple[dict[str, Any], list[bytes]]) -> None:
    """In the order of their keys, byte by byte, as far as the listing asks for."""
    options, expected = row
    client = store.client()
    found = [b"\xff", b"ab", b"", b"b", b"a\x00", b"\xff\xff", b"a"]
    await put(client, "s", *(item(key, text=TEXTS.get(key)) for key in found))
    await put(client, "s", item(b"a", shelf="other"))
    assert await keys(client, "s", **options) == expected


@case()
async def many_listings_in_one_call(store: Store) -> None:
    """One list for each, in the order that they were asked for."""
    client = store.client()
    await put(client, "s", item(b"a"), item(b"b", shelf="other"))
    await put(client, "t", item(b"c"))
    listings = [
        ItemListing("t", SHELF),
        ItemListing("none", SHELF),
        ItemListing("s", "other"),
        ItemListing("s", SHELF),
    ]
    found = await driven(client, list_items(core_of(client), listings))
    assert [[row.key for row in rows] for rows in found] == [[b"c"], [], [b"b"], [b"a"]]


@case()
async def more_items_than_fit_a_page(store: Store) -> None:
    """All of them come, in both directions."""
    client = store.client()
    wanted = [number.to_bytes(2) for number in range(1200)]
    await put(client, "s", *map(item, wanted))

    async def everything(*, reverse: bool) -> list[bytes]:
        listing = ItemListing("s", SHELF, reverse=reverse)
        return [row.key async for row in every_item(core_of(client), listing)]

    assert await driven(client, everything(reverse=False)) == wanted
    assert await driven(client, everything(reverse=True)) == wanted[::-1]
    assert (await client.verify()).clean


@case()
async def an_item_over_its_time(store: Store) -> None:
    """Is gone from lists and looks at once; only who sweeps sees it; its place can be taken."""
    client = store.client()
    await put(client, "s", item(b"brief", ttl=1), item(b"long", ttl=100), item(b"kept"))
    await store.pass_time(1.5)
    assert await keys(client, "s") == [b"kept", b"long"]
    assert await keys(client, "s", over=True) == [b"brief"]
    outcome = await put(client, "s", item(b"brief", b"new", first_wins=True))
    assert (SHELF, b"brief") not in outcome.before
    (row, *_) = await listed(client, "s")
    assert (row.value, row.expires_at, row.created_at) == (b"new", None, row.updated_at)
    assert await keys(client, "s", over=True) == []
    assert (await client.verify()).clean


@case()
async def items_of_others(store: Store) -> None:
    """A thread, a tenant and a hidden tenant each have their own."""
    ours, theirs = store.client(tenant="A"), store.client(tenant="B")
    inside = hidden("A", "store")
    await put(ours, "s", item(b"k", b"ours"))
    await put(ours, "t", item(b"k", b"another thread"))
    await put(theirs, "s", item(b"k", b"theirs"))
    await put(ours, "s", item(b"k", b"hidden"), tenant=inside)
    assert [row.value for row in await listed(ours, "s")] == [b"ours"]
    assert [row.value for row in await listed(theirs, "s")] == [b"theirs"]
    assert [row.value for row in await listed(ours, "s", tenant=inside)] == [b"hidden"]
    await put(theirs, "s", drops=((SHELF, b"k"),))
    await theirs.delete("s")
    assert [row.value for row in await listed(ours, "s")] == [b"ours"]
    assert {info.thread_id for info in await ours.threads()} == {"s", "t"}
    assert await thread_info(theirs, "s") is None


@case()
async def a_deleted_thread_has_no_items(store: Store) -> None:
    """Not for readers, and not for the next thread of that name."""
    client = store.client()
    await save(client, "s", {"n": 1})
    await put(client, "s", item(b"k"))
    await client.delete("s")
    assert await keys(client, "s") == []
    await save(client, "s", {"n": 2})
    assert await keys(client, "s") == []
    assert (await put(client, "s", item(b"k"))).before == {}
    assert (await client.verify()).clean


@case()
async def a_late_writer_of_items(store: Store) -> None:
    """One that does not open threads, or holds the deleted one, brings nothing back."""
    client = store.client()
    await put(client, "s", item(b"k"))
    holder = await key_of(client, "s")
    assert (await put(client, "s", item(b"k"), opens=False, holder=holder)).done
    await client.delete("s")
    assert await put(client, "s", item(b"k"), opens=False) == Outcome(done=False, before={})
    with pytest.raises(ThreadDeletedError):
        await put(client, "s", item(b"k"), holder=holder)
    assert await thread_info(client, "s") is None
    await put(client, "s", item(b"other"))
    with pytest.raises(ThreadDeletedError):
        await put(client, "s", item(b"k"), holder=holder)
    assert await keys(client, "s") == [b"other"]


@case()
async def items_changed_by_expectation(store: Store) -> None:
    """Written only if what was read is there still; the same once more does no harm."""
    client = store.client()
    place = (SHELF, b"k")
    assert (await put(client, "s", item(b"k", b"1"), expected={place: None})).done
    refused = await put(client, "s", item(b"k", b"2"), expected={place: None})
    assert (refused.done, refused.before[place].value) == (False, b"1")
    assert (await put(client, "s", item(b"k", b"2"), expected={place: b"1"})).done
    assert (await put(client, "s", item(b"k", b"2"), expected={place: b"1"})).done
    assert not (await put(client, "s", drops=(place,), expected={place: b"1"})).done
    assert [row.value for row in await listed(client, "s")] == [b"2"]
    assert (await put(client, "s", drops=(place,), expected={place: b"2"})).done
    assert await keys(client, "s") == []


@case()
async def many_writers_of_one_item(store: Store) -> None:
    """Of those that expect a free place one gets it; of new ones none is lost."""
    client = store.client()
    await put(client, "s", item(b"first"))
    calls = [
        lambda n=n: put(
            client, "s", item(b"k", bytes([n])), item(bytes([n])), expected={(SHELF, b"k"): None}
        )
        for n in range(12)
    ]
    outcomes = await store.together(calls)
    winners = [number for number, outcome in enumerate(outcomes) if outcome.done]
    assert len(winners) == 1
    assert await keys(client, "s") == [bytes(winners), b"first", b"k"]
    beside = [lambda n=n: put(client, "s", item(bytes([200 + n]))) for n in range(12)]
    await store.together(beside)
    assert len(await keys(client, "s")) == 15
    assert (await client.verify()).clean


@case("S20")
async def a_damaged_item(store: Store) -> None:
    """Is an error for who asks for it; checkpoints and other items are not touched."""
    await _hurt_thread(store)
    store.harness.edit_row("item", "hurt", "value", b"forged")
    client = store.client()
    with pytest.raises(CheckpointIntegrityError):
        await keys(client, "hurt")
    with pytest.raises(CheckpointIntegrityError):
        await put(client, "hurt", item(b"newest"))
    assert await keys(client, "hurt", shelf="other") == [b"k"]
    await put(client, "hurt", item(b"more", shelf="other"))
    assert len(await headers(client, "hurt")) == 1
    await save(client, "hurt", {"n": 2})


@case("S20")
async def a_lost_item(store: Store) -> None:
    """Is no absence: whoever looks for what is not there is told of the damage."""
    await _hurt_thread(store)
    store.harness.lose_row("item", "hurt")
    client = store.client()
    with pytest.raises(CheckpointIntegrityError):
        await keys(client, "hurt")
    with pytest.raises(CheckpointIntegrityError):
        await put(client, "hurt", item(b"newest"))
    await save(client, "hurt", {"n": 2})
    assert len(await headers(client, "hurt")) == 2


async def _hurt_thread(store: Store) -> None:
    client = store.client()
    await save(client, "hurt", {"n": 1})
    await put(client, "hurt", item(b"k", shelf="other"))
    await store.pass_time(1)
    await put(client, "hurt", item(b"newest"))
    await store.close()


@case("S20", slow=True)
async def a_lost_item_of_many(store: Store) -> None:
    """In a thread with many items a lost one is found by verify."""
    client = store.client()
    await put(client, "hurt", *(item(number.to_bytes(2)) for number in range(COUNTED + 1)))
    await store.pass_time(1)
    await put(client, "hurt", item(b"newest"))
    await store.close()
    store.harness.lose_row("item", "hurt")
    client = store.client()
    assert len(await keys(client, "hurt", limit=1000)) == COUNTED + 1
    assert [problem.kind for problem in (await client.verify()).problems] == ["row"]


@case()
async def what_items_take(store: Store) -> None:
    """Their bytes are counted, and no longer when they are gone."""
    client = store.client()
    await save(client, "s", {"n": 1})
    before = (await client.stats("s")).total.physical
    await put(client, "s", item(b"k", b"x" * 5000))
    assert (await client.stats("s")).total.physical == before + 5000
    await put(client, "s", item(b"k", b"x" * 10))
    info = await thread_info(client, "s")
    assert info is not None
    assert info.size == before + 10
    await put(client, "s", drops=((SHELF, b"k"),))
    assert (await client.stats("s")).total.physical == before
