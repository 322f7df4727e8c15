"""Threads of many lanes: a graph makes one for each call of a subgraph, for as long as it lives."""

from __future__ import annotations

from lastgood.backends.tables import COUNTED
from lastgood.client import Client
from lastgood.testing.cases import case
from lastgood.testing.store import Store

MANY = COUNTED + 20
"""More lanes than are counted at every look for one that is not there."""


async def step(client: Client, agent: str, value: object) -> str:
    """A save in "s"."""
    return await client.save(agent, execution_state={"n": value}, session_id="s")


async def many_lanes(client: Client) -> list[str]:
    """The checkpoint of each agent of "s"."""
    return [await step(client, f"agent {number}", number) for number in range(MANY)]


@case(slow=True)
async def one_of_many_lanes(store: Store) -> None:
    """Each has its own line, and who is not there is not: for who wrote it and for who did not."""
    writer = store.client()
    ids = await many_lanes(writer)
    for client in (writer, store.client()):
        assert await client.latest(agent_id="nobody", session_id="s") is None
        assert list(await client.log("s", agent_id="nobody")) == []
        for number in (0, COUNTED, MANY - 1):
            found = await client.latest(agent_id=f"agent {number}", session_id="s")
            assert found is not None
            assert (found.checkpoint_id, found.state) == (ids[number], {"n": number})
            restored = await client.restore(ids[number])
            assert (restored.agent_id, restored.state) == (f"agent {number}", {"n": number})


@case(slow=True)
async def a_page_of_many_lanes(store: Store) -> None:
    """Newest first, each under its agent's name, whichever page it is on."""
    await many_lanes(store.client())
    client = store.client()
    page = await client.log("s", limit=50)
    agents = [header.agent_id for header in page]
    while page.next is not None:
        page = await client.log("s", limit=50, after=page.next)
        agents += [header.agent_id for header in page]
    assert agents == [f"agent {n}" for n in reversed(range(MANY))]


@case(slow=True)
async def from_one_lane_to_another_of_many(store: Store) -> None:
    """A new lane begins, goes on, is forked, is handed to another; the counts go along."""
    client = store.client()
    ids = await many_lanes(client)
    late = await step(store.client(), "late", "late")
    await step(client, "late", "later")
    await client.fork(late, branch="side", switch=True)
    handed = await client.handoff(ids[3], target_agent_id="late")
    newest = await client.latest(agent_id="late", session_id="s")
    assert newest is not None
    assert (newest.checkpoint_id, newest.state) == (handed, {"n": 3})
    (info,) = await client.threads()
    assert len(info.agents) == MANY + 1
    assert (info.checkpoints, info.branches) == (MANY + 4, MANY + 3)
    assert (await client.verify(data=True)).exit_code == 0
