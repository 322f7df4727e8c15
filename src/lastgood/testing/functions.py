"""Functions that users give us run on the caller's thread, in both colours.

Code that touches a GUI, a connection of its own or thread-local settings relies on it.
"""

from __future__ import annotations

import threading
from typing import Any

import lastgood
from lastgood.client import Client
from lastgood.testing.cases import case
from lastgood.testing.store import Store


class Money:
    """A class of an application, stored by functions that it registered."""

    def __init__(self, cents: int) -> None:
        self.cents = cents


CALLS: list[tuple[str, int]] = []


def _called(what: str) -> None:
    CALLS.append((what, threading.get_ident()))


def _encode(money: Money) -> int:
    _called("encode")
    return money.cents


def _decode(cents: int) -> Money:
    _called("decode")
    return Money(cents)


lastgood.register(Money, "lastgood-testing-money", encode=_encode, decode=_decode)


def _before_save(state: Any) -> Any:
    _called("before_save")
    return state


def _initial() -> dict[str, Any]:
    _called("initial")
    return {"price": Money(1), "m": [], "pad": ["x" * 100] * 100}


def cents(value: object) -> int:
    """What a restored value is worth."""
    assert isinstance(value, Money)
    return value.cents


def calls_since_asked() -> set[str]:
    """What was called since the last time, all of it by this thread."""
    assert {thread for _, thread in CALLS} <= {threading.get_ident()}
    names = {name for name, _ in CALLS}
    CALLS.clear()
    return names


@case()
async def writing_calls_the_users_functions(store: Store) -> None:
    """Entering, saving and appending encode, and call hooks, where the caller is."""
    CALLS.clear()
    client = store.client(before_save=_before_save, cache_bytes=0)
    async with client.run("s", initial=_initial) as run:
        assert {"initial", "before_save", "encode"} <= calls_since_asked()
        await run.append("m", Money(2))
        assert "encode" in calls_since_asked()
        await run.save({"price": Money(3), "m": []})
        assert {"before_save", "encode"} <= calls_since_asked()
    await client.save("a", execution_state={"price": Money(4)}, context={"price": Money(5)})
    assert {"before_save", "encode"} <= calls_since_asked()


@case()
async def reading_calls_the_users_functions(store: Store) -> None:
    """Restoring and entering decode where the caller is."""
    CALLS.clear()
    async with store.client().run("s", initial=_initial) as run:
        saved = await run.save(metadata={"price": Money(7)}, context={"price": Money(8)})
    calls_since_asked()
    cold, warm = store.client(cache_bytes=0), store.client()
    for client in (cold, warm, warm):
        await _read(client, saved)
        async with client.run("s") as run:
            assert "decode" in calls_since_asked()
            assert run.state["price"].cents == 1
            await run.finish(Money(9))
        calls_since_asked()


@case()
async def listing_calls_the_users_functions(store: Store) -> None:
    """Metadata in a log and results of runs are decoded where the caller is."""
    CALLS.clear()
    client = store.client()
    async with client.run("s", initial=_initial) as run:
        await run.save(metadata={"price": Money(7)})
        await run.finish(Money(9))
    calls_since_asked()
    assert cents((await client.log("s"))[0].metadata["price"]) == 7
    assert "decode" in calls_since_asked()
    assert cents((await client.threads())[0].result) == 9
    assert "decode" in calls_since_asked()


@case()
async def a_handoff_calls_the_users_functions(store: Store) -> None:
    """It carries context and metadata over where the caller is."""
    CALLS.clear()
    client = store.client()
    async with client.run("s", initial=_initial) as run:
        saved = await run.save(metadata={"price": Money(7)}, context={"price": Money(8)})
    handed = await store.client(cache_bytes=0).handoff(saved, "b")
    calls_since_asked()
    found = await client.restore(handed)
    assert cents(found.context["price"]) == 8
    assert cents(found.metadata["price"]) == 7
    assert "decode" in calls_since_asked()


async def _read(client: Client, saved: str) -> None:
    assert (await client.restore(saved)).state["price"].cents == 1
    assert "decode" in calls_since_asked()
    latest = await client.latest(agent_id="agent", session_id="s")
    assert latest is not None
    assert cents(latest.metadata["price"]) == 7
    assert "decode" in calls_since_asked()
    assert [c.state["price"].cents for c in await client.timeline("agent", "s")] == [1, 1]
    assert "decode" in calls_since_asked()
