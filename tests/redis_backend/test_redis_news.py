"""Watching a thread on Redis: woken by commits, not by looking again and again."""

import asyncio
import signal
import statistics
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from lastgood.backends.redis.backend import RedisBackend
from lastgood.backends.redis.keys import NEWS
from lastgood.backends.redis.news import WATCHED_SECONDS
from lastgood.driver import run_blocking
from lastgood.testing.redis_harness import ClusterHarness, RedisHarness
from lastgood.testing.servers import Redis62Server, ValkeyCluster, ValkeyServer
from lastgood.testing.store import COLOURS, Colour, Store, core_of
from lastgood.testing.suite import run_body
from lastgood.testing.watchers import Watcher, soon

pytestmark = pytest.mark.server


class Servers:
    """One server or a Cluster of our own, so that every connection is one of the case."""

    def __init__(self, place: ValkeyServer | ValkeyCluster) -> None:
        self.url = place.url
        self.all = place.nodes if isinstance(place, ValkeyCluster) else [place]

    def harness(self, directory: Path) -> RedisHarness:
        kind = RedisHarness if len(self.all) == 1 else ClusterHarness
        return kind(directory, self.url)

    def waiting(self) -> list[tuple[ValkeyServer, str]]:
        """Connections that wait for a stream: the server, and the id."""
        found = []
        for server in self.all:
            told = server.ask("CLIENT", "LIST")
            assert isinstance(told, bytes)
            for line in told.decode().splitlines():
                words = dict(word.split("=", 1) for word in line.split(" "))
                if words["cmd"] == "xread" and "b" in words["flags"]:
                    found.append((server, words["id"]))
        return found

    async def until_waiting(self, count: int = 1) -> None:
        await soon(lambda: len(self.waiting()) == count)


@pytest.fixture(scope="module", params=[ValkeyServer, Redis62Server, ValkeyCluster])
def servers(request: pytest.FixtureRequest) -> Iterator[Servers]:
    with request.param() as place:
        yield Servers(place)


@pytest.fixture(scope="module")
def server() -> Iterator[ValkeyServer]:
    """One that keeps what it promises, and is ours to kill."""
    with ValkeyServer(fsync=True) as one:
        yield one


@pytest.fixture(params=COLOURS)
def colour(request: pytest.FixtureRequest) -> Colour:
    return request.param


@pytest.fixture
def looks(monkeypatch: pytest.MonkeyPatch) -> list[float]:
    """When a watcher looked."""
    found: list[float] = []
    whole = RedisBackend.look

    async def look(self: Any, scope: Any) -> Any:
        if scope.agent is None:
            found.append(time.monotonic())
        return await whole(self, scope)

    monkeypatch.setattr(RedisBackend, "look", look)
    return found


async def save(writer: Any, thread: str = "s", **options: Any) -> None:
    await writer.save("a", session_id=thread, execution_state={"n": time.time_ns()}, **options)


def streams(store: Store) -> dict[bytes, tuple[int, int]]:
    """The streams that there are: how many entries, and how many seconds are left to each."""
    with store.harness.raw() as raw:  # type: ignore[attr-defined]
        keys = [key for key in store.harness.keys(raw) if key.endswith(NEWS.encode())]  # type: ignore[attr-defined]
        return {key: (raw.xlen(key), raw.ttl(key)) for key in keys}


def test_a_watcher_is_woken_at_once_and_sleeps_otherwise(
    servers: Servers, colour: Colour, tmp_path: Path, looks: list[float]
) -> None:
    async def body(store: Store) -> None:
        writer = store.client()
        await save(writer)
        watcher = Watcher(store, after=1)
        await servers.until_waiting()
        before = len(looks)
        await asyncio.sleep(1.5)
        assert len(looks) == before, "nothing happens, and nobody looks"
        delays = []
        for seq in range(2, 17):
            await servers.until_waiting()
            await save(writer)
            saved = time.monotonic()
            await watcher.until(seq)
            delays.append(watcher.seen[seq] - saved)
        assert statistics.median(delays) < 0.05
        await watcher.close(writer)
        assert sorted(watcher.seen)[:15] == list(range(2, 17))
        await servers.until_waiting(0)

    run_body(body, servers.harness(tmp_path), colour)


def test_only_commits_to_a_watched_thread_add_to_a_stream_and_it_ends_by_itself(
    servers: Servers, colour: Colour, tmp_path: Path
) -> None:
    """Whatever becomes of the thread; to `verify` it is no damage."""

    async def body(store: Store) -> None:
        writer = store.client()
        for thread in ("s", "other"):
            await save(writer, thread, ttl_seconds=3600)
        assert streams(store) == {}
        watcher = Watcher(store, after=1)
        await servers.until_waiting()
        for _ in range(5):
            await save(writer, "other")
            await save(writer, "s", ttl_seconds=3600)
        await watcher.until(6)
        ((entries, left),) = streams(store).values()
        assert entries == 1
        assert 0 < left <= WATCHED_SECONDS
        assert (await writer.verify()).problems == ()
        await save(writer)
        await writer.delete("s")
        ((entries, left),) = streams(store).values()
        assert 0 < left <= WATCHED_SECONDS
        await watcher.close(writer)

    run_body(body, servers.harness(tmp_path), colour)


def test_a_thread_that_begins_or_begins_anew_wakes_too(
    servers: Servers, colour: Colour, tmp_path: Path
) -> None:
    async def body(store: Store) -> None:
        writer = store.client()
        watcher = Watcher(store, after=0)
        for _ in range(3):
            await servers.until_waiting()
            await save(writer)
            saved = time.monotonic()
            await watcher.until(1)
            assert watcher.seen.pop(1) - saved < 1
            await writer.delete("s")
        await watcher.close(writer)

    run_body(body, servers.harness(tmp_path), colour)


def test_a_watch_goes_on_when_its_connection_is_lost(
    servers: Servers, colour: Colour, tmp_path: Path
) -> None:
    """Nothing that was saved meanwhile is missed, and then it waits again."""

    async def body(store: Store) -> None:
        writer = store.client()
        await save(writer)
        watcher = Watcher(store, after=1)
        seq = 1
        for _ in range(3):
            await servers.until_waiting()
            for server, id in servers.waiting():
                server.ask("CLIENT", "KILL", "ID", id)
            for _ in range(5):
                await save(writer)
            seq += 5
            await watcher.until(seq)
        await servers.until_waiting()
        await watcher.close(writer)
        assert sorted(watcher.seen)[: seq - 1] == list(range(2, seq + 1))

    run_body(body, servers.harness(tmp_path), colour)


def test_a_watch_goes_on_when_the_server_was_away(
    server: ValkeyServer, colour: Colour, tmp_path: Path
) -> None:
    servers = Servers(server)

    async def body(store: Store) -> None:
        writer = store.client()
        await save(writer)
        watcher = Watcher(store, after=1)
        for seq in (2, 3):
            await servers.until_waiting()
            server.kill()
            server.start()
            await save(writer)
            await watcher.until(seq)
        await servers.until_waiting()
        await watcher.close(writer)

    run_body(body, servers.harness(tmp_path), colour)


@pytest.mark.slow
def test_a_watch_goes_on_when_everything_was_removed(
    server: ValkeyServer, colour: Colour, tmp_path: Path
) -> None:
    """Then nobody is told until the wait that is under way ends."""
    servers = Servers(server)

    async def body(store: Store) -> None:
        await save(store.client())
        watcher = Watcher(store, after=1)
        await servers.until_waiting()
        server.ask("FLUSHALL")
        writer = store.client()
        for _ in range(2):
            await save(writer)
        await watcher.until(2)
        await servers.until_waiting()
        await save(writer)
        saved = time.monotonic()
        await watcher.until(3)
        assert watcher.seen[3] - saved < 1
        await watcher.close(writer)

    run_body(body, servers.harness(tmp_path), colour)


@pytest.mark.parametrize("denied", ["-xread", "-expire", "-eval"])
def test_who_may_not_wait_looks_again_and_again(
    server: ValkeyServer, colour: Colour, tmp_path: Path, denied: str
) -> None:
    servers = Servers(server)
    server.ask("ACL", "SETUSER", "reader", "reset", "on", ">pw", "~*", "+@all", denied)
    harness = servers.harness(tmp_path)
    backend = RedisBackend(f"unix://reader:pw@{server.socket}?db=0", prefix=harness.prefix)

    async def body(store: Store) -> None:
        writer = store.client()
        await save(writer)
        reader = store.client_on(backend)
        assert len(await reader.log("s")) == 1
        watcher = Watcher(store, client=reader, after=1)
        for seq in range(2, 6):
            await asyncio.sleep(0.4)
            await save(writer)
            await watcher.until(seq)
        assert servers.waiting() == []
        await watcher.close(writer)

    run_body(body, harness, colour)


def test_a_save_does_not_fail_because_it_cannot_tell(
    server: ValkeyServer, colour: Colour, tmp_path: Path
) -> None:
    servers = Servers(server)
    server.ask("ACL", "SETUSER", "mute", "reset", "on", ">pw", "~*", "+@all", "-xadd")
    harness = servers.harness(tmp_path)
    backend = RedisBackend(f"unix://mute:pw@{server.socket}?db=0", prefix=harness.prefix)

    async def body(store: Store) -> None:
        writer, mute = store.client(), store.client_on(backend)
        await save(writer)
        watcher = Watcher(store, after=1)
        await servers.until_waiting()
        await save(mute)
        await save(writer)
        await watcher.until(3)
        assert (await writer.verify()).problems == ()
        await watcher.close(writer)

    run_body(body, harness, colour)


def test_watchers_take_nothing_from_the_pool(
    servers: Servers, colour: Colour, tmp_path: Path
) -> None:
    async def body(store: Store) -> None:
        store.harness.pool_size = 2  # type: ignore[attr-defined]
        client = store.client()
        names = "abcde"
        for name in names:
            await save(client, name)
        watchers = [Watcher(store, name, client, after=1) for name in names]
        await servers.until_waiting(len(names))
        for name, watcher in zip(names, watchers, strict=True):
            await save(client, name)
            await watcher.until(2)
        for watcher in watchers:
            await watcher.close(client)
        await servers.until_waiting(0)

    run_body(body, servers.harness(tmp_path), colour)


@pytest.mark.parametrize("turns", [0, 1, 2, 4, 8])
def test_a_watcher_that_is_cancelled_ends_at_once(
    servers: Servers, tmp_path: Path, turns: int
) -> None:
    """However many turns of the event loop lie between what wakes it and that."""

    async def body(store: Store) -> None:
        writer = store.client()
        await save(writer)
        watcher = Watcher(store, after=1)
        await servers.until_waiting()
        saving = asyncio.ensure_future(save(writer))
        for _ in range(turns):
            await asyncio.sleep(0)
        watcher.task.cancel()
        async with asyncio.timeout(1):
            await asyncio.wait([watcher.task])
        assert watcher.task.cancelled()
        await saving
        await servers.until_waiting(0)

    run_body(body, servers.harness(tmp_path), "async")


def test_a_wait_takes_no_longer_than_was_asked_for(
    server: ValkeyServer, colour: Colour, tmp_path: Path
) -> None:
    """Also of a server that says nothing any more, while it waits and when it connects."""

    async def body(store: Store) -> None:
        client = store.client()
        await save(client)
        news = core_of(client).backend.news("default", "s")
        assert news is not None

        async def wait(seconds: float) -> bool:
            waits = news.wait(seconds)
            return run_blocking(waits) if colour == "blocking" else await waits

        assert await wait(5), "it has to look once more"
        began = time.monotonic()
        assert await wait(0.6)
        assert 0.2 < time.monotonic() - began < 0.8
        server.signal(signal.SIGSTOP)
        try:
            for _ in range(2):
                news._rests_until = 0.0  # type: ignore[attr-defined]
                began = time.monotonic()
                assert not await wait(0.5)
                assert not await wait(0.5)
                assert time.monotonic() - began < 1.2
        finally:
            server.signal(signal.SIGCONT)
        news.close()

    run_body(body, Servers(server).harness(tmp_path), colour)
