"""Watching a thread on PostgreSQL: woken by commits, not by looking again and again."""

import asyncio
import statistics
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import psycopg
import pytest

from lastgood.backends.postgres import news as postgres_news
from lastgood.backends.postgres.backend import PostgresBackend
from lastgood.testing.postgres_harness import PostgresHarness
from lastgood.testing.servers import PostgresServer
from lastgood.testing.store import COLOURS, Colour, Store, core_of
from lastgood.testing.suite import run_body
from lastgood.testing.watchers import Watcher, soon

pytestmark = pytest.mark.server("postgres")


@pytest.fixture
def looks(monkeypatch: pytest.MonkeyPatch) -> list[float]:
    """When a watcher looked."""
    found: list[float] = []
    whole = PostgresBackend.look

    async def look(self: Any, scope: Any) -> Any:
        if scope.agent is None:
            found.append(time.monotonic())
        return await whole(self, scope)

    monkeypatch.setattr(PostgresBackend, "look", look)
    return found


async def listens(watcher: Watcher) -> None:
    """Until commits are heard of."""
    backend = core_of(watcher.client).backend
    await soon(lambda: backend._listener and backend._listener.hears)
    await asyncio.sleep(0.3)


@pytest.fixture(params=COLOURS)
def colour(request: pytest.FixtureRequest) -> Colour:
    return request.param


def test_a_watcher_is_woken_at_once_and_sleeps_otherwise(
    colour: Colour, tmp_path: Path, looks: list[float]
) -> None:
    async def body(store: Store) -> None:
        writer = store.client()
        await writer.save("a", session_id="s", execution_state={"n": 0})
        watcher = Watcher(store, after=1)
        await listens(watcher)
        before = len(looks)
        await asyncio.sleep(1.5)
        assert len(looks) - before <= 2, "nothing happens, and nobody looks"
        delays = []
        for number in range(15):
            await asyncio.sleep(0.02)
            await writer.save("a", session_id="s", execution_state={"n": number})
            saved = time.monotonic()
            await watcher.until(number + 2)
            delays.append(watcher.seen[number + 2] - saved)
        assert statistics.median(delays) < 0.1
        await watcher.close(writer)
        assert sorted(watcher.seen)[:15] == list(range(2, 17))

    run_body(body, PostgresHarness(tmp_path), colour)


def test_a_commit_to_a_thread_that_nobody_watches_notifies_nobody(
    colour: Colour, tmp_path: Path, postgres_url: str
) -> None:
    heard: list[str] = []

    async def body(store: Store) -> None:
        writer = store.client()
        for name in ("watched", "other"):
            await writer.save("a", session_id=name, execution_state={"n": 0})
        watcher = Watcher(store, "watched", after=0)
        await listens(watcher)
        with psycopg.connect(postgres_url, autocommit=True) as connection:
            connection.execute("LISTEN lastgood")
            for number in range(5):
                await writer.save("a", session_id="other", execution_state={"n": number})
            await writer.save("a", session_id="watched", execution_state={"n": 1})
            schema = core_of(writer).backend._at
            known = {
                postgres_news.token(schema, "default", name): name for name in ("watched", "other")
            }
            notes = connection.notifies(timeout=1.0)
            heard.extend(known[note.payload] for note in notes if note.payload in known)
        await watcher.close(writer)

    run_body(body, PostgresHarness(tmp_path), colour)
    assert set(heard) == {"watched"}


def test_a_watch_goes_on_when_the_listening_connection_is_lost(
    colour: Colour, tmp_path: Path
) -> None:
    """Nothing that was saved meanwhile is missed, and then it listens again."""

    async def body(store: Store) -> None:
        writer = store.client()
        await writer.save("a", session_id="s", execution_state={"n": 0})
        watcher = Watcher(store, after=1)
        seq = 1
        for _ in range(3):
            await listens(watcher)
            with psycopg.connect(server.url, autocommit=True) as connection:
                connection.execute(
                    "SELECT pg_terminate_backend(pid) FROM pg_stat_activity"
                    " WHERE query = 'LISTEN lastgood'"
                )
            for number in range(5):
                await writer.save("a", session_id="s", execution_state={"n": number})
                seq += 1
            await watcher.until(seq)
        await listens(watcher)
        await watcher.close(writer)
        assert sorted(watcher.seen)[: seq - 1] == list(range(2, seq + 1))

    with PostgresServer() as server:
        run_body(body, PostgresHarness(tmp_path, server.url), colour)


@pytest.mark.server("pgbouncer")
def test_behind_a_pooler_it_looks_again_and_again(
    colour: Colour, tmp_path: Path, pgbouncer_url: str
) -> None:
    async def body(store: Store) -> None:
        writer = store.client()
        await writer.save("a", session_id="s", execution_state={"n": 0})
        watcher = Watcher(store, after=1)
        for number in range(5):
            await writer.save("a", session_id="s", execution_state={"n": number})
        await watcher.until(6)
        listener = core_of(watcher.client).backend._listener
        await soon(lambda: listener.useless)
        await writer.save("a", session_id="s", execution_state={"n": 6})
        await watcher.until(7)
        await watcher.close(writer)

    run_body(body, PostgresHarness(tmp_path, pgbouncer_url), colour)


def listeners(url: str) -> int:
    with psycopg.connect(url, autocommit=True) as connection:
        text = "SELECT count(*) FROM pg_stat_activity WHERE query = 'LISTEN lastgood'"
        return int(connection.execute(text).fetchone()[0])


@pytest.fixture
def server() -> Iterator[PostgresServer]:
    with PostgresServer() as one:
        yield one


def test_one_connection_listens_for_all_and_ends_with_the_client(
    colour: Colour, tmp_path: Path, server: PostgresServer
) -> None:
    async def body(store: Store) -> None:
        writer = store.client()
        backend = core_of(writer).backend
        for name in "abc":
            await writer.save("a", session_id=name, execution_state={"n": 0})
        reader = store.client()
        watchers = [Watcher(store, name, reader, after=1) for name in "abc"]
        await asyncio.sleep(0.1)
        assert backend._listener is None, "who only writes does not listen"
        for name, watcher in zip("abc", watchers, strict=True):
            await writer.save("a", session_id=name, execution_state={"n": 1})
            await watcher.until(2)
        await listens(watchers[0])
        assert listeners(server.url) == 1
        for watcher in watchers:
            await watcher.close(writer)
        await store.close()
        await soon(lambda: not listeners(server.url))

    run_body(body, PostgresHarness(tmp_path, server.url), colour)


@pytest.mark.parametrize("turns", range(6))
def test_a_watcher_that_is_told_and_cancelled_at_once_ends(turns: int) -> None:
    """However many turns of the event loop lie between the two."""

    async def body() -> None:
        listener = postgres_news.Listener("postgresql://nowhere")
        listener.hears = True
        news = postgres_news.ThreadNews(listener, "token", arm=asyncio.Event().wait)
        news._armed_until = float("inf")
        task = asyncio.ensure_future(news.wait(30))
        await asyncio.sleep(0.01)
        news.tell()
        for _ in range(turns):
            await asyncio.sleep(0)
        if task.cancel():
            await asyncio.wait([task])
            assert task.cancelled()

    asyncio.run(body())
