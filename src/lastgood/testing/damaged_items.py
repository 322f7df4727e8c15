"""Damaged items: told to whoever lists what they are part of, and no obstacle to removal."""

from __future__ import annotations

from typing import Any

import pytest

from lastgood import CheckpointIntegrityError
from lastgood.backends.tables import COUNTED
from lastgood.client import Client
from lastgood.testing.cases import case
from lastgood.testing.items_cases import SHELF, item, keys, put
from lastgood.testing.operations import save
from lastgood.testing.store import Store, headers, thread_info

EDITS: dict[str, tuple[str, Any]] = {
    "value": ("value", b"forged"),
    "text": ("text", "forged"),
    "time to live": ("expires_at", 1),
    "time of making": ("created_at", 1),
    "time of change": ("updated_at", 9**17),
    "seal": ("seal", b"12345678"),
}

WHERE = r"in thread 'hurt', .*k3"


async def _hurt(store: Store, edit: tuple[str, Any]) -> Client:
    """Three items, of which the last one was changed outside."""
    client = store.client()
    await save(client, "hurt", {"n": 1})
    await put(client, "hurt", item(b"k1", text="one"), item(b"k2", text="two"))
    await store.pass_time(1)
    await put(client, "hurt", item(b"k3", text="three"))
    await store.close()
    store.harness.edit_row("item", "hurt", *edit)
    return store.client()


LISTS: tuple[dict[str, Any], ...] = (
    {},
    {"limit": 3},
    {"prefix": b"k"},
    {"prefix": b"k3", "limit": 1},
    {"after": b"k1", "limit": 2},
    {"reverse": True, "limit": 1},
    {"offset": 1, "limit": 2},
    {"offset": 1, "limit": 2, "every": True},
)


@case("S20", each=EDITS)
async def a_list_with_a_damaged_item(store: Store, edit: tuple[str, Any]) -> None:
    """Is an error that says where it is and what to do, as for who asks for that item alone."""
    client = await _hurt(store, edit)
    for options in LISTS:
        with pytest.raises(CheckpointIntegrityError, match=WHERE) as caught:
            await keys(client, "hurt", **options)
        assert "lastgood verify" in caught.value.hint
    with pytest.raises(CheckpointIntegrityError, match=WHERE):
        await put(client, "hurt", item(b"k3"))
    assert await keys(client, "hurt", limit=2) == [b"k1", b"k2"]
    (problem,) = (await client.verify()).problems
    assert (problem.kind, problem.where) == ("seal", f"hurt item {SHELF} b'k3'")


@case("S20", each=EDITS)
async def a_damaged_item_can_be_dropped(store: Store, edit: tuple[str, Any]) -> None:
    """Nothing else goes with it, and all is well then."""
    client = await _hurt(store, edit)
    places = ((SHELF, b"k2"), (SHELF, b"k3"))
    with pytest.raises(CheckpointIntegrityError, match=WHERE):
        await put(client, "hurt", drops=places, expected={(SHELF, b"k3"): b"value"})
    outcome = await put(client, "hurt", drops=places)
    assert set(outcome.before) == set(places)
    assert outcome.before[places[0]].value == b"value"
    assert b"forged" not in outcome.before[places[1]]
    assert await keys(client, "hurt") == [b"k1"]
    assert (await client.verify()).clean


@case("S20", each=EDITS)
async def a_thread_with_a_damaged_item_can_be_deleted(store: Store, edit: tuple[str, Any]) -> None:
    """And begun anew."""
    client = await _hurt(store, edit)
    assert len(await headers(client, "hurt")) == 1
    await client.delete("hurt")
    assert await thread_info(client, "hurt") is None
    assert (await client.verify()).clean
    await put(client, "hurt", item(b"k3"))
    assert await keys(client, "hurt") == [b"k3"]


@case("S20")
async def a_list_goes_on_behind_items_over_their_time(store: Store) -> None:
    """However many there are, and whichever way it goes, a page has as many live ones as it may."""
    client = store.client()
    brief = [item(number.to_bytes(2), ttl=5) for number in range(2 * COUNTED)]
    lasting = [item(number.to_bytes(2) + b"+") for number in range(0, 2 * COUNTED, 64)]
    await put(client, "s", *brief, *lasting)
    await store.pass_time(6)
    wanted = [draft.key for draft in lasting]
    for limit in (1, 3, 100):
        assert await keys(client, "s", limit=limit) == wanted[:limit]
        assert await keys(client, "s", limit=limit, offset=2) == wanted[2 : 2 + limit]
        assert await keys(client, "s", limit=limit, reverse=True) == wanted[::-1][:limit]
        assert await keys(client, "s", limit=limit, after=wanted[1]) == wanted[2 : 2 + limit]
    assert await keys(client, "s", limit=2, every=True) == [brief[0].key, wanted[0]]
    assert len(await keys(client, "s", limit=1000, over=True)) == len(brief)
    assert len(await keys(client, "s", limit=1000, every=True)) == len(brief) + len(lasting)
