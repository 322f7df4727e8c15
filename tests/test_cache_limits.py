"""A cache whose server has limits: of memory, of what it takes or gives at once, of time."""

import asyncio
import random
import time
from collections.abc import Callable, Coroutine, Iterator
from typing import Any

import pytest
import redis

from lastgood import BlockingClient, Client
from lastgood.backend import Extents
from lastgood.backends.cached import CachedBackend
from lastgood.backends.memory import MemoryBackend
from lastgood.backends.redis import cache as redis_cache
from lastgood.backends.redis.cache import PENDING, RedisCache
from lastgood.driver import run_blocking
from lastgood.testing import COLOURS
from lastgood.testing.faults.proxy import Proxy
from lastgood.testing.servers import Redis62Server, ValkeyServer

pytestmark = pytest.mark.server

Body = Callable[[], Coroutine[Any, Any, None]]
AT_ONCE = str(10 << 20)
"""So many bytes the server takes from a client, or has ready for it, before it closes."""
SKELETON = 10
"""So many parts are always read from the record: what says where the others are."""
VAST = {
    "pages": [f"{n:05} " * 150 for n in range(12_000)],
    "images": [random.Random(n).randbytes(1 << 20) for n in range(16)],
}


@pytest.fixture(params=COLOURS)
def play(request: pytest.FixtureRequest) -> Callable[[Body], None]:
    """Run a body in both colours."""
    return lambda body: asyncio.run(body()) if request.param == "async" else run_blocking(body())


@pytest.fixture(params=[ValkeyServer, Redis62Server])
def server(request: pytest.FixtureRequest) -> Iterator[ValkeyServer]:
    with request.param() as one:
        yield one


@pytest.fixture
def patient(monkeypatch: pytest.MonkeyPatch) -> None:
    """A busy machine is not taken for a server that is silent."""
    monkeypatch.setattr(redis_cache, "REPLY_SECONDS", 2.0)
    monkeypatch.setattr(redis_cache, "NATIVE_SECONDS", 4.0)


class Counted(MemoryBackend):
    """Counts what is read of the record."""

    read = 0

    async def parts(self, ranges: Any, *, checked: bool = False) -> list[list[bytes]]:
        self.read += sum(extent.length for extent in map(Extents._make, ranges))
        return await super().parts(ranges, checked=checked)


@pytest.mark.usefixtures("patient")
@pytest.mark.parametrize("colour", COLOURS)
def test_a_large_state_goes_in_pieces(colour: str, server: ValkeyServer) -> None:
    server.ask("CONFIG", "SET", "client-query-buffer-limit", AT_ONCE)
    server.ask("CONFIG", "SET", "client-output-buffer-limit", f"normal {AT_ONCE} 0 0")
    record = Counted()
    with BlockingClient.on(record) as client:
        client.save("a", session_id="s", execution_state=VAST)
    for read in (True, False):
        before = record.read
        cached = CachedBackend(record, RedisCache(server.url, ttl=600))
        if colour == "async":
            found = asyncio.run(_restored(Client.on(cached)))
        else:
            found = BlockingClient.on(cached).restore("s@").state
        assert found == VAST
        assert (record.read - before > SKELETON) is read


async def _restored(client: Client) -> Any:
    return (await client.restore("s@")).state


@pytest.mark.usefixtures("patient")
def test_one_that_is_full_is_still_read_and_dropped(
    server: ValkeyServer, play: Callable[[Body], None]
) -> None:
    cache = RedisCache(server.url, ttl=600)

    async def body() -> None:
        await cache.put("s:1", {"a": b"one"})
        await cache.put("s:2", {"a": b"two"})
        server.ask("CONFIG", "SET", "maxmemory", "1")
        await cache.put("s:3", {"a": b"three"})
        assert await cache.get("s:1", ["a"]) == [b"one"]
        assert await cache.get("s:3", ["a"]) == [None]
        await cache.drop("s:1", for_good=True)
        assert await cache.get("s:1", ["a"]) == [None]
        assert await cache.get("s:2", ["a"]) == [b"two"]
        server.ask("CONFIG", "SET", "maxmemory", "0")
        with pytest.MonkeyPatch.context() as later:
            later.setattr(cache, "_full_until", 0.0)
            await cache.put("s:1", {"a": b"late"})
            await cache.put("s:3", {"a": b"three"})
        assert await cache.get("s:1", ["a"]) == [None], "it was deleted"
        assert await cache.get("s:3", ["a"]) == [b"three"]
        await cache.close()

    play(body)


def test_all_that_was_deleted_while_it_was_away_is_dropped_little_by_little(
    server: ValkeyServer, play: Callable[[Body], None], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(redis_cache, "NATIVE_SECONDS", 0.3)
    monkeypatch.setattr(
        redis_cache, "REST_SECONDS", 0.01
    )  # an answer may be late on a busy machine
    cache = RedisCache(server.url, ttl=600)

    async def body() -> None:
        await cache.put("s:7", {"a": b"seven"})
        await cache.put("t:1", {"a": b"one"})
        with pytest.MonkeyPatch.context() as away:
            away.setattr(cache, "_resting_until", float("inf"))
            for number in range(PENDING):
                await cache.drop(f"s:{number}", for_good=True)
        assert await cache.get("s:7", ["a"]) == [None]
        assert await cache.get("t:1", ["a"]) == [b"one"]
        for _ in range(2 * PENDING // redis_cache.DROPS):
            await cache.get("t:1", ["a"])
        await cache.close()

    play(body)
    with redis.Redis.from_url(server.url) as raw:
        assert len(list(raw.scan_iter("*:gone", count=1000))) == PENDING


def test_one_answer_that_is_late_does_not_keep_it_away(
    server: ValkeyServer, play: Callable[[Body], None], monkeypatch: pytest.MonkeyPatch
) -> None:
    """It has just answered others; only a server that nobody hears of is left alone."""
    with Proxy(server.url) as proxy:
        cache = RedisCache(proxy.url, ttl=600)

        async def hit() -> bool:
            return await cache.get("s:1", ["a"]) == [b"one"]

        async def soon() -> bool:
            until = time.monotonic() + redis_cache.REST_SECONDS / 2
            while time.monotonic() < until:
                await cache.put("s:1", {"a": b"one"})
                if await hit():
                    return True
            return False

        async def body() -> None:
            assert await soon()
            proxy.delay(to_client=0.3)
            assert not await hit()
            proxy.delay()
            assert await soon()
            monkeypatch.setattr(redis_cache, "ALIVE_SECONDS", 0.0)
            proxy.delay(to_client=0.3)
            assert not await hit()
            proxy.delay()
            assert not await soon()
            await cache.close()

        play(body)
