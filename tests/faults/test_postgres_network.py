"""A network that fails between a client and its PostgreSQL: nothing is lost, nothing is there
twice, and nobody waits for ever.
"""

import asyncio
import os
import random
import signal
import threading
import time
from collections.abc import Callable, Iterator
from functools import partial
from pathlib import Path
from typing import Any

import pytest
from failpoint_driver import OPERATIONS, Bench
from rich_store import same_every_time
from stores import Stores, opened

from lastgood import BackendConnectionError, BlockingClient, TransientStorageError
from lastgood.backends import postgres_connections, postgres_wire, remote, turns
from lastgood.item_rules import ChangeItems, ItemDraft
from lastgood.item_rules import Outcome as ItemOutcome
from lastgood.testing.faults.proxy import Proxy
from lastgood.testing.faults.store import View, view
from lastgood.testing.postgres_harness import PostgresHarness
from lastgood.testing.store import COLOURS, Colour, Store, committed, core_of, headers
from lastgood.testing.suite import run_body

pytestmark = pytest.mark.server("postgres")

COMMIT = b"WITH guard AS"
Play = Callable[[Callable[[Store], Any]], None]


@pytest.fixture
def proxy(postgres_url: str) -> Iterator[Proxy]:
    with Proxy(postgres_url) as one:
        yield one


class BehindProxy(PostgresHarness):
    """Clients go through a proxy; what the harness itself does, goes straight."""

    def __init__(self, directory: Path, proxy: Proxy, straight: str) -> None:
        super().__init__(directory, proxy.url)
        self._straight = straight

    def close(self) -> None:
        self._url = self._straight
        super().close()


@pytest.fixture(params=COLOURS)
def play(request: pytest.FixtureRequest, proxy: Proxy, postgres_url: str, tmp_path: Path) -> Play:
    """Run a body in a colour, on clients behind the proxy."""
    colour: Colour = request.param
    harness = BehindProxy(tmp_path, proxy, postgres_url)

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
    monkeypatch.setattr(turns, "PATIENCE", 1.0)
    monkeypatch.setattr(postgres_wire, "SILENCE_SECONDS", 1.0)
    monkeypatch.setattr(postgres_connections.BoundConnection, "silence", 1.0)
    monkeypatch.setattr(postgres_connections.BoundAsyncConnection, "silence", 1.0)


async def save(client: Any, number: int, **options: Any) -> str:
    state = {"n": number, "items": [f"{number} " * 100] * 30}
    return await client.save("solo", session_id="s", execution_state=state, **options)


async def numbers(client: Any) -> list[int]:
    """What was saved, oldest first; the line must be whole."""
    found = (await headers(client, "s"))[::-1]
    assert [h.parent_id for h in found] == [None, *(h.checkpoint_id for h in found[:-1])]
    return [(await client.restore(h.checkpoint_id)).state["n"] for h in found]


# every operation, cut at its commit


@pytest.fixture(scope="module")
def bench(postgres_url: str) -> Iterator[Bench]:
    with Stores(postgres_url) as stores:
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
        cut(match=COMMIT)
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


def test_connections_that_are_cut_again_and_again(play: Play, proxy: Proxy, seed: str) -> None:
    """Four writers, each with a run; every few hundredths of a second all lose their connection."""
    steps = 25

    async def write(store: Store, writer: int) -> list[str]:
        client = store.client()
        async with client.run(f"run-{writer}", initial={"n": []}) as run:
            return [await run.append("n", number, step_name=f"{number}") for number in range(steps)]

    async def body(store: Store) -> None:
        await store.client().threads()
        stop = threading.Event()
        villain = threading.Thread(target=cut_on, args=(proxy, stop, random.Random(seed)))
        villain.start()
        try:
            calls = [lambda w=writer: write(store, w) for writer in range(4)]
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
    play: Play, proxy: Proxy, impatient: None
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
            with pytest.raises(TransientStorageError, match=r"postgresql://.*(no answer|within)"):
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


def test_a_server_that_stays_away(play: Play, proxy: Proxy, impatient: None) -> None:
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


def test_many_writers_to_one_thread_wait_no_longer_than_one(
    play: Play, proxy: Proxy, impatient: None
) -> None:
    """They take turns, but not at waiting for a server that does not answer."""

    async def body(store: Store) -> None:
        client = store.client()
        await save(client, 0)
        proxy.black_hole()
        began = time.monotonic()
        found = await store.together([partial(save, client, number) for number in range(1, 9)])
        assert time.monotonic() - began < 2 + 1 + 5 + 2
        assert {type(each) for each in found} == {TransientStorageError}
        proxy.heal()
        await save(client, 9)
        assert (await numbers(client))[-1] == 9

    play(body)


def test_items_that_another_writer_changed_are_not_said_to_be_ours(
    play: Play, proxy: Proxy, postgres_url: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A change never reached the server. When it is sent again, what it expects is not there."""

    async def body(store: Store) -> None:
        client, other = store.client(), store.client()
        core, place = core_of(client), ("shelf", b"k")

        async def put(client: Any, value: bytes, expected: bytes | None) -> bool:
            drafts, known = (ItemDraft(*place, value),), {place: expected}
            intent = ChangeItems(core.tenant, "s", puts=drafts, expected=known)
            answer = (await committed(client, intent)).answer
            assert isinstance(answer, ItemOutcome)
            return answer.done

        async def meanwhile(seconds: float) -> None:
            monkeypatch.undo()
            assert await put(other, b"theirs", b"old")

        assert await put(client, b"old", None)
        monkeypatch.setattr(remote, "pause", meanwhile)
        proxy.cut_before(match=COMMIT)
        assert not await put(client, b"ours", b"old")
        proxy.cut_after(match=COMMIT)
        assert await put(client, b"ours", b"theirs"), "it is recognised"

    play(body)


# ending


def test_cancelled_tasks_leave_the_store_and_the_pool_in_order(
    proxy: Proxy, postgres_url: str, tmp_path: Path, rng: random.Random
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
        assert proxy.connections < 60

    run_body(body, BehindProxy(tmp_path, proxy, postgres_url), "async")


def test_a_cancelled_task_ends_though_the_network_is_silent(
    proxy: Proxy, postgres_url: str, tmp_path: Path, impatient: None
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

    run_body(body, BehindProxy(tmp_path, proxy, postgres_url), "async")


def test_an_interrupt_at_the_keyboard_leaves_the_pool_in_order(
    proxy: Proxy, postgres_url: str
) -> None:
    """Ctrl-C while a blocking save waits for its answer; the next one works."""
    import _thread

    signal.signal(signal.SIGINT, signal.default_int_handler)  # ignored by runs in the background
    with Stores(postgres_url) as stores, Stores(proxy.url) as through:
        through._prefix = stores._prefix
        stores.new("keys")
        with BlockingClient.open(through.new("keys")) as client:
            client.save("solo", session_id="s", execution_state={"n": 0})
            proxy.delay(to_client=0.5)
            threading.Timer(0.2, _thread.interrupt_main).start()
            with pytest.raises(KeyboardInterrupt):
                client.save("solo", session_id="s", execution_state={"n": 1})
            proxy.heal()
            client.save("solo", session_id="s", execution_state={"n": 2})
            assert client.latest(agent_id="solo", session_id="s").state == {"n": 2}
