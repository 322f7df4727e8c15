"""A tenant never sees, guesses or measures another's data; names and filters are only data."""

from __future__ import annotations

from typing import Any
from uuid import uuid4

import pytest

from lastgood import CheckpointNotFoundError
from lastgood.client import Client
from lastgood.item_rules import KINDS, hidden
from lastgood.testing.cases import case
from lastgood.testing.items_cases import item, put
from lastgood.testing.operations import LARGE, save
from lastgood.testing.store import Store, headers, thread_info


@case("S66")
async def tenants_with_the_same_names(store: Store) -> None:
    """Same thread, same agent, other data: each sees its own, by every method."""
    ours, theirs = store.client(tenant="A"), store.client(tenant="B")
    mine, other = await save(ours, "s", {"n": "A"}), await save(theirs, "s", {"n": "B"})
    for client, own, foreign, value in ((ours, mine, other, "A"), (theirs, other, mine, "B")):
        await _sees_only(client, own, foreign, value)
    assert await ours.delete("s") is True
    assert (await theirs.restore(other)).state == {"n": "B"}
    assert len(await theirs.threads()) == 1
    assert len(await ours.threads()) == 0
    assert await store.client().latest(agent_id="a", session_id="s") is None


async def _sees_only(client: Client, own: str, foreign: str, value: str) -> None:
    latest = await client.latest(agent_id="a", session_id="s")
    assert latest is not None
    assert latest.state == {"n": value}
    assert [c.checkpoint_id for c in await client.timeline("a", "s")] == [own]
    assert [h.checkpoint_id for h in await client.log("s")] == [own]
    assert [info.checkpoints for info in await client.threads()] == [1]
    nowhere = str(uuid4())
    for ask in (client.restore, lambda ref: client.handoff(ref, "b")):
        with pytest.raises(CheckpointNotFoundError) as foreign_error:
            await ask(foreign)
        with pytest.raises(CheckpointNotFoundError) as nowhere_error:
            await ask(nowhere)
        assert str(foreign_error.value).replace(foreign, nowhere) == str(nowhere_error.value)
    assert await client.expire(foreign) is False
    with pytest.raises(CheckpointNotFoundError, match="parent_id"):
        await save(client, "s", {}, parent_id=foreign)


@case("S66")
async def tenants_with_the_same_chosen_id(store: Store) -> None:
    """An id that another tenant took is free, and tells nothing."""
    ours, theirs, chosen = store.client(tenant="A"), store.client(tenant="B"), str(uuid4())
    assert await save(ours, "s", {"n": "A"}, checkpoint_id=chosen) == chosen
    assert await save(theirs, "s", {"n": "B"}, checkpoint_id=chosen) == chosen
    assert (await ours.restore(chosen)).state == {"n": "A"}
    assert (await theirs.restore(chosen)).state == {"n": "B"}
    await theirs.expire(chosen)
    assert (await store.client(tenant="A").restore(chosen)).state == {"n": "A"}


@case("S66")
async def sizes_do_not_tell_of_others(store: Store) -> None:
    """Storing what another tenant, or another thread, has costs the same as storing it first."""
    image = {"image": b"\x89PNG" * 50_000}
    sizes = []
    for tenant, thread in (("A", "s"), ("B", "s"), ("A", "t")):
        client = store.client(tenant=tenant)
        await save(client, thread, image)
        info = await thread_info(client, thread)
        assert info is not None
        sizes.append(info.size)
    assert len(set(sizes)) == 1


@case("S66")
async def runs_of_two_tenants(store: Store) -> None:
    """Runs on the same names are two runs."""
    ours, theirs = store.client(tenant="A"), store.client(tenant="B")
    async with (
        ours.run("s", initial={"n": "A"}) as mine,
        theirs.run("s", initial={"n": "B"}) as other,
    ):
        assert (mine.attempt, other.attempt) == (1, 1)
        assert mine.run_id != other.run_id
        await mine.save({"n": "A2"})
        await other.save({"n": "B2"})
    latest = await theirs.latest(agent_id="agent", session_id="s")
    assert latest is not None
    assert latest.state == {"n": "B2"}


@case("S66")
async def tenants_of_a_store(store: Store) -> None:
    """Whoever runs the store learns who has something in it, and hears no name twice."""
    client = store.client()
    assert await client.tenants() == []
    for tenant in ("B", "Ärzte & Söhne / 'x'", "a" * 200, "B"):
        await save(store.client(tenant=tenant), f"thread {tenant}", {})
    for kind in KINDS:
        await put(client, "hidden", item(b"k"), tenant=hidden("only items", kind))
    others = ["B", "a" * 200, "only items", "Ärzte & Söhne / 'x'"]
    assert await client.tenants() == others
    await save(client, "own", {})
    for tenant in ("default", "only items"):
        found = await store.client(tenant=tenant).tenants()
        assert found == ["B", "a" * 200, "default", "only items", "Ärzte & Söhne / 'x'"]


@case("S66")
async def tenants_without_threads(store: Store) -> None:
    """Deleted threads alone do not make a tenant, however many there are; one thread does."""
    client = store.client(tenant="gone")
    for name in ("one", "two", "three"):
        await save(client, name, {})
    await save(store.client(tenant="other"), "s", {})
    for name in ("one", "two"):
        await client.delete(name)
    assert await client.tenants() == ["gone", "other"]
    await client.delete("three")
    assert await client.tenants() == ["other"]
    await save(client, "two", {})
    assert await store.client().tenants() == ["gone", "other"]


TRICKS = [
    "'",
    '"',
    "' OR '1'='1",
    "'; DROP TABLE lastgood_thread; --",
    "$.a",
    "a.b[0]",
    "%",
    "_",
    "s%",
    ")",
    "--",
    "/*",
    "\\",
    "{}",
    "a:b",
    "a/b@c",
    "null",
    "\U0001f600",
]


@case("S67")
async def names_full_of_tricks(store: Store) -> None:
    """Quotes and wildcards in ids, names and filters are only text."""
    client = store.client()
    for trick in TRICKS:
        await client.save(trick, execution_state={"t": trick}, session_id=trick, step_name=trick)
        await save(client, "s", {"t": trick}, branch=trick, metadata={trick: trick, "n": 1})
    for trick in TRICKS:
        latest = await client.latest(agent_id=trick, session_id=trick)
        assert latest is not None
        assert latest.state == {"t": trick}
        assert len(await client.log(trick, step_name=trick, agent_id=trick, branch="main")) == 1
        assert [h.branch for h in await client.log("s", metadata={trick: trick})] == [trick]
        assert len(await client.log("s", branch=trick)) == 1
        assert len(await client.log("s", metadata={trick: "other"})) == 0
        assert len(await client.log("s", step_name=trick)) == 0
    assert len(await client.threads()) == len(TRICKS) + 1


@case("S67")
async def metadata_is_compared_as_values(store: Store) -> None:
    """True is not 1, "1" is not 1, nested values compare whole, no operators."""
    client = store.client()
    for value in (1, True, "1", 1.0, None, [1], {"$ne": 0}):
        await save(client, "s", {}, metadata={"v": value})
    filters: list[Any] = [1, True, "1", 1.0, None, [1], {"$ne": 0}]
    for wanted in filters:
        found = await client.log("s", metadata={"v": wanted})
        assert [type(h.metadata["v"]) for h in found] == [type(wanted)]
    assert len(await client.log("s", metadata={"w": None})) == 0


@case("S67")
async def ids_do_not_run_together(store: Store) -> None:
    """agent "a:b" in "c" is not agent "a" in "b:c"."""
    client = store.client()
    await client.save("a:b", execution_state=LARGE, session_id="c")
    assert await client.latest(agent_id="a", session_id="b:c") is None
    assert await headers(client, "b:c") == []
    assert await client.delete("c:a") is False
