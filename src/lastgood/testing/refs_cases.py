"""Refs: every way to name a checkpoint, in every method that takes one, and what errors say."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any
from uuid import uuid4

import pytest

from lastgood import (
    CheckpointConflictError,
    CheckpointExpiredError,
    CheckpointNotFoundError,
    StaleWriterError,
)
from lastgood.client import Client
from lastgood.model import Header
from lastgood.refs import quote
from lastgood.testing.cases import case
from lastgood.testing.operations import save
from lastgood.testing.store import Store, headers

ODD = ["a@b", "a/b", "100%", "%40", "a%2Fb@c", "@", "/", "~1", "step:1", "x y", "é@😀", "a" * 255]


async def small_history(client: Client) -> list[str]:
    """Five steps of "a", a branch "side" at the third, a tag "good" at the second."""
    ids = [await save(client, "s", {"n": number}) for number in range(5)]
    await client.tag(ids[1], "good")
    ids.append(await client.fork(ids[2], branch="side", edits={"n": "side"}))
    return ids


SELECTORS: dict[str, int] = {
    "s@": 4,
    "s@~0": 4,
    "s@~1": 3,
    "s@~4": 0,
    "s@1": 0,
    "s@6": 5,
    "s@step:0": 0,
    "s@step:3": 3,
    "s@tag:good": 1,
    "s@branch:main": 4,
    "s@branch:side": 5,
}


@case()
async def every_selector(store: Store) -> None:
    """With and without the agent."""
    client = store.client()
    ids = await small_history(client)
    for ref, at in SELECTORS.items():
        for each in (ref, ref.replace("@", "/a@")):
            assert (await store.client().resolve(each)).checkpoint_id == ids[at], each


METHODS: dict[str, Callable[[Client, str], Any]] = {
    "restore": lambda client, ref: client.restore(ref),
    "resolve": lambda client, ref: client.resolve(ref),
    "walk": lambda client, ref: client.walk(ref),
    "handoff": lambda client, ref: client.handoff(ref, "b"),
    "fork": lambda client, ref: client.fork(ref),
    "rewind": lambda client, ref: client.rewind("s", ref),
    "tag": lambda client, ref: client.tag(ref, "t"),
    "save": lambda client, ref: save(client, "s", {"n": "new"}, parent_id=ref),
}


@case(each=METHODS)
async def refs_in_every_method(store: Store, method: Callable[[Client, str], Any]) -> None:
    """All selectors are taken, and act on what they name; what is not there is an error."""
    client = store.client()
    ids = await small_history(client)
    for ref in ("s@9", "s@~9", "s@step:9", "s@tag:no", "s@branch:no", "s/b@", "no@", str(uuid4())):
        with pytest.raises(CheckpointNotFoundError):
            await method(client, ref)
    for ref in ("s@x", "s@-1", ""):
        with pytest.raises(ValueError, match=r"selects nothing|is empty"):
            await method(client, ref)
    assert len(await headers(client, "s")) == 6
    for selector, at in {**SELECTORS, "": 2}.items():
        answer = await method(client, selector or ids[2])
        assert await _acted_on(client, answer) == ids[at], selector
        await client.delete("s")
        ids = await small_history(client)


async def _acted_on(client: Client, answer: Any) -> str | None:
    """Which checkpoint an answer is about: itself, or the parent of what was made."""
    if answer is None:
        return (await client.tags("s"))["t"]
    if isinstance(answer, str):
        return (await client.resolve(answer)).parent_id
    if hasattr(answer, "kind"):
        parent: str | None = answer.head.parent_id
        return parent
    shown: Any = answer if hasattr(answer, "checkpoint_id") else answer[0]
    id: str = shown.checkpoint_id
    return id


@case()
async def removing_by_ref(store: Store) -> None:
    """expire() takes refs too, and is False for whatever is not there."""
    client = store.client()
    ids = await small_history(client)
    for ref, at in (("s@", 4), ("s@~1", 2), ("s@tag:good", 1), ("s@branch:side", 5), ("s@1", 0)):
        assert await client.expire(ref) is True
        with pytest.raises(CheckpointNotFoundError):
            await client.restore(ids[at])
    gone = [
        "s@1",
        "s@~1",
        "s@step:2",
        "s@tag:good",
        "s@tag:no",
        "s@branch:no",
        "s/b@",
        "no@",
        "n@1",
    ]
    for ref in gone:
        assert await client.expire(ref) is False, ref
    assert [h.checkpoint_id for h in await headers(client, "s")] == [ids[3]]


@case(each={name[:20]: name for name in ODD})
async def names_that_need_quoting(store: Store, name: str) -> None:
    """Threads, agents, tags and branches of any name have an address; short names are refs."""
    client = store.client()
    saved = await client.save(name, execution_state={"n": 1}, session_id=name)
    await client.tag(saved, name)
    forked = await client.fork(saved, branch=name)
    thread = agent = quote(name)
    for ref in (f"{thread}@1", f"{thread}/{agent}@1", f"{thread}@tag:{quote(name)}"):
        assert (await client.resolve(ref)).checkpoint_id == saved
    for ref in (f"{thread}@branch:{quote(name)}", f"{thread}/{agent}@branch:{quote(name)}"):
        assert (await client.resolve(ref)).checkpoint_id == forked
    for header in await headers(client, name):
        assert await client.resolve(header.name) == header
    assert (await client.rewind(name, f"@branch:{quote(name)}")).agent_id == name
    with pytest.raises(CheckpointNotFoundError, match=r"The newest checkpoint of the thread is @3"):
        await client.save(name, execution_state={}, session_id=name, parent_id="@77")
    with pytest.raises(CheckpointNotFoundError, match="of that kind"):
        await client.save(
            name, execution_state={}, session_id=name, parent_id=f"@tag:no{quote(name)[:200]}"
        )


@case()
async def several_agents(store: Store) -> None:
    """seq and tag need no agent; the rest does, and the error lists the agents."""
    client = store.client()
    first = await save(client, "s", {"n": 0})
    second = await client.save("b@c", execution_state={"n": 1}, session_id="s")
    await client.tag(second, "t")
    for ref, id in (
        ("s@1", first), ("s@2", second), ("s@tag:t", second), ("s/a@", first),
        ("s/b%40c@", second), ("s/b@c@step:0", second), ("s/b%40c@2", second),
        ("s/b@c@tag:t", second),
    ):  # fmt: skip
        assert (await client.resolve(ref)).checkpoint_id == id, ref
    for ref in ("s@", "s@~0", "s@step:0", "s@branch:main"):
        with pytest.raises(ValueError, match="thread 's' has 2 agents") as caught:
            await client.resolve(ref)
        assert str(caught.value) == (
            "thread 's' has 2 agents: a, b@c. "
            f"Name one: agent_id=..., or 's/a@{ref.removeprefix('s@')}'."
        )
    for ref in ("s/a@2", "s/a@tag:t", "s/nobody@", "s/nobody@1"):
        with pytest.raises(CheckpointNotFoundError):
            await client.resolve(ref)


@case()
async def agents_below_one(store: Store) -> None:
    """Where all agents are below one, `a|...` below `a`, the thread is about that one."""
    client = store.client()
    first = await save(client, "s", {"n": 0})
    inner = await client.save("a|sub:1", execution_state={"n": 1}, session_id="s")
    for ref, id in (("s@", first), ("s@~0", first), ("s/a|sub:1@", inner), ("s@2", inner)):
        assert (await client.resolve(ref)).checkpoint_id == id, ref
    await client.save("ab", execution_state={"n": 2}, session_id="s")
    with pytest.raises(ValueError, match="thread 's' has 3 agents"):
        await client.resolve("s@")


@case()
async def a_count_back_crosses_branches_and_agents(store: Store) -> None:
    """~N and step: follow the parents, wherever those are."""
    client = store.client()
    ids = [await save(client, "s", {"n": number}) for number in range(3)]
    given = await client.handoff(ids[1], "b")
    assert (await client.resolve("s/b@")).checkpoint_id == given
    assert (await client.resolve("s/b@~1")).checkpoint_id == ids[1]
    assert (await client.resolve("s/b@~2")).checkpoint_id == ids[0]
    assert (await client.resolve("s/b@step:0")).checkpoint_id == ids[0]
    move = await client.rewind("s", "s/a@~2")
    assert move.head is not None
    assert (await client.resolve("s/a@~1")).checkpoint_id == ids[0]
    assert (await client.resolve("s/a@step:0")) == move.head, "the newest at that step"
    with pytest.raises(CheckpointNotFoundError):
        await client.resolve("s/a@~2")


@case()
async def a_count_back_leaves_out_what_is_over(store: Store) -> None:
    """Expired and removed ones are not counted."""
    client = store.client()
    ids = [
        await save(client, "s", {"n": n}, ttl_seconds=10 if n in (1, 4) else None) for n in range(6)
    ]
    await client.expire(ids[3])
    assert (await client.resolve("s@~2")).checkpoint_id == ids[2]
    await store.pass_time(11)
    assert [(await client.resolve(f"s@~{n}")).checkpoint_id for n in range(3)] == [
        ids[5], ids[2], ids[0],
    ]  # fmt: skip
    for ref in ("s@~3", "s@step:1", "s@4"):
        with pytest.raises(CheckpointNotFoundError):
            await client.resolve(ref)
    with pytest.raises(CheckpointExpiredError):
        await client.resolve("s@2")


@case(slow=True)
async def a_count_back_through_a_long_line(store: Store) -> None:
    """Past the number of ancestors that are read at a time."""
    client = store.client()
    async with client.run("s", agent_id="a", initial={"n": 0}) as run:
        for number in range(1, 530):
            await run.save({"n": number})
    for back in (1, 254, 255, 256, 257, 511, 512, 529):
        assert (await client.resolve(f"s@~{back}")).seq == 530 - back
        assert (await client.resolve(f"s@step:{back}")).seq == back + 1
    with pytest.raises(CheckpointNotFoundError):
        await client.resolve("s@~530")


@case()
async def tags(store: Store) -> None:
    """A tag moves and tells what it named; taking it away leaves the checkpoint."""
    client = store.client()
    ids = [await save(client, "s", {"n": number}) for number in range(3)]
    assert await client.tag(ids[0], "good") is None
    assert await client.tag("s@", "v1/rc%@2") is None
    assert await store.client().tag("s@2", "good") == ids[0]
    assert await client.tags("s") == {"good": ids[1], "v1/rc%@2": ids[2]}
    assert await client.tag("s@tag:good", "also") is None
    assert await client.untag("s", "good") is True
    assert await client.untag("s", "good") is False
    assert await client.untag("nowhere", "good") is False
    assert await client.tags("s") == {"also": ids[1], "v1/rc%@2": ids[2]}
    assert (await client.restore("s@tag:also")).state == {"n": 1}
    assert len(await headers(client, "s")) == 3
    with pytest.raises(CheckpointNotFoundError):
        await client.tags("nowhere")
    for name in ("", "a\x00", "x" * 256):
        with pytest.raises(ValueError, match="name"):
            await client.tag(ids[0], name)


@case()
async def a_tag_whose_checkpoint_is_gone(store: Store) -> None:
    """It is listed still, leads nowhere and says so; an id that lives again elsewhere is not it."""
    client = store.client()
    chosen = str(uuid4())
    await save(client, "s", {"n": 0}, checkpoint_id=chosen)
    await save(client, "s", {"n": 1}, ttl_seconds=10)
    await save(client, "s", {"n": 2})
    await client.tag(chosen, "removed")
    await client.tag("s@2", "over")
    await client.expire(chosen)
    await store.pass_time(11)
    for where in (None, "t"):
        if where:
            await save(client, where, {"n": "elsewhere"}, checkpoint_id=chosen)
        with pytest.raises(CheckpointNotFoundError, match="its checkpoint was removed"):
            await client.restore("s@tag:removed")
    with pytest.raises(CheckpointExpiredError):
        await client.restore("s@tag:over")
    assert set(await client.tags("s")) == {"removed", "over"}
    assert await client.tag("s@", "removed") == chosen
    assert (await client.restore("s@tag:removed")).state == {"n": 2}
    await client.delete("s")
    await save(client, "s", {"n": "new"})
    assert await client.tags("s") == {}
    with pytest.raises(CheckpointNotFoundError):
        await client.restore("s@tag:removed")


@case()
async def what_errors_say(store: Store) -> None:
    """The ref as it was given, the store, and what there is instead."""
    client = store.client()
    with pytest.raises(CheckpointNotFoundError) as caught:
        await client.resolve("s@")
    assert str(caught.value) == (
        f"No checkpoint 's@' in {client.url} (created just now, 0 threads of tenant 'default'). "
        f"{caught.value.hint}"
    )
    on_a_server = client.url.startswith(("postgresql:", "redis", "unix:"))
    assert caught.value.hint == (
        "Is it in another database, schema, prefix or tenant?"
        if on_a_server
        else "Started from another directory, or for another tenant? Pass the path, or tenant=."
    )
    await small_history(client)
    expected = {
        "s@99": "The newest checkpoint of the thread is @6.",
        "s@~9": "The newest checkpoint of the thread is @6.",
        "s@tag:bad": "What the thread has of that kind: good.",
        "s@branch:no": "What the thread has of that kind: main, side.",
        "s/b@": "The thread has no agent 'b', but a.",
        "s/b@1": "The thread has no agent 'b', but a.",
        "s": "For the thread 's' write 's@'.",
        "t@": "",
        "nonsense": "",
    }
    for ref, hint in expected.items():
        with pytest.raises(CheckpointNotFoundError) as caught:
            await client.resolve(ref)
        shown = f"No checkpoint '{ref}' in {client.url} (created just now, 1 thread)."
        assert (caught.value.message, caught.value.hint) == (shown, hint)
    await client.save("a", execution_state={}, session_id="x/y@z")
    with pytest.raises(
        ValueError, match=r"'z' in ref 'x/y@z' selects nothing.*inside a name is %40"
    ):
        await client.resolve("x/y@z")
    await client.save("a", execution_state={}, session_id="x/y")
    with pytest.raises(CheckpointNotFoundError, match="For the thread 'x/y' write 'x%2Fy@'"):
        await client.resolve("x/y@")


@case()
async def a_parent_by_address(store: Store) -> None:
    """The rules of a parent's id hold for its address."""
    client = store.client()
    ids = [await save(client, "s", {"n": number}) for number in range(3)]
    aside = await client.resolve(await save(client, "s", {"n": "x"}, parent_id="@~1"))
    assert (aside.parent_id, aside.branch) == (ids[1], f"main-{aside.checkpoint_id[-6:]}")
    onward = await client.resolve(await save(client, "s", {"n": "y"}, parent_id="s@"))
    assert (onward.parent_id, onward.branch) == (ids[2], "main")
    with pytest.raises(StaleWriterError):
        await save(client, "s", {}, parent_id="@1", on_conflict="reject")
    await save(client, "t", {"n": "t"})
    with pytest.raises(ValueError, match="another thread"):
        await save(client, "s", {}, parent_id="t@")
    with pytest.raises(CheckpointConflictError):
        await save(client, "s", {"n": "z"}, parent_id="@1", checkpoint_id=ids[0])
    given = await client.resolve(
        await client.save("b", execution_state={}, session_id="s", parent_id="@1")
    )
    assert (given.agent_id, given.parent_id) == ("b", ids[0])


@case("S66")
async def refs_of_another_tenant(store: Store) -> None:
    """No ref leads to another tenant, and the error tells nothing of it."""
    ours, theirs = store.client(tenant="A"), store.client(tenant="B")
    secret = await save(theirs, "s", {"n": "B"}, branch="side")
    await theirs.fork(secret, branch="other")
    await theirs.tag(secret, "t")
    refs = [secret, "s@", "s@~0", "s@1", "s@step:0", "s@tag:t", "s@branch:side", "s/a@", "s/a@1"]
    for own in (False, True):
        if own:
            await save(ours, "u", {"n": "A"})
        for ref in refs:
            for name, method in METHODS.items():
                if name != "save":
                    with pytest.raises(CheckpointNotFoundError):
                        await method(ours, ref)
            assert await ours.expire(ref) is False
        for ask in (ours.branches("s"), ours.tags("s"), ours.undo("s"), ours.switch("s", "other")):
            with pytest.raises(CheckpointNotFoundError):
                await ask
        assert await ours.untag("s", "t") is False
    nowhere = str(uuid4())
    with pytest.raises(CheckpointNotFoundError) as foreign:
        await ours.resolve(secret)
    with pytest.raises(CheckpointNotFoundError) as unknown:
        await ours.resolve(nowhere)
    assert str(foreign.value).replace(secret, nowhere) == str(unknown.value)
    mine = await save(ours, "s", {"n": "A"})
    assert [each.checkpoint_id for each in await ours.walk("s@") if isinstance(each, Header)] == [
        mine
    ]
    with pytest.raises(CheckpointNotFoundError):
        await ours.walk("s@", after=secret)
    assert await theirs.tags("s") == {"t": secret}
