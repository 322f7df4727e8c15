"""Threads that belong to users: each user's list, in every order, without everybody else's."""

from __future__ import annotations

from typing import Any

import pytest

from lastgood.backend import Backend, Sort, ThreadEntry, ThreadListing
from lastgood.checkpointers import ClientCheckpointer, ThreadInfo
from lastgood.client import Client
from lastgood.testing.cases import case
from lastgood.testing.operations import save
from lastgood.testing.store import Store

SORTS: tuple[Sort, ...] = ("updated", "created", "name")
USERS = ("ada", "Ada", "a'd\"a", "bob")
"""Names that only a comparison of whole texts keeps apart."""


async def _crowd(store: Store) -> None:
    """Three threads of each user, by turns, and three of nobody."""
    for number in range(3):
        for user in (*USERS, None):
            await save(store.client(user=user), f"{user} {number}", {"n": number})


async def _listed(client: Client, user: str | None, sort: Sort, limit: int = 50) -> list[str]:
    found: list[str] = []
    after: str | None = None
    while True:
        page = await client.threads(user=user, sort=sort, limit=limit, after=after)
        assert [info.user for info in page] == [user or info.user for info in page]
        found += [info.thread_id for info in page]
        after = page.next
        if after is None:
            return found


@case("S70")
async def the_threads_of_a_user(store: Store) -> None:
    """In every order, page by page, and whoever asks; nobody's threads are on nobody's list."""
    await _crowd(store)
    client = store.client()
    assert len(await _listed(client, None, "name", 4)) == 15
    for user in USERS:
        own = [f"{user} {number}" for number in range(3)]
        for sort in SORTS:
            for limit in (1, 2, 50):
                found = await _listed(client, user, sort, limit)
                assert found == own if sort == "name" else sorted(found) == own
        assert (await client.threads(user=user, search=" 1"))[0].thread_id == f"{user} 1"
    assert await _listed(client, "None", "updated") == []
    with pytest.raises(ValueError, match="user"):
        await client.threads(user="")


@case()
async def the_threads_of_a_user_come_and_go(store: Store) -> None:
    """One that is deleted is off the list, one that begins anew is on it, for its new user."""
    await _crowd(store)
    client = store.client()
    await client.delete("ada 0")
    await client.delete("bob 1")
    await save(store.client(user="ada"), "bob 1", {})
    for sort in SORTS:
        assert sorted(await _listed(client, "ada", sort)) == ["ada 1", "ada 2", "bob 1"]
        assert sorted(await _listed(client, "bob", sort)) == ["bob 0", "bob 2"]


@case()
async def a_thread_that_is_given_to_another_user(store: Store) -> None:
    """It changes lists, is touched on the new one, and can be given to somebody the first time."""
    await _crowd(store)
    async with Client.on(store.harness.backend()) as client:
        checkpointer: ClientCheckpointer[Any] = ClientCheckpointer(client)
        for thread, user in (("ada 1", "bob"), ("None 2", "bob"), ("bob 0", "new")):
            info = ThreadInfo(thread, user_id=user)
            assert await checkpointer.aput_thread({"thread_id": thread}, info) is False
        await save(client, "ada 1", {"n": 2})
    expected = {"ada": ["ada 0", "ada 2"], "bob": ["None 2", "ada 1", "bob 1", "bob 2"]}
    for sort in SORTS:
        for user, own in (expected | {"new": ["bob 0"]}).items():
            assert sorted(await _listed(store.client(), user, sort)) == own


@case("S70")
async def a_list_of_one_user_costs_what_the_user_has(store: Store) -> None:
    """The store gives nothing of other users to look at, in the order of lists by default."""
    for user in ("ada", "bob"):
        for number in range(3 if user == "ada" else 30):
            await save(store.client(user=user), f"{user} {number}", {})
    client = store.client()
    seen = _Seen(client._core.backend)
    client._core.backend.threads = seen  # type: ignore[method-assign]
    assert len(await client.threads(user="ada", limit=2)) == 2
    assert [info.thread_id for info in await client.threads(user="ada", search="da 1")] == ["ada 1"]
    assert {entry.row.owner for entry in seen.entries} == {"ada"}


class _Seen:
    """What a backend lists."""

    def __init__(self, backend: Backend) -> None:
        self._threads = backend.threads
        self.entries: list[ThreadEntry] = []

    async def __call__(self, tenant: str, listing: ThreadListing) -> list[ThreadEntry]:
        found = await self._threads(tenant, listing)
        self.entries += found
        return found
