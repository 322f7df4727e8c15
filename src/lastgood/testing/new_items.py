"""Items that are written in the belief that they are new, and many at once."""

from __future__ import annotations

from typing import Any

from lastgood.backend import ItemListing
from lastgood.commits import Scope
from lastgood.item_rules import ItemDraft
from lastgood.testing.cases import case
from lastgood.testing.items_cases import SHELF, item, keys, listed, put
from lastgood.testing.operations import save
from lastgood.testing.store import Store, core_of, driven


@case()
async def items_that_were_thought_to_be_new(store: Store) -> None:
    """Whoever is nearly sure that a place is free does the same as one who has looked."""
    client, large = store.client(), b"x" * 1000
    there = (b"dropped", b"expected", b"kept", b"live")
    await put(client, "s", *(item(key, large) for key in there), item(b"over", large, ttl=5))
    await store.pass_time(10)

    async def new(*drafts: ItemDraft, **options: Any) -> tuple[bool, list[bytes]]:
        outcome = await put(client, "s", *drafts, novel=True, **options)
        return outcome.done, [key for _, key in outcome.before]

    assert await new(item(b"live", b"new"), item(b"other")) == (True, [b"live"])
    assert await new(item(b"over", b"new")) == (True, [])
    assert await new(item(b"kept", b"new", first_wins=True)) == (True, [b"kept"])
    gone = (SHELF, b"dropped")
    assert await new(item(b"fresh"), drops=(gone,)) == (True, [b"dropped"])
    wanted = item(b"expected", b"new")
    assert await new(wanted, expected={wanted.place: None}) == (False, [b"expected"])
    assert await new(item(b"free"), expected={(SHELF, b"free"): None}) == (True, [])
    found = {row.key: row.value for row in await listed(client, "s")}
    assert [key for key, value in found.items() if value == large] == [b"expected", b"kept"]
    assert [key for key, value in found.items() if value == b"new"] == [b"live", b"over"]
    assert found.keys() >= {b"free", b"fresh", b"other"}
    assert len(found) == 7
    assert (await client.verify(data=True)).clean


@case()
async def items_behind_all_others(store: Store) -> None:
    """What a client wrote last, and where a shelf ends, is what is there; also after a drop."""
    client, before = store.client(), dict[bytes, bytes]()

    async def check(key: bytes, value: bytes, **options: Any) -> None:
        outcome = await put(client, "s", item(key, value), novel=True, **options)
        found = {key: row.value for (_, key), row in outcome.before.items()}
        assert found == {each: before[each] for each in (key,) if each in before}
        before[key] = value

    large = b"x" * 1000
    for key in (b"b", b"d", b"f", b"c", b"a", b"fa", b"f\x00", b"g"):
        await check(key, b"one of " + key)
    for key in (b"g", b"b", b"f\x00"):
        await check(key, large)
        await check(key, b"two of " + key)
    await put(client, "s", drops=((SHELF, b"g"), (SHELF, b"d")))
    del before[b"g"], before[b"d"]
    for key in (b"g", b"d", b"h"):
        await check(key, b"three of " + key)
    assert {row.key: row.value for row in await listed(client, "s")} == before
    assert (await client.verify(data=True)).clean


@case()
async def items_behind_those_of_another_writer(store: Store) -> None:
    """Where a shelf ended when a client wrote to it last says nothing after somebody else wrote."""
    one, other = store.client(), store.client()
    for writer, reader in ((one, other), (other, one)) * 2:
        key = len(await keys(one, "s")).to_bytes(1)
        await put(writer, "s", item(key, b"first"), novel=True)
        outcome = await put(reader, "s", item(key, b"second"), novel=True)
        assert [row.value for row in outcome.before.values()] == [b"first"]
        await put(reader, "s", drops=((SHELF, key),))
        assert (await put(writer, "s", item(key), novel=True)).before == {}
    assert len(await keys(other, "s")) == 4
    assert (await other.verify(data=True)).clean


@case()
async def items_by_the_thousand(store: Store) -> None:
    """However many there are, they are one commit."""
    client = store.client()
    drafts = [
        item(number.to_bytes(2, "big"), b"", text="t" * (number % 2)) for number in range(8000)
    ]
    await put(client, "s", *drafts)
    assert await keys(client, "s", limit=9000) == [draft.key for draft in drafts]
    await put(client, "s", drops=tuple(draft.place for draft in drafts))
    assert await keys(client, "s") == []
    assert (await client.verify()).clean


@case()
async def items_beside_a_look(store: Store) -> None:
    """Asked for together, both are as if asked for alone; also where there is no thread."""
    client = store.client()
    core = core_of(client)
    listings = [ItemListing("s", SHELF), ItemListing("other", SHELF), ItemListing("s", "empty")]
    for _ in range(2):
        scope = Scope(core.tenant, "s", "a")
        found, items = await driven(client, core.backend.look_and_list(scope, listings))
        alone = await driven(client, core.backend.look(scope))
        assert found._replace(now=alone.now) == alone
        assert items == [await listed(client, "s"), await listed(client, "other"), []]
        await save(client, "s", {"n": 1})
        await put(client, "s", item(b"one"), item(b"two"))
        await put(client, "other", item(b"three"))


@case()
async def the_same_item_stays_if_asked_to(store: Store) -> None:
    """An item that is there with the same value stays as it is; with another it is replaced."""
    client = store.client()
    await put(client, "s", item(b"a", b"1", text="first"), item(b"b", b"1", text="first"))
    values = ((b"a", b"1"), (b"b", b"2"), (b"c", b"1"), (b"c", b"2"))
    drafts = [item(*each, text="second", same_stays=True) for each in values]
    await put(client, "s", *drafts, novel=True)
    found = [(row.value, row.text) for row in await listed(client, "s")]
    assert found == [(b"1", "first"), (b"2", "second"), (b"2", "second")]
    assert (await client.verify()).clean
