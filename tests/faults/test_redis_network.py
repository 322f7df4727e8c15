"""A network that fails between a client and its Redis: nothing is lost, nothing is there twice, and
nobody waits for ever.
"""

import asyncio
import os
import random
import threading
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from failpoint_driver import OPERATIONS, Bench
from rich_store import same_every_time
from stores import Stores, opened

from lastgood import BackendConnectionError, TransientStorageError
from lastgood.backends import redis_clients, remote
from lastgood.backends.redis_scripts import COMMIT
from lastgood.testing.faults.proxy import Proxy
from lastgood.testing.faults.store import View, view
from lastgood.testing.redis_harness import RedisHarness
from lastgood.testing.store import COLOURS, Colour, Store, headers
from lastgood.testing.suite import run_body

pytestmark = pytest.mark.server("valkey")

SHA = COMMIT.sha.encode()
Play = Callable[[Callable[[Store], Any]], None]


@pytest.fixture
def proxy(valkey_url: str) -> Iterator[Proxy]:
    with Proxy(valkey_url) as one:
        yield one


class BehindProxy(RedisHarness):
    """Clients go through a proxy; what the harness itself does, goes straight."""

    def __init__(self, directory: Path, proxy: Proxy, straight: str) -> None:
        super().__init__(directory, proxy.url)
        self._straight = straight

    def close(self) -> None:
        self._url = self._straight
        super().close()


@pytest.fixture(params=COLOURS)
def play(request: pytest.FixtureRequest, proxy: Proxy, valkey_url: str, tmp_path: Path) -> Play:
    """Run a body in a colour, on clients behind the proxy."""
    colour: Colour = request.param
    harness = BehindProxy(tmp_path, proxy, valkey_url)

    def run(body: Callable[[Store], Any]) -> None:
        async def healed(store: Store) -> None:
            try:
                await body(store)
            finally:
                proxy.heal()

        run_body(healed, harness, colour)

    return run


@pytest.fixture
def impatient(monkeypatch: pytest.MonkeyPatch) -> None:
    """The same bounds, shorter: 2 s of patience, 1 s of silence."""
    monkeypatch.setattr(remote, "PATIENCE", 2.0)
    monkeypatch.setattr(redis_clients, "REPLY_SECONDS", 1.0)


async def save(client: Any, number: int, **options: Any) -> str:
    state = {"n": number, "items": [f"{number} " * 100] * 30}
    return await client.save("solo", session_id="s", execution_state=state, **options)


async def numbers(client: Any) -> list[int]:
    """What was saved, oldest first; the line must be whole."""
    found = (await headers(client, "s"))[::-1]
    assert [h.parent_id for h in found] == [None, *(h.checkpoint_id for h in found[:-1])]
    return [(await client.restore(h.checkpoint_id)).state["n"] for h in found]


@pytest.fixture(scope="module")
def bench(valkey_url: str) -> Iterator[Bench]:
    with Stores(valkey_url) as stores:
        yield Bench(stores)


def outcome(bench: Bench, operation: Any, fail: Callable[[Proxy], None]) -> tuple[Any, View]:
    """What an operation gives and leaves when something happens to its commit."""
    bench.count += 1
    url = bench.stores.copied(bench.prepared, f"net-{bench.count}")
    with Proxy(url) as proxy:
        client = opened(proxy.url)
        with same_every_time():
            [os.urandom(10) for _ in range(50)]  # ids that `prepare` has not used
            given = operation(client, bench.ids, lambda: fail(proxy))
        client.close()
    reader = opened(url)
    try:
        return given, view(reader)
    finally:
        reader.close()


@pytest.mark.parametrize("operation", OPERATIONS, ids=lambda operation: operation.__name__)
def test_a_commit_that_was_cut_is_carried_out_once(operation: Any, bench: Bench) -> None:
    """Before it arrived, or after it was carried out: for the caller nothing has happened."""
    unharmed = outcome(bench, operation, lambda proxy: None)
    cuts = 0

    def remember(proxy: Proxy, cut: Callable[..., None]) -> None:
        nonlocal cuts
        cut(match=SHA)
        cuts += 1

    assert outcome(bench, operation, lambda p: remember(p, p.cut_before)) == unharmed
    assert outcome(bench, operation, lambda p: remember(p, p.cut_after)) == unharmed
    assert cuts == 2


@pytest.mark.parametrize("after", [False, True], ids=["before", "after"])
def test_any_round_trip_may_be_cut(after: bool, play: Play, proxy: Proxy) -> None:
    """The nth request from now, for every n: whatever is under way then is done again."""

    async def body(store: Store) -> None:
        client, other = store.client(), store.client()
        cut = proxy.cut_after if after else proxy.cut_before
        await save(client, 0)
        await other.threads()
        for nth in range(1, 9):
            cut(nth)
            await save(client, nth)
            assert (await other.latest(agent_id="solo", session_id="s")).state["n"] == nth
            assert len(await other.timeline("solo", "s")) == nth + 1
            assert [info.checkpoints for info in await other.threads()] == [nth + 1]
            assert (await other.stats()).threads == 1
        assert await numbers(client) == list(range(9))
        assert proxy.cuts >= 7

    play(body)


def test_a_large_save_that_is_cut_in_the_middle(play: Play, proxy: Proxy) -> None:
    """Its parts are sent in pieces before it: no piece of it is left, and it is there once."""

    async def body(store: Store) -> None:
        client = store.client()
        await save(client, 0)
        for nth in range(1, 7):
            proxy.cut_after(nth)
            state = {"n": nth, "items": [os.urandom(1000).hex() for _ in range(2500)]}
            saved = await client.save("solo", session_id="s", execution_state=state)
            assert (await store.client().restore(saved)).state == state
        assert await numbers(client) == list(range(7))
        assert (await client.verify(data=True)).clean

    play(body)


def test_connections_that_are_cut_again_and_again(play: Play, proxy: Proxy, seed: str) -> None:
    """Four writers, each with a run; every few hundredths of a second all lose their connection."""
    steps = 25

    async def write(client: Any, writer: int) -> list[str]:
        async with client.run(f"run-{writer}", initial={"n": []}) as run:
            return [await run.append("n", number, step_name=f"{number}") for number in range(steps)]

    async def body(store: Store) -> None:
        clients = [store.client() for _ in range(4)]
        for client in clients:
            await client.threads()
        calls = [lambda c=client, n=n: write(c, n) for n, client in enumerate(clients)]
        stop = threading.Event()
        villain = threading.Thread(target=cut_on, args=(proxy, stop, random.Random(seed)))
        villain.start()
        try:
            done = await store.together(calls)
        finally:
            stop.set()
            villain.join()
        reader = store.client()
        for writer, ids in enumerate(done):
            assert not isinstance(ids, BaseException), ids
            found = [h for h in await headers(reader, f"run-{writer}") if h.step_name]
            assert [h.checkpoint_id for h in found] == ids[::-1]
            last = await reader.latest(agent_id="agent", session_id=f"run-{writer}")
            assert last.state == {"n": list(range(steps))}

    play(body)


def cut_on(proxy: Proxy, stop: threading.Event, rng: random.Random) -> None:
    while not stop.wait(rng.uniform(0.02, 0.15)):
        proxy.cut()


@pytest.mark.parametrize("way", ["to_server", "to_client", "both"])
def test_a_network_that_falls_silent_for_a_moment(way: str, play: Play, proxy: Proxy) -> None:
    async def body(store: Store) -> None:
        client = store.client()
        await save(client, 0)
        proxy.black_hole(*([] if way == "both" else [way]))
        threading.Timer(0.5, proxy.heal).start()
        began = time.monotonic()
        await save(client, 1)
        assert time.monotonic() - began > 0.3
        assert await numbers(client) == [0, 1]

    play(body)


def test_nobody_waits_for_a_silent_network_for_ever(
    impatient: None, play: Play, proxy: Proxy
) -> None:
    """Patience, one more attempt, and the error says where."""

    async def body(store: Store) -> None:
        client = store.client()
        await save(client, 0)
        for call in (
            lambda: save(client, 1),
            lambda: client.latest(agent_id="solo", session_id="s"),
        ):
            proxy.black_hole()
            began = time.monotonic()
            with pytest.raises(TransientStorageError, match=r"unix://.*[Tt]ime"):
                await call()
            assert time.monotonic() - began < 2 + 1 + 5 + 2
            proxy.heal()
        assert set(await numbers(client)) <= {0, 1}
        await save(client, 2)
        assert (await numbers(client))[-1] == 2

    play(body)


def test_a_server_that_is_away_for_a_moment(play: Play, proxy: Proxy) -> None:
    async def body(store: Store) -> None:
        client = store.client()
        await save(client, 0)
        for number in range(1, 4):
            proxy.refuse()
            threading.Timer(0.4, proxy.heal).start()
            await save(client, number)
        assert await numbers(client) == [0, 1, 2, 3]

    play(body)


def test_a_server_that_stays_away(impatient: None, play: Play, proxy: Proxy) -> None:
    async def body(store: Store) -> None:
        client = store.client()
        await save(client, 0)
        proxy.refuse()
        began = time.monotonic()
        with pytest.raises(TransientStorageError):
            await save(client, 1)
        assert time.monotonic() - began < 2 + 5 + 2
        began = time.monotonic()
        with pytest.raises(BackendConnectionError):
            await save(store.client(), 1)
        assert time.monotonic() - began < 6, "the first contact is not made twice"
        proxy.heal()
        await save(client, 2)
        assert await numbers(client) == [0, 2]

    play(body)


def test_cancelled_tasks_leave_the_store_and_the_pool_in_order(
    proxy: Proxy, valkey_url: str, tmp_path: Path, rng: random.Random
) -> None:
    """At any moment of a save: it is there, or not; what was acknowledged is."""

    async def body(store: Store) -> None:
        client = store.client()
        acked = [await save(client, 0)]
        proxy.delay(to_server=0.003, to_client=0.003)
        for number in range(1, 40):
            task = asyncio.ensure_future(save(client, number))
            await asyncio.wait([task], timeout=rng.uniform(0, 0.03))
            task.cancel()
            try:
                acked.append(await task)
            except asyncio.CancelledError:
                continue
        proxy.heal()
        acked += [await save(client, number) for number in range(100, 120)]
        found = [h.checkpoint_id for h in await headers(client, "s")]
        assert set(acked) <= set(found)
        assert len(acked) - 20 >= 2, "some were in time"
        assert len(acked) < 60, "some were not"
        await numbers(client)

    run_body(body, BehindProxy(tmp_path, proxy, valkey_url), "async")
