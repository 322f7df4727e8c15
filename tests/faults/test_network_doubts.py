"""A step of a run whose answer never came: the run finds out what became of it, and goes on."""

import asyncio
import time
from collections.abc import Callable
from typing import Any

import pytest
from network_bench import Play, numbers, save

from lastgood import TransientStorageError
from lastgood.driver import pause
from lastgood.testing.faults.proxy import Proxy
from lastgood.testing.store import Store


@pytest.fixture
def play(impatient: None, play: Play) -> Play:
    return play


async def unheard(run: Any, proxy: Proxy) -> TransientStorageError:
    """Append; the server does it, and its answer never comes."""
    proxy.black_hole("to_client")
    with pytest.raises(TransientStorageError) as caught:
        await run.append("log", "c", step_name="c")
    proxy.heal()
    return caught.value


async def stored(client: Any) -> Any:
    return (await client.latest(agent_id="agent", session_id="s")).state


def test_an_append_that_was_not_heard_of_is_repeated_once(play: Play, proxy: Proxy) -> None:
    async def body(store: Store) -> None:
        client = store.client(heartbeat_seconds=600)
        async with client.run("s", initial={"log": []}) as run:
            await run.append("log", "a")
            error = await unheard(run, proxy)
            assert error.in_doubt
            assert "Whether it was kept is unknown" in error.hint
            await run.append("log", "c", step_name="c")
            assert run.state == {"log": ["a", "c"]}
            await run.append("log", "d")
        assert await stored(client) == {"log": ["a", "c", "d"]}

    play(body)


def test_a_save_behind_it_does_not_leave_it_out(play: Play, proxy: Proxy) -> None:
    async def body(store: Store) -> None:
        client = store.client(heartbeat_seconds=600)
        async with client.run("s", initial={"log": [], "n": 0}) as run:
            await run.append("log", "a")
            await unheard(run, proxy)
            run.state["n"] = 1
            await run.save()
            assert run.state == await stored(client) == {"log": ["a", "c"], "n": 1}

    play(body)


def test_what_never_began_is_in_no_doubt(play: Play, proxy: Proxy) -> None:
    async def body(store: Store) -> None:
        client = store.client(heartbeat_seconds=600)
        async with client.run("s", initial={"log": []}):
            pass
        proxy.refuse()
        with pytest.raises(TransientStorageError) as caught:
            async with client.run("s", initial={"log": []}):
                pass
        proxy.heal()
        assert not caught.value.in_doubt

    play(body)


def test_a_save_that_had_no_connection_is_in_no_doubt(play: Play, proxy: Proxy) -> None:
    async def body(store: Store) -> None:
        client = store.client()
        await save(client, 0)
        proxy.refuse()
        await pause(0.1)  # the client notices that its connections are gone
        with pytest.raises(TransientStorageError, match="Nothing was changed") as caught:
            await save(client, 1)
        proxy.heal()
        assert not caught.value.in_doubt
        assert await numbers(client) == [0]

    play(body)


def test_a_cancelled_task_ends_though_its_server_goes_at_the_same_time(
    play_in: Callable[..., None], proxy: Proxy
) -> None:
    """That the connection is lost is no reason to try again: nobody waits any more."""

    async def body(store: Store) -> None:
        client = store.client(heartbeat_seconds=600)
        async with client.run("s", initial={"n": 0}) as run:
            for call in (lambda: run.save({"n": 1}), lambda: client.log("s")):
                proxy.black_hole("to_client")
                task = asyncio.ensure_future(call())
                await asyncio.sleep(0.2)
                proxy.refuse()
                task.cancel()
                began = time.monotonic()
                await asyncio.wait([task])
                assert time.monotonic() - began < 5
                assert task.cancelled()
                proxy.heal()
            await run.save({"n": 2})
        assert await stored(client) == {"n": 2}

    play_in("async", body)
