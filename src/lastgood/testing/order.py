"""Order comes from commits alone: never from a clock, never from an id."""

from __future__ import annotations

from functools import partial

from lastgood.backend import ItemListing
from lastgood.item_rules import ChangeItems, ItemDraft
from lastgood.shelving import change_items, list_items
from lastgood.testing.cases import case
from lastgood.testing.operations import save
from lastgood.testing.store import Store, core_of, driven, headers, status


@case("S18")
async def a_clock_that_goes_backwards(store: Store) -> None:
    """latest is the last committed; timeline and log are in the order of commits."""
    client = store.client()
    saves = []
    for number in range(6):
        store.harness.time.shift = -500.0 * number
        saves.append(await save(client, "s", {"n": number}))
    latest = await client.latest(agent_id="a", session_id="s")
    assert latest is not None
    assert latest.checkpoint_id == saves[-1]
    assert [c.checkpoint_id for c in await client.timeline("a", "s")] == saves[::-1]
    assert [h.checkpoint_id for h in await headers(store.client(), "s")] == saves[::-1]
    assert [c.parent_id for c in await client.timeline("a", "s")] == [*saves[-2::-1], None]


@case("S18", slow=True)
async def many_saves_at_one_moment(store: Store) -> None:
    """A thousand saves with one timestamp come back in the order of commits."""
    store.harness.time.stop()
    client = store.client()
    saves = []
    for number in range(20):
        saves += await store.together(
            [partial(save, client, "s", {"n": number * 50 + m}) for m in range(50)]
        )
    assert all(isinstance(saved, str) for saved in saves)
    found = await headers(store.client(), "s")
    assert {h.checkpoint_id for h in found} == set(saves)
    assert [h.seq for h in found] == sorted((h.seq for h in found), reverse=True)
    assert [h.parent_id for h in found[:-1]] == [h.checkpoint_id for h in found[1:]]
    latest = await client.latest(agent_id="a", session_id="s")
    assert latest is not None
    assert latest.checkpoint_id == found[0].checkpoint_id


@case("S18")
async def ids_that_sort_backwards(store: Store) -> None:
    """Chosen ids in falling order change nothing."""
    client = store.client()
    ids = [f"0190000{n}-0000-7000-8000-00000000000{n}" for n in range(9, 0, -1)]
    for chosen in ids:
        await save(client, "s", {"id": chosen}, checkpoint_id=chosen)
    assert [h.checkpoint_id for h in await headers(client, "s")] == ids[::-1]


@case("S18")
async def the_newest_run_tells_the_status(store: Store) -> None:
    """Also when all runs began at one moment, or the clock was turned back."""
    store.harness.time.stop()
    client = store.client()
    for _ in range(3):
        async with client.run("s", agent_id="first", initial={}) as run:
            await run.finish()
    async with client.run("s", agent_id="second", initial={}):
        assert await status(client, "s") == "running"
    assert await status(client, "s") == "idle"
    store.harness.time.shift = -1000.0
    async with client.run("s", agent_id="third", initial={}) as run:
        await run.finish()
    assert await status(client, "s") == "done"


@case("S18")
async def nothing_expires_while_the_clock_is_behind(store: Store) -> None:
    """A clock that was set back makes nothing vanish and nothing live for ever."""
    client = store.client()
    saved = await save(client, "s", {"n": 1}, ttl_seconds=60)
    store.harness.time.shift = -3600.0
    again = await save(client, "s", {"n": 2}, ttl_seconds=60)
    for checkpoint in (saved, again):
        assert (await client.restore(checkpoint)).verify_integrity()
    if store.harness.turns_clock:
        store.harness.time.shift = 200.0
        assert await client.latest(agent_id="a", session_id="s") is None


@case("S18")
async def what_had_expired_stays_so_when_the_clock_is_set_back(store: Store) -> None:
    """Also if the later time was seen in another thread, and by somebody else."""
    client, clock = store.client(), store.harness.time
    kept = await save(client, "s", {"n": 1})
    if not store.harness.turns_clock:
        return
    await save(client, "s", {"n": 2}, ttl_seconds=60)
    clock.shift = 3600.0
    await save(store.client(), "other", {"n": 3})
    if store.harness.server is None:  # the clock of a server is its own, one for all who use it
        clock.shift = 0.0
    for reader in (client, store.client()):
        latest = await reader.latest(agent_id="a", session_id="s")
        assert latest is not None
        assert latest.checkpoint_id == kept
    await save(client, "s", {"n": 4}, ttl_seconds=60)
    clock.shift = 3630.0
    assert await client.latest(agent_id="a", session_id="s") is not None


KEYS = sorted(
    [
        *(b"\x00", b"k", b"\xff\xfe", "ä".encode(), b"0" * 255),
        *(bytes(16), bytes(range(240, 256)), (7).to_bytes(8) + b"\x9f" * 8),
        *(b"00000000-0000-0000-0000-000000000000", b"key_hex", b"ff" * 16),
    ]
)


@case()
async def items_are_in_the_order_of_their_bytes(store: Store) -> None:
    """Any bytes are a key, also those that look like an id, like text, like their own spelling."""
    core = core_of(client := store.client())
    puts = tuple(ItemDraft("shelf", key, key) for key in reversed(KEYS))
    await driven(client, change_items(core, ChangeItems(core.tenant, "s", puts=puts)))
    client = await store.reopen()
    listing = ItemListing("s", "shelf", limit=100)
    [rows] = await driven(client, list_items(core_of(client), [listing]))
    assert [row.key for row in rows] == KEYS
    assert all(row.value == row.key for row in rows)
