"""Forks: a line of its own from any checkpoint, edited or not; what is there stays as it is."""

from __future__ import annotations

from collections import OrderedDict, deque
from dataclasses import dataclass, field
from typing import Any, NamedTuple

import pytest

from lastgood import (
    CheckpointConflictError,
    CheckpointExpiredError,
    CheckpointIntegrityError,
    CheckpointNotFoundError,
    SerializationError,
)
from lastgood.client import Client
from lastgood.testing.cases import case
from lastgood.testing.operations import LARGE, save
from lastgood.testing.store import (
    Store,
    current,
    everything,
    head_state,
    headers,
    line,
    reachable,
    thread_info,
)


async def steps(client: Client, thread: str, count: int) -> list[str]:
    """A line of large states, each a little longer."""
    messages = list(LARGE["messages"])
    ids = []
    for number in range(count):
        messages.append(f"step {number} " * 10)
        ids.append(await save(client, thread, {"messages": messages, "n": number}, step_name="go"))
    return ids


@case("S43")
async def a_fork_does_not_mutate(store: Store) -> None:
    """Fork at step 3 with an edit, run two steps on it: the original is byte-identical."""
    client = store.client()
    ids = await steps(client, "s", 5)
    before = await everything(client, "s")
    other = store.client()
    forked = await other.fork(ids[3], edits={"n": "edited", "messages[0]": "other"})
    branch = (await other.resolve(forked)).branch
    async with other.run("s", agent_id="a", branch=branch) as run:
        assert (run.state["n"], run.state["messages"][0]) == ("edited", "other")
        for number in range(2):
            run.state["n"] = f"fork {number}"
            await run.save()
    fresh = store.client(cache_bytes=0)
    after = await everything(fresh, "s")
    assert {id: after[id] for id in before} == before
    assert len(after) == 8
    assert await head_state(fresh, "s") == {**(await fresh.restore(ids[4])).state, "n": 4}
    assert {(b.name, b.current) for b in await fresh.branches("s")} == {
        ("main", True),
        (branch, False),
    }
    found = await fresh.resolve(forked)
    assert (found.parent_id, found.step_index, found.step_name) == (ids[3], 3, "fork_of_4")
    async with fresh.run("s", agent_id="a") as run:
        assert (run.base, run.branch, run.state["n"]) == (ids[4], "main", 4)
        run.state["n"] = 5
        await run.save()
    assert (await fresh.resolve("s@")).parent_id == ids[4]


@dataclass
class Goal:
    """A state of an application."""

    text: str
    done: list[str] = field(default_factory=list)


@dataclass(frozen=True)
class Fact:
    """One that cannot be changed."""

    name: str
    value: Any = None


class Pair(NamedTuple):
    """A tuple with names."""

    left: Any
    right: Any


def plan(name: str, steps: list[str]) -> Any:
    """A pydantic model, where there is pydantic."""
    pytest.importorskip("pydantic")
    from lastgood.testing.models import Plan

    return Plan(name=name, steps=steps)


class Edit(NamedTuple):
    """A state, what is done to it by path, and what comes of it; made when the case runs."""

    state: Any
    edits: dict[str, Any]
    remove: tuple[str, ...]
    expected: Any


BIG = ["word " * 20] * 100
EDITS: dict[str, Any] = {
    "dict": lambda: Edit({"a": 1, "b": BIG}, {"a": 2, "c": 3}, ("b[0]",), {
        "a": 2, "b": BIG[1:], "c": 3,
    }),
    "list": lambda: Edit([1, [2], BIG], {"[1][0]": "x", "[3]": "end"}, ("[0]",), [
        ["x"], BIG, "end",
    ]),
    "tuple": lambda: Edit((1, (2, 3), 4), {"[1][-1]": "x"}, ("[0]",), ((2, "x"), 4)),
    "dataclass": lambda: Edit(Goal("t", [*BIG]), {"text": "u"}, ("done[-1]",), Goal("u", BIG[1:])),
    "frozen dataclass": lambda: Edit(
        Fact("f", {"k": [1, 2]}), {"name": "g", "value.k[0]": 9}, ("value.k[1]",),
        Fact("g", {"k": [9]}),
    ),
    "named tuple": lambda: Edit(Pair(1, [2]), {"left": 3, "right[1]": 4}, (), Pair(3, [2, 4])),
    "pydantic": lambda: Edit(plan("p", [*BIG]), {"name": "q", "steps[0]": "x"}, ("steps[1]",),
                             plan("q", ["x", *BIG[2:]])),
    "collections": lambda: Edit(
        {"d": deque([1, 2], maxlen=2), "o": OrderedDict(b=1, a=2)}, {"d[0]": 3, "o.c": 3}, ("o.b",),
        {"d": deque([3, 2], maxlen=2), "o": OrderedDict(a=2, c=3)},
    ),
    "text": lambda: Edit("just text", {}, (), "just text"),
}  # fmt: skip


@case("S43", each=EDITS)
async def a_fork_of_every_kind_of_state(store: Store, made: Any) -> None:
    """By path, in any type; from the first step as from the last; the source is not touched."""
    edit: Edit = made()
    client = store.client()
    async with client.run("s", agent_id="a", initial=edit.state) as run:
        await run.save()
    before = await everything(client, "s")
    for number, id in enumerate(before):
        fresh = store.client()
        forked = await fresh.fork(
            id, branch=f"f{number}", edits=edit.edits or None, remove=edit.remove
        )
        found = await store.client().restore(forked)
        assert found.state == edit.expected
        assert type(found.state) is type(edit.expected)
        assert (found.parent_id, found.branch) == (id, f"f{number}")
        assert found.verify_integrity()
    after = await everything(store.client(), "s")
    assert {id: after[id] for id in before} == before


@case("S43")
async def edits_by_a_function(store: Store) -> None:
    """It may change the state it is given, or return another; removals come after it."""
    client = store.client()
    source = await save(client, "s", LARGE)

    def changed(state: Any) -> None:
        state["messages"].clear()
        state["by"] = "function"

    async def forked(**how: Any) -> Any:
        return (await store.client().restore(await client.fork(source, **how))).state

    assert await forked(edits=changed) == {"messages": [], "by": "function"}
    assert await forked(edits=changed, remove="by") == {"messages": []}
    assert await forked(edits=lambda state: {"n": len(state["messages"])}) == {"n": 100}
    assert await forked(edits=list) == ["messages"]
    assert (await store.client().restore(source)).state == LARGE


@case("S43")
async def a_fork_that_is_refused_leaves_nothing(store: Store) -> None:
    """A path that is not there, a value that cannot be kept, a function that raises."""
    client = store.client()
    source = await save(client, "s", {"a": {"b": 1}, "l": [1]})
    before = await everything(client, "s")

    def fails(state: Any) -> None:
        state["a"] = "half done"
        raise RuntimeError("no")

    refused: list[tuple[type[Exception], str, dict[str, Any]]] = [
        (KeyError, r"there is no a\.c\.d|there is no a\.c", {"edits": {"a.c.d": 1}}),
        (KeyError, r"there is no l\[5\]", {"remove": ("l[5]",)}),
        (KeyError, r"l\[0\] is an int", {"edits": {"l[0].x": 1}}),
        (ValueError, "not a path", {"edits": {"a b": 1}}),
        (ValueError, "whole state", {"edits": {"": 1}}),
        (ValueError, "twice", {"edits": {"a": 1}, "remove": ["a.b"]}),
        (SerializationError, r"state\.a\.b", {"edits": {"a.b": len}}),
        (RuntimeError, "no", {"edits": fails}),
    ]
    for error, text, how in refused:
        with pytest.raises(error, match=text):
            await client.fork(source, **how)
    assert await everything(client, "s") == before
    assert len(await client.branches("s")) == 1


@case("S43")
async def names_of_forks(store: Store) -> None:
    """A name of one's own, once; else one made of the branch and the id."""
    client = store.client()
    first = await save(client, "s", {"n": 0})
    named = await client.fork(first, branch="idea")
    assert (await client.resolve(named)).branch == "idea"
    for taken in ("idea", "main"):
        with pytest.raises(CheckpointConflictError, match=f"has a branch '{taken}' already"):
            await client.fork(first, branch=taken)
    plain = await client.resolve(await client.fork(named))
    assert plain.branch == f"idea-{plain.checkpoint_id[-6:]}"
    assert len(await headers(client, "s")) == 3


@case("S43")
async def a_fork_becomes_current_when_it_is_told_to(store: Store) -> None:
    """With switch, saves and runs go on from it, and undo leads back."""
    client = store.client()
    ids = await steps(client, "s", 3)
    forked = await client.fork(ids[0], branch="again", edits={"n": "x"}, switch=True)
    assert await current(client, "s") == "again"
    assert (await client.resolve("s@")).checkpoint_id == forked
    saved = await save(client, "s", {"n": "y"})
    assert (await client.resolve(saved)).parent_id == forked
    move = await client.undo("s")
    assert (move.kind, move.left, move.branch) == ("undo", "again", "main")
    assert (await client.resolve("s@")).checkpoint_id == ids[2]
    assert await reachable(client, "s") == {*ids, forked, saved}


@case("S43")
async def what_a_fork_takes_over(store: Store) -> None:
    """Step, framework, context and metadata; the rest of its time; not the handoff."""
    client = store.client()
    source = await save(
        client, "s", LARGE, context={"c": 1}, metadata={"m": 2}, framework="mine", step_index=7,
        ttl_seconds=100,
    )  # fmt: skip
    given = await client.handoff(source, "b", schema="v1")
    await store.pass_time(40)
    for id, step in ((source, 7), (given, 8)):
        found = await client.resolve(await client.fork(id, edits={"x": 1}))
        assert (found.agent_context, found.framework) == ({"c": 1}, "mine")
        assert found.metadata["m"] == 2
        assert (found.step_index, found.handoff_target, found.handoff_schema) == (step, None, None)
        assert found.expires_at == (await client.resolve(id)).expires_at
        assert found.ttl_seconds is not None
        assert 0 < found.ttl_seconds <= 60
    await store.pass_time(70)
    with pytest.raises(CheckpointExpiredError):
        await client.fork(source)


@case("S43")
async def a_fork_shares_the_pages_of_its_source(store: Store) -> None:
    """Untouched it costs a row; edited it costs the edit."""
    client = store.client()
    source = await save(client, "s", {"m": [f"{n} " * 300 for n in range(500)]})
    sizes = []
    for edits in (None, {"m[250]": "new"}, None):
        info = await thread_info(client, "s")
        assert info is not None
        sizes.append(info.size)
        source = await store.client().fork(source, edits=edits)
    assert sizes[0] > 200_000
    assert sizes[1] - sizes[0] < 2000
    assert sizes[2] - sizes[1] < 8000


@case("S43")
async def forks_of_what_is_not_there(store: Store) -> None:
    """Removed, of another tenant, of a thread that is gone."""
    client = store.client()
    first = await save(client, "s", {"n": 0})
    second = await save(client, "s", {"n": 1})
    await client.expire(first)
    with pytest.raises(CheckpointNotFoundError):
        await client.fork(first)
    with pytest.raises(CheckpointNotFoundError):
        await store.client(tenant="other").fork(second)
    await client.delete("s")
    with pytest.raises(CheckpointNotFoundError):
        await client.fork(second)
    with pytest.raises(CheckpointNotFoundError):
        await client.fork("s@")


@case("S43")
async def a_fork_survives_its_source(store: Store) -> None:
    """Its states do not depend on what it was forked from."""
    client = store.client()
    ids = await steps(client, "s", 4)
    forked = await client.fork(ids[1], edits={"n": "f"})
    state = (await client.restore(forked)).state
    for id in ids:
        await client.expire(id)
    fresh = store.client()
    assert (await fresh.restore(forked)).state == state
    shown = await line(fresh, forked)
    assert [type(each).__name__ for each in shown] == ["Header", "Gap"]
    assert shown[1].checkpoint_id == ids[1]


DAMAGES = {"a changed page": "flip_part", "a lost page": "lose_part"}


@case("S50", each=DAMAGES)
async def restoring_is_two_phased(store: Store, damage: str) -> None:
    """A state that cannot be read whole is not gone back to: nothing moves, nothing is written."""
    client = store.client()
    hurt = await save(client, "s", LARGE)
    await save(client, "s", {"small": 1})
    before = [h.checkpoint_id for h in await headers(client, "s")]
    await store.close()
    getattr(store.harness, damage)("s")
    client = store.client()
    for attempt in (
        lambda: client.restore(hurt),
        lambda: client.rewind("s", hurt),
        lambda: client.fork(hurt),
        lambda: client.fork(hurt, switch=True),
        lambda: client.fork(hurt, edits={"x": 1}),
    ):
        with pytest.raises(CheckpointIntegrityError, match=hurt):
            await attempt()
    assert [h.checkpoint_id for h in await headers(client, "s")] == before
    assert await current(client, "s") == "main"
    async with client.run("s", agent_id="a") as run:
        assert run.state == {"small": 1}
        await run.save({"small": 2})
    assert await head_state(store.client(), "s") == {"small": 2}
