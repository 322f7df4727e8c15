"""Threads of many branches and tags: an agent that tries many ways leaves one for each."""

from __future__ import annotations

import pytest

from lastgood.backends.tables import COUNTED
from lastgood.client import Client
from lastgood.errors import CheckpointConflictError, CheckpointNotFoundError
from lastgood.testing.cases import case
from lastgood.testing.store import Store, core_of, driven

MANY = COUNTED + 20
"""More names than are counted at every look for one that is not there."""


async def first(client: Client) -> str:
    """The first checkpoint of "s"."""
    return await client.save("a", execution_state={"n": 0}, session_id="s")


@case(slow=True)
async def one_of_many_branches(store: Store) -> None:
    """A name that is taken stays what it is, and one that is free is given once."""
    writer = store.client()
    id = await first(writer)
    heads = [await writer.fork(id, branch=f"b {number}") for number in range(MANY)]
    for client in (writer, store.client()):
        for number in (0, MANY - 1):
            with pytest.raises(CheckpointConflictError):
                await client.fork(id, branch=f"b {number}")
            header = await client.resolve(f"s/a@branch:b {number}")
            assert header.checkpoint_id == heads[number]
        with pytest.raises(CheckpointNotFoundError):
            await client.resolve("s/a@branch:nothing")
        with pytest.raises(CheckpointNotFoundError):
            await client.switch("s", "nothing")
    late = await store.client().fork(id, branch="late")
    with pytest.raises(CheckpointConflictError):
        await writer.fork(id, branch="late")
    assert (await writer.resolve("s@branch:late")).checkpoint_id == late
    (info,) = await writer.threads()
    assert (info.checkpoints, info.branches) == (MANY + 2, MANY + 2)
    assert (await writer.verify(data=True)).exit_code == 0


@case(slow=True)
async def one_of_many_tags(store: Store) -> None:
    """New ones, those that move and those that go are counted."""
    writer = store.client()
    ids = [await first(writer), await first(writer)]
    for number in range(MANY):
        assert await writer.tag(ids[0], f"t {number}") is None
    client = store.client()
    assert await client.tag(ids[1], "t 3") == ids[0]
    assert await client.tag(ids[1], "late") is None
    assert await client.untag("s", "t 4")
    assert not await client.untag("s", "t 4")
    with pytest.raises(CheckpointNotFoundError):
        await client.resolve("s@tag:t 4")
    expected = {f"t {number}": ids[0] for number in range(MANY) if number != 4}
    assert await client.tags("s") == {**expected, "t 3": ids[1], "late": ids[1]}
    assert (await client.verify(data=True)).exit_code == 0


@case()
async def a_part_of_an_outline(store: Store) -> None:
    """Who asks for lanes or tags alone gets them whole, and nothing else."""
    client = store.client()
    id = await first(client)
    await client.fork(id, branch="side")
    await client.tag(id, "good")
    backend, tenant = core_of(client).backend, core_of(client).tenant
    whole = await driven(client, backend.outline(tenant, "s"))
    lanes = await driven(client, backend.outline(tenant, "s", only="lanes"))
    tags = await driven(client, backend.outline(tenant, "s", only="tags"))
    assert whole is not None
    assert lanes is not None
    assert tags is not None
    assert (len(whole.lanes), len(whole.branches), len(whole.tags)) == (1, 2, 1)
    assert lanes == whole._replace(branches=(), tags=(), now=lanes.now)
    assert tags == whole._replace(lanes=(), branches=(), now=tags.now)
    assert await driven(client, backend.outline(tenant, "nothing", only="lanes")) is None
