"""Copies that are interrupted, and stores that change meanwhile."""

from __future__ import annotations

from collections.abc import Callable, Sequence

import pytest

from lastgood import (
    BlockingClient,
    CheckpointNotFoundError,
    StorageError,
    ThreadDeletedError,
    TransientStorageError,
)
from lastgood.backend import Section, Sheet
from lastgood.backends.memory import MemoryBackend
from lastgood.client import Client
from lastgood.commits import Intent, Scope, Writes
from lastgood.rows import ARRIVING, ThreadRow
from lastgood.testing.cases import case
from lastgood.testing.copies_cases import copied, elsewhere, same
from lastgood.testing.items_cases import item, put
from lastgood.testing.operations import LARGE, save
from lastgood.testing.store import Store, core_of, driven, headers


async def _arriving(client: Client, thread: str) -> ThreadRow | None:
    core = core_of(client)
    found = await driven(client, core.backend.look(Scope(core.tenant, thread)))
    return found.thread if found.thread and found.thread.state == ARRIVING else None


def _failing(client: Client, after: int) -> Callable[[], None]:
    """Let a client's store refuse all commits but the first few; gives back what ends that."""
    backend, left = core_of(client).backend, after
    whole = backend.commit

    async def refuse(intent: Intent) -> Writes:
        nonlocal left
        left -= 1
        if left < 0:
            raise StorageError("cut off")
        return await whole(intent)

    def end() -> None:
        backend.commit = whole  # type: ignore[method-assign]

    backend.commit = refuse  # type: ignore[method-assign]
    return end


async def _long(client: Client, thread: str = "long", steps: int = 300) -> None:
    """A thread of several pieces."""
    async with client.run(thread, initial={"n": [], "other": []}) as run:
        for number in range(steps):
            path = "n" if number % 3 else "other"
            await run.append(path, f"{number} " * 40)


@case(slow=True)
async def interrupted_at_every_piece(store: Store) -> None:
    """Whenever it ends, nobody sees anything; the next copy goes on, and the result is the same."""
    client = store.client()
    await _long(client)
    for after in range(4):
        target = elsewhere(store, f"to-{after}")
        end = _failing(target, after)
        with pytest.raises(StorageError, match="cut off"):
            await copied(client, target)
        end()
        assert list(await target.threads()) == []
        assert await target.latest(agent_id="agent", session_id="long") is None
        assert (await _arriving(target, "long") is not None) is (after > 0)
        report = await copied(client, target)
        assert (report.threads, report.complete) == (1, True)
        await same(client, target, "long", states=False)
        assert (await target.verify(data=True)).clean


class _Cut(Exception):
    pass


def _cut(*_: object) -> None:
    raise _Cut


@case()
async def checkpoints_that_are_arriving(store: Store) -> None:
    """Whoever knows the name of one does not find it either, until all are there."""
    client, target = store.client(), elsewhere(store)
    saved = await save(client, "s", {"n": 1}, checkpoint_id=None)
    with pytest.raises(_Cut):
        await copied(client, target, progress=_cut)
    assert await _arriving(target, "s") is not None
    for unseen in (saved, "s@", "s@1", "s@branch:main"):
        for use in (target.restore, target.fork, target.resolve):
            with pytest.raises(CheckpointNotFoundError):
                await use(unseen)
        assert await target.expire(unseen) is False
    await copied(client, target)
    assert (await target.restore(saved)).state == {"n": 1}


@case()
async def a_thread_that_is_arriving(store: Store) -> None:
    """It is not there for any reader; no writer gets between; deleting gives it up."""
    client, target = store.client(), elsewhere(store)
    await save(client, "s", LARGE)
    end = _failing(target, 2)
    with pytest.raises(StorageError, match="cut off"):
        await copied(client, target)
    end()
    target = elsewhere(store)
    assert await headers(target, "s") == []
    assert (await target.verify()).threads == 0
    assert (await target.stats()).threads == 0
    for write in (save(target, "s", {}), put(target, "s", item(b"k"))):
        with pytest.raises(TransientStorageError, match="being copied"):
            await write
    with pytest.raises(TransientStorageError, match="being copied"):
        async with target.run("s", initial={}):
            pass
    assert await target.delete("s") is True
    await save(target, "s", {"mine": 1})
    assert (await target.verify(data=True)).clean
    assert [problem.kind for problem in (await copied(client, target)).problems] == ["differs"]


def _writing(store: Store, thread: str, times: int) -> Callable[[int, int], None]:
    """Something to be called between two pieces: saves to the source, so many times."""
    client = store.client()
    twin: BlockingClient = getattr(client, "twin", None) or client.blocking
    left = times

    def save_one(done: int, total: int) -> None:  # noqa: ARG001
        nonlocal left
        if left > 0:
            left -= 1
            twin.save("late", session_id=thread, execution_state={"left": left})
            twin.tag(f"{thread}/late@", "late")

    return save_one


@case()
async def a_thread_that_changes_meanwhile(store: Store) -> None:
    """What is saved while it goes over is in the target too, and it all belongs together."""
    client, target = store.client(), elsewhere(store)
    await _long(client)
    report = await copied(client, target, progress=_writing(store, "long", 2))
    assert (report.threads, report.problems) == (1, ())
    assert len(await headers(target, "long", agent_id="late")) == 2
    await same(client, target, "long", states=False)


@case()
async def a_thread_that_never_stands_still(store: Store) -> None:
    """It is reported, not copied in pieces that never were together."""
    client, target = store.client(), elsewhere(store)
    await save(client, "s", {"n": 0})
    await save(client, "t", {"n": 0})
    report = await copied(client, target, progress=_writing(store, "s", 1000))
    assert [(p.thread, p.kind) for p in report.problems] == [("s", "changing")]
    assert [info.thread_id for info in await target.threads()] == ["t"]
    assert (await copied(client, target)).complete
    await same(client, target, "s", "t")


@case()
async def a_switch_while_the_clock_is_behind(store: Store) -> None:
    """It is noticed though the thread's newest time is ahead: rows of two moments never mix."""
    client, target = store.client(), elsewhere(store)
    store.harness.time.shift = 100.0
    await save(client, "s", {"n": 0})
    await save(client, "s", {"n": 1})
    await client.fork("s@1", branch="side", switch=True)
    store.harness.time.shift = 0.0
    reader, other = store.client(), store.client()
    twin: BlockingClient = getattr(other, "twin", None) or other.blocking
    backend = core_of(reader).backend
    whole = backend.survey

    async def switched_after_lanes(tenant: str, sections: Sequence[Section]) -> list[Sheet]:
        found = await whole(tenant, sections)
        if sections[0].table == "lane":
            backend.survey = whole  # type: ignore[method-assign]
            twin.switch("s", "main")
        return found

    backend.survey = switched_after_lanes  # type: ignore[method-assign]
    assert (await copied(reader, target)).complete
    assert (await target.verify(data=True)).clean
    await same(client, target, "s")


@case(slow=True)
async def removed_while_it_goes_over(store: Store) -> None:
    """What was copied of a thread is not what it is any more: it is copied anew."""
    client, target = store.client(), elsewhere(store)
    await _long(client)
    other = store.client()
    twin: BlockingClient = getattr(other, "twin", None) or other.blocking
    assert (await copied(client, target, progress=lambda *_: twin.expire("long@5"))).complete
    await same(client, target, "long", states=False)
    assert len(await headers(target, "long")) == 300
    given_up = elsewhere(store, "b")
    deleted = await copied(client, given_up, progress=lambda *_: twin.delete("long"))
    assert (deleted.threads, deleted.problems) == (0, ())
    await save(given_up, "long", {"mine": 1})


@case()
async def deleted_since_a_copy_was_interrupted(store: Store) -> None:
    """What had arrived goes, late writers are refused, and the name is free again."""
    client, target = store.client(), elsewhere(store)
    old = await save(client, "s", LARGE)
    end = _failing(target, 2)
    with pytest.raises(StorageError, match="cut off"):
        await copied(client, target)
    end()
    await client.delete("s")
    assert (await copied(client, target, dry_run=True)).complete
    assert await _arriving(target, "s") is not None
    assert (await copied(client, target)).complete
    with pytest.raises(ThreadDeletedError):
        await save(target, "s", {"n": 2}, parent_id=old)
    await save(target, "s", {"mine": 1})
    assert (await target.verify(data=True)).clean


@case()
async def the_remains_of_another_copy(store: Store) -> None:
    """What another copy left of a thread of that name gives way to the one that is copied now."""
    client, target, memory = store.client(), elsewhere(store), store.client_on(MemoryBackend())
    await save(memory, "s", {"other": 1, **LARGE})
    await save(memory, "s", {"other": 2, **LARGE})
    end = _failing(target, 2)
    with pytest.raises(StorageError, match="cut off"):
        await copied(memory, target)
    end()
    await save(client, "s", {"n": 1, **LARGE})
    assert (await copied(client, target)).complete
    await same(client, target, "s")
    assert (await target.verify(data=True)).clean
