"""One block that is entered several times at once: each entry brings back what it saved itself."""

from __future__ import annotations

import asyncio
import contextlib
import functools
import threading
from collections.abc import Callable, Coroutine, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import AsyncExitStack, ExitStack, contextmanager
from typing import Any

import pytest

from lastgood import Checkpointable, CheckpointManager
from lastgood.objects.rollback import Rollback


class Failed(Exception):
    """What ends a block."""


class Agent(Checkpointable):
    def __init__(self) -> None:
        self.count = 0


@pytest.fixture
def agent() -> Agent:
    return Agent()


@pytest.fixture
def block(agent: Agent) -> Rollback:
    return CheckpointManager().rollback_context("k", agent)


def in_a_loop(test: Callable[..., Coroutine[Any, Any, None]]) -> Callable[..., None]:
    @functools.wraps(test)
    def run(*args: Any, **kwargs: Any) -> None:
        asyncio.run(test(*args, **kwargs))

    return run


async def entered(block: Rollback, begin: asyncio.Event, end: asyncio.Event) -> None:
    async with block:
        begin.set()
        await end.wait()
        raise Failed


async def left(task: asyncio.Task[None], end: asyncio.Event) -> None:
    end.set()
    with pytest.raises(Failed):
        await task


@pytest.mark.parametrize("order", [(0, 1), (1, 0)])
@in_a_loop
async def test_two_tasks(agent: Agent, block: Rollback, order: tuple[int, int]) -> None:
    begin, end = [asyncio.Event(), asyncio.Event()], [asyncio.Event(), asyncio.Event()]
    tasks = []
    for number in (0, 1):
        agent.count = number
        tasks.append(asyncio.create_task(entered(block, begin[number], end[number])))
        await begin[number].wait()
    agent.count = 7
    for number in order:
        await left(tasks[number], end[number])
        assert agent.count == number


@pytest.mark.parametrize("order", [(0, 1), (1, 0)])
def test_two_threads(agent: Agent, block: Rollback, order: tuple[int, int]) -> None:
    begin, end = ([threading.Event() for _ in order] for _ in range(2))

    def work(number: int) -> None:
        with block:
            begin[number].set()
            assert end[number].wait(20)
            raise Failed

    with ThreadPoolExecutor(2) as pool:
        working = []
        for number in (0, 1):
            agent.count = number
            working.append(pool.submit(work, number))
            assert begin[number].wait(20)
        agent.count = 7
        for number in order:
            end[number].set()
            assert isinstance(working[number].exception(20), Failed)
            assert agent.count == number


@in_a_loop
async def test_tasks_that_were_begun_inside_of_it(agent: Agent, block: Rollback) -> None:
    """They know that the block around them was entered, and leave it alone."""
    ends = [asyncio.Event(), asyncio.Event()]
    with contextlib.suppress(Failed):
        async with block:
            tasks = []
            for number in (0, 1):
                agent.count, begin = number + 1, asyncio.Event()
                tasks.append(asyncio.create_task(entered(block, begin, ends[number])))
                await begin.wait()
            for number in (0, 1):
                await left(tasks[number], ends[number])
                assert agent.count == number + 1
            agent.count = 7
            raise Failed
    assert agent.count == 0


@in_a_loop
async def test_a_task_that_outlives_the_block_around_it(agent: Agent, block: Rollback) -> None:
    begin, end = asyncio.Event(), asyncio.Event()
    async with block:
        agent.count = 1
        task = asyncio.create_task(entered(block, begin, end))
        await begin.wait()
    agent.count = 7
    await left(task, end)
    assert agent.count == 1


@pytest.mark.parametrize("depth", [1, 2, 5])
def test_it_is_entered_again_inside_of_itself(agent: Agent, block: Rollback, depth: int) -> None:
    def descend(below: int) -> None:
        before = agent.count
        with contextlib.suppress(Failed), block:
            agent.count += 1
            if below:
                descend(below - 1)
            agent.count += 10
            raise Failed
        assert agent.count == before

    descend(depth)
    assert agent.count == 0


def test_it_is_entered_again_after_it_was_left(agent: Agent, block: Rollback) -> None:
    for number in range(3):
        agent.count = number
        with contextlib.suppress(Failed), block:
            agent.count = 7
            raise Failed
        assert agent.count == number


@in_a_loop
async def test_it_is_left_in_another_task_than_it_was_entered_in(
    agent: Agent, block: Rollback
) -> None:
    """As a fixture of a test or a dependency of a web framework is."""
    stack = AsyncExitStack()
    await asyncio.create_task(stack.enter_async_context(block))
    agent.count = 7
    leaving = stack.__aexit__(Failed, Failed(), None)
    assert not await asyncio.create_task(leaving)
    assert agent.count == 0


def test_it_is_left_in_another_thread_than_it_was_entered_in(agent: Agent, block: Rollback) -> None:
    with ThreadPoolExecutor(1) as pool, ThreadPoolExecutor(1) as other:
        for number in range(3):
            agent.count = number
            pool.submit(block.__enter__).result()
            agent.count = 7
            other.submit(block.__exit__, Failed, Failed(), None).result()
            assert agent.count == number


def test_whose_entry_is_left_is_not_guessed(agent: Agent, block: Rollback) -> None:
    with ThreadPoolExecutor(1) as pool, ThreadPoolExecutor(1) as other:
        pool.submit(block.__enter__).result()
        other.submit(block.__enter__).result()
        agent.count = 7
        with pytest.raises(RuntimeError, match="Call rollback_context for each"):
            block.__exit__(Failed, Failed(), None)
        assert agent.count == 7


def test_nothing_is_kept_of_what_was_left(agent: Agent, block: Rollback) -> None:
    """Neither with the block nor with who entered it, though that was elsewhere."""
    from lastgood.objects import rollback

    with ThreadPoolExecutor(1) as pool, ThreadPoolExecutor(1) as other:
        for _ in range(3):
            pool.submit(block.__enter__).result()
            other.submit(block.__exit__, None).result()
        with block:
            pass
        assert len(pool.submit(rollback._ENTERED.get).result()) <= 1
    assert rollback._ENTERED.get() == ()
    assert block._open == {}


@contextmanager
def guarded(block: Rollback) -> Iterator[None]:
    with block:
        yield


def test_it_is_entered_by_a_generator(agent: Agent, block: Rollback) -> None:
    with contextlib.suppress(Failed), guarded(block), ExitStack() as stack:
        agent.count = 1
        stack.enter_context(guarded(block))
        agent.count = 7
        raise Failed
    assert agent.count == 0
