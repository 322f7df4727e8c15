"""A lane of few checkpoints in a thread where others have saved many, between them and since."""

from __future__ import annotations

from lastgood.client import Client
from lastgood.model import Header
from lastgood.testing.cases import case
from lastgood.testing.store import Store

OTHERS = 1_100
"""More than a store looks through before it looks for a shorter way."""


async def own(client: Client, number: int, ttl: float | None = None) -> str:
    """A save of the agent with few."""
    state = {"n": number}
    return await client.save("own", execution_state=state, session_id="s", ttl_seconds=ttl)


async def others(client: Client, count: int) -> None:
    """Many saves of another agent."""
    async with client.run("s", agent_id="other", initial={}) as run:
        for number in range(count):
            await run.save({"n": number})


async def listed(client: Client, limit: int) -> list[Header]:
    """The log of the agent with few, by the page."""
    page = await client.log("s", agent_id="own", limit=limit)
    found = list(page)
    while page.next is not None:
        page = await client.log("s", agent_id="own", limit=limit, after=page.next)
        found += page
    return found


async def expected(client: Client, handed: set[str]) -> list[Header]:
    """The same by looking at all: its own, and what was handed over from it."""
    every = await client.log("s", limit=2 * OTHERS)
    return [head for head in every if head.agent_id == "own" or head.checkpoint_id in handed]


@case(slow=True)
async def a_lane_of_few(store: Store) -> None:
    """All of it is listed, whichever way it went: forked, rewound, begun anew, handed over."""
    writer = store.client()
    ids = [await own(writer, number) for number in range(6)]
    handed = {await writer.handoff(ids[2], target_agent_id="other")}
    await writer.fork(ids[3], branch="side")
    await writer.rewind("s", ids[4], agent_id="own")
    await writer.save("own", execution_state={}, session_id="s", parent_id=None)
    await others(writer, OTHERS // 2)
    newest = await writer.latest(agent_id="other", session_id="s")
    assert newest is not None
    await writer.handoff(newest.checkpoint_id, target_agent_id="own")
    handed.add(await writer.handoff(ids[0], target_agent_id="third"))
    await own(writer, 6)
    await others(writer, OTHERS)
    client = store.client()
    whole = await expected(client, handed)
    assert len(whole) == 13
    for limit in (3, 50):
        assert await listed(client, limit) == whole
    side = await client.log("s", agent_id="own", branch="side")
    assert [head for head in whole if head.branch == "side"] == list(side) != []
    later = await client.log("s", agent_id="own", since=whole[5].created_at)
    assert list(later) == whole[:6]


@case(slow=True)
async def a_lane_of_few_that_lost_some(store: Store) -> None:
    """What was handed over is listed though what it was made of was removed."""
    writer = store.client()
    ids = [await own(writer, number) for number in range(3)]
    handed = {await writer.handoff(ids[0], target_agent_id="other")}
    await others(writer, OTHERS)
    for id in ids:
        assert await writer.expire(id)
    client = store.client()
    assert [head.checkpoint_id for head in await listed(client, 50)] == list(handed)


@case(slow=True)
async def a_lane_of_few_with_a_time_to_live(store: Store) -> None:
    """What was handed over is listed though what it was made of is over its time."""
    writer = store.client()
    ids = [await own(writer, 0), await own(writer, 1, ttl=60)]
    handed = await writer.handoff(ids[1], target_agent_id="other", ttl_seconds=None)
    await store.pass_time(120)
    ids.append(await own(writer, 2))
    await others(writer, OTHERS)
    found = [head.checkpoint_id for head in await listed(store.client(), 50)]
    assert found == [ids[2], handed, ids[0]]
