"""Lists of threads: filters, orders, pages that hold under inserts, and a fixed cost per page."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import timedelta
from decimal import Decimal
from typing import Any

import pytest

from lastgood.client import Client
from lastgood.testing.cases import case
from lastgood.testing.operations import save
from lastgood.testing.store import Store


async def names(client: Client, limit: int = 50, **how: Any) -> list[str]:
    """Ids of threads, page by page."""
    page = await client.threads(limit=limit, **how)
    found = [info.thread_id for info in page]
    while page.next is not None:
        assert 0 < len(page) <= limit
        page = await client.threads(limit=limit, after=page.next, **how)
        found += [info.thread_id for info in page]
    return found


@case("S70")
async def what_a_list_tells(store: Store) -> None:
    """Title, status, counts, agents, branches, last step, times: without opening a thread."""
    client = store.client(user="ada")
    async with client.run("s", initial={"n": 0}) as run:
        await run.save({"n": 1}, step_name="think")
        await run.finish({"answer": 42})
    await client.save("b", execution_state={}, session_id="s", step_name="act")
    await client.fork("s/agent@1")
    (info,) = await client.threads()
    assert (info.thread_id, info.title, info.status, info.user) == ("s", "s", "done", "ada")
    assert (info.checkpoints, info.agents, info.branches) == (4, ("agent", "b"), 3)
    assert (info.last_step, info.result) == ("fork_of_1", {"answer": 42})
    assert info.size > 0
    assert info.created_at <= info.updated_at


@case("S70")
async def filters_of_a_list(store: Store) -> None:
    """By agent, status, a piece of the id, metadata of the newest, time; alone and together."""
    client = store.client()
    for number in range(12):
        name = f"Run-{number:02}"
        await client.save(
            "ab"[number % 2], execution_state={}, session_id=name, metadata={"n": number, "k": 1}
        )
        if number % 3 == 0:
            async with client.run(name, agent_id="ab"[number % 2]) as run:
                await run.save({}, metadata={"n": number})
                await run.finish()
    every = [f"Run-{number:02}" for number in range(12)]
    half = (await client.resolve("Run-06@")).created_at
    filters: list[tuple[dict[str, Any], Any]] = [
        ({}, lambda n: True),  # noqa: ARG005
        ({"agent_id": "a"}, lambda n: n % 2 == 0),
        ({"agent_id": "c"}, lambda n: False),  # noqa: ARG005
        ({"status": "done"}, lambda n: n % 3 == 0),
        ({"status": "idle"}, lambda n: n % 3 != 0),
        ({"search": "run-0"}, lambda n: n < 10),
        ({"search": "RUN-1"}, lambda n: n >= 10),
        ({"search": "%"}, lambda n: False),  # noqa: ARG005
        ({"search": "_"}, lambda n: False),  # noqa: ARG005
        ({"metadata": {"k": 1}}, lambda n: n % 3 != 0),
        ({"metadata": {"n": 4}}, lambda n: n == 4),
        ({"metadata": {"n": 4.0}}, lambda n: False),  # noqa: ARG005
        ({"since": half}, lambda n: n >= 6),
        ({"since": half + timedelta(days=1)}, lambda n: False),  # noqa: ARG005
        (
            {"agent_id": "b", "status": "done", "search": "0", "metadata": {"n": 9}},
            lambda n: n == 9,
        ),
    ]
    for given, wanted in filters:
        expected = [name for number, name in enumerate(every) if wanted(number)]
        for limit in (1, 3, 50):
            for sort in ("updated", "created", "name"):
                found = await names(client, limit, sort=sort, **given)
                in_order = expected if sort == "name" else expected[::-1]
                assert sorted(found) == expected, (given, limit, sort)
                if sort != "updated":
                    assert found == in_order, (given, limit, sort)


@dataclass
class Price:
    """A value that a strict client does not read."""

    cents: int


@case("S70")
async def a_value_that_cannot_be_read_hurts_its_own_entry(store: Store) -> None:
    """A result is told as an error; metadata is not what is looked for. All threads are listed."""
    client = store.client()
    await save(client, "good", {}, metadata={"k": Decimal(1)})
    await save(client, "quiet", {}, metadata={"k": Decimal("sNaN")})
    await save(client, "bad", {}, metadata={"k": Price(1)})
    async with client.run("bad", agent_id="a") as run:
        await run.finish(Price(1))
    strict = store.client(strict_types=True)
    assert sorted(await names(strict)) == ["bad", "good", "quiet"]
    [info] = await strict.threads(search="bad")
    assert (info.status, info.result) == ("done", None)
    assert info.error is not None
    assert "the result cannot be read here" in info.error
    assert "strict_types is on" in info.error
    for reader in (client, strict):
        assert await names(reader, metadata={"k": Decimal(1)}) == ["good"]


@case("S70")
async def orders_of_a_list(store: Store) -> None:
    """Last touched first, youngest first, by name; a change moves a thread in the first alone."""
    client = store.client()
    order = ["b", "a", "é", "B", "c"]
    for name in order:
        await save(client, name, {})
        await store.pass_time(1)
    assert await names(client) == order[::-1]
    assert await names(client, sort="created") == order[::-1]
    assert await names(client, sort="name") == ["B", "a", "b", "c", "é"]
    await save(client, "a", {"more": 1})
    await client.tag("b@", "t")
    assert await names(client) == ["b", "a", "c", "B", "é"]
    assert await names(client, sort="created") == order[::-1]
    await client.delete("é")
    await save(client, "é", {})
    assert await names(client, sort="created") == ["é", "c", "B", "a", "b"]
    assert (await names(client))[0] == "é"


@case("S70")
async def begun_by_two_clients_in_turn(store: Store) -> None:
    """The youngest first, whoever began it, on one page and across many."""
    clients = store.client(), store.client(user="ada")
    begun = [f"t{number:02}" for number in range(12)]
    for number, name in enumerate(begun):
        await save(clients[number % 2], name, {})
        await store.pass_time(0.001)
    times = {info.thread_id: info.created_at for info in await clients[0].threads()}
    assert sorted(begun, key=lambda name: times[name]) == begun, "a server has one clock"
    for limit in (1, 5, 50):
        assert await names(clients[0], limit, sort="created") == begun[::-1]
        assert await names(clients[0], limit, sort="created", user="ada") == begun[::-2]


@case("S70")
async def begun_at_one_moment(store: Store) -> None:
    """Each is on one page."""
    store.harness.time.stop()
    clients = store.client(), store.client()
    begun = [f"t{number:02}" for number in range(9)]
    for number, name in enumerate(begun):
        await save(clients[number % 2], name, {})
    for limit in (1, 4, 50):
        assert sorted(await names(clients[0], limit, sort="created")) == begun


@case("S70")
async def touched_minutes_apart(store: Store) -> None:
    """The order holds across pages where times are minutes apart, and within a page always."""
    client = store.client()
    for number in range(9):
        await save(client, f"t{number}", {})
        await store.pass_time(150)
    await save(client, "t3", {"again": 1})
    expected = ["t3", "t8", "t7", "t6", "t5", "t4", "t2", "t1", "t0"]
    for limit in (1, 2, 4, 50):
        assert await names(client, limit) == expected


@case("S70", each={sort: sort for sort in ("updated", "created", "name")})
async def pages_hold_under_inserts(store: Store, sort: Any) -> None:
    """What was there when paging began is listed exactly once, whatever is added meanwhile."""
    client, other = store.client(), store.client()
    before = [f"t{number:02}" for number in range(10)]
    for name in before:
        await save(client, name, {})
    page = await client.threads(limit=3, sort=sort)
    found = [info.thread_id for info in page]
    turn = 0
    while page.next is not None:
        turn += 1
        for name in (f"a new {turn}", f"t0{turn} new", f"z new {turn}"):
            await save(other, name, {})
        page = await client.threads(limit=3, sort=sort, after=page.next)
        found += [info.thread_id for info in page]
        assert turn < 50
    assert sorted(name for name in found if "new" not in name) == before
    assert len(found) == len(set(found))


@case("S66", "S70")
async def a_list_of_one_tenant(store: Store) -> None:
    """Orders, filters and cursors stay within it."""
    ours, theirs = store.client(tenant="A"), store.client(tenant="B")
    for number in range(4):
        await save(ours, f"ours {number}", {})
        await save(theirs, f"theirs {number}", {})
    for sort in ("updated", "created", "name"):
        for limit in (1, 3, 50):
            assert sorted(await names(ours, limit, sort=sort)) == [f"ours {n}" for n in range(4)]
    page = await theirs.threads(limit=2, sort="created")
    found = await ours.threads(after=page.next, sort="created")
    assert all(info.thread_id.startswith("ours") for info in found)
    assert len(await ours.threads(search="theirs")) == 0


@case()
async def cursors_and_options_that_make_no_sense(store: Store) -> None:
    """Refused in words."""
    client = store.client()
    await save(client, "s", {})
    refused: list[tuple[dict[str, Any], type[Exception], str]] = [
        ({"sort": "size"}, ValueError, 'sort must be "updated" or "created" or "name"'),
        ({"limit": 0}, ValueError, "limit"),
        ({"after": "x"}, ValueError, "not a cursor for sort='updated'"),
        ({"after": "5"}, ValueError, "not a cursor for sort='updated'"),
        ({"after": "5", "sort": "created"}, ValueError, "not a cursor for sort='created'"),
        ({"after": 5, "sort": "name"}, TypeError, "after must be a str"),
        ({"search": 5}, TypeError, "search must be a str"),
        ({"since": "yesterday"}, TypeError, "since must be a datetime"),
        ({"metadata": ["a"]}, TypeError, "metadata must be a mapping"),
    ]
    for given, error, text in refused:
        with pytest.raises(error, match=text):
            await client.threads(**given)
    assert len(await client.threads(search="", metadata={})) == 1


@case()
async def metadata_inside_of_others_is_told_apart(store: Store) -> None:
    """`1`, `1.0` and `True` are three different things, in a list or a dict too."""
    client = store.client()
    metadata = {"flags": [True, {"x": 1.0}], "pair": (1, 2)}
    await save(client, "s", {}, metadata=metadata)
    for key, other in (("flags", [1, {"x": 1.0}]), ("flags", [True, {"x": 1}]), ("pair", (1, 2.0))):
        assert len(await client.log("s", metadata={key: other})) == 0
        assert len(await client.threads(metadata={key: other})) == 0
    assert len(await client.log("s", metadata=metadata)) == 1
    assert len(await client.threads(metadata=metadata)) == 1


@case()
async def what_is_gone_is_not_listed(store: Store) -> None:
    """Name and metadata of a step that was removed or is over its time: the one before tells."""
    client = store.client()
    await save(client, "s", {}, step_name="first", metadata={"n": 1})
    await save(client, "s", {}, step_name="second", metadata={"n": 2})
    removed = [await save(client, "s", {}, step_name="gone", metadata={"n": 3}) for _ in range(2)]
    for id in reversed(removed):
        await client.expire(id)
    await save(client, "t", {}, step_name="second", metadata={"n": 2})
    await save(client, "t", {}, step_name="gone", metadata={"n": 3}, ttl_seconds=0.2)
    await store.pass_time(0.3)
    assert {info.last_step for info in await client.threads()} == {"second"}
    assert len(await client.threads(metadata={"n": 3})) == 0
    assert len(await client.threads(metadata={"n": 2})) == 2
    await client.expire("t@1")
    info = (await client.threads(search="t"))[0]
    assert (info.checkpoints, info.last_step) == (0, None)


@case()
async def many_threads_whose_newest_checkpoint_is_gone(store: Store) -> None:
    """Runs that never saved, and heads that were removed or are over their time, on one page."""
    client = store.client()
    expected: dict[str, tuple[int, str | None]] = {}
    for number in range(14):
        async with client.run(f"begun {number}"):
            expected[f"begun {number}"] = (0, None)
        only = await client.save("a", session_id=f"empty {number}", execution_state={})
        await client.expire(only)
        expected[f"empty {number}"] = (0, None)
        for step in ("kept", "gone"):
            saved = await client.save(
                "a", session_id=f"shorter {number}", execution_state={}, step_name=step
            )
        await client.expire(saved)
        expected[f"shorter {number}"] = (1, "kept")
    for each in (client, store.client()):
        page = await each.threads(limit=100)
        assert {info.thread_id: (info.checkpoints, info.last_step) for info in page} == expected
