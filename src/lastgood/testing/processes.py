"""Sync, async, threads, processes, forks: any mix, no deadlock, nothing lost.

Cases that need another process run for stores that processes share (`harness.address`); the
others run the same work on several clients and threads of this process.
"""

from __future__ import annotations

import asyncio
import multiprocessing
import os
import signal
import threading
import warnings
from collections.abc import Callable
from concurrent.futures import ProcessPoolExecutor
from contextlib import nullcontext
from functools import partial
from multiprocessing.connection import Connection
from typing import Any, ParamSpec, TypeVar

import pytest

from lastgood import LastgoodError, StaleWriterError
from lastgood.client import BlockingClient, Client
from lastgood.commits import NOTHING, Found, Repeatable, Scope, Taken, Writes
from lastgood.registry import BACKENDS
from lastgood.testing.cases import case
from lastgood.testing.operations import LARGE, save
from lastgood.testing.store import Store, core_of, driven, headers

P = ParamSpec("P")
T = TypeVar("T")


def fresh_processes() -> Any:
    """How to make processes that share nothing with this one but the functions of this module.

    They fork from a process that has imported it, and what backends there are, and done nothing
    else, where there is such a thing: to import it takes longer than most of them live.
    """
    if "forkserver" not in multiprocessing.get_all_start_methods():
        return multiprocessing.get_context("spawn")
    context = multiprocessing.get_context("forkserver")
    backends = sorted(entry.module for entry in BACKENDS.values())
    context.set_forkserver_preload([__name__, *backends])
    return context


FRESH = fresh_processes()


def in_a_fresh_process(work: Callable[P, T], *args: P.args, **kwargs: P.kwargs) -> T:
    """What a function of a module gives in a process that has not imported more than this one."""
    with ProcessPoolExecutor(1, mp_context=FRESH) as pool:
        return pool.submit(work, *args, **kwargs).result()


def phase_elsewhere(url: str, saved: str) -> tuple[str, str, str, int]:
    """Restore the plan of `fidelity` and describe it."""
    from lastgood.testing.models import Plan

    plan: Plan = BlockingClient.open(url).restore(saved).state["plan"]
    return type(plan).__name__, type(plan.phase).__qualname__, plan.phase.name, len(plan.steps)


# promise 1


def save_until_killed(url: str, pipe: Connection) -> None:
    """Save without end; tell of each save after it was acknowledged."""
    with BlockingClient.open(url) as client, client.run("s", initial=LARGE) as run:
        number = 0
        while True:
            number += 1
            pipe.send((number, run.append("messages", f"message {number} " * 20)))


@case("S14")
async def acknowledged_saves_survive_a_kill(store: Store) -> None:
    """Each acknowledged save is there after kill -9, the thread turns stale, a run goes on."""
    if store.harness.address is None:
        await _acknowledged_in_this_process(store)
        return
    ours, theirs = FRESH.Pipe()
    child = FRESH.Process(target=save_until_killed, args=(store.harness.address, theirs))
    child.start()
    told = dict([ours.recv() for _ in range(30)])
    assert child.pid is not None
    os.kill(child.pid, signal.SIGKILL)
    child.join()
    while ours.poll():
        told.update([ours.recv()])
    client = store.client(stale_after_seconds=0.0)
    for number, saved in told.items():
        found = await client.restore(saved)
        assert len(found.state["messages"]) == 100 + number
    assert (await client.threads())[0].status == "stale"
    async with client.run("s") as run:
        assert (run.resumed, run.attempt) == (True, 2)
        assert len(run.state["messages"]) - 100 in (len(told), len(told) + 1)
        await run.append("messages", "after")


async def _acknowledged_in_this_process(store: Store) -> None:
    client = store.client()
    async with client.run("s", initial=LARGE) as run:
        saves = [await run.append("messages", number) for number in range(30)]
    fresh = await store.reopen()
    for number, saved in enumerate(saves):
        assert len((await fresh.restore(saved)).state["messages"]) == 101 + number


# many writers


async def save_many(client: Client, worker: int, threads: int, rounds: int) -> list[str]:
    """So many tasks at once, each with a thread of its own and one that all share."""

    async def saver(number: int) -> list[str]:
        own = f"thread {worker} {number}"
        saves = [
            await client.save("a", execution_state={"n": n, "pad": "x" * 500}, session_id=own)
            for n in range(rounds)
        ]
        shared = await client.save(
            "a", execution_state={"by": own}, session_id="shared", step_name=own
        )
        return [*saves, shared]

    done = await asyncio.gather(*(saver(number) for number in range(threads)))
    return [saved for saves in done for saved in saves]


def save_many_elsewhere(url: str, worker: int, threads: int, rounds: int) -> list[str]:
    """The same in another process, with the default constructor."""
    return asyncio.run(save_many(Client.open(url), worker, threads, rounds))


@case("S25", slow=True)
async def fifty_savers_in_four_processes(store: Store) -> None:
    """No lock error, every row there, one line in the thread that all share."""
    url = store.harness.address
    if url is None:
        done = await store.together(
            [partial(save_many, store.client(), w, 50, 3) for w in range(4)]
        )
    else:
        with ProcessPoolExecutor(4, mp_context=FRESH) as pool:
            jobs = [pool.submit(save_many_elsewhere, url, worker, 50, 3) for worker in range(4)]
            done = [job.result() for job in jobs]
    saves = {saved for saves in done for saved in saves}
    assert len(saves) == 4 * 50 * 4
    client = store.client()
    infos = {info.thread_id: info.checkpoints for info in await client.threads(limit=1000)}
    assert infos.pop("shared") == 200
    assert len(infos) == 200
    assert set(infos.values()) == {3}
    shared = await headers(client, "shared")
    assert {h.branch for h in shared} == {"main"}
    assert [h.parent_id for h in shared[:-1]] == [h.checkpoint_id for h in shared[1:]]


def open_at_once(url: str, worker: int, gate: Any) -> str:
    """Wait for the others, then open the store: half of them by reading."""
    gate.wait(30)
    try:
        with BlockingClient.open(url) as client:
            if worker % 2:
                client.threads()
                client.latest(agent_id="a", session_id="s")
            client.save("a", execution_state={"w": worker}, session_id="s")
    except LastgoodError as error:
        return repr(error)
    return "fine"


@case("S28", slow=True, first=True)
async def eight_processes_open_an_empty_store(store: Store) -> None:
    """All succeed at once, whether their first call reads or writes."""
    url = store.harness.address
    if url is None:
        clients = [store.client() for _ in range(8)]
        await store.together([partial(save, c, "s", {}) for c in clients])
    else:
        with FRESH.Manager() as manager, ProcessPoolExecutor(8, mp_context=FRESH) as pool:
            gate = manager.Barrier(8)
            jobs = [pool.submit(open_at_once, url, worker, gate) for worker in range(8)]
            assert [job.result() for job in jobs] == ["fine"] * 8
    assert len(await headers(store.client(), "s")) == 8


@case("S28", first=True)
async def many_calls_on_a_fresh_store(store: Store) -> None:
    """Twenty first calls of one client at once, half of them reads."""
    client = store.client()
    calls: list[Any] = [partial(save, client, "s", {"n": n}) for n in range(10)]
    calls += [lambda: client.latest(agent_id="a", session_id="s") for _ in range(10)]
    outcomes = await store.together(
        [call for pair in zip(calls[:10], calls[10:], strict=True) for call in pair]
    )
    assert [outcome for outcome in outcomes if isinstance(outcome, BaseException)] == []
    assert len(await headers(client, "s")) == 10


# colours


@case("S27")
async def both_colours_over_one_store(store: Store) -> None:
    """Blocking inside a running loop, async beside it, from threads and other loops."""
    backend = core_of(store.client()).backend
    client = Client.on(backend)
    twin = client.blocking
    first = twin.save("a", execution_state=LARGE, session_id="s")
    second = await client.save("a", execution_state={"n": 2}, session_id="s")
    assert (await client.restore(first)).state == LARGE
    assert twin.restore(second).state == {"n": 2}
    assert (await twin.aio.restore(second)).state == {"n": 2}

    def elsewhere(number: int) -> str:
        if number % 2:
            return twin.save("a", execution_state={"n": number}, session_id="s")
        return asyncio.run(client.save("a", execution_state={"n": number}, session_id="s"))

    saves = await asyncio.gather(*(asyncio.to_thread(elsewhere, number) for number in range(12)))
    with twin.run("s", agent_id="a") as run:
        run.save({"n": "run"})
    async with client.run("s", agent_id="a") as again:
        assert again.state == {"n": "run"}
    assert {h.checkpoint_id for h in await headers(client, "s")} >= {first, second, *saves}
    with Client.on(backend) as sugar:
        assert isinstance(sugar, BlockingClient)
        assert sugar.restore(first).state == LARGE


@case("S27")
async def a_client_is_bound_to_no_loop(store: Store) -> None:
    """One client from one event loop after the other, and after close."""
    client = store.client()

    def in_a_loop(number: int) -> str:
        return asyncio.run(save(client, "s", {"n": number}))

    for number in range(3):
        thread = threading.Thread(target=in_a_loop, args=(number,))
        thread.start()
        thread.join(20)
        assert not thread.is_alive()
    await client.close()
    assert len(await headers(client, "s")) == 3
    await client.close()
    await client.close()


@case("S27")
async def cancelled_calls_hang_nobody(store: Store) -> None:
    """A cancelled caller's save may be there or not; all others are served."""
    client = store.client()
    tasks = [asyncio.ensure_future(save(client, "s", {"n": number})) for number in range(40)]
    await asyncio.sleep(0)
    for task in tasks[::2]:
        task.cancel()
    outcomes = await asyncio.wait_for(asyncio.gather(*tasks, return_exceptions=True), 20)
    kept = {outcome for outcome in outcomes if isinstance(outcome, str)}
    assert len(kept) >= 20
    await save(client, "s", {"n": "last"})
    found = await headers(client, "s")
    assert {h.checkpoint_id for h in found} >= kept
    assert [h.parent_id for h in found[:-1]] == [h.checkpoint_id for h in found[1:]]


class Explosive(Repeatable):
    """An intent whose decision fails in a way that nobody foresaw."""

    scope = Scope("default", "explosive")

    def decide(self, found: Found, taken: Taken = NOTHING) -> Writes:  # noqa: ARG002
        raise ZeroDivisionError


@case()
async def one_refused_save_among_many(store: Store) -> None:
    """A refusal of any sort undoes only itself, also when commits are put together."""
    client = store.client()
    end = await save(client, "end", {}, step_index=(1 << 62) - 1)
    await save(client, "s1", {})
    calls: list[Any] = [partial(save, client, f"s{n}", {"n": n}) for n in range(20)]
    calls.insert(5, lambda: save(client, "s1", {}, parent_id=end))
    calls.insert(12, lambda: driven(client, core_of(client).backend.commit(Explosive())))
    outcomes = await asyncio.wait_for(store.together(calls), 20)
    assert isinstance(outcomes.pop(12), ZeroDivisionError)
    assert isinstance(outcomes.pop(5), ValueError)
    assert [outcome for outcome in outcomes if not isinstance(outcome, str)] == []
    assert len(await asyncio.wait_for(client.threads(), 20)) == 21


# forks


def fork(work: Callable[[], None]) -> int:
    """Run work in a forked child; gives its pid. The child never returns."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", DeprecationWarning)
        pid = os.fork()
    if pid:
        return pid
    code = 1
    try:
        thread = threading.Thread(target=work)  # a fresh thread has no running loop
        thread.start()
        thread.join(30)
        code = 1 if thread.is_alive() else 0
    finally:
        os._exit(code)


async def exit_code(pid: int) -> int:
    """Wait for a child."""
    _, how = await asyncio.to_thread(os.waitpid, pid, 0)
    return os.waitstatus_to_exitcode(how)


def shared(store: Store) -> bool:
    """Whether a forked child works on the same data; otherwise it has a copy of its own."""
    if not hasattr(os, "fork"):
        pytest.skip("no fork on this system")
    return store.harness.address is not None


@case()
async def a_fork_between_two_saves(store: Store) -> None:
    """Parent and child go on with the same client; everything of both is there."""
    client = store.client()
    await save(client, "s", LARGE)

    def child() -> None:
        for number in range(5):
            asyncio.run(save(client, "child", {**LARGE, "n": number}))
        asyncio.run(client.close())

    pid = fork(child)
    for number in range(5):
        await save(client, "parent", {**LARGE, "n": number})
    assert await exit_code(pid) == 0
    await save(client, "s", {"n": 2})
    fresh = await store.reopen()
    assert [len(await headers(fresh, thread)) for thread in ("s", "parent")] == [2, 5]
    states = [c.state for c in await fresh.timeline("a", "child")]
    assert states == ([{**LARGE, "n": n} for n in (4, 3, 2, 1, 0)] if shared(store) else [])


@case()
async def a_child_that_outlives_its_parents_connection(store: Store) -> None:
    """The parent closes first; what the child saves afterwards is still in the store."""
    client = store.client()
    await save(client, "s", LARGE)
    gate, opened = os.pipe()

    def child() -> None:
        asyncio.run(save(client, "child", {"n": 0}))
        os.read(gate, 1)
        for number in range(1, 5):
            asyncio.run(save(client, "child", {**LARGE, "n": number}))

    pid = fork(child)
    await save(client, "s", {"n": 1})
    await store.close()
    os.write(opened, b"x")
    assert await exit_code(pid) == 0
    os.close(gate)
    os.close(opened)
    assert len(await headers(store.client(), "child")) == (5 if shared(store) else 0)


@case()
async def a_fork_inside_of_a_run(store: Store) -> None:
    """The child may go on with the run; the parent's next save is then rejected, loudly."""
    client = store.client(heartbeat_seconds=0.05)
    async with client.run("s", initial=LARGE) as run:
        await run.append("messages", "before")
        base = run.base
        pid = fork(lambda: asyncio.run(_append(run)))
        assert await exit_code(pid) == 0
        with pytest.raises(StaleWriterError) if shared(store) else nullcontext():
            await run.append("messages", "parent")
        found = await headers(client, "s")
        assert found[0].parent_id == base


async def _append(run: Any) -> None:
    await run.append("messages", "child")
