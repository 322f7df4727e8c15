"""Puts whose outcome the writer never learnt: they are its own, whenever they are written."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

import pytest

from lastgood import StaleWriterError, TransientStorageError
from lastgood.backend import Backend
from lastgood.commits import Intent, Writes
from lastgood.testing.checkpointer_cases import T1
from lastgood.testing.checkpointer_store import CheckpointerStore, case


@case(builtin=True)
async def a_writer_knows_its_own_commit(store: CheckpointerStore) -> None:
    """A put whose outcome it never learnt is not somebody else's."""
    checkpointer, other = await store.open(), await store.open()
    config = {"thread_id": "thread-1", "run_id": "run"}
    await checkpointer.aget_state(config)
    for number in range(2):
        with _unanswered(checkpointer._core.backend), pytest.raises(TransientStorageError):
            await checkpointer.aput_state(config, {"n": number})
        assert await other.aget_state(T1) == {"n": number}
    await checkpointer.aput_state(config, {"n": 2})
    with _unanswered(checkpointer._core.backend), pytest.raises(TransientStorageError):
        await checkpointer.aput_state(config, {"n": 3})
    await other.aget_state(T1)
    await other.aput_state(T1, {"n": 4})
    with pytest.raises(StaleWriterError):
        await checkpointer.aput_state(config, {"n": 5})


@case(builtin=True)
async def a_writer_knows_its_own_commit_that_comes_late(store: CheckpointerStore) -> None:
    """A put that was given up, and is written only after the writer has read again."""
    checkpointer = await store.open()
    for number in range(3):
        run = {"run_id": "run"} if number else {}
        config = {"thread_id": f"thread-{number}", **run}
        if number == 2:
            await checkpointer.aput_state(config, {"n": 0})
        before = await checkpointer.aget_state(dict(config))
        with _late(checkpointer._core.backend):
            with pytest.raises(TransientStorageError):
                await checkpointer.aput_state(dict(config), {"n": 1})
            assert await checkpointer.aget_state(dict(config)) == before
            await checkpointer.aput_state(dict(config), {"n": 2})
        assert await checkpointer.aget_state(config) == {"n": 2}


@case(builtin=True)
async def a_writer_knows_its_own_clearing_that_comes_late(store: CheckpointerStore) -> None:
    """It puts a state of its own, as do all."""
    checkpointer = await store.open()
    await checkpointer.aput_state(T1, {"n": 0})
    await checkpointer.aget_state(T1)
    with _late(checkpointer._core.backend):
        with pytest.raises(TransientStorageError):
            await checkpointer.aclear_state(T1)
        assert await checkpointer.aget_state(T1) == {"n": 0}
        await checkpointer.aput_state(T1, {"n": 1})
    assert await checkpointer.aget_state(T1) == {"n": 1}


@case(builtin=True)
async def a_writer_may_try_often(store: CheckpointerStore) -> None:
    """The first attempt was written, and of those after it none, however many there are."""
    checkpointer, config = await store.open(), {"thread_id": "thread-1", "run_id": "run"}
    await checkpointer.aget_state(config)
    backend = checkpointer._core.backend
    with _unanswered(backend), pytest.raises(TransientStorageError):
        await checkpointer.aput_state(config, {"n": 0})
    whole, backend.commit = backend.commit, _unreached
    for number in range(20):
        with pytest.raises(TransientStorageError):
            await checkpointer.aput_state(config, {"n": number})
    backend.commit = whole
    await checkpointer.aput_state(config, {"n": 21})
    assert await checkpointer.aget_state(config) == {"n": 21}


@case(builtin=True)
async def an_own_commit_excuses_nobody_elses(store: CheckpointerStore) -> None:
    """What was read since is gone: that the head is the writer's own again is no excuse."""
    checkpointer, other = await store.open(), await store.open()
    with _unanswered(checkpointer._core.backend), pytest.raises(TransientStorageError):
        await checkpointer.aput_state(T1, {"n": 1})
    await other.aput_state(T1, {"n": 2})
    assert await checkpointer.aget_state(T1) == {"n": 2}
    assert await store.store.client().expire("thread-1@2")
    with pytest.raises(StaleWriterError):
        await checkpointer.aput_state(T1, {"n": 3})
    assert await checkpointer.aget_state(T1) == {"n": 1}
    await checkpointer.aput_state(T1, {"n": 3})


async def _unreached(_: Intent) -> Writes:
    raise TransientStorageError("the server is away.")


@contextmanager
def _late(backend: Backend) -> Iterator[None]:
    """Within the block, the first commit fails, and is made all the same just before the second."""
    whole, held = backend.commit, list[Intent]()

    async def in_the_end(intent: Intent) -> Writes:
        if not held:
            held.append(intent)
            raise TransientStorageError("it takes too long.")
        await whole(held.pop())
        backend.commit = whole  # type: ignore[method-assign]
        return await whole(intent)

    backend.commit = in_the_end  # type: ignore[method-assign]
    yield
    assert backend.commit is whole


@contextmanager
def _unanswered(backend: Backend) -> Iterator[None]:
    """Within the block, commits are made, and the answers are lost."""
    whole = backend.commit

    async def unheard(intent: Intent) -> Writes:
        await whole(intent)
        raise TransientStorageError("the answer was lost.")

    backend.commit = unheard  # type: ignore[method-assign]
    try:
        yield
    finally:
        backend.commit = whole  # type: ignore[method-assign]
