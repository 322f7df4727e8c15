"""Runs when something comes in between: Ctrl-C, signals, forks, threads that cannot be started."""

from __future__ import annotations

import asyncio
import copy
import os
import pickle
import signal
import sys
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any

import pytest

from lastgood import BlockingClient, Client, RunStateError, SerializationError, StaleWriterError
from lastgood import register as registered
from lastgood.backends.memory import MemoryBackend
from lastgood.backends.sqlite.backend import SqliteBackend
from lastgood.backends.sqlite.connection import Connections
from lastgood.testing.processes import fork
from signals import handling

pytestmark = pytest.mark.timeout(60)


def status(client: BlockingClient, thread: str) -> str:
    return next(info.status for info in client.threads() if info.thread_id == thread)


class Hitting:
    """A failpoint that sends Ctrl-C once, the first time or a later one."""

    def __init__(self, backend: SqliteBackend, point: str, *, after: int = 0) -> None:
        self.point = point
        self.after = after
        backend.failpoint = self

    def __call__(self, point: str) -> None:
        self.after -= point == self.point
        if point == self.point and self.after < 0:
            self.point = ""
            # A run in the background inherits that it is ignored.
            with handling(signal.SIGINT, signal.default_int_handler):
                signal.raise_signal(signal.SIGINT)


# Ctrl-C


@pytest.mark.parametrize("saved", ["before-write", "after-commit"])
@pytest.mark.parametrize("appended", ["before-write", "after-commit"])
@pytest.mark.parametrize("given", [False, True])
def test_an_append_and_a_save_that_are_interrupted(
    appended: str, saved: str, given: bool, tmp_path: Path
) -> None:
    """The items that the save has, too, are not appended once more by the next append."""
    backend = SqliteBackend(tmp_path / "x.db")
    client = BlockingClient.on(backend)
    with client.run("s", initial={"log": [1]}) as run:
        Hitting(backend, appended)
        with pytest.raises(KeyboardInterrupt):
            run.append("log", 2)
        Hitting(backend, saved, after=1)  # the first is about the outcome of the append
        state = {"log": [1, 2]}
        with pytest.raises(KeyboardInterrupt):
            run.save(state) if given else run.save()
        last = run.append("log", 3)
        assert client.restore(last).state == run.state == {"log": [1, 2, 3]}


@pytest.mark.parametrize("point", ["before-write", "before-commit", "after-commit"])
@pytest.mark.parametrize("step", ["save", "append"])
def test_a_run_saves_where_its_ctrl_c_is_handled(step: str, point: str, tmp_path: Path) -> None:
    """Also from another thread, while the exception is still around."""
    backend = SqliteBackend(tmp_path / "x.db")
    client = BlockingClient.on(backend)
    with client.run("s", initial={"n": 0, "log": []}) as run:
        Hitting(backend, point)
        try:
            run.state["n"] = 1
            run.save() if step == "save" else run.append("log", "a")
        except KeyboardInterrupt:
            run.state["interrupted"] = True
            run.save()
            assert client.restore("s@").state == run.state
            saved: list[str] = []
            other = threading.Thread(target=lambda: saved.append(run.save()), daemon=True)
            other.start()
            other.join(20)
            assert len(saved) == 1
        assert run.state["interrupted"]


def test_ctrl_c_is_what_comes_out_of_a_block_that_saves_at_its_end(tmp_path: Path) -> None:
    backend = SqliteBackend(tmp_path / "x.db")
    client = BlockingClient.on(backend)

    def work() -> None:
        with client.run("s", initial={"n": 0}) as run:
            Hitting(backend, "before-commit")
            try:
                run.save()
            finally:
                run.save(step_name="last")

    with pytest.raises(KeyboardInterrupt):
        work()
    assert status(client, "s") == "stale"
    assert client.log("s")[0].step_name == "last"


def test_an_append_that_is_interrupted_twice_is_there_once(tmp_path: Path) -> None:
    """Behind the commit, and as its repetition leaves its turn."""
    backend = SqliteBackend(tmp_path / "x.db")
    client = BlockingClient.on(backend)
    with client.run("s", initial={"m": []}) as run:
        Hitting(backend, "after-commit")
        with pytest.raises(KeyboardInterrupt):
            run.append("m", "pay")
        with interrupted_behind("__exit__", "Turnstile.drive"), pytest.raises(KeyboardInterrupt):
            run.append("m", "pay")
        run.append("m", "pay")
        assert run.state == client.restore("s@").state == {"m": ["pay"]}


@pytest.mark.parametrize("waits", [False, True])
def test_an_append_that_is_cancelled_before_a_save_that_waits_is_there_once(waits: bool) -> None:
    """The save was called before the cancel, so the repetition is the very next call."""

    async def body() -> Any:
        client = Client.memory()
        async with client.run("s", initial={"m": []}) as run:
            first = asyncio.create_task(run.save()) if waits else None
            append = asyncio.create_task(run.append("m", "pay"))
            save = asyncio.create_task(run.save())
            if first is not None:
                await first
            for _ in range(20):
                if run._pending is None:
                    await asyncio.sleep(0)
            append.cancel()
            await asyncio.wait([append])
            await save
            await run.append("m", "pay")
            latest = await client.latest(agent_id="agent", session_id="s")
            assert latest is not None
            return run.state, latest.state

    assert asyncio.run(body()) == ({"m": ["pay"]}, {"m": ["pay"]})


@pytest.mark.parametrize("kind", ["sqlite", "files"])
def test_no_ctrl_c_is_heard_behind_the_end_of_an_append(kind: str, tmp_path: Path) -> None:
    """There nothing would notice it, and the same call again would append twice."""
    client = getattr(BlockingClient, kind)(tmp_path / "x")
    with client.run("s", initial={"m": []}) as run, interrupted_behind("close", "run_blocking"):
        run.append("m", "pay")
        assert client.restore("s@").state == {"m": ["pay"]}


@contextmanager
def interrupted_behind(called: str, inside: str) -> Iterator[None]:
    """Ctrl-C is heard behind calls of C: once, behind that of a name in a function."""

    def interrupt(frame: Any, event: str, function: Any) -> None:
        ended = event == "c_return" and function.__name__ == called
        if ended and frame.f_code.co_qualname == inside:
            sys.setprofile(None)
            raise KeyboardInterrupt

    sys.setprofile(interrupt)
    try:
        yield
    finally:
        sys.setprofile(None)


def test_ctrl_c_while_the_heartbeat_begins(monkeypatch: pytest.MonkeyPatch) -> None:
    client = BlockingClient.memory(heartbeat_seconds=0.05, stale_after_seconds=0.4)
    with monkeypatch.context() as patched:
        patched.setattr(threading.Thread, "start", _raising(KeyboardInterrupt()))
        with pytest.raises(KeyboardInterrupt):
            client.run("a", initial={}).__enter__()
    assert status(client, "a") == "stale"
    with client.run("b", initial={}):
        time.sleep(1)
        assert status(client, "b") == "running"


def test_an_event_loop_that_goes_on_after_ctrl_c() -> None:
    """As in a notebook: what a task noted and never sent must not keep the next ones waiting."""
    client = Client.memory()

    def interrupt(frame: Any, event: str, called: Any) -> None:
        noted = event == "c_return" and called.__name__ == "append"
        if noted and frame.f_code.co_qualname == "Worker.run":
            sys.setprofile(None)
            raise KeyboardInterrupt

    async def save() -> str:
        return await client.save("a", session_id="s", execution_state={})

    with asyncio.Runner() as runner:
        sys.setprofile(interrupt)
        try:
            with pytest.raises(KeyboardInterrupt):
                runner.get_loop().run_until_complete(save())
        finally:
            sys.setprofile(None)
        assert runner.run(asyncio.wait_for(save(), 20))


def test_a_signal_handler_that_reads_during_a_read(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    client = BlockingClient.sqlite(tmp_path / "x.db")
    client.save("a", session_id="s", execution_state={"n": 1})
    read: list[Any] = []
    original = Connections._idle_one

    def interrupted(self: Connections) -> Any:
        if not read:
            read.append(None)
            signal.raise_signal(signal.SIGUSR1)
        return original(self)

    monkeypatch.setattr(Connections, "_idle_one", interrupted)

    def handler(*_: object) -> None:
        read.append(client.latest(agent_id="a", session_id="s").state)

    with handling(signal.SIGUSR1, handler):
        assert client.latest(agent_id="a", session_id="s").state == {"n": 1}
    assert read == [None, {"n": 1}]


# threads and loops


def _raising(error: BaseException) -> Callable[..., None]:
    def start(_thread: threading.Thread) -> None:
        raise error

    return start


def test_no_thread_can_be_started(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Async calls are carried out where they are; a run is entered and beats when one can be."""
    times = {"heartbeat_seconds": 0.05, "stale_after_seconds": 0.4}
    client = Client.sqlite(tmp_path / "x.db", **times)

    async def work() -> None:
        async with client.run("a", initial={"n": 0}) as run:
            await run.save({"n": 1})

    with monkeypatch.context() as patched:
        patched.setattr(threading.Thread, "start", _raising(RuntimeError("can't start")))
        asyncio.run(asyncio.wait_for(work(), 20))
    assert client.blocking.restore("a@").state == {"n": 1}
    with client.blocking.run("b", initial={}):
        time.sleep(1)
        assert status(client.blocking, "b") == "running"


def test_a_client_that_is_closed_while_another_loop_saves() -> None:
    client, over = Client.memory(), threading.Event()

    def closing() -> None:
        while not over.is_set():
            client.blocking.close()

    async def work() -> None:
        for number in range(300):
            await client.save("a", session_id="s", execution_state={"n": number})

    thread, interval = threading.Thread(target=closing), sys.getswitchinterval()
    sys.setswitchinterval(1e-6)
    thread.start()
    try:
        asyncio.run(asyncio.wait_for(work(), 50))
    finally:
        sys.setswitchinterval(interval)
        over.set()
        thread.join()


def test_an_async_run_goes_on_in_another_event_loop() -> None:
    client = Client.memory()
    run = client.run("s", initial={"log": []})
    asyncio.run(run.__aenter__())

    async def several(number: int) -> None:
        await asyncio.gather(*(run.append("log", number) for _ in range(3)))

    for number in range(3):
        asyncio.run(several(number))
    assert run.state == {"log": [0, 0, 0, 1, 1, 1, 2, 2, 2]}

    async def aside() -> None:
        with pytest.raises(RunStateError, match="event loop"):
            await asyncio.to_thread(asyncio.run, several(3))

    async def beside() -> None:
        await several(3)
        await aside()

    asyncio.run(beside())
    asyncio.run(run.__aexit__(None, None, None))


@pytest.mark.parametrize("way", [copy.copy, copy.deepcopy, pickle.dumps])
def test_a_run_is_not_copied(way: Callable[[object], object]) -> None:
    client = Client.memory()
    for run in (client.run("s"), client.blocking.run("s")):
        with pytest.raises(TypeError, match="cannot be pickled or copied"):
            way(run)


@pytest.mark.parametrize("kind", ["sqlite:///", "files:", "memory:"])
def test_a_child_uses_a_run_in_which_another_thread_was_saving(kind: str, tmp_path: Path) -> None:
    client = BlockingClient.open(kind if kind == "memory:" else f"{kind}{tmp_path / 'store'}")
    with client.run("s", initial={"n": 0}) as run:
        over = threading.Event()

        def busy() -> None:
            while not over.is_set():
                try:
                    run.save()
                except StaleWriterError:
                    return  # the child was first

        def child() -> None:
            signal.alarm(20)
            with suppress(StaleWriterError):  # the parent was first
                run.save()
            os._exit(7)

        thread = threading.Thread(target=busy, daemon=True)
        thread.start()
        codes = [os.waitstatus_to_exitcode(os.waitpid(fork(child), 0)[1]) for _ in range(3)]
        over.set()
        thread.join(20)
        assert codes == [7, 7, 7]


# entering


def test_a_lane_that_is_emptied_between_look_and_entry(monkeypatch: pytest.MonkeyPatch) -> None:
    backend = MemoryBackend()
    client, look = BlockingClient.on(backend), backend.look
    client.save("agent", session_id="s", execution_state={"n": 5})

    async def looking(scope: Any) -> Any:
        found = await look(scope)
        client.delete("s")
        return found

    monkeypatch.setattr(backend, "look", looking)
    with client.run("s", initial={"n": 0}) as run:
        assert (run.is_new, run.state) == (True, {"n": 0})


class Odd:
    """Can be stored and not be read."""


def _unreadable(_data: object) -> Odd:
    raise ValueError("this is not it")


def test_an_entry_whose_state_cannot_be_read_leaves_nobody_inside() -> None:
    registered(Odd, "tests.odd", encode=lambda _odd: 1, decode=_unreadable)
    client = BlockingClient.memory()
    client.save("agent", session_id="s", execution_state={"odd": Odd()})
    with pytest.raises(SerializationError):
        client.run("s").__enter__()
    assert status(client, "s") == "failed"


def test_an_entry_that_is_cancelled_leaves_nobody_inside(tmp_path: Path) -> None:
    backend = SqliteBackend(tmp_path / "x.db")
    client = Client.on(backend)
    inside, go_on = threading.Event(), threading.Event()

    def slow(point: str) -> None:
        if point == "before-commit":
            inside.set()
            go_on.wait(20)

    async def work() -> None:
        await client.latest(agent_id="agent", session_id="s")
        backend.failpoint = slow
        entry = asyncio.ensure_future(client.run("s", initial={"n": 0}).__aenter__())
        await asyncio.to_thread(inside.wait, 20)
        entry.cancel()
        await asyncio.wait([entry])
        go_on.set()
        await client.log("s")  # behind the entry

    asyncio.run(work())
    assert status(client.blocking, "s") == "stale"
    with client.blocking.run("s") as run:
        assert (run.resumed, run.state) == (True, {"n": 0})
