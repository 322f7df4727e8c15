"""A Redis that is killed under load, restarted, or loses what it had acknowledged."""

import itertools
import random
import threading
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
import redis

from lastgood import BlockingClient, CheckpointIntegrityError, CheckpointNotFoundError
from lastgood.testing.faults.store import fingerprint, view, whole_log
from lastgood.testing.redis_harness import RedisHarness
from lastgood.testing.servers import Redis62Server, ValkeyCluster, ValkeyServer
from lastgood.testing.store import COLOURS, Colour, Store
from lastgood.testing.suite import run_body

pytestmark = pytest.mark.server

WRITERS = 4
STATE = {"items": [{"n": n, "text": "word " * 60} for n in range(40)]}


@pytest.fixture(scope="module", params=[ValkeyServer, Redis62Server])
def server(request: pytest.FixtureRequest) -> Iterator[ValkeyServer]:
    """One that keeps what it promises, and is ours to kill."""
    with request.param(fsync=True) as one:
        yield one


@pytest.fixture
def url(server: ValkeyServer, request: pytest.FixtureRequest) -> str:
    return f"{server.url}&prefix={request.node.originalname}"


def write(url: str, name: str, stop: threading.Event, acked: dict[str, tuple[str, str]]) -> None:
    """Save in every way there is until told to stop; note what was acknowledged."""
    with BlockingClient.open(url) as client, client.run(f"own-{name}", initial={"n": []}) as run:
        for number in itertools.count():
            if stop.is_set():
                return
            step = f"{name}:{number}"
            item = {"number": number, "text": f"{step} " * 30}
            if number % 3 == 0:
                id, state = run.append("n", item, step_name=step), run.state
            elif number % 3 == 1:
                run.state["last"] = number
                id, state = run.save(step_name=step), run.state
            else:
                state = {"items": [item] * (number % 40)}
                id = client.save("all", session_id="shared", execution_state=state, step_name=step)
            acked[step] = id, fingerprint(state)


def test_an_acknowledged_save_survives_the_death_of_the_server(
    server: ValkeyServer, url: str, times: Callable[[int], int], rng: random.Random
) -> None:
    """The server is killed under load and started again; writers notice only that it takes long."""
    with BlockingClient.open(url) as client:
        client.threads()
        assert client.durability == "strict"
    stop, acked, errors = threading.Event(), dict[str, tuple[str, str]](), list[BaseException]()

    def work(name: str) -> None:
        try:
            write(url, name, stop, acked)
        except BaseException as error:
            errors.append(error)

    threads = [threading.Thread(target=work, args=(f"w{n}",)) for n in range(WRITERS)]
    for thread in threads:
        thread.start()
    for _ in range(times(3)):
        before = len(acked)
        while len(acked) < before + 40:
            assert errors == []
            time.sleep(0.01)
        time.sleep(rng.random() * 0.05)
        server.kill()
        server.start()
    stop.set()
    for thread in threads:
        thread.join(60)
    assert errors == []
    with BlockingClient.open(url) as client:
        kept = view(client)
        assert client.verify(data=True).clean
        found = {id: print_ for thread in kept.values() for id, print_ in thread.states.items()}
        lost = {name for name, (id, print_) in acked.items() if found.get(id) != print_}
        assert lost == set(), "every acknowledged save is there, as it was"
        names = [h.step_name for name in kept for h in whole_log(client, name) if h.step_name]
        assert sorted(names) == sorted(acked), "and nothing is there twice, or of nobody"


@pytest.mark.parametrize("colour", COLOURS)
def test_a_restart_between_two_saves_is_not_noticed(
    server: ValkeyServer, colour: Colour, tmp_path: Path
) -> None:
    """Scripts are gone from its memory too."""

    async def body(store: Store) -> None:
        client = store.client()
        async with client.run("s", initial={"n": []}) as run:
            for number in range(3):
                await run.append("n", number)
                server.restart()
            await run.append("n", 3)
        assert (await client.latest(agent_id="agent", session_id="s")).state == {"n": [0, 1, 2, 3]}

    run_body(body, RedisHarness(tmp_path, server.url), colour)


class Replica:
    """What an asynchronous replica had got of a store, and the failover to it."""

    def __init__(self, url: str, prefix: str) -> None:
        self.client = redis.Redis.from_url(url)
        self.prefix = prefix
        self.kept = {key: self.client.dump(key) for key in self.keys()}

    def keys(self) -> list[bytes]:
        return list(self.client.scan_iter(f"{self.prefix}:*"))

    def take_over(self) -> None:
        for key in self.keys():
            self.client.unlink(key)
        for key, value in self.kept.items():
            self.client.restore(key, 0, value)


def test_a_failover_that_lost_saves_is_noticed_by_who_goes_on(
    server: ValkeyServer, url: str, request: pytest.FixtureRequest
) -> None:
    """A run that remembers a lost step is refused; a reader of it is told; nobody builds on it."""
    with BlockingClient.open(url) as client, BlockingClient.open(url) as other:
        first = client.save("a", session_id="s", execution_state={"n": 1})
        replica = Replica(server.url, request.node.originalname)
        lost = client.save("a", session_id="s", execution_state={"n": 2})
        replica.take_over()
        with pytest.raises(CheckpointNotFoundError):
            other.restore(lost)
        with pytest.raises(CheckpointNotFoundError):
            client.save("a", session_id="s", execution_state={"n": 3}, parent_id=lost)
        kept = other.save("a", session_id="s", execution_state={"n": 3})
        last = client.save("a", session_id="s", execution_state={"n": 4})
        shown = [(header.checkpoint_id, header.parent_id) for header in other.log("s")]
        assert shown == [(last, kept), (kept, first), (first, None)]
        assert other.verify(data=True).clean
        replica.client.close()


PIECES: dict[str, tuple[str, ...]] = {
    "rows": ("",),
    "checkpoints": (":c",),
    "ids": (":i",),
    "seqs": (":s",),
    "parts": (":p",),
    "all but runs": ("", ":c", ":i", ":s", ":k", ":p", ":z"),
    "all but seqs": ("", ":c", ":i", ":k", ":p", ":z", ":r"),
    "all but links": ("", ":c", ":i", ":s", ":p", ":z", ":r"),
    "all but streams": ("", ":c", ":i", ":s", ":k", ":p", ":r"),
}


@pytest.mark.parametrize("piece", PIECES)
def test_a_piece_of_a_thread_that_is_gone_is_damage(
    piece: str, server: ValkeyServer, url: str, request: pytest.FixtureRequest
) -> None:
    """Thrown away by a server that is full, or lost by a failover: never an older state."""
    thread = f"s-{piece}"

    def asked(client: BlockingClient) -> list[Callable[[], Any]]:
        return [
            lambda: client.latest(agent_id="a", session_id=thread).state,
            lambda: [checkpoint.state for checkpoint in client.timeline("a", thread)],
            lambda: [header.checkpoint_id for header in client.log(thread)],
            lambda: client.restore(ids[1]).state,
            lambda: client.save("a", session_id=thread, execution_state=STATE) and None,
        ]

    with BlockingClient.open(url) as client:
        with client.run(thread, agent_id="b", initial={}):
            pass
        ids = [
            client.save("a", session_id=thread, execution_state={**STATE, "n": number})
            for number in range(3)
        ]
        whole = client.save("a", session_id=f"whole-{piece}", execution_state=STATE)
        before = [ask() for ask in asked(client)[:4]]
    lose(server.url, request.node.originalname, thread, PIECES[piece])
    with BlockingClient.open(url) as client:
        harmed = 0
        for ask, right in zip(asked(client), [*before, None], strict=True):
            try:
                assert ask() == right
            except CheckpointIntegrityError:
                harmed += 1
        assert harmed >= 1
        assert not client.verify().clean
        assert client.restore(whole).state == STATE
        client.save("a", session_id=f"whole-{piece}", execution_state={"goes": "on"})


def lose(url: str, prefix: str, thread: str, suffixes: tuple[str, ...]) -> None:
    """Remove keys of a thread."""
    with redis.Redis.from_url(url) as raw:
        rows = {key: raw.hget(key, "t") or b"" for key in raw.scan_iter(f"{prefix}:*}}")}
        (key,) = (
            key for key, row in rows.items() if b"\xc4%c%s" % (len(thread), thread.encode()) in row
        )
        raw.unlink(*(key + suffix.encode() for suffix in suffixes))


def test_a_node_of_a_cluster_that_dies_and_comes_back(rng: random.Random) -> None:
    """Threads on other nodes go on or wait; every acknowledged save is there, on all of them."""
    with ValkeyCluster(fsync=True) as cluster:
        stop, acked, errors = threading.Event(), dict[str, tuple[str, str]](), list[BaseException]()

        def work(name: str) -> None:
            try:
                write(cluster.url, name, stop, acked)
            except BaseException as error:
                errors.append(error)

        with BlockingClient.open(cluster.url) as client:
            client.threads()
            threads = [threading.Thread(target=work, args=(f"w{n}",)) for n in range(WRITERS)]
            for thread in threads:
                thread.start()
            for node in cluster.nodes[1:]:
                before = len(acked)
                while len(acked) < before + 40:
                    assert errors == []
                    time.sleep(0.01)
                time.sleep(rng.random() * 0.05)
                node.kill()
                cluster.start()
            stop.set()
            for thread in threads:
                thread.join(60)
            assert errors == []
            found = {
                h.step_name: h.checkpoint_id
                for info in client.threads()
                for h in whole_log(client, info.thread_id)
            }
            assert {name: id for name, (id, _) in acked.items()}.items() <= found.items()
            for id, print_ in acked.values():
                assert fingerprint(client.restore(id).state) == print_
            assert client.verify(data=True).clean
