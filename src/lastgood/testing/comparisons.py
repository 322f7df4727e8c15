"""Diffs: the same as between the restored states, for the price of what differs."""

from __future__ import annotations

import copy
from collections.abc import Callable, Sequence
from typing import Any

import pytest

from lastgood import (
    CheckpointExpiredError,
    CheckpointIntegrityError,
    CheckpointNotFoundError,
    Diff,
)
from lastgood.backend import Extents
from lastgood.client import Client
from lastgood.testing.cases import case
from lastgood.testing.functions import Money, calls_since_asked, cents
from lastgood.testing.operations import save
from lastgood.testing.store import Store, core_of

State = dict[str, Any]


def conversation(count: int = 300) -> State:
    """A state of a few hundred pages."""
    messages = [{"id": n, "content": f"message {n} " * 30} for n in range(count)]
    files = {f"file {n}": f"text {n} " * 10 for n in range(100)}
    return {"messages": messages, "plan": "first", "files": files, "tags": {"a", "b"}}


async def compared(client: Client, a: str, b: str) -> Diff:
    """The diff of two checkpoints, after comparing it with that of their states."""
    found = await client.diff(a, b)
    old, new = (await client.restore(a)).state, (await client.restore(b)).state
    assert found == Diff.between(old, new)
    assert found.patch(old) == new
    return found


def _edit(state: State) -> None:
    state["messages"][250]["content"] = "edited"
    del state["messages"][100]
    state["messages"].insert(20, {"id": -1, "content": "inserted"})


def _append(state: State) -> None:
    state["messages"] += [{"id": -1}, {"id": -2}]


def _move(state: State) -> None:
    state["messages"].insert(0, state["messages"].pop(200))


def _others(state: State) -> None:
    state["plan"] = "second"
    state["files"]["file 50"] = "other"
    del state["files"]["file 7"]
    state["tags"] ^= {"a", "c"}


def _small(state: State) -> None:
    del state["messages"][5:]
    state["messages"][2] = state["messages"][2]["content"]


def _types(state: State) -> None:
    state["messages"] = tuple(state["messages"])
    state["files"] = list(state["files"].items())


EDITS: dict[str, tuple[Callable[[State], None], str]] = {
    "three messages": (_edit, "1 message added, 1 message changed, 1 message removed"),
    "two more": (_append, "2 messages added"),
    "moved": (_move, "1 message moved"),
    "other values": (_others, "plan changed, files changed, 1 tag added, 1 tag removed"),
    "from large to small": (_small, "1 message added, 296 messages removed"),
    "other types": (_types, "messages changed, files changed"),
}


@case(each=EDITS)
async def a_diff_equals_that_of_the_states(
    store: Store, row: tuple[Callable[[State], None], str]
) -> None:
    """Of two checkpoints of one lane, forwards and backwards, warm and cold."""
    edit, summary = row
    client = store.client()
    old = conversation()
    new = copy.deepcopy(old)
    edit(new)
    first = await save(client, "s", old)
    second = await save(client, "s", new)
    for reader in (client, store.client(), store.client(cache_bytes=0)):
        found = await compared(reader, first, second)
        assert found.summary() == summary
        await compared(reader, second, first)
        assert not await reader.diff(first, first)
        assert await reader.diff("s/a@~1", "s/a@") == found


@case()
async def a_diff_knows_no_borders(store: Store) -> None:
    """Branches, agents and threads: any checkpoint is compared with any other."""
    client = store.client()
    states = [conversation() for _ in range(4)]
    for state, edit in zip(states[1:], (_edit, _append, _others), strict=True):
        edit(state)
    root = await save(client, "s", states[0])
    ids = [
        root,
        await save(client, "s", states[1], parent_id=root),
        await save(client, "s", states[2], parent_id=root),
        await client.handoff(root, "other"),
        await client.save("b", session_id="s", execution_state=states[3]),
        await save(client, "t", states[1]),
        await save(client, "t", {"small": 1}),
    ]
    reader = store.client()
    for a in ids:
        for b in ids:
            await compared(reader, a, b)


@case()
async def a_history_is_compared_across_its_steps(store: Store) -> None:
    """After many edits the stored ranges are patchwork; places are still right."""
    client = store.client()
    state = conversation()
    async with client.run("s", initial=state) as run:
        ids = [await run.save()]
        for step in range(12):
            messages = run.state["messages"]
            messages[step * 20]["content"] = f"edited in step {step}"
            messages.insert(step * 7 % len(messages), {"id": 1000 + step})
            del messages[-1 - step * 3]
            ids.append(await run.save())
    reader = store.client()
    for a, b in ((0, 12), (12, 0), (3, 4), (2, 9), (11, 5)):
        await compared(reader, ids[a], ids[b])


class Counter:
    """Counts the parts that a client reads."""

    def __init__(self, client: Client) -> None:
        self.parts = self.calls = 0
        self._backend = core_of(client).backend
        self._whole = self._backend.parts
        self._backend.parts = self._count  # type: ignore[method-assign]

    async def _count(
        self, ranges: Sequence[Extents], *, checked: bool = False
    ) -> list[list[bytes]]:
        self.calls += 1
        self.parts += sum(extent.length for extent in ranges)
        return await self._whole(ranges, checked=checked)

    def end(self) -> tuple[int, int]:
        """How many calls and parts it was."""
        self._backend.parts = self._whole  # type: ignore[method-assign]
        return self.calls, self.parts


@case()
async def what_is_shared_is_not_read(store: Store) -> None:
    """Of 2,000 messages of which three differ, a few parts are read, in one call."""
    client = store.client()
    old = conversation(2000)
    new = copy.deepcopy(old)
    _edit(new)
    first = await save(client, "s", old)
    second = await save(client, "s", new)
    handed = await client.handoff(second, "other")
    cold = store.client(cache_bytes=0)
    counter = Counter(cold)
    found = await cold.diff(first, second)
    calls, parts = counter.end()
    assert len(found) == 3
    assert calls == 1
    assert 1 <= parts <= 16
    counter = Counter(cold)
    assert not await cold.diff(second, handed)
    assert counter.end() == (0, 0)
    counter = Counter(cold)
    await cold.restore(first)
    assert counter.end()[1] > 500


@case()
async def a_large_manifest_is_read_first(store: Store) -> None:
    """Many large values beside each other: only that of which something differs is read."""
    client = store.client()
    old: State = {f"value {n}": ["x" * 500 for _ in range(20)] for n in range(60)}
    old = {f"group {n}": copy.deepcopy(old) for n in range(4)}
    new = copy.deepcopy(old)
    new["group 2"]["value 33"].append("more")
    first = await save(client, "s", old)
    second = await save(client, "s", new)
    cold = store.client(cache_bytes=0)
    counter = Counter(cold)
    assert [change.path for change in await cold.diff(first, second)] == [
        '["group 2"]["value 33"][20]'
    ]
    assert counter.end()[1] < 60


@case()
async def what_cannot_be_compared(store: Store) -> None:
    """The errors are those of restoring."""
    client = store.client()
    known = await save(client, "s", {"n": 1})
    short = await save(client, "s", {"n": 2}, ttl_seconds=60)
    with pytest.raises(CheckpointNotFoundError):
        await client.diff(known, "0190b9a0-0000-7000-8000-000000000000")
    with pytest.raises(CheckpointNotFoundError):
        await client.diff("nothing", known)
    with pytest.raises(CheckpointNotFoundError):
        await store.client(tenant="another").diff(known, short)
    assert (await client.diff(known, short)).patch({"n": 1}) == {"n": 2}
    if store.harness.turns_clock:
        await store.pass_time(61)
        with pytest.raises(CheckpointExpiredError):
            await client.diff(known, short)


@case("S20")
async def a_damaged_page_is_no_difference(store: Store) -> None:
    """A page that has to be read is compared with its digest; one that is shared is not needed."""
    client = store.client()
    old = {"messages": conversation()["messages"]}
    first = await save(client, "s", old)
    edited = {"messages": [{"id": 0, "content": "edited"}, *old["messages"][1:]]}
    second = await save(client, "s", edited)
    third = await save(client, "s", {"messages": [*edited["messages"], "more"]})
    await store.close()
    store.harness.flip_part("s")
    client = store.client()
    with pytest.raises(CheckpointIntegrityError, match="part"):
        await client.diff(first, second)
    assert len(await client.diff(second, third)) == 1


@case()
async def comparing_calls_the_users_functions(store: Store) -> None:
    """Values are decoded where the caller is."""
    client = store.client()
    first = await save(client, "s", {"price": Money(1), "pad": ["x" * 100] * 100})
    second = await save(client, "s", {"price": Money(2), "pad": ["x" * 100] * 101})
    calls_since_asked()
    found = await store.client(cache_bytes=0).diff(first, second)
    assert "decode" in calls_since_asked()
    prices = [change for change in found if change.path == "price"]
    assert [(cents(c.old), cents(c.new)) for c in prices] == [(1, 2)]


@case("S49")
async def only_what_means_something(store: Store) -> None:
    """Two messages more and one other key are three changes; order of keys is none."""
    client = store.client()
    before = {
        "messages": [{"role": "user", "n": 1}],
        "plan": {"goal": "a", "cost": 0.1 + 0.2, "tries": 1},
        "weights": {"x": 0.5, "y": 0.5},
    }
    after = {
        "weights": {"y": 0.5, "x": 0.5},
        "plan": {"tries": 1, "cost": 0.30000000000000004, "goal": "b"},
        "messages": [
            {"n": 1, "role": "user"},
            {"role": "assistant", "n": 2},
            {"role": "user", "n": 3},
        ],
    }
    a, b = await save(client, "s", before), await save(client, "s", after)
    found = await client.diff(a, b)
    changes = {(change.op, change.path) for change in found}
    assert changes == {("add", "messages[1]"), ("add", "messages[2]"), ("replace", "plan.goal")}
    assert len(found) == 3
    assert found.patch(before) == after
    assert found.summary() == "2 messages added, plan changed"
    assert not await client.diff(a, a)
