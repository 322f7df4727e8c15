"""A cache in front of a store of record: quick when it is there, harmless when it is not."""

import asyncio
import inspect
import os
import time
from collections.abc import Callable, Coroutine, Iterator
from pathlib import Path
from typing import Any, cast

import pytest
import redis

from lastgood import BlockingClient, CheckpointIntegrityError, CheckpointNotFoundError, Client
from lastgood.backend import Backend, Extents
from lastgood.backends.cached import BLOCK, CachedBackend, blocks_of
from lastgood.backends.memory import MemoryBackend
from lastgood.backends.redis import cache as redis_cache
from lastgood.backends.redis.cache import RedisCache
from lastgood.backends.wrapping import Wrapper
from lastgood.manifest import Spot
from lastgood.testing import COLOURS, Store
from lastgood.testing.cached_harness import CachedHarness
from lastgood.testing.colours import AwaitableClient
from lastgood.testing.faults.proxy import Proxy
from lastgood.testing.operations import LARGE, save
from lastgood.testing.servers import address
from lastgood.testing.store import core_of

pytestmark = pytest.mark.server("postgres", "valkey")
GENEROUS = 2.0
"""Seconds for many calls, each of which would wait longer than that for a cache that is silent."""

Body = Callable[[Store], Coroutine[Any, Any, None]]


@pytest.fixture(params=COLOURS)
def play(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[Callable[[Body], None]]:
    """Run a body on a store behind a cache, in both colours."""
    harness = CachedHarness(tmp_path)
    store = Store(harness, request.param)

    def run(body: Body) -> None:
        async def played() -> None:
            try:
                await body(store)
            finally:
                await store.close()

        asyncio.run(played())

    yield run
    harness.close()


class Counted(Wrapper):
    """Counts what is read of the record."""

    def __init__(self, record: Backend) -> None:
        super().__init__(record)
        self.read: list[Extents] = []

    async def parts(self, ranges: Any, *, checked: bool = False) -> list[list[bytes]]:
        self.read += ranges
        return await super().parts(ranges, checked=checked)


def counting(store: Store) -> tuple[Client, Counted]:
    """A new client, and what it reads of the record."""
    backend = store.harness.backend()
    assert isinstance(backend, CachedBackend)
    backend.record = Counted(backend.record)
    return store.client_on(backend), backend.record


def harness_of(store: Store) -> CachedHarness:
    assert isinstance(store.harness, CachedHarness)
    return store.harness


async def grown(client: Client, thread: str = "s", steps: int = 3) -> list[str]:
    """A conversation; gives the ids of its steps."""
    async with client.run(thread, agent_id="a", initial={"messages": []}) as run:
        return [
            await run.append("messages", *[f"{number} {n} " * 200 for n in range(40)])
            for number in range(steps)
        ]


def test_what_was_restored_once_is_not_read_again(play: Callable[[Body], None]) -> None:
    async def body(store: Store) -> None:
        ids = await grown(store.client())
        cold, record = counting(store)
        state = (await cold.restore(ids[-1])).state
        assert record.read
        warm, record = counting(store)
        assert (await warm.restore(ids[-1])).state == state
        assert (await warm.latest(agent_id="a", session_id="s")).state == state  # type: ignore[union-attr]
        assert record.read == []

    play(body)


def test_a_longer_one_reads_what_is_new(play: Callable[[Body], None]) -> None:
    async def body(store: Store) -> None:
        ids = await grown(store.client(), steps=4)
        await counting(store)[0].restore(ids[2])
        client, record = counting(store)
        assert len((await client.restore(ids[3])).state["messages"]) == 160
        read = sum(extent.length for extent in record.read)
        whole = sum(extent.length for extent in await _wanted(store, ids[3]))
        assert 0 < read < whole / 2

    play(body)


async def _wanted(store: Store, id: str) -> list[Extents]:
    harness_of(store).lose_cache()
    client, record = counting(store)
    await client.restore(id)
    return record.read


def test_removed_and_deleted_in_the_same_call(play: Callable[[Body], None]) -> None:
    async def body(store: Store) -> None:
        client = store.client()
        ids = await grown(client)
        await store.client().restore(ids[-1])
        assert harness_of(store).cached()
        await client.expire(ids[-1])
        assert harness_of(store).cached() == []
        with pytest.raises(CheckpointNotFoundError):
            await store.client().restore(ids[-1])
        await store.client().restore(ids[0])
        await client.rewind("s", ids[0], agent_id="a")
        assert (await store.client().latest(agent_id="a", session_id="s")).state == (  # type: ignore[union-attr]
            await store.client().restore(ids[0])
        ).state
        await client.delete("s")
        assert all(key.endswith(b":gone") for key in harness_of(store).cached())
        with pytest.raises(CheckpointNotFoundError):
            await store.client().restore(ids[0])

    play(body)


@pytest.mark.parametrize("removal", ["delete", "expire"])
def test_removed_by_who_was_cancelled(removal: str, play: Callable[[Body], None]) -> None:
    """It is gone, and whoever removed it never learnt that."""

    def cancelled(point: str) -> None:
        if point == "after-commit":
            raise asyncio.CancelledError

    async def body(store: Store) -> None:
        client = store.client()
        ids = await grown(client)
        await store.client().restore(ids[-1])
        assert harness_of(store).cached()
        core_of(client).backend.record.failpoint = cancelled  # type: ignore[attr-defined]
        with pytest.raises(asyncio.CancelledError):
            await (client.delete("s") if removal == "delete" else client.expire(ids[-1]))
        assert harness_of(store).cached() == []

    play(body)


def test_a_late_reader_puts_nothing_back(play: Callable[[Body], None]) -> None:
    async def body(store: Store) -> None:
        client = store.client()
        (id,) = await grown(client, steps=1)
        late = store.client()
        backend = core_of(late).backend
        whole = backend.record.parts  # type: ignore[attr-defined]

        async def delayed(ranges: Any, *, checked: bool = False) -> Any:
            found = await whole(ranges, checked=checked)
            await _deleted(harness_of(store))
            return found

        backend.record.parts = delayed  # type: ignore[attr-defined]
        await late.restore(id)
        assert all(key.endswith(b":gone") for key in harness_of(store).cached())

    async def _deleted(harness: CachedHarness) -> None:
        with BlockingClient.on(harness.backend()) as other:
            other.delete("s")

    play(body)


def test_deleted_by_somebody_without_the_cache(play: Callable[[Body], None]) -> None:
    async def body(store: Store) -> None:
        ids = await grown(store.client())
        await store.client().restore(ids[-1])
        plain = core_of(store.client()).backend
        assert isinstance(plain, CachedBackend)
        await store.client_on(plain.record).delete("s")
        assert harness_of(store).cached()
        with pytest.raises(CheckpointNotFoundError):
            await store.client().restore(ids[-1])
        assert await store.client().latest(agent_id="a", session_id="s") is None

    play(body)


def test_a_cache_that_lost_everything(play: Callable[[Body], None]) -> None:
    async def body(store: Store) -> None:
        ids = await grown(store.client())
        before = (await store.client().restore(ids[-1])).state
        harness_of(store).lose_cache()
        assert (await store.client().restore(ids[-1])).state == before
        assert harness_of(store).cached()

    play(body)


@pytest.mark.parametrize("damage", ["flipped", "other", "cut"])
def test_a_cache_that_gives_back_something_else(damage: str, play: Callable[[Body], None]) -> None:
    """Wherever it came from: a fault, or a backup of the record that was put back."""

    async def body(store: Store) -> None:
        ids = await grown(store.client())
        before = (await store.client().restore(ids[-1])).state
        (other,) = await grown(store.client(), "t", steps=1)
        await store.client().restore(other)
        with redis.Redis.from_url(address("valkey")) as valkey:
            _spoil(valkey, harness_of(store).cached(), damage)
        for _ in range(2):
            assert (await store.client().restore(ids[-1])).state == before

    play(body)


def _spoil(valkey: Any, keys: list[bytes], damage: str) -> None:
    values = [(key, name, value) for key in keys for name, value in valkey.hgetall(key).items()]
    assert values
    for key, name, value in values:
        length = name.rpartition(b".")[2]
        others = [v for k, n, v in values if k != key and n.rpartition(b".")[2] == length]
        spoiled = {
            "flipped": value[:-1] + bytes([value[-1] ^ 1]),
            "cut": value[:10],
            "other": (others or [value])[0],
        }[damage]
        valkey.hset(key, name, spoiled)


def test_damage_of_the_record_is_told(play: Callable[[Body], None]) -> None:
    """Verify looks at the record, and what is damaged is not put into the cache."""

    async def body(store: Store) -> None:
        id = await save(store.client(), "s", LARGE)
        await store.client().restore(id)
        super(CachedHarness, harness_of(store)).flip_part("s")
        assert (await store.client().restore(id)).state == LARGE  # from the cache, and right
        report = await store.client().verify(data=True)
        assert [problem.kind for problem in report.problems] == ["part"]
        assert not report.problems[0].repairable
        for _ in range(2):
            with pytest.raises(CheckpointIntegrityError):
                await store.client().restore(id)

    play(body)


@pytest.mark.parametrize("fault", ["refuse", "black_hole"])
@pytest.mark.parametrize("colour", COLOURS)
def test_a_cache_that_is_dead_or_silent(fault: str, colour: str, tmp_path: Path) -> None:
    async def body(client: Client, proxy: Proxy) -> None:
        ids = await grown(client)
        await client.restore(ids[-1])
        getattr(proxy, fault)()
        made = proxy.connections
        begun = time.monotonic()
        for number in range(20):
            fresh = _client(harness, proxy, colour)
            assert len((await client.restore(ids[number % 3])).state["messages"]) > 0
            assert (await fresh.restore(ids[0])).state["messages"]
            await fresh.close()
        await client.expire(ids[0])
        await client.delete("s")
        assert time.monotonic() - begun < 20 * 3 * redis_cache.REPLY_SECONDS + GENEROUS
        assert proxy.connections - made <= 40
        proxy.heal()

    harness = CachedHarness(tmp_path)
    with Proxy(address("valkey")) as proxy:
        asyncio.run(_closing(_client(harness, proxy, colour), lambda c: body(c, proxy)))
    harness.close()


async def _closing(client: Client, body: Callable[[Client], Coroutine[Any, Any, None]]) -> None:
    try:
        await body(client)
    finally:
        await client.close()


def _client(harness: CachedHarness, proxy: Proxy, colour: str) -> Client:
    cached = harness.backend()
    assert isinstance(cached, CachedBackend)
    cache = RedisCache(proxy.url, ttl=600, prefix=harness.prefix)
    backend = CachedBackend(cached.record, cache)
    if colour == "async":
        return Client.on(backend)
    return cast(Client, AwaitableClient(BlockingClient.on(backend)))


def test_while_it_rests_it_is_not_asked_and_then_it_catches_up(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A thread that was deleted meanwhile is dropped before the cache gives anything again."""
    monkeypatch.setattr(redis_cache, "ALIVE_SECONDS", 0.0)
    harness = CachedHarness(tmp_path)
    with Proxy(address("valkey")) as proxy:
        client = cast(Any, _client(harness, proxy, "blocking")).twin
        with client.run("s", initial={"m": []}) as run:
            id = run.append("m", *["x" * 900 for _ in range(50)])
        cast(Any, _client(harness, proxy, "blocking")).twin.restore(id)
        assert [key for key in harness.cached() if not key.endswith(b":gone")]
        proxy.refuse()
        client.delete("s")
        client.save("a", session_id="t", execution_state=LARGE)
        before = proxy.round_trips
        proxy.heal()
        client.restore("t/a@")
        assert proxy.round_trips == before, "it is left alone for a while"
        assert [key for key in harness.cached() if not key.endswith(b":gone")]
        monkeypatch.setattr(client._core.backend._cache, "_resting_until", 0.0)
        client.expire("t/a@")
        assert all(key.endswith(b":gone") for key in harness.cached())
        client.close()
    harness.close()


def test_a_forked_child_makes_its_own_connections(tmp_path: Path) -> None:
    harness = CachedHarness(tmp_path)
    client = BlockingClient.on(harness.backend())
    id = client.save("a", session_id="s", execution_state=LARGE)
    fresh = BlockingClient.on(harness.backend())
    assert fresh.restore(id).state == LARGE
    pid = os.fork()
    if not pid:
        code = 1
        try:
            code = int(BlockingClient.on(fresh._core.backend).restore(id).state != LARGE)
        finally:
            os._exit(code)
    assert os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1]) == 0
    assert BlockingClient.on(fresh._core.backend).restore(id).state == LARGE
    fresh.close()
    client.close()
    harness.close()


def test_the_factory(tmp_path: Path) -> None:
    harness = CachedHarness(tmp_path)
    options = {"schema": harness.schema, "cache": address("valkey"), "cache_ttl": 60}
    with BlockingClient.postgres(address("postgres"), **options) as client:  # type: ignore[arg-type]
        id = client.save("a", session_id="s", execution_state=LARGE)
        assert client.durability in ("strict", "window", "cache")
    with BlockingClient.postgres(address("postgres"), **options) as client:  # type: ignore[arg-type]
        assert client.restore(id).state == LARGE
        assert client.delete("s")
    with pytest.raises(ValueError, match="redis://localhost:6379"):
        BlockingClient.postgres(address("postgres"), cache="localhost")
    with pytest.raises(TypeError, match="by its address"):
        BlockingClient.postgres(address("postgres"), cache=object())  # type: ignore[arg-type]
    for ttl, error in ((0, ValueError), ("x", TypeError)):
        with pytest.raises(error, match="cache_ttl"):
            BlockingClient.postgres(address("postgres"), cache="redis://x", cache_ttl=ttl)  # type: ignore[arg-type]
    harness.close()


def test_any_store_can_be_the_record() -> None:
    record = MemoryBackend()
    with BlockingClient.on(record) as client:
        id = client.save("a", session_id="s", execution_state=LARGE)
    cache = RedisCache(address("valkey"), ttl=60, prefix=f"any-{id}")
    for _ in range(2):
        with BlockingClient.on(CachedBackend(record, cache)) as client:
            assert client.restore(id).state == LARGE
    asyncio.run(_closing(Client.on(CachedBackend(record, cache)), lambda c: _restored(c, id)))


async def _restored(client: Client, id: str) -> None:
    assert (await client.restore(id)).state == LARGE
    await client.delete("s")


def test_a_wrapper_passes_everything_on() -> None:
    methods = {name for name, _ in inspect.getmembers(Backend, inspect.isfunction)}
    assert {name for name in methods if name not in vars(Wrapper)} <= {"__init__"}


@pytest.mark.parametrize(("first", "length"), [(1, 1), (1, 64), (1, 200), (7, 130), (64, 2)])
def test_blocks_cover_a_range(first: int, length: int) -> None:
    blocks = list(blocks_of(Extents(1, Spot(2, first), length)))
    covered = [number for b in blocks for number in range(b.first, b.first + b.length)]
    assert covered == list(range(first, first + length))
    assert all((b.first - 1) % b.length == 0 and b.length <= BLOCK for b in blocks)
