"""Writes that come with the checkpoint behind them: the same as one after the other."""

from __future__ import annotations

from collections.abc import Callable, Coroutine
from functools import partial
from typing import Any

from lastgood.alias_rules import SHELF as ALIASES
from lastgood.alias_rules import Alias, Known
from lastgood.client import Client
from lastgood.commits import Writes
from lastgood.item_rules import ChangeItemsBeside, ItemDraft
from lastgood.testing.alias_cases import alias, place, row_id
from lastgood.testing.alias_cases import put as put_under
from lastgood.testing.cases import case
from lastgood.testing.items_cases import item, keys, listed
from lastgood.testing.store import Store, committed, core_of, headers

Call = Callable[[], Coroutine[Any, Any, Any]]
STEPS = 12


async def beside(client: Client, *drafts: ItemDraft, **options: Any) -> Writes:
    """Put writes of a task, as LangGraph does at the same time as a checkpoint."""
    tenant = core_of(client).tenant
    intent = ChangeItemsBeside(tenant, "s", puts=drafts, opens=False, novel=True, **options)
    return await committed(client, intent)


def child(client: Client, name: str, of: str, id: bytes) -> Call:
    """Put a checkpoint under an alias behind another one."""
    state = {"name": name, "list": [f"element {name} {n}" for n in range(20)]}
    options = {"follows": id, "parent": place(of), "parent_id": id}
    return partial(put_under, client, name, state, **options)


@case()
async def writes_with_their_checkpoint(store: Store) -> None:
    """Step by step, small and large ones; every one of them is there, and counted."""
    client, sizes = store.client(), (3, 300, 5000)
    id = row_id(await put_under(client, "0", {"name": "0"}))
    for number in range(1, STEPS):
        drafts = [item(b"%d.%d" % (number, n), b"v" * size) for n, size in enumerate(sizes)]
        calls: list[Call] = [partial(beside, client, *drafts)]
        calls.append(child(client, str(number), str(number - 1), id))
        first, second = await store.together(calls)
        assert first.answer.done
        id = row_id(second)
        assert await alias(client, str(number)) == Alias(id, number + 1)
    assert len(await keys(client, "s")) == (STEPS - 1) * len(sizes)
    assert [header.seq for header in await headers(client, "s")] == [*range(STEPS, 0, -1)]
    assert (await client.verify(data=True)).clean


@case()
async def writes_of_many_tasks_at_once(store: Store) -> None:
    """A fan-out: more than share a change, some of them for the same place."""
    client = store.client()
    id = row_id(await put_under(client, "0", {"name": "0"}))
    places = [b"%02d" % (number // 2) for number in range(50)]
    calls: list[Call] = [
        partial(beside, client, item(key, b"%d" % number), item(b"x" + key, first_wins=True))
        for number, key in enumerate(places)
    ]
    *outcomes, last = await store.together([*calls, child(client, "1", "0", id)])
    assert all(writes.answer.done for writes in outcomes)
    assert row_id(last)
    found = {row.key: row.value for row in await listed(client, "s", limit=100)}
    assert found.keys() == {*places, *(b"x" + key for key in places)}
    assert all(int(found[key]) // 2 == int(key) for key in places)
    assert (await client.verify(data=True)).clean


@case()
async def writes_beside_what_is_refused(store: Store) -> None:
    """A checkpoint behind what is not its parent, one that takes an alias, an unexpected item."""
    client = store.client()
    id = row_id(await put_under(client, "0", {"name": "0"}))
    await beside(client, item(b"there"))
    refused: list[Call] = [
        child(client, "1", "0", b"another" * 2),
        child(client, "0", "0", id),
        partial(beside, client, item(b"there", b"new"), expected={item(b"there").place: None}),
    ]
    for number, call in enumerate(refused):
        calls: list[Call] = [partial(beside, client, item(b"%d" % number)), call]
        done, told = await store.together(calls)
        assert done.answer.done
        assert isinstance(told.answer, Known) or not told.answer.done
    assert await keys(client, "s") == [b"0", b"1", b"2", b"there"]
    assert await keys(client, "s", shelf=ALIASES) == [b"0"]
    assert (await client.verify(data=True)).clean
