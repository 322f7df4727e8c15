"""A network that fails between a client and its server: nothing is lost, nothing is there twice,
and nobody waits for ever.
"""

import asyncio
import random
import signal
import threading
import time
from collections.abc import Callable, Iterator
from functools import partial
from typing import Any

import pytest
from failpoint_driver import OPERATIONS, Bench
from network_bench import (
    Play,
    Server,
    cut_on,
    large,
    numbers,
    outcome,
    put,
    save,
)
from stores import Stores

from lastgood import BackendConnectionError, BlockingClient, TransientStorageError
from lastgood.backends.remote import attempts
from lastgood.testing.faults.proxy import Proxy
from lastgood.testing.store import Store, headers

# every operation, cut at its commit


@pytest.fixture(scope="module")
def bench(straight: str) -> Iterator[Bench]:
    with Stores(straight) as stores:
        yield Bench(stores)


@pytest.mark.parametrize("operation", OPERATIONS, ids=lambda operation: operation.__name__)
def test_a_commit_that_was_cut_is_carried_out_once(
    operation: Any, bench: Bench, server: Server
) -> None:
    """Before it arrived, or after it was carried out: for the caller nothing has happened."""
    unharmed = outcome(bench, operation, lambda proxy: None)
    cuts = 0

    def remember(proxy: Proxy, cut: Callable[..., None]) -> None:
        nonlocal cuts
        cut(match=server.commit)
        cuts += 1

    assert outcome(bench, operation, lambda p: remember(p, p.cut_before)) == unharmed
    assert outcome(bench, operation, lambda p: remember(p, p.cut_after)) == unharmed
    assert cuts == 2


# any round trip


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
    """However many round trips it takes, and at whichever of them: it is there once."""

    async def body(store: Store) -> None:
        client, *readers = (store.client() for _ in range(7))
        await save(client, 0)
        for reader in readers:
            await reader.threads()
        for nth, reader in enumerate(readers, 1):
            state = large(nth, 2500)
            proxy.cut_after(nth)
            saved = await client.save("solo", session_id="s", execution_state=state)
            assert (await reader.restore(saved)).state == state
        assert await numbers(client) == list(range(7))
        assert (await client.verify(data=True)).clean

    play(body)


def test_no_piece_of_a_save_that_was_cut_stays(play: Play, proxy: Proxy, server: Server) -> None:
    """Cut inside of a request, at any packet of it: as if it had been sent once."""

    async def body(store: Store) -> None:
        client = store.client()
        await client.threads()
        for nth in range(1, 25):
            state = large(nth, 600)
            proxy.cut_before(nth, match=b"")
            await client.save("solo", session_id="s", execution_state=state)
            proxy.heal()
            await client.save("solo", session_id="calm", execution_state=state)
        assert await numbers(client) == list(range(1, 25))
        assert proxy.cuts > 12
        found = server.pieces(store.harness)
        assert found == [found[0]] * 2, "those of two threads that are alike, and no others"

    play(body)


def test_connections_that_are_cut_again_and_again(
    play: Play, proxy: Proxy, server: Server, rng: random.Random
) -> None:
    """Four writers, each with a run; every few hundredths of a second all lose their connection."""
    steps = 25

    async def write(client: Any, writer: int) -> list[str]:
        async with client.run(f"run-{writer}", initial={"n": []}) as run:
            return [await run.append("n", number, step_name=f"{number}") for number in range(steps)]

    async def body(store: Store) -> None:
        clients = [store.client() for _ in range(4)]
        for client in [store.client()] if server.at_once else clients:
            await client.threads()
        with cut_on(proxy, rng):
            done = await store.together([partial(write, c, n) for n, c in enumerate(clients)])
        reader = store.client()
        for writer, ids in enumerate(done):
            assert not isinstance(ids, BaseException), ids
            found = [h for h in await headers(reader, f"run-{writer}") if h.step_name]
            assert [h.checkpoint_id for h in found] == ids[::-1]
            last = await reader.latest(agent_id="agent", session_id=f"run-{writer}")
            assert last.state == {"n": list(range(steps))}

    play(body)


# waiting


def test_a_slow_network_is_only_slow(play: Play, proxy: Proxy) -> None:
    async def body(store: Store) -> None:
        client = store.client()
        await save(client, 0)
        proxy.delay(to_server=0.03, to_client=0.03)
        for number in range(1, 4):
            await save(client, number)
        assert await numbers(client) == [0, 1, 2, 3]

    play(body)


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
    impatient: None, play: Play, proxy: Proxy, server: Server
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
            with pytest.raises(TransientStorageError, match=server.silent):
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


def test_who_waits_when_the_server_comes_back_is_served(
    impatient: None, play: Play, proxy: Proxy
) -> None:
    """However long it was away: those who waited before have given up, and nobody else comes."""

    async def body(store: Store) -> None:
        client = store.client()
        await save(client, 0)

        async def late() -> str:
            await asyncio.sleep(4)
            return await save(client, 2)

        proxy.refuse()
        threading.Timer(5.5, proxy.heal).start()
        began = time.monotonic()
        await store.together([partial(save, client, 1), late])
        assert time.monotonic() - began < 8
        assert (await numbers(client))[-1] == 2

    play(body)


def test_many_writers_to_one_thread_wait_no_longer_than_one(
    impatient: None, play: Play, proxy: Proxy
) -> None:
    """They take turns, but not at waiting for a server that does not answer."""

    async def body(store: Store) -> None:
        client = store.client()
        await save(client, 0)
        proxy.black_hole()
        began = time.monotonic()
        found = await store.together([partial(save, client, number) for number in range(1, 17)])
        assert time.monotonic() - began < 2 + 1 + 5 + 2
        assert {type(each) for each in found} == {TransientStorageError}
        proxy.heal()
        await save(client, 17)
        assert (await numbers(client))[-1] == 17

    play(body)


def test_items_that_another_writer_changed_are_not_said_to_be_ours(
    play: Play, proxy: Proxy, server: Server, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A change never reached the server. When it is sent again, what it expects is not there."""

    async def body(store: Store) -> None:
        client, other = store.client(), store.client()

        async def meanwhile(seconds: float) -> None:
            monkeypatch.undo()
            assert await put(other, b"theirs", b"old")

        assert await put(client, b"old", None)
        monkeypatch.setattr(attempts, "pause", meanwhile)
        proxy.cut_before(match=server.commit)
        assert not await put(client, b"ours", b"old")
        proxy.cut_after(match=server.commit)
        assert await put(client, b"ours", b"theirs"), "it is recognised"

    play(body)


# ending


def test_cancelled_tasks_leave_the_store_and_the_pool_in_order(
    play_tasks: Play, proxy: Proxy, rng: random.Random
) -> None:
    """At any moment of a save: it is there, or not; what was acknowledged is."""

    async def body(store: Store) -> None:
        client = store.client()
        acked = [await save(client, 0)]
        proxy.delay(to_server=0.003, to_client=0.003)
        proxy.cut()
        began = time.monotonic()
        acked.append(await save(client, 1))
        whole = time.monotonic() - began
        for number in range(2, 40):
            task = asyncio.ensure_future(save(client, number))
            longest = (4 if number % 2 else 0.5) * whole  # it may have to connect and read anew
            await asyncio.wait([task], timeout=rng.uniform(0, longest))
            task.cancel()
            try:
                acked.append(await task)
            except asyncio.CancelledError:
                continue
        proxy.heal()
        acked += [await save(client, number) for number in range(100, 120)]
        found = [h.checkpoint_id for h in await headers(client, "s")]
        assert set(acked) <= set(found)
        assert len(acked) - 20 > 2, "some were in time"
        assert len(acked) < 60, "some were not"
        await numbers(client)
        assert proxy.connections < 60

    play_tasks(body)


def test_a_cancelled_task_ends_though_the_network_is_silent(
    impatient: None, play_tasks: Play, proxy: Proxy
) -> None:
    async def body(store: Store) -> None:
        client = store.client()
        await save(client, 0)
        proxy.black_hole()
        task = asyncio.ensure_future(save(client, 1))
        await asyncio.sleep(0.1)
        began = time.monotonic()
        task.cancel()
        with pytest.raises(asyncio.CancelledError):
            await task
        assert time.monotonic() - began < 12
        proxy.heal()
        await save(client, 2)
        assert (await numbers(client))[-1] == 2

    play_tasks(body)


def test_an_interrupt_at_the_keyboard_leaves_the_pool_in_order(proxy: Proxy, straight: str) -> None:
    """Ctrl-C while a blocking save waits for its answer; the next one works."""
    signal.signal(signal.SIGINT, signal.default_int_handler)  # ignored by runs in the background
    interrupt = partial(signal.pthread_kill, threading.get_ident(), signal.SIGINT)
    with Stores(straight) as stores, Stores(proxy.url) as through:
        through._prefix = stores._prefix
        stores.new("keys")
        with BlockingClient.open(through.new("keys")) as client:
            client.save("solo", session_id="s", execution_state={"n": 0})
            proxy.delay(to_client=0.5)
            threading.Timer(0.2, interrupt).start()
            with pytest.raises(KeyboardInterrupt):
                client.save("solo", session_id="s", execution_state={"n": 1})
            proxy.heal()
            client.save("solo", session_id="s", execution_state={"n": 2})
            assert client.latest(agent_id="solo", session_id="s").state == {"n": 2}
