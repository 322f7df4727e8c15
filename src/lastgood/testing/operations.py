"""The five operations of the first seed, the builder, chosen ids, and what a checkpoint is."""

from __future__ import annotations

import dataclasses
from datetime import UTC, datetime, timedelta
from typing import Any
from uuid import uuid4

import pytest

from lastgood import (
    Checkpoint,
    CheckpointBuilder,
    CheckpointConflictError,
    CheckpointIntegrityError,
    CheckpointNotFoundError,
    Framework,
    IncompatibleCheckpointError,
)
from lastgood.client import Client
from lastgood.testing.cases import case
from lastgood.testing.store import Store, headers, thread_info

LARGE = {"messages": [f"message {i} " * 20 for i in range(100)]}


async def save(client: Client, thread: str, state: Any, **options: Any) -> str:
    """A save of agent "a"."""
    return await client.save("a", execution_state=state, session_id=thread, **options)


@case()
async def save_and_restore_as_in_the_seed(store: Store) -> None:
    """The first snippet of seed 000."""
    graph_state = {"messages": ["result from step 3"], "step": 3}
    async with store.client() as client:
        checkpoint_id = await client.save(
            agent_id="my-agent",
            framework=Framework.LANGGRAPH,
            execution_state=graph_state,
            context={"run_id": "run-001"},
            step_index=3,
            step_name="after_tool_call",
        )
        checkpoint = await client.restore(checkpoint_id)
    assert checkpoint.execution_state == graph_state
    assert checkpoint.state == graph_state
    assert checkpoint.context == {"run_id": "run-001"}
    assert (checkpoint.step_index, checkpoint.step_name) == (3, "after_tool_call")
    assert checkpoint.framework == "langgraph"
    assert checkpoint.session_id


@case()
async def the_five_operations_of_the_seed(store: Store) -> None:
    """The second snippet of seed 000."""
    async with store.client() as client:
        checkpoint_id = await client.save(
            agent_id="processor",
            framework=Framework.LANGGRAPH,
            execution_state={"n": 1},
            session_id="run-001",
            step_index=7,
            ttl_seconds=3600,
        )
        checkpoint = await client.restore(checkpoint_id)
        handoff_id = await client.handoff(checkpoint_id, target_agent_id="approval-agent")
        history = await client.timeline(agent_id="processor", session_id="run-001")
        assert [c.checkpoint_id for c in history] == [handoff_id, checkpoint_id]
        assert [c.step_index for c in history] == [8, 7]
        assert (checkpoint.ttl_seconds, checkpoint.is_expired()) == (3600, False)
        assert await client.expire(checkpoint_id) is True
        assert await client.expire(checkpoint_id) is False


@case()
async def fields_of_a_checkpoint(store: Store) -> None:
    """The 16 fields of the seed and ours; a checksum of 64 hex digits."""
    client = store.client()
    first = await save(client, "s", {"n": 1}, user_tag="x", metadata={"ttl": 5})
    second = await client.restore(await save(client, "s", {"n": 2}))
    names = {field.name for field in dataclasses.fields(Checkpoint)}
    assert names >= set(
        "checkpoint_id agent_id session_id parent_id framework schema_version step_index step_name "
        "execution_state agent_context metadata created_at ttl_seconds checksum handoff_target "
        "handoff_schema seq branch size digest".split()
    )
    assert (second.parent_id, second.step_index, second.branch) == (first, 1, "main")
    assert (await client.restore(first)).metadata == {"user_tag": "x", "ttl": 5}
    assert len(bytes.fromhex(second.checksum)) == 32
    assert second.created_at.tzinfo == UTC
    assert abs(second.created_at - datetime.now(UTC)) < timedelta(minutes=5)


@case()
async def a_checkpoint_works_without_a_store(store: Store) -> None:
    """verify_integrity, as_dict and from_dict need no client."""
    client = store.client()
    found = await client.restore(await save(client, "s", LARGE, context={"k": (1, 2)}))
    again = Checkpoint.from_dict(found.as_dict())
    assert again == found
    assert again.verify_integrity()
    assert not dataclasses.replace(found, step_index=9).verify_integrity()
    assert not dataclasses.replace(found, metadata={"x": 1}).verify_integrity()
    assert not dataclasses.replace(found, execution_state={}).verify_integrity()
    with pytest.raises(IncompatibleCheckpointError, match=r"9\.9"):
        Checkpoint.from_dict({**found.as_dict(), "schema_version": "9.9"})
    with pytest.raises(dataclasses.FrozenInstanceError):
        found.step_index = 3  # type: ignore[misc]


@case()
async def a_new_thread_for_every_save_without_session(store: Store) -> None:
    """session_id=None makes a new thread."""
    client = store.client()
    one = await client.restore(await client.save("a", execution_state={}))
    two = await client.restore(await client.save("a", execution_state={}))
    assert one.session_id != two.session_id
    assert len(await client.threads()) == 2


@case()
async def what_is_not_there(store: Store) -> None:
    """Each reader says so in its own way, and none makes anything."""
    client = store.client()
    with pytest.raises(CheckpointNotFoundError):
        await client.restore(str(uuid4()))
    with pytest.raises(KeyError):
        await client.restore("x")
    with pytest.raises(CheckpointNotFoundError):
        await client.handoff(str(uuid4()), "b")
    assert await client.expire(str(uuid4())) is False
    assert await client.latest(agent_id="a", session_id="s") is None
    assert await client.timeline("a", "s") == []
    assert len(await client.log("s")) == 0
    assert await client.delete("s") is False
    assert len(await client.threads()) == 0


@case()
async def handoff_goes_to_the_head_of_the_target(store: Store) -> None:
    """One checkpoint in the target's lane, visible in both timelines."""
    client = store.client()
    mine = await save(client, "s", LARGE, context={"c": 1}, tag="t")
    own = await client.save("b", execution_state={"b": 1}, session_id="s")
    given = await client.restore(await client.handoff(mine, "b", "v2", note="look here"))
    assert (given.agent_id, given.handoff_target, given.parent_id) == ("b", "b", mine)
    assert (given.step_index, given.step_name) == (1, "handoff_to_b")
    assert given.handoff_schema == "v2"
    assert given.state == LARGE
    assert given.context == {"c": 1}
    assert given.metadata == {"tag": "t", "handoff_note": "look here"}
    latest = await client.latest(agent_id="b", session_id="s")
    assert latest == given
    for agent, others in (("a", [mine]), ("b", [own])):
        listed = [c.checkpoint_id for c in await client.timeline(agent, "s")]
        assert listed == [given.checkpoint_id, *others]
    assert given.verify_integrity()


@case()
async def handoff_costs_no_second_copy(store: Store) -> None:
    """The state's pages are shared."""
    client = store.client()
    first = await save(client, "s", LARGE)
    before = await thread_info(client, "s")
    await client.handoff(first, "b")
    after = await thread_info(client, "s")
    assert before is not None
    assert after is not None
    assert after.size - before.size < 1024


@case()
async def work_goes_on_after_a_handoff(store: Store) -> None:
    """Both lanes grow on, from what each has."""
    client = store.client()
    first = await save(client, "s", LARGE)
    given = await client.handoff(first, "b")
    more = {"messages": [*LARGE["messages"], "b's own"]}
    theirs = await client.restore(await client.save("b", execution_state=more, session_id="s"))
    ours = await client.restore(await save(client, "s", {"messages": []}))
    assert (theirs.parent_id, theirs.step_index, theirs.state) == (given, 2, more)
    assert (ours.parent_id, ours.state) == (first, {"messages": []})
    assert (await store.client().restore(given)).state == LARGE


@case()
async def timeline_is_newest_first_and_limited(store: Store) -> None:
    """Order of commits, full states, at most `limit`; a limit below 1 is refused."""
    client = store.client()
    for step in (5, 0, 1):
        await save(client, "s", {"step": step}, step_index=step)
    assert [c.state["step"] for c in await client.timeline("a", "s")] == [1, 0, 5]
    assert [c.state["step"] for c in await client.timeline("a", "s", limit=2)] == [1, 0]
    latest = await client.latest(agent_id="a", session_id="s")
    assert latest is not None
    assert latest.step_index == 1
    for limit in (-1, 0):
        with pytest.raises(ValueError, match="limit"):
            await client.timeline("a", "s", limit=limit)


@case()
async def a_shared_timeline_has_the_same_states(store: Store) -> None:
    """States that share what did not change are equal to those that share nothing."""
    client = store.client()
    for step in range(4):
        messages = [*LARGE["messages"], *map(str, range(step))]
        await save(client, "s", {"messages": messages, "step": step})
    shared = await store.client().timeline("a", "s", shared=True)
    assert shared == await client.timeline("a", "s")
    first, last = shared[-1].state["messages"], shared[0].state["messages"]
    assert all(mine is theirs for mine, theirs in zip(first, last, strict=False))


@case()
async def builder_and_put(store: Store) -> None:
    """What a builder makes is stored as it is, checksum included; doing it again is nothing."""
    client = store.client()
    built = (
        CheckpointBuilder("a", Framework.CREWAI)
        .session("s")
        .step(4, "think")
        .execution_state(LARGE)
        .context({"c": (1,)})
        .tag(colour="red")
        .ttl(3600)
        .build()
    )
    assert built.verify_integrity()
    assert await client.put(built) == built.checkpoint_id
    assert await client.put(built) == built.checkpoint_id
    found = await store.client().restore(built.checkpoint_id)
    assert found.checksum == built.checksum
    assert (found.state, found.context, found.metadata) == (LARGE, {"c": (1,)}, {"colour": "red"})
    assert (found.framework, found.step_index, found.step_name) == ("crewai", 4, "think")
    assert len(await client.log("s")) == 1


@case()
async def builder_copies_and_follows_a_parent(store: Store) -> None:
    """A change to the state after `build` touches nothing; the parent must exist."""
    client = store.client()
    state = {"items": [1]}
    first = CheckpointBuilder("a").session("s").execution_state(state).build()
    state["items"].append(2)
    await client.put(first)
    second = CheckpointBuilder("a").session("s").parent(first.checkpoint_id).step(1)
    second_id = await client.put(second.execution_state(state).build())
    assert (await client.restore(first.checkpoint_id)).state == {"items": [1]}
    assert (await client.restore(second_id)).parent_id == first.checkpoint_id
    dangling = CheckpointBuilder("a").session("s").parent(str(uuid4())).build()
    with pytest.raises(CheckpointNotFoundError):
        await client.put(dangling)
    changed = dataclasses.replace(first, execution_state={"items": []})
    with pytest.raises(CheckpointIntegrityError):
        await client.put(changed)


@case()
async def put_with_other_content_is_a_conflict(store: Store) -> None:
    """One id, one content."""
    client = store.client()
    built = CheckpointBuilder("a").session("s").execution_state({"n": 1}).build()
    other = CheckpointBuilder("a").session("s").execution_state({"n": 2}).build()
    await client.put(built)
    renamed = dataclasses.replace(other, checkpoint_id=built.checkpoint_id)
    honest = dataclasses.replace(renamed, checksum=checksum(renamed))
    with pytest.raises(CheckpointConflictError, match=built.checkpoint_id):
        await client.put(honest)
    assert (await client.restore(built.checkpoint_id)).state == {"n": 1}


def checksum(checkpoint: Checkpoint) -> str:
    """The checksum that fits the fields."""
    from lastgood.checkpoints import checksum_of, state_tree

    root = state_tree(checkpoint.codec, checkpoint.execution_state).hash
    return checksum_of(checkpoint, root).hex()


@case()
async def a_chosen_id_is_idempotent(store: Store) -> None:
    """Saving the same content under an id again gives the stored one back, from any client."""
    chosen = str(uuid4())
    for client in (store.client(), store.client()):
        for _ in range(2):
            assert await save(client, "s", LARGE, checkpoint_id=chosen, context={"c": 1}) == chosen
    assert len(await headers(store.client(), "s")) == 1


DIFFERENCES: dict[str, dict[str, Any]] = {
    "state": {"execution_state": {"n": 2}},
    "context": {"context": {"c": 2}},
    "metadata": {"metadata": {"m": 2}},
    "agent": {"agent_id": "b"},
    "thread": {"session_id": "t"},
    "existing thread": {"session_id": "other"},
}


@case(each=DIFFERENCES)
async def a_chosen_id_with_other_content(store: Store, difference: dict[str, Any]) -> None:
    """CheckpointConflictError, and nothing changes."""
    client = store.client()
    await save(client, "other", {"n": 0})
    given: dict[str, Any] = {
        "agent_id": "a",
        "session_id": "s",
        "execution_state": {"n": 1},
        "checkpoint_id": str(uuid4()),
    }
    saved = await client.save(**given)
    with pytest.raises(CheckpointConflictError, match=saved):
        await client.save(**{**given, **difference})
    found = await store.client().restore(saved)
    assert (found.state, found.session_id, found.agent_id) == ({"n": 1}, "s", "a")
    assert len(await client.log("s")) == 1
    assert len(await client.log("other")) == 1


SLIPS = {
    "ttl": "ttl_seconds",
    "thread_id": "session_id",
    "session": "session_id",
    "parent": "parent_id",
    "state": "execution_state",
    "sesion_id": "session_id",
    "step_nmae": "step_name",
    "contex": "context",
}


@case(each={slip: (slip, meant) for slip, meant in SLIPS.items()})
async def a_mistyped_option(store: Store, row: tuple[str, str]) -> None:
    """TypeError that names the option meant; `metadata=` is the unchecked way."""
    slip, meant = row
    client = store.client()
    wanted = (
        f"unknown option {slip!r}: did you mean {meant}? "
        f'To store it as metadata: metadata={{"{slip}": ...}}'
    )
    given: dict[str, Any] = {"agent_id": "a", "execution_state": {}, slip: 5}
    with pytest.raises(TypeError) as caught:
        await client.save(**given)
    assert str(caught.value) == wanted
    assert len(await client.threads()) == 0
    saved = await save(client, "s", {}, metadata={slip: 5}, colour="red")
    assert (await client.restore(saved)).metadata == {slip: 5, "colour": "red"}


@case()
async def threads_are_listed_with_what_they_hold(store: Store) -> None:
    """Newest first, page by page, with counts, agents and the last step."""
    client = store.client(user="ada")
    for number in range(5):
        await save(client, f"s{number}", {"n": number}, step_name=f"step {number}")
    await client.save("b", execution_state=LARGE, session_id="s4", step_name="large")
    first = await client.threads(limit=3)
    rest = await client.threads(limit=3, after=first.next)
    assert [info.thread_id for info in (*first, *rest)] == ["s4", "s3", "s2", "s1", "s0"]
    assert rest.next is None
    newest = first[0]
    assert (newest.checkpoints, newest.agents, newest.last_step) == (2, ("a", "b"), "large")
    assert (newest.user, newest.status) == ("ada", "idle")
    assert newest.size > 10_000


@case()
async def log_filters_and_pages(store: Store) -> None:
    """By agent, branch, step, time and metadata; a page at a time without gaps or repeats."""
    client = store.client()
    for number in range(7):
        await save(
            client, "s", {"n": number}, step_name=f"n{number % 2}", metadata={"odd": number % 2}
        )
    await client.save("b", execution_state={}, session_id="s")
    assert len(await client.log("s")) == 8
    assert len(await client.log("s", agent_id="b")) == 1
    assert [h.seq for h in await client.log("s", metadata={"odd": 1})] == [6, 4, 2]
    assert [h.step_name for h in await client.log("s", step_name="n1")] == ["n1"] * 3
    seqs: list[int] = []
    page = await client.log("s", agent_id="a", metadata={"odd": 0}, limit=2)
    seqs += [header.seq for header in page]
    while page.next:
        page = await client.log("s", agent_id="a", metadata={"odd": 0}, limit=2, after=page.next)
        seqs += [header.seq for header in page]
    assert seqs == [7, 5, 3, 1]
    hour = timedelta(hours=1)
    assert len(await client.log("s", since=datetime.now(UTC) - hour)) == 8
    assert len(await client.log("s", since=datetime.now(UTC) + hour)) == 0
    assert len(await client.log("s", until=datetime.now(UTC) - hour)) == 0
