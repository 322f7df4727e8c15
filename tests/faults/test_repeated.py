"""What is repeated, for its answer never came, does not undo what others have written since."""

import asyncio
from collections.abc import Awaitable, Callable
from functools import partial
from typing import Any

import pytest
from network_bench import Play, Server, numbers, put, save

from lastgood import CheckpointNotFoundError
from lastgood.checkpointers.rules import Describe
from lastgood.item_rules import ChangeItems, ItemDraft
from lastgood.testing.faults.proxy import Proxy
from lastgood.testing.store import Store, committed, core_of


async def meanwhile(
    store: Store,
    proxy: Proxy,
    call: Callable[[], Any],
    done: Callable[[], Awaitable[bool]],
    then: Callable[[], Awaitable[Any]],
) -> Any:
    """Make a call that the server carries out, and then something else before the call is made
    again.
    """
    proxy.delay(to_client=1)

    async def meddle() -> None:
        while not await done():  # noqa: ASYNC110
            await asyncio.sleep(0.01)
        await then()
        proxy.refuse()
        proxy.heal()

    called, meddled = await store.together([call, meddle])
    assert meddled is None
    return called


@pytest.fixture
def other(straight: str) -> Callable[[Store], Any]:
    """A client that does not go through the proxy."""

    def made(store: Store) -> Any:
        harness: Any = store.harness
        behind, harness._url = harness._url, straight
        try:
            client = store.client()
        finally:
            harness._url = behind
        return client

    return made


def test_a_thread_that_began_anew_is_not_deleted_too(
    other: Callable[[Store], Any], play: Play, proxy: Proxy
) -> None:
    async def body(store: Store) -> None:
        client, beside = store.client(), other(store)
        await save(client, 0)

        async def gone() -> bool:
            try:
                return not list(await beside.log("s"))
            except CheckpointNotFoundError:
                return True

        call = partial(client.delete, "s")
        assert await meanwhile(store, proxy, call, gone, partial(save, beside, 2))
        assert await numbers(beside) == [2]
        assert await client.delete("s")
        assert not await client.delete("s")

    play(body)


def test_an_item_that_was_changed_since_is_not_put_again(
    other: Callable[[Store], Any], play: Play, proxy: Proxy
) -> None:
    async def body(store: Store) -> None:
        client, beside = store.client(), other(store)
        await save(client, 0)
        assert await put(client, b"old", None)
        drafts = (ItemDraft("shelf", b"k", b"ours"),)
        intent = ChangeItems(core_of(client).tenant, "s", puts=drafts)

        async def there() -> bool:
            return await put(beside, b"ours", b"ours")

        def theirs() -> Awaitable[Any]:
            return put(beside, b"theirs", b"ours")

        written = await meanwhile(store, proxy, partial(committed, client, intent), there, theirs)
        assert written.answer.done
        assert await put(beside, b"theirs", b"theirs")

    play(body)


@pytest.mark.parametrize("there", [True, False])
def test_what_only_changes_a_thread_is_made_up_for(
    there: bool, play: Play, proxy: Proxy, server: Server
) -> None:
    """It never came to the server, and nobody else has changed anything since."""

    async def body(store: Store) -> None:
        client = store.client()
        await save(client, 0, **({} if there else {"session_id": "other"}))
        intent = Describe(core_of(client).tenant, "s", title="ours", owner="joe")
        proxy.cut_before(match=server.commit)
        assert (await committed(client, intent)).answer is not there
        found = {each.thread_id: each for each in await client.threads()}["s"]
        assert (found.title, found.user) == ("ours", "joe")

    play(body)
