"""Blocks that are rolled back, and functions whose calls are checkpointed, on any store."""

from __future__ import annotations

import asyncio

import pytest

from lastgood import IncompatibleCheckpointError, checkpoint
from lastgood.testing.cases import case
from lastgood.testing.object_samples import Agent, Worker, manager_on, seen
from lastgood.testing.store import Store


@case()
async def a_block_that_raises_is_rolled_back(store: Store) -> None:
    """The exception goes on; nested blocks bring back their own; a good block keeps its work."""
    manager, agent, worker = manager_on(store.client()), Agent(), Worker()
    agent.memory.append(worker)
    with manager.rollback_context("s", agent):
        agent.reply("kept")
    before = seen(agent)
    with pytest.raises(ZeroDivisionError), manager.rollback_context("s", agent):  # noqa: PT012
        agent.reply("outer")
        outer = seen(agent)
        with pytest.raises(KeyError), manager.rollback_context("s", agent):  # noqa: PT012
            agent.memory.clear()
            worker.done.append("inner")
            raise KeyError("inner")
        assert agent.state_dict() == outer
        raise ZeroDivisionError
    assert agent.state_dict() == before
    assert agent.memory[0] is worker


@case()
async def a_cancelled_task_is_rolled_back(store: Store) -> None:
    """`async with` does the same, also when a task is cancelled."""
    manager, agent = manager_on(store.client()), Agent()
    entered = asyncio.Event()

    async def work() -> None:
        async with manager.rollback_context("s", agent):
            agent.reply("half")
            entered.set()
            await asyncio.sleep(60)

    task = asyncio.create_task(work())
    await entered.wait()
    task.cancel()
    with pytest.raises(asyncio.CancelledError):
        await task
    assert agent.memory == []
    async with manager.rollback_context("s", agent):
        agent.reply("whole")
    assert agent.memory == ["whole"]


@case()
async def several_objects_are_rolled_back_together(store: Store) -> None:
    """With what they share among them; such a checkpoint is for the block alone."""
    manager, one, two = manager_on(store.client()), Agent(), Agent()
    one.memory = two.memory = ["shared"]
    one.config["partner"] = two
    with pytest.raises(RuntimeError), manager.rollback_context("team", one, two):  # noqa: PT012
        one.memory = []
        two.reply("x")
        raise RuntimeError
    assert one.memory is two.memory
    assert one.memory == ["shared"]
    assert one.config["partner"] is two
    with pytest.raises(IncompatibleCheckpointError, match="holds 2 objects"):
        manager.load("team", one)


@case()
async def a_roll_back_needs_no_store(store: Store) -> None:
    """What failed in the block may be the store: here its checkpoint is gone."""
    manager, one, two = manager_on(store.client()), Agent(), Agent()
    before = seen(one)
    with pytest.raises(RuntimeError), manager.rollback_context("s", one):  # noqa: PT012
        one.reply("half")
        manager.delete("s")
        raise RuntimeError
    assert one.state_dict() == before
    with pytest.raises(RuntimeError):  # noqa: PT012
        async with manager.rollback_context("s", one, two):
            one.memory = two.memory = ["half"]
            manager.delete("s")
            raise RuntimeError
    assert one.state_dict() == two.state_dict() == before


@case()
async def calls_are_checkpointed(store: Store) -> None:
    """Every so many calls that return, counted for each key; functions and methods."""
    manager = manager_on(store.client())

    @checkpoint(manager, key="fixed", every=5)
    def process(agent: Agent, message: str) -> str:
        return agent.reply(message)

    @checkpoint(manager, key=lambda _, message: f"for-{message}", every=2)
    def by_key(agent: Agent, message: str) -> None:
        agent.reply(message)
        if agent.call_count == 3:
            raise RuntimeError("does not count")

    agent = Agent()
    assert [process(agent, str(n)) for n in range(20)][-1] == "Reply #20"
    assert [manager.load("fixed", Agent(), nth=n).call_count for n in range(4)] == [20, 15, 10, 5]
    assert len(manager.history("fixed")) == 4
    agent = Agent()
    by_key(agent, "a")
    by_key(agent, message="b")
    with pytest.raises(RuntimeError):
        by_key(agent, "a")
    by_key(agent, "a")
    assert manager.list_keys() == ["fixed", "for-a"]
    assert manager.load("for-a", Agent()).call_count == 4


@case()
async def coroutines_are_checkpointed(store: Store) -> None:
    """The same for coroutine functions; on exception too, if asked."""
    manager = manager_on(store.client())

    @checkpoint(manager, key="async", every=2, on_exception=True)
    async def step(agent: Agent, message: str) -> str:
        await asyncio.sleep(0)
        answer = agent.reply(message)
        if message == "bad":
            raise RuntimeError("bad")
        return answer

    agent = Agent()
    assert await step(agent, "a") == "Reply #1"
    assert manager.history("async") == []
    assert await step(agent, "b") == "Reply #2"
    with pytest.raises(RuntimeError, match="bad"):
        await step(agent, "bad")
    assert len(manager.history("async")) == 2
    assert manager.load("async", Agent()).memory == ["a", "b", "bad"]


@case()
async def who_is_overtaken_does_not_store_what_was_before(store: Store) -> None:
    """A blocking save beside an awaited one, which took the state earlier and is there later."""
    manager, agent = manager_on(store.client()), Agent()

    @checkpoint(manager, key="s")
    async def search(agent: Agent) -> None:
        agent.reply("search")

    @checkpoint(manager, key="s")
    def pay(agent: Agent) -> None:
        agent.reply("pay")

    async def block() -> None:
        async with manager.rollback_context("s", agent):
            pass

    for begun in (lambda: search(agent), block):
        task = asyncio.create_task(begun())  # type: ignore[no-untyped-call]
        await asyncio.sleep(0)
        pay(agent)
        await task
        assert manager.load("s", Agent()).memory == agent.memory
    assert len(manager.history("s")) == 4


@case()
async def the_newest_of_saves_at_once_has_every_change(store: Store) -> None:
    """However many tasks or threads change an object and save it."""
    manager, agent = manager_on(store.client()), Agent()

    async def work(number: int) -> None:
        agent.memory.append(number)
        await manager._keeper.save_async("s", agent)

    for _ in range(5):
        await store.together([lambda n=n: work(n) for n in range(8)])  # type: ignore[misc]
        assert manager.load("s", Agent()).memory == agent.memory
    assert len(manager.history("s")) == 40
