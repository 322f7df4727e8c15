"""How often an operation crosses the network, counted by a proxy; whether others wait for it."""

import time
from collections.abc import Awaitable, Callable, Iterator, Sequence
from functools import partial
from pathlib import Path
from typing import Any

import pytest

from lastgood import Client
from lastgood.backend import ItemListing
from lastgood.backends.remote import tables
from lastgood.backends.remote.queries import AskHeads, AskLine, Query
from lastgood.item_rules import ChangeItems, ItemDraft
from lastgood.rows import ItemRow
from lastgood.shelving import list_items
from lastgood.testing.faults.proxy import Proxy
from lastgood.testing.harness import BackendHarness
from lastgood.testing.postgres_harness import PostgresHarness
from lastgood.testing.redis_harness import RedisHarness
from lastgood.testing.store import COLOURS, Colour, Store, committed, core_of, driven
from lastgood.testing.suite import run_body

LARGE = {"messages": [{"n": n, "text": f"{n} " * 200} for n in range(60)]}
VAST = {f"field {n}": [f"{n} {m} " * 60 for m in range(20)] for n in range(60)}
"""A state with so many sequences that its manifest is stored as pages itself."""


KINDS = [pytest.param(kind, marks=pytest.mark.server(kind)) for kind in ("postgres", "valkey")]
PAGE = {"postgres": 1, "valkey": 2}
"""Round trips for a page of threads, however long it is."""


@pytest.fixture(params=KINDS)
def kind(request: Any) -> str:
    return request.param


@pytest.fixture
def straight(kind: str, request: Any) -> str:
    """The address without the proxy."""
    return request.getfixturevalue(f"{kind}_url")


@pytest.fixture
def proxy(straight: str) -> Iterator[Proxy]:
    with Proxy(straight) as one:
        yield one


Play = Callable[[Callable[[Store], Any]], None]


@pytest.fixture(params=COLOURS)
def play(request: Any, kind: str, proxy: Proxy, straight: str, tmp_path: Path) -> Play:
    """Clients go through the proxy; what the harness itself does, goes straight."""
    colour: Colour = request.param
    base: Any = PostgresHarness if kind == "postgres" else RedisHarness

    class Counted(base):
        def close(self) -> None:
            self._url = straight
            super().close()

    def run(body: Callable[[Store], Any]) -> None:
        harness: BackendHarness = Counted(tmp_path, proxy.url)
        run_body(body, harness, colour)

    return run


class Meter:
    """Counts the round trips of calls."""

    def __init__(self, proxy: Proxy) -> None:
        self.proxy = proxy

    async def of(self, call: Awaitable[Any]) -> int:
        before = self.proxy.round_trips
        await call
        return self.proxy.round_trips - before


def test_a_save_inside_of_a_run_is_one_round_trip(play: Play, proxy: Proxy) -> None:
    async def body(store: Store) -> None:
        client, meter = store.client(), Meter(proxy)
        async with client.run("s", initial=LARGE) as run:
            assert await meter.of(run.save({**LARGE, "n": 1})) == 1
            assert await meter.of(run.save({**LARGE, "n": 2})) == 1
            assert await meter.of(run.append("messages", "one more", "and one")) == 1
            assert await meter.of(run.append("messages", "word " * 30_000)) <= 2, "a large part"
            assert await meter.of(run.save({"n": 3})) == 1

    play(body)


def test_a_save_is_two_round_trips(play: Play, proxy: Proxy) -> None:
    """Whoever wrote last; in a thread that this client wrote to before, one is enough."""

    async def body(store: Store) -> None:
        client, other, meter = store.client(), store.client(), Meter(proxy)
        await client.save("a", session_id="s", execution_state=LARGE)
        assert await meter.of(client.save("a", session_id="s", execution_state={"n": 1})) == 1
        await other.save("a", session_id="s", execution_state={"n": 2})
        fresh = store.client()
        await fresh.threads()
        assert await meter.of(fresh.save("a", session_id="s", execution_state={"n": 3})) == 2
        assert await meter.of(fresh.save("b", session_id="s", execution_state={"n": 4})) == 2
        assert await meter.of(other.save("c", session_id="s", execution_state={"n": 5})) <= 3

    play(body)


@pytest.mark.parametrize("kind", KINDS[:1], indirect=True)
def test_a_save_to_a_new_thread_is_two_round_trips(play: Play, proxy: Proxy) -> None:
    """After the first one of a process, which reserves numbers for many."""

    async def body(store: Store) -> None:
        client, meter = store.client(), Meter(proxy)
        await client.threads()
        assert await meter.of(client.save("a", session_id="t", execution_state=LARGE)) <= 3
        for number in range(20):
            new = client.save("a", session_id=f"{number}", execution_state=LARGE)
            assert await meter.of(new) == 2

    play(body)


def test_new_items_are_one_round_trip_in_a_thread_that_was_written_to(
    play: Play, proxy: Proxy
) -> None:
    """One that is there after all is found out by the store, and nothing is lost."""

    async def body(store: Store) -> None:
        client, other, meter = store.client(), store.client(), Meter(proxy)
        await client.save("a", session_id="s", execution_state={"n": 1})
        put = partial(_put, client)
        assert await meter.of(put(b"1", b"one")) == 1
        assert await meter.of(put(b"2", b"x" * 1000)) == 1
        assert await meter.of(put(b"1", b"uno")) == 1, "it is remembered"
        assert await meter.of(put(b"2", b"two")) == 3, "supposed not to be there; asked; written"
        await _put(other, b"3", b"three")
        await put(b"3", b"tres", first_wins=True)
        listing = list_items(core_of(client), [ItemListing("s", "shelf")])
        (rows,) = await driven(client, listing)
        assert [row.value for row in rows] == [b"uno", b"two", b"three"]
        assert (await client.verify(data=True)).clean

    play(body)


async def _put(client: Client, key: bytes, value: bytes, **how: Any) -> None:
    drafts = (ItemDraft("shelf", key, value, **how),)
    await committed(client, ChangeItems(core_of(client).tenant, "s", puts=drafts, novel=True))


def test_a_restore_is_two_round_trips_and_three_for_a_large_manifest(
    play: Play, proxy: Proxy
) -> None:
    async def body(store: Store) -> None:
        client, meter = store.client(), Meter(proxy)
        small = await client.save("a", session_id="s", execution_state={"n": 1})
        large = await client.save("a", session_id="s", execution_state=LARGE)
        vast = await client.save("a", session_id="s", execution_state=VAST)
        trips = {}
        for name, id in {"small": small, "large": large, "vast": vast}.items():
            fresh = store.client()
            await fresh.stats("s")
            await fresh.latest(agent_id="nobody", session_id="nowhere")
            trips[name] = await meter.of(fresh.restore(id))
        assert trips == {"small": 1, "large": 2, "vast": 3}

    play(body)


def test_latest_is_two_round_trips(play: Play, proxy: Proxy) -> None:
    async def body(store: Store) -> None:
        client, meter = store.client(), Meter(proxy)
        await client.save("a", session_id="s", execution_state=LARGE)
        fresh = store.client()
        await fresh.threads()
        assert await meter.of(fresh.latest(agent_id="a", session_id="s")) == 2
        assert await meter.of(fresh.latest(agent_id="a", session_id="s")) == 1, "it is cached"

    play(body)


def test_lists_take_a_number_of_round_trips_that_does_not_grow(
    play: Play, proxy: Proxy, kind: str
) -> None:
    async def body(store: Store) -> None:
        client, meter = store.client(), Meter(proxy)
        for thread in range(12):
            for number in range(12):
                await client.save("a", session_id=f"{thread}", execution_state={"n": number})
        fresh = store.client()
        await fresh.threads(limit=1)
        for limit in (2, 10, 50):
            assert await meter.of(fresh.threads(limit=limit)) == PAGE[kind]
        assert await meter.of(fresh.log("3")) == 1
        assert await meter.of(fresh.branches("3")) == 1
        assert await meter.of(fresh.resolve("3@5")) <= 2
        assert await meter.of(fresh.timeline("a", "3")) <= 2

    play(body)


@pytest.mark.parametrize("kind", KINDS[1:], indirect=True)
def test_users_take_no_round_trip_more(play: Play, proxy: Proxy, kind: str) -> None:
    """To save for one, to list what one has among others."""

    async def body(store: Store) -> None:
        ada, bob, meter = store.client(user="ada"), store.client(user="bob"), Meter(proxy)
        for number in range(12):
            for client in (ada, bob):
                await client.save("a", session_id=f"{id(client)} {number}", execution_state={})
        async with ada.run("s", initial=LARGE) as run:
            assert await meter.of(run.save({"n": 1})) == 1
        await bob.threads(limit=1)
        for limit in (2, 10, 50):
            assert await meter.of(bob.threads(user="ada", limit=limit)) == PAGE[kind]

    play(body)


def test_steps_that_are_over_their_time_are_passed_in_a_few_round_trips(
    play: Play, proxy: Proxy, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Thousands are, where each step of a run has a time to live; here few are asked for."""
    monkeypatch.setattr(tables, "ANCESTORS", 2)

    async def body(store: Store) -> None:
        client, meter = store.client(), Meter(proxy)
        await client.save("agent", session_id="s", execution_state={"n": 0})
        async with client.run("s", ttl_seconds=60) as run:
            for number in range(1, 200):
                await run.save({"n": number})
        await store.pass_time(90)
        fresh = store.client()
        await fresh.threads()
        assert await meter.of(fresh.latest(agent_id="agent", session_id="s")) <= 9
        await fresh.save("agent", session_id="s", execution_state={"n": 200})
        assert [header.seq for header in await client.log("s")] == [201, 1]

    play(body)


def test_the_ends_of_many_lanes_are_found_in_a_few_round_trips(play: Play, proxy: Proxy) -> None:
    """A graph makes thousands of lanes; here the last two steps of each are over their time."""

    async def body(store: Store) -> None:
        client, meter = store.client(), Meter(proxy)
        agents = [f"agent {number}" for number in range(70)]
        for lifetime in (None, 60, 60):
            for agent in agents:
                save = client.save(agent, session_id="s", execution_state={}, ttl_seconds=lifetime)
                await save
        await store.pass_time(90)
        fresh = store.client()
        await fresh.threads()
        assert await meter.of(fresh.branches("s")) == 2
        heads = [branch.head for branch in await fresh.branches("s")]
        assert [head and head.seq for head in heads] == list(range(1, 71))
        assert (await fresh.sweep(grace_seconds=0)).checkpoints == 140

    play(body)


def test_many_lists_of_items_are_read_in_a_few_round_trips(play: Play, proxy: Proxy) -> None:
    """Of each, the first page is over its time."""

    async def body(store: Store) -> None:
        client, meter = store.client(), Meter(proxy)
        names = [f"{number}" for number in range(70)]
        lifetimes = {b"brief": 60.0, b"lasting": None}
        drafts = [ItemDraft("s", key, b"v", ttl=ttl) for key, ttl in lifetimes.items()]
        for name in names:
            await committed(client, ChangeItems("default", name, tuple(drafts)))
        await store.pass_time(90)
        lists = list_items(core_of(client), [ItemListing(name, "s", limit=1) for name in names])
        found: list[list[ItemRow]] = []

        async def read() -> None:
            found.extend(await driven(client, lists))

        assert await meter.of(read()) == 2
        assert [[row.key for row in rows] for rows in found] == [[b"lasting"]] * 70

    play(body)


def test_a_line_of_its_own_asks_for_none_of_the_others(
    play: Play, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A thread may have thousands of branches, and each save beside the head makes one more."""

    async def body(store: Store) -> None:
        client = store.client()
        backend = core_of(client).backend
        root = await client.save("a", session_id="s", execution_state={"n": 0})
        await client.save("a", session_id="s", execution_state={"n": 1})
        asked: list[Query] = []

        async def ask(queries: Sequence[Query]) -> Any:
            asked.extend(queries)
            return await answer(queries)

        answer = backend.ask  # type: ignore[attr-defined]
        monkeypatch.setattr(backend, "ask", ask)
        for number in range(2, 6):
            state = {"n": number}
            await client.save("a", session_id="s", execution_state=state, parent_id=root)
        assert AskLine in map(type, asked)
        assert AskHeads not in map(type, asked)
        assert len(await client.branches("s")) == 5

    play(body)


def test_twenty_slow_reads_take_the_time_of_one(play: Play, proxy: Proxy) -> None:
    """On a pool of twenty nobody waits for another."""

    async def body(store: Store) -> None:
        store.harness.pool_size = 20
        client = store.client()
        ids = [
            await client.save("a", session_id=f"{n}", execution_state={"n": n}) for n in range(20)
        ]
        reader = store.client()
        calls = [lambda id=id: reader.restore(id) for id in ids]
        proxy.delay(to_client=0.005)
        while proxy.connections < 22:  # every connection of the pool is made
            await store.together([lambda: reader.threads() for _ in range(40)])
        proxy.delay(to_client=0.25)
        began = time.monotonic()
        await reader.restore(ids[0])
        one = time.monotonic() - began
        began = time.monotonic()
        found = await store.together(calls)
        all_ = time.monotonic() - began
        assert [each.state for each in found] == [{"n": n} for n in range(20)]
        assert all_ < 5 * one, f"one takes {one:.3f} s, twenty take {all_:.3f} s"

    play(body)
