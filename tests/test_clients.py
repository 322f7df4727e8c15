"""Clients as objects: how they are opened, what they refuse, what they leave behind."""

from __future__ import annotations

import asyncio
import copy
import dataclasses
import gc
import math
import pickle
import random
import re
import sqlite3
import sys
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import closing
from datetime import datetime, timedelta
from pathlib import Path
from typing import Any

import pytest

from lastgood import (
    BackendConnectionError,
    BlockingClient,
    Client,
    LastgoodError,
    TransientStorageError,
    register,
)
from lastgood.backends.null import NullBackend
from lastgood.backends.remote.attempts import Tries
from lastgood.cache import TreeCache
from lastgood.manifest import Stored
from lastgood.tree import Leaf

COLOURS = (Client, BlockingClient)


def save(client: BlockingClient, n: int, thread: str = "s") -> str:
    return client.save("a", execution_state={"n": n}, session_id=thread)


@pytest.fixture
def place(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(tmp_path)
    return tmp_path


@pytest.fixture(params=COLOURS, ids=["Client", "BlockingClient"])
def colour(request: pytest.FixtureRequest) -> Any:
    return request.param


# the wrong colour


def test_a_run_of_an_async_client_says_how_it_is_entered() -> None:
    words = "a Run is entered with `async with`. In code without async use a BlockingClient"
    with pytest.raises(TypeError, match=re.escape(words)), Client.memory().run("s", initial={}):  # type: ignore[attr-defined]
        pass


@pytest.mark.parametrize(
    "entered", [lambda c: c, lambda c: c.run("s", initial={})], ids=["client", "run"]
)
def test_what_blocks_says_how_it_is_entered(entered: Callable[..., Any]) -> None:
    async def enter() -> None:
        async with entered(BlockingClient.memory()):
            pass

    words = r"a Blocking\w+ is entered with `with`\. In async code use a Client, or client\.aio"
    with pytest.raises(TypeError, match=words):
        asyncio.run(enter())


# addresses and options


@pytest.mark.parametrize(
    ("option", "said"),
    [
        ("durabilty", "unknown option 'durabilty': did you mean durability?"),
        ("tennant", "unknown option 'tennant': did you mean tenant?"),
        ("serde", "unknown option 'serde'. There are: before_save, "),
        ("pool_size", "this kind of store takes no 'pool_size'."),
        ("zzz", "unknown option 'zzz'. There are: before_save, cache_bytes, "),
    ],
)
def test_an_option_that_is_none(colour: Any, place: Path, option: str, said: str) -> None:
    with pytest.raises(TypeError, match=re.escape(said)):
        colour.sqlite(**{option: "x"})


@pytest.mark.parametrize(
    ("url", "option", "said"),
    [
        ("postgres://h/d", "pool_size", "write it into the address, as ?pool_size=..."),
        ("host=h", "schema", "write it into the address, as ?schema=..."),
        ("rediss://h", "prefix", "write it into the address, as ?prefix=..."),
        ("postgresql://h/d", "cache", "Client.postgres(..., cache=...) does."),
        ("redis://h", "cache", "this kind of store takes no 'cache'."),
        ("memory:", "pool_size", "this kind of store takes no 'pool_size'."),
    ],
)
def test_an_option_that_an_address_has_or_nobody(
    colour: Any, url: str, option: str, said: str
) -> None:
    with pytest.raises(TypeError, match=re.escape(said)):
        colour.open(url, **{option: "x"})


BAD_ADDRESSES = {
    "no slashes": "sqlite:agent.db",
    "two slashes": "sqlite://agent.db",
    "options": "sqlite:///a.db?mode=ro",
    "fragment": "sqlite:///a.db#x",
    "unknown": "mysql://localhost/x",
    "a path": "agent.db",
    "memory file": "sqlite:///:memory:",
}


@pytest.mark.parametrize("url", BAD_ADDRESSES.values(), ids=BAD_ADDRESSES)
def test_an_address_that_is_none(colour: Any, url: str, place: Path) -> None:
    with pytest.raises(ValueError, match=r"sqlite:///|memory"):
        colour.open(url)
    assert list(place.iterdir()) == []


@pytest.mark.parametrize("url", ["sqlite:agent.db", "sqlite:///a.db?mode=ro"])
def test_a_wrong_sqlite_address_shows_a_right_one(colour: Any, url: str) -> None:
    with pytest.raises(ValueError, match=r"sqlite:///rel\.db"):
        colour.open(url)


@pytest.mark.parametrize("name", ["a?b#c%20.db", "100%25.db", "plain name.db"])
def test_the_address_of_a_client_opens_the_same_store(name: str, place: Path) -> None:
    for made in (BlockingClient.sqlite(place / name), BlockingClient.files(place / f"{name}.d")):
        with made as client:
            saved, url = save(client, 1), client.url
        with BlockingClient.open(url) as again:
            assert again.restore(saved).verify_integrity()


def test_an_address_is_decoded(place: Path) -> None:
    for url, name in (
        ("sqlite:///a%20b.db", "a b.db"),
        (f"sqlite:///{place}/100%25.db", "100%.db"),
        ("sqlite:///plain.db", "plain.db"),
    ):
        with BlockingClient.open(url) as client:
            saved = save(client, 1)
        assert (place / name).exists()
        with BlockingClient.sqlite(place / name) as client:
            assert client.restore(saved).state == {"n": 1}


def test_a_sqlite_file_in_memory_is_refused(colour: Any, place: Path) -> None:
    with pytest.raises(ValueError, match=r"Client\.memory\(\)"):
        colour.sqlite(":memory:")
    assert list(place.iterdir()) == []


def test_durability_by_address(colour: Any, place: Path) -> None:
    assert colour.open("sqlite:///a.db", durability="relaxed").durability == "relaxed"
    assert colour.open("sqlite:///a.db").durability == "strict"
    with pytest.raises(ValueError, match="durability"):
        colour.open("memory:", durability="strict")
    with pytest.raises(ValueError, match="durability"):
        colour.open("sqlite:///a.db", durability="none")


def test_a_connection_is_no_path(colour: Any, place: Path) -> None:
    with closing(sqlite3.connect(":memory:")) as connection:
        words = "path must be the path of a file, not a Connection: connections are opened where"
        with pytest.raises(TypeError, match=words):
            colour.sqlite(connection)


@pytest.mark.parametrize("factory", ["sqlite", "memory", "null", "open"])
def test_an_unknown_option(colour: Any, factory: str, place: Path) -> None:
    arguments = ("memory:",) if factory == "open" else ()
    with pytest.raises(TypeError, match=r"tenat.*tenant") as caught:
        getattr(colour, factory)(*arguments, tenat="x")
    for option in ("before_save", "cache_bytes", "strict_types", "types", "user"):
        assert option in str(caught.value)
    assert "__init__" not in str(caught.value)
    assert list(place.iterdir()) == []


BAD_VALUES: dict[str, list[Any]] = {
    "heartbeat_seconds": [0, -1, math.nan, math.inf, 1e10, 10**40, "1", True, None],
    "stale_after_seconds": [-1, math.nan, "60", None],
    "max_state_bytes": [-1, 0, "x", 1.5, None],
    "cache_bytes": [-1, "x", 1.5, None],
    "types": [[3], ["Order"], 3, None, dict],
    "strict_types": ["0", 1, None],
    "before_save": [3, "f"],
}


@pytest.mark.parametrize(
    ("option", "value"),
    [(option, value) for option, values in BAD_VALUES.items() for value in values],
)
def test_an_option_that_cannot_be_is_told_at_the_opening(option: str, value: Any) -> None:
    with pytest.raises((TypeError, ValueError), match=option):
        BlockingClient.memory(**{option: value})


@pytest.mark.parametrize("value", [3, None, b"store"])
def test_a_directory_is_told_by_its_name(colour: Any, value: Any, place: Path) -> None:
    with pytest.raises(TypeError, match="directory must be the path of a directory"):
        colour.files(value)
    assert list(place.iterdir()) == []


def test_options_at_their_limits() -> None:
    made = BlockingClient.memory(
        heartbeat_seconds=0.001,
        stale_after_seconds=math.inf,
        max_state_bytes=1 << 40,
        cache_bytes=0,
        types=iter([Leaf]),
        before_save=None,
    )
    with made.run("s", initial={}), BlockingClient.memory(stale_after_seconds=0):
        assert made.threads()[0].status == "running"


@pytest.mark.parametrize("given", ["x.db", Path("x.db")], ids=["text", "path"])
def test_a_constructor_called_with_a_path(colour: Any, given: Any, place: Path) -> None:
    with pytest.raises(TypeError, match=rf"\b{colour.__name__}\.sqlite\("):
        colour(given)
    assert list(place.iterdir()) == []


def test_a_constructor_called_with_an_address(colour: Any) -> None:
    with pytest.raises(TypeError, match=rf"\b{colour.__name__}\.(open|sqlite|memory)\("):
        colour("memory:")


def test_a_checkpoint_travels_between_processes(place: Path) -> None:
    with BlockingClient.sqlite(place / "a.db") as client:
        made = client.save("a", session_id="s", execution_state={"when": {1, 2}}, team="ap")
        found, header = client.restore(made), client.resolve(made)
    for value in (found, header):
        assert pickle.loads(pickle.dumps(value)) == value
    assert pickle.loads(pickle.dumps(found)).verify_integrity()


def _stale(client: BlockingClient) -> None:
    base = client.save("a", session_id="s", execution_state={})
    client.save("a", session_id="s", execution_state={})
    client.save("a", session_id="s", execution_state={}, parent_id=base, on_conflict="reject")


def _several(client: BlockingClient) -> None:
    for agent in ("a", "b"):
        client.save(agent, session_id="s", execution_state={})
    client.latest(session_id="s")


REFUSED: dict[str, Callable[[BlockingClient], object]] = {
    "stale": _stale,
    "several agents": _several,
    "not there": lambda client: client.restore("none"),
    "not kept": lambda client: client.save("a", execution_state={"path": [print]}),
}


@pytest.mark.parametrize("work", REFUSED.values(), ids=REFUSED)
def test_an_error_travels_between_processes(work: Callable[[BlockingClient], object]) -> None:
    """One that cannot be read on the other side ends a pool of workers."""
    with BlockingClient.memory() as client, pytest.raises((LastgoodError, ValueError)) as raised:
        work(client)
    error = raised.value
    error.add_note("in worker 7")
    for again in (pickle.loads(pickle.dumps(error)), copy.copy(error)):
        assert (type(again), again.args, vars(again)) == (type(error), error.args, vars(error))
        assert str(again) == str(error)


def test_a_client_is_not_pickled(colour: Any, place: Path) -> None:
    for client in (colour.memory(), colour.sqlite("x.db"), colour.null()):
        with pytest.raises(TypeError, match="in each process"):
            pickle.dumps(client)


def test_a_step_name_in_the_place_of_the_state() -> None:
    client = BlockingClient.memory()
    with client.run("s", initial={"n": 0}) as run:
        with pytest.raises(TypeError, match="step_name"):
            run.save("fetch")
        assert run.state == {"n": 0}
        run.save(step_name="fetch")
    assert [header.step_name for header in client.log("s")] == ["fetch", None]

    async def play() -> None:
        async with client.aio.run("t", initial={"n": 0}) as run:
            with pytest.raises(TypeError, match="step_name"):
                await run.save("fetch")
            assert run.state == {"n": 0}

    asyncio.run(play())


# files that vanish


def _removed(path: Path) -> None:
    for file in path.parent.glob(f"{path.name}*"):
        file.unlink()


def _moved(path: Path) -> None:
    for file in list(path.parent.glob(f"{path.name}*")):
        file.rename(file.with_name(f"old-{file.name}"))


def _replaced(path: Path) -> None:
    other = path.with_name("other.db")
    with BlockingClient.sqlite(other) as client:
        save(client, 99, "theirs")
    _removed(path)
    other.rename(path)


@pytest.mark.parametrize("vanish", [_removed, _moved, _replaced])
def test_a_file_that_vanishes_while_it_is_open(vanish: Callable[[Path], None], place: Path) -> None:
    """The next save says so, the one after it is in the file that is there now."""
    path = place / "x.db"
    client = BlockingClient.sqlite(path)
    for number in range(3):
        save(client, number)
    client.latest(agent_id="a", session_id="s")
    vanish(path)
    with pytest.raises(BackendConnectionError, match="removed or replaced"):
        save(client, 3)
    saved = save(client, 4, "new")
    assert client.restore(saved).state == {"n": 4}
    for reader in (client, BlockingClient.sqlite(path)):
        expected = {"new", "theirs"} if vanish is _replaced else {"new"}
        assert {info.thread_id for info in reader.threads()} == expected
        assert reader.restore(saved).state == {"n": 4}


def test_a_run_whose_file_vanishes(place: Path) -> None:
    """No step is acknowledged that is nowhere."""
    client = BlockingClient.sqlite(place / "x.db", heartbeat_seconds=600)
    run = client.run("s", initial={"n": 0})
    run.__enter__()
    _removed(place / "x.db")
    for number in (1, 2):
        with pytest.raises(Exception, match=r".") as caught:
            run.save({"n": number})
        assert type(caught.value).__module__ == "lastgood.errors"
    with BlockingClient.sqlite(place / "x.db") as other:
        assert len(other.threads()) == 0


# threads


def ours() -> set[threading.Thread]:
    return {thread for thread in threading.enumerate() if thread.name.startswith("lastgood-")}


@pytest.fixture
def started() -> Callable[[], set[threading.Thread]]:
    """The threads of ours that this test began."""
    gc.collect()
    gc.freeze()  # the test collects until its threads are gone: only what it makes itself
    before = ours()
    return lambda: ours() - before


def ended(started: Callable[[], set[threading.Thread]]) -> bool:
    end = time.monotonic() + 5
    while started() and time.monotonic() < end:
        gc.collect()
        time.sleep(0.01)
    return not started()


@pytest.mark.parametrize("kind", [Client, BlockingClient])
def test_a_client_of_either_kind_gives_both(kind: type[Client | BlockingClient]) -> None:
    client = kind.memory()
    id = client.blocking.save("a", execution_state={"n": 1}, session_id="s")
    found = asyncio.run(client.aio.restore(id))
    assert found.state == client.blocking.restore(id).state == {"n": 1}


def test_one_worker_for_all_twins(started: Callable[[], set[threading.Thread]]) -> None:
    client = BlockingClient.memory()
    kept: list[Any] = []

    async def play() -> None:
        for number in range(50):
            kept.append(client.aio if number % 2 else client.aio.blocking.aio)
            await kept[-1].save("a", execution_state={}, session_id="s")
            kept[-1].blocking.save("a", execution_state={}, session_id="s")
            assert len(started()) == 1

    asyncio.run(play())
    assert len(client.log("s", limit=200)) == 100


@pytest.mark.parametrize("factory", ["sqlite", "memory", "null"])
def test_close_leaves_no_thread(
    factory: str, place: Path, started: Callable[[], set[threading.Thread]]
) -> None:
    async def play() -> None:
        client = getattr(Client, factory)(heartbeat_seconds=0.01)
        for _ in range(2):  # closing is not the end: the next call opens again
            async with client.run("s", initial={"n": 0}) as run:
                await run.save({"n": 1})
                assert {thread.name for thread in started()} == {
                    "lastgood-worker",
                    "lastgood-pulse",
                }
            await client.close()
            assert ended(started), started()
        await client.close()
        assert ended(started), started()

    asyncio.run(play())
    client = getattr(BlockingClient, factory)(heartbeat_seconds=0.01)
    with client, client.run("s", initial={"n": 0}) as run:
        run.save({"n": 1})
        assert {thread.name for thread in started()} == {"lastgood-pulse"}
    assert ended(started), started()


def test_a_client_that_is_forgotten_leaves_no_thread(
    place: Path, started: Callable[[], set[threading.Thread]]
) -> None:
    for factory in (Client.memory, Client.sqlite):
        asyncio.run(factory().save("a", execution_state={}))
    assert ended(started), started()


def _enter_and_forget(client: Any) -> None:
    async def enter() -> None:
        await client.run("s", initial={}).__aenter__()

    if isinstance(client, BlockingClient):
        client.run("s", initial={}).__enter__()
    else:
        asyncio.run(enter())


@pytest.mark.parametrize("client_stays", [True, False], ids=["client stays", "client goes"])
def test_a_run_that_is_forgotten_leaves_no_thread(
    colour: Any, client_stays: bool, place: Path, started: Callable[[], set[threading.Thread]]
) -> None:
    """A run that was never left stops beating when nobody holds it any more."""
    client = colour.sqlite("x.db", heartbeat_seconds=0.01)
    _enter_and_forget(client)
    held = client if client_stays else None
    del client
    end = time.monotonic() + 5
    while any("pulse" in t.name for t in started()) and time.monotonic() < end:
        gc.collect()
        time.sleep(0.01)
    assert [t.name for t in started() if "pulse" in t.name] == []
    assert held is None or held.url
    watcher = BlockingClient.sqlite("x.db", stale_after_seconds=0.0)
    assert [info.status for info in watcher.threads()] == ["stale"]


# the cache


def test_a_cache_under_threads_keeps_its_count() -> None:
    """Its weight is the sum of its entries, and what it holds is right."""
    cache = TreeCache(20_000)
    trees = {b"%d" % n: Stored(Leaf(b"x" * (n * 300))) for n in range(10)}
    errors: list[BaseException] = []

    def work(seed: int) -> None:
        try:
            for number in range(3000):
                id = b"%d" % ((number * 7 + seed) % 10)
                parent = b"%d" % ((number + seed) % 10)
                cache.put(id, trees[id], instead_of=parent if number % 3 else b"")
                found = cache.get(parent)
                assert found is None or found is trees[parent]
        except BaseException as error:
            errors.append(error)

    interval = sys.getswitchinterval()
    sys.setswitchinterval(1e-6)
    try:
        threads = [threading.Thread(target=work, args=(seed,)) for seed in range(4)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
    finally:
        sys.setswitchinterval(interval)
    assert errors == []
    entries = cache._entries.values()
    assert cache.weight == sum(entry.weight for entry in entries)
    assert cache.weight <= cache.limit
    assert entries


# the backend that keeps nothing


def test_null_goes_on_for_the_other_of_two() -> None:
    for leaver in (0, 1):
        client = BlockingClient.null()
        runs = [client.run("s", initial={"m": [0]}), client.run("s")]
        for run in runs:
            run.__enter__()
        runs.pop(leaver).__exit__(None, None, None)
        stayed = runs.pop()
        stayed.append("m", 1)
        stayed.save({"m": [2]})
        stayed.append("m", 3)
        assert stayed.state == {"m": [2, 3]}
        stayed.__exit__(None, None, None)
        with client.run("s", initial={"m": []}) as again:
            assert again.state == {"m": []}


def test_null_keeps_nothing_of_one_tenant_for_a_run_of_another() -> None:
    backend = NullBackend()
    one, other = (BlockingClient.on(backend, tenant=tenant) for tenant in ("one", "other"))
    with one.run("s", initial={}):
        with other.run("s", initial={"n": 0}) as run:
            run.save({"n": 1})
        with other.run("s", initial={"n": 0}) as run:
            assert run.state == {"n": 0}
    assert shelved(backend) == {}


def shelved(backend: NullBackend) -> dict[str, int]:
    """How much there is on each shelf."""
    fields = (
        (f.name, getattr(backend.shelves, f.name)) for f in dataclasses.fields(backend.shelves)
    )
    return {name: len(shelf) for name, shelf in fields if isinstance(shelf, dict) and shelf}


def test_null_keeps_nothing() -> None:
    backend = NullBackend()
    client = BlockingClient.on(backend)
    large = {"m": ["x" * 100] * 100}
    for number in range(500):
        save(client, number, f"thread {number}")
        client.save("a", execution_state={**large, "n": number})
    assert shelved(backend) == {}
    with client.run("s", initial=large) as run:
        run.save({**large, "n": 1})
        before = shelved(backend)
        for number in range(20):
            client.save("a", execution_state={**large, "n": number})
        assert shelved(backend) == before
    with pytest.raises(ZeroDivisionError), client.run("s", initial=large):
        raise ZeroDivisionError
    with client.run("s", initial=large) as run:
        run.finish()
    assert shelved(backend) == {}


def test_who_gives_a_path_for_an_address_is_shown_the_address() -> None:
    for path, address in {
        "/data/agent.db": "sqlite:////data/agent.db",
        "a b#1.db": "sqlite:///a%20b%231.db",
        "p@ss.db": "sqlite:///lastgood.db",  # it may be a password
    }.items():
        with pytest.raises(ValueError, match=f"for example {re.escape(address)}$"):
            BlockingClient.open(path)


class Ticket:
    """A class that is not data."""


def refused(_: object) -> Ticket:
    raise RuntimeError("no such ticket")


def test_a_decoder_that_raises_takes_no_other_thread_off_the_list() -> None:
    register(Ticket, "ticket", encode=lambda _: 1, decode=refused)
    client = BlockingClient.memory()
    client.save("a", execution_state={}, session_id="good")
    client.save("a", execution_state={}, session_id="bad", metadata={"by": Ticket()})
    with client.run("bad", agent_id="a") as run:
        run.finish(Ticket())
    errors = {info.thread_id: info.error for info in client.threads()}
    assert errors == {
        "good": None,
        "bad": "the result cannot be read here: RuntimeError: no such ticket",
    }
    assert client.threads(metadata={"by": 1}).items == []


# times


@pytest.fixture(params=["Asia/Tokyo", "America/Los_Angeles"])
def zone(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    monkeypatch.setenv("TZ", request.param)
    time.tzset()
    yield
    monkeypatch.undo()
    time.tzset()


@pytest.mark.usefixtures("zone")
def test_a_time_without_a_zone_is_local() -> None:
    client, target = BlockingClient.memory(), BlockingClient.memory()
    save(client, 1)
    now, hour = datetime.now(), timedelta(hours=1)  # noqa: DTZ005
    assert len(client.log("s", since=now - hour)) == len(client.threads(since=now - hour)) == 1
    assert len(client.log("s", since=now + hour)) == len(client.threads(since=now + hour)) == 0
    assert len(client.log("s", until=now + hour)) == 1
    assert len(client.log("s", until=now - hour)) == 0
    assert client.copy_to(target, since=now + hour).threads == 0
    assert client.copy_to(target, since=now - hour).threads == 1
    assert len(client.log("s", since=datetime.min, until=datetime.max)) == 1  # noqa: DTZ901


def test_who_waits_takes_no_number_of_a_program_that_seeded_its_own(place: Path) -> None:
    """What is repeated with the same seed would go another way for a lock that was busy."""
    client = BlockingClient.sqlite("x.db")
    save(client, 1)
    before = random.getstate()
    with closing(sqlite3.connect("x.db", isolation_level=None, check_same_thread=False)) as other:
        other.execute("BEGIN IMMEDIATE")
        timer = threading.Timer(0.05, lambda: other.execute("COMMIT"))
        timer.start()
        save(client, 2)
        timer.join()
    asyncio.run(Tries().again(TransientStorageError("the server was away.")))
    assert random.getstate() == before


@pytest.mark.parametrize("scheme", ["sqlite", "files", "memory"])
def test_who_looks_behind_a_save_that_was_cancelled_sees_it(scheme: str, place: Path) -> None:
    """It was under way: to be there a moment later only would lead to saving once more."""

    async def play(client: Client) -> list[Any]:
        found = []
        for number in range(5):
            state = {"n": number}
            save = asyncio.create_task(client.save("a", session_id="s", execution_state=state))
            await asyncio.sleep(0)
            save.cancel()
            latest = await client.latest(session_id="s")
            found.append(None if latest is None else latest.state["n"])
            await asyncio.wait([save])
            assert save.cancelled()
        await client.close()
        return found

    made = {"sqlite": Client.sqlite, "files": Client.files}
    client = made[scheme](place / "store") if scheme in made else Client.memory()
    assert asyncio.run(play(client)) == [*range(5)]
