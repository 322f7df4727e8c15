"""A PostgreSQL that is killed, restarted, or ends the connections of its clients."""

import asyncio
import itertools
import os
import random
import signal
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import psycopg
import pytest
from network_bench import hurry, run_behind

from lastgood import BlockingClient, Client
from lastgood.testing.faults.proxy import Proxy
from lastgood.testing.faults.store import fingerprint, view, whole_log
from lastgood.testing.postgres_harness import PostgresHarness
from lastgood.testing.servers import PostgresServer
from lastgood.testing.store import COLOURS, Colour, Store, headers
from lastgood.testing.suite import run_body

WRITERS = 4


@pytest.fixture(scope="module")
def server() -> Iterator[PostgresServer]:
    """One that keeps what it promises, and is ours to kill."""
    with PostgresServer(fsync=True) as one:
        yield one


def kill_all(server: PostgresServer) -> None:
    """kill -9 of the server and of every process of it, at one blow."""
    tree = Path(f"/proc/{server.pid}/task/{server.pid}/children")
    children = [int(pid) for pid in tree.read_text().split()]
    server.kill()
    for pid in children:
        try:
            os.kill(pid, signal.SIGKILL)
        except ProcessLookupError:
            continue


@dataclass
class Writer:
    """Saves in every way there is until it is told to stop."""

    url: str
    name: str
    acked: dict[str, tuple[str, str]] = field(default_factory=dict)
    """Step names to (checkpoint id, fingerprint of the state)."""
    error: BaseException | None = None

    def write(self, stop: threading.Event) -> None:
        client = BlockingClient.open(self.url)
        try:
            with client.run(f"own-{self.name}", initial={"items": [], "n": -1}) as run:
                for number in itertools.count():
                    if stop.is_set():
                        return
                    self.step(client, run, number)
        except BaseException as error:
            self.error = error
        finally:
            client.close()

    def step(self, client: BlockingClient, run: Any, number: int) -> None:
        name = f"{self.name}:{number}"
        item = {"number": number, "text": f"{name} " * 30}
        if number % 3 == 0:
            id, state = run.append("items", item, step_name=name), run.state
        elif number % 3 == 1:
            run.state["n"] = number
            id, state = run.save(step_name=name), run.state
        else:
            state = {"items": [item] * (number % 40)}
            id = client.save("all", session_id="shared", execution_state=state, step_name=name)
        self.acked[name] = id, fingerprint(state)


@pytest.mark.server
def test_an_acknowledged_save_survives_the_death_of_the_server(
    server: PostgresServer, times: Callable[[int], int], rng: random.Random
) -> None:
    """The server is killed under load and started again; writers notice only that it takes long."""
    url = f"{server.url}&schema=death"
    BlockingClient.open(url).threads()
    writers = [Writer(url, f"w{number}") for number in range(WRITERS)]
    stop = threading.Event()
    threads = [threading.Thread(target=writer.write, args=(stop,)) for writer in writers]
    for thread in threads:
        thread.start()
    for _ in range(times(3)):
        before = sum(len(writer.acked) for writer in writers)
        while sum(len(writer.acked) for writer in writers) < before + 40:
            assert not any(writer.error for writer in writers), [w.error for w in writers]
            time.sleep(0.01)
        time.sleep(rng.random() * 0.05)
        kill_all(server)
        server.start()
    stop.set()
    for thread in threads:
        thread.join(60)
    assert [writer.error for writer in writers] == [None] * WRITERS
    check_what_was_kept(url, {k: v for writer in writers for k, v in writer.acked.items()})


def check_what_was_kept(url: str, acked: dict[str, tuple[str, str]]) -> None:
    with BlockingClient.open(url) as client:
        threads = view(client)
        assert client.verify(data=True).clean
        found = {id: print_ for thread in threads.values() for id, print_ in thread.states.items()}
        lost = {name for name, (id, print_) in acked.items() if found.get(id) != print_}
        assert lost == set(), "every acknowledged save is there, as it was"
        names = [h.step_name for name in threads for h in whole_log(client, name) if h.step_name]
        assert sorted(names) == sorted(acked), "and nothing is there twice, or of nobody"


@pytest.mark.server
@pytest.mark.parametrize("colour", COLOURS)
def test_a_restart_between_two_saves_is_not_noticed(
    server: PostgresServer, colour: Colour, tmp_path: Path
) -> None:
    async def body(store: Store) -> None:
        client = store.client()
        async with client.run("s", initial={"n": []}) as run:
            for number in range(3):
                await run.append("n", number)
                server.restart()
            await run.append("n", 3)
        assert (await client.latest(agent_id="agent", session_id="s")).state == {"n": [0, 1, 2, 3]}

    run_body(body, PostgresHarness(tmp_path, server.url), colour)


# connections that the server ends


def end_all(url: str) -> int:
    """End every connection of a client; gives how many there were."""
    with psycopg.connect(url, autocommit=True) as connection:
        found = connection.execute(
            "SELECT pg_terminate_backend(pid) FROM pg_stat_activity"
            " WHERE backend_type = 'client backend' AND pid <> pg_backend_pid()"
        ).fetchall()
    return len(found)


@pytest.mark.server
@pytest.mark.parametrize("colour", COLOURS)
def test_connections_that_were_ended_while_they_lay_idle(
    server: PostgresServer, colour: Colour, tmp_path: Path
) -> None:
    """However many there are, the next operation takes a new one, and no round trip is lost."""

    async def body(store: Store) -> None:
        client = store.client()
        for number in range(3):
            await store.together([lambda n=n: client.log(f"{n}") for n in range(8)])
            assert end_all(server.url) > 1
            began = time.monotonic()
            await client.save("a", session_id="s", execution_state={"n": number})
            assert time.monotonic() - began < 2, "not one failed attempt for each of them"
            end_all(server.url)
            assert len(await headers(client, "s")) == number + 1
            end_all(server.url)
            assert (await client.latest(agent_id="a", session_id="s")).state == {"n": number}

    run_body(body, PostgresHarness(tmp_path, server.url), colour)


@contextmanager
def crowded(harness: PostgresHarness, count: int) -> Iterator[None]:
    """Let statements on threads wait until so many connections have one."""

    def wait() -> None:
        waiting = "SELECT count(*) FROM pg_locks WHERE NOT granted"
        while connection.execute(waiting).fetchone() < (count,):
            time.sleep(0.01)
        connection.rollback()

    with psycopg.connect(harness.url) as connection:
        connection.execute(f"LOCK TABLE {harness.schema}.thread IN ACCESS EXCLUSIVE MODE")
        thread = threading.Thread(target=wait)
        thread.start()
        yield
        thread.join()


@contextmanager
def silenced(url: str) -> Iterator[int]:
    """Let no connection of a client be answered any more, as if they led to a host that is gone;
    gives how many there are. New ones lead to one that is there.
    """
    with psycopg.connect(url, autocommit=True) as connection:
        rows = connection.execute(
            "SELECT pid FROM pg_stat_activity"
            " WHERE backend_type = 'client backend' AND pid <> pg_backend_pid()"
        ).fetchall()
    for (pid,) in rows:
        os.kill(pid, signal.SIGSTOP)
    try:
        yield len(rows)
    finally:
        for (pid,) in rows:
            os.kill(pid, signal.SIGCONT)


@pytest.mark.server
@pytest.mark.parametrize("colour", COLOURS)
def test_connections_that_all_lead_nowhere(
    server: PostgresServer, colour: Colour, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """One of them is waited for, not one after the other."""
    hurry(monkeypatch)

    async def body(store: Store) -> None:
        client = store.client()
        await client.log("s")
        with crowded(store.harness, 4):
            await store.together([lambda n=n: client.log(f"{n}") for n in range(8)])
        with silenced(server.url) as count:
            assert count > 3
            for number in range(3):
                await client.save("a", session_id="s", execution_state={"n": number})
        assert len(await headers(client, "s")) == 3

    run_body(body, PostgresHarness(tmp_path, server.url), colour)


@pytest.mark.server
@pytest.mark.parametrize("colour", COLOURS)
def test_connections_that_are_ended_under_load(
    server: PostgresServer, colour: Colour, tmp_path: Path
) -> None:
    """In the middle of statements, again and again: each save is there once."""

    async def write(client: Client, writer: int) -> list[str]:
        async with client.run(f"run-{writer}", initial={"n": []}) as run:
            return [await run.append("n", number, step_name=f"{number}") for number in range(40)]

    async def body(store: Store) -> None:
        client = store.client()
        await client.threads()
        stop = threading.Event()

        def villain() -> None:
            while not stop.wait(0.05):
                end_all(server.url)

        thread = threading.Thread(target=villain)
        thread.start()
        try:
            done = await store.together([lambda w=w: write(client, w) for w in range(WRITERS)])
        finally:
            stop.set()
            thread.join()
        for writer, ids in enumerate(done):
            assert not isinstance(ids, BaseException), ids
            found = [h.checkpoint_id for h in await headers(client, f"run-{writer}") if h.step_name]
            assert found == ids[::-1]

    run_body(body, PostgresHarness(tmp_path, server.url), colour)


@pytest.mark.server
def test_a_save_waits_while_another_transaction_holds_its_thread(server: PostgresServer) -> None:
    """Readers do not wait."""
    url = f"{server.url}&schema=locked"
    client = BlockingClient.open(url)
    client.save("solo", session_id="t", execution_state={"n": 1})
    holder = psycopg.connect(server.url)
    holder.execute("UPDATE locked.thread SET watched = watched")
    timer = threading.Timer(2.0, holder.rollback)
    timer.start()
    began = time.monotonic()
    assert client.latest(agent_id="solo", session_id="t").state == {"n": 1}
    assert time.monotonic() - began < 1.5
    id = client.save("solo", session_id="t", execution_state={"n": 2})
    assert time.monotonic() - began > 1.5, "it waited for the lock"
    timer.join()
    holder.close()
    assert client.restore(id).state == {"n": 2}
    client.close()


# a save that nobody waits for any more, and that comes late


def waiting(url: str) -> list[int]:
    """The sessions that wait for a lock, in the order in which they began."""
    text = "SELECT pid FROM pg_stat_activity WHERE wait_event_type = 'Lock' ORDER BY query_start"
    with psycopg.connect(url, autocommit=True) as connection:
        return [pid for (pid,) in connection.execute(text)]


async def queued(url: str, count: int) -> list[int]:
    """The same, when there are so many."""
    until = time.monotonic() + 10
    while len(found := waiting(url)) < count:
        assert time.monotonic() < until, found
        await asyncio.sleep(0.01)
    return found


@pytest.mark.server
@pytest.mark.parametrize("lost", [False, True], ids=["heard", "lost"])
def test_a_run_goes_on_from_a_save_of_its_own_that_comes_late(
    server: PostgresServer, lost: bool, tmp_path: Path
) -> None:
    """It was cancelled while it waited for a lock, and the cancel did not get through: its session
    goes on without it. The next step asks what became of it, and that question may be lost too.
    """

    async def body(store: Store) -> None:
        client = store.client(heartbeat_seconds=600)
        async with client.run("s", initial={"n": 0}) as run:
            with psycopg.connect(server.url) as holder:
                schema = store.harness.schema
                holder.execute(f"SELECT 1 FROM {schema}.thread FOR UPDATE")
                late = asyncio.ensure_future(run.save({"n": 1}, step_name="late"))
                (first,) = await queued(server.url, 1)
                proxy.refuse()
                late.cancel()
                await asyncio.wait([late])
                proxy.heal()
                step = asyncio.ensure_future(run.save({"n": 2}, step_name="next"))
                one, other = await queued(server.url, 2)
                assert one == first
                if lost:
                    holder.execute("SELECT pg_terminate_backend(%s)", (other,))
            await step
        found = await headers(client, "s")
        assert [h.step_name for h in found] == ["next", "late", None]

    with Proxy(server.url) as proxy:
        run_behind(proxy, PostgresHarness, server.url, tmp_path, "async", body)
