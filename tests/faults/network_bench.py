"""What the tests of a failing network know of each server, and what they do on all of them."""

import os
import random
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any, NamedTuple

import pytest
from failpoint_driver import Bench
from rich_store import same_every_time
from stores import opened

from lastgood.backends.postgres import connections, wire
from lastgood.backends.redis import clients
from lastgood.backends.redis.scripts import COMMIT
from lastgood.backends.remote import attempts, turns
from lastgood.item_rules import ChangeItems, ItemDraft
from lastgood.item_rules import Outcome as ItemOutcome
from lastgood.testing.faults.proxy import Proxy
from lastgood.testing.faults.store import View, view
from lastgood.testing.harness import BackendHarness
from lastgood.testing.postgres_harness import PostgresHarness
from lastgood.testing.redis_harness import RedisHarness
from lastgood.testing.store import Colour, Store, committed, core_of, headers
from lastgood.testing.suite import run_body

Play = Callable[[Callable[[Store], Any]], None]
"""Runs a body in a colour."""


def postgres_pieces(harness: PostgresHarness) -> list[int]:
    found = harness._sql(f"SELECT count(*) FROM {harness.schema}.part GROUP BY thread")
    return [count for (count,) in found]


def redis_pieces(harness: RedisHarness) -> list[int]:
    with harness.raw() as client:
        keys = [key for key in harness.keys(client) if key.endswith(b":p") or b":w:" in key]
        return [client.hlen(key) for key in keys if client.ttl(key) < 0]


class Server(NamedTuple):
    """What a test must know of a server."""

    harness: type[BackendHarness]
    commit: bytes
    """What is in a request that commits, and in no other."""
    silent: str
    """What an error says where nobody answers, as a pattern."""
    at_once: bool
    """Whether a client has reached it with its first answer; else after several of its first call,
    and one that is cut among them is an error."""
    pieces: Callable[[Any], list[int]]
    """How many parts each thread has, and each save under way whose parts would stay for ever."""


SERVERS = {
    "postgres": Server(
        harness=PostgresHarness,
        commit=b"WITH guard AS",
        silent=r"postgresql://.*(no answer|within)",
        at_once=True,
        pieces=postgres_pieces,
    ),
    "valkey": Server(
        harness=RedisHarness,
        commit=COMMIT.sha.encode(),
        silent=r"unix://.*[Tt]ime",
        at_once=False,
        pieces=redis_pieces,
    ),
}


def hurry(monkeypatch: pytest.MonkeyPatch) -> None:
    """The same bounds, shorter: 2 s of patience, 1 s of silence."""
    monkeypatch.setattr(attempts, "PATIENCE", 2.0)
    monkeypatch.setattr(turns, "PATIENCE", 1.0)
    monkeypatch.setattr(wire, "SILENCE_SECONDS", 1.0)
    monkeypatch.setattr(connections.BoundConnection, "silence", 1.0)
    monkeypatch.setattr(connections.BoundAsyncConnection, "silence", 1.0)
    monkeypatch.setattr(clients, "REPLY_SECONDS", 1.0)


def run_behind(
    proxy: Proxy,
    base: Any,
    straight: str,
    directory: Path,
    colour: Colour,
    body: Callable[[Store], Any],
) -> None:
    """Run a body on clients behind a proxy; what its harness does at the end, goes straight."""

    class BehindProxy(base):
        def close(self) -> None:
            self._url = straight
            super().close()

    async def healed(store: Store) -> None:
        try:
            await body(store)
        finally:
            proxy.heal()

    run_body(healed, BehindProxy(directory, proxy.url), colour)


async def save(client: Any, number: int, **options: Any) -> str:
    state = {"n": number, "items": [f"{number} " * 100] * 30}
    return await client.save("solo", execution_state=state, **{"session_id": "s", **options})


async def numbers(client: Any) -> list[int]:
    """What was saved, oldest first; the line must be whole."""
    found = (await headers(client, "s"))[::-1]
    assert [h.parent_id for h in found] == [None, *(h.checkpoint_id for h in found[:-1])]
    return [(await client.restore(h.checkpoint_id)).state["n"] for h in found]


async def put(client: Any, value: bytes, expected: bytes | None) -> bool:
    """Change an item that is as expected; whether it was."""
    place = ("shelf", b"k")
    drafts, known = (ItemDraft(*place, value),), {place: expected}
    intent = ChangeItems(core_of(client).tenant, "s", puts=drafts, expected=known)
    answer = (await committed(client, intent)).answer
    assert isinstance(answer, ItemOutcome)
    return answer.done


def large(number: int, items: int) -> dict[str, Any]:
    """A state of so many times two thousand bytes, none of them like another."""
    return {"n": number, "items": [os.urandom(1000).hex() for _ in range(items)]}


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


@contextmanager
def cut_on(proxy: Proxy, rng: random.Random) -> Iterator[None]:
    """Within the block, all connections are cut again and again."""
    stop = threading.Event()

    def villain() -> None:
        while not stop.wait(rng.uniform(0.02, 0.15)):
            proxy.cut()

    thread = threading.Thread(target=villain)
    thread.start()
    try:
        yield
    finally:
        stop.set()
        thread.join()
