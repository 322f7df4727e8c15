"""What happens to the process: Ctrl-C, signal handlers, forks, cancellation, the end.

The store works afterwards, from this thread and from others; nothing is locked, damaged or
committed behind the back of whoever was interrupted.
"""

from __future__ import annotations

import asyncio
import os
import random
import signal
import sqlite3
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import nullcontext, suppress
from pathlib import Path
from typing import Any, Self

import pytest

from lastgood import BlockingClient, StorageError, TransientStorageError
from lastgood.backends import forking
from lastgood.backends.files.backend import FilesBackend
from lastgood.backends.memory import MemoryBackend
from lastgood.backends.sqlite.backend import SqliteBackend
from lastgood.backends.sqlite.connection import plain_connect
from lastgood.testing.processes import fork
from signals import handling

LARGE = {"m": [f"message {number} " * 20 for number in range(60)]}
KINDS = ("sqlite", "memory", "files")

# An interrupt may hit between making a coroutine and starting it, or inside of a finalizer.
pytestmark = [
    pytest.mark.slow,
    pytest.mark.timeout(60),
    pytest.mark.filterwarnings("ignore:coroutine .* was never awaited:RuntimeWarning"),
    pytest.mark.filterwarnings("ignore::pytest.PytestUnraisableExceptionWarning"),
]


def opened(kind: str, place: Path, clock: Callable[[], int] = time.time_ns) -> BlockingClient:
    if kind == "memory":
        return BlockingClient.on(MemoryBackend(clock=clock))
    if kind == "files":
        return BlockingClient.on(FilesBackend(place / "x", durability="relaxed", clock=clock))
    return BlockingClient.on(SqliteBackend(place / "x.db", durability="relaxed", clock=clock))


def save(client: BlockingClient, thread: str, state: Any) -> str:
    return client.save("a", execution_state=state, session_id=thread)


def in_another_thread(work: Callable[[], object]) -> None:
    """Do it there, within ten seconds."""
    errors: list[BaseException] = []

    def target() -> None:
        try:
            work()
        except BaseException as error:
            errors.append(error)

    thread = threading.Thread(target=target, daemon=True)
    thread.start()
    thread.join(10)
    assert not thread.is_alive(), "another thread waits for ever"
    assert errors == []


def check_nothing_is_held(client: BlockingClient, place: Path) -> None:
    """This thread, another one, an event loop, another connection, a child: all can write."""
    saved = save(client, "after", {"by": "this thread"})
    assert client.restore(saved).state == {"by": "this thread"}
    in_another_thread(lambda: save(client, "after", {"by": "another"}))
    in_another_thread(lambda: client.restore(saved))
    asyncio.run(client.aio.save("a", execution_state={"by": "a task"}, session_id="after"))
    if (place / "x.db").exists():
        other = sqlite3.connect(place / "x.db", timeout=1, isolation_level=None)
        other.execute("BEGIN IMMEDIATE")
        other.execute("ROLLBACK")
        assert other.execute("PRAGMA integrity_check").fetchall() == [("ok",)]
        other.close()
    pid = fork(lambda: save(client, "after", {"by": "a child"}) and None)
    assert os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1]) == 0


def ids_of(client: BlockingClient, thread: str) -> list[str]:
    page = client.log(thread, limit=1000)
    found = list(page)
    while page.next is not None:
        page = client.log(thread, limit=1000, after=page.next)
        found += page
    assert {header.branch for header in found} == {"main"}
    return [header.checkpoint_id for header in found]


def check_nothing_is_damaged(client: BlockingClient, acknowledged: list[str]) -> None:
    found = []
    for info in client.threads(limit=1000):
        ids = ids_of(client, info.thread_id)
        assert len(set(ids)) == len(ids) == info.checkpoints
        found += ids
        for id in ids[:20]:
            assert client.restore(id).verify_integrity()
        for agent in info.agents:
            assert client.latest(agent_id=agent, session_id=info.thread_id) is not None
    assert set(acknowledged) <= set(found)


class Interrupter:
    """Raises KeyboardInterrupt in the main thread at moments that nobody can foresee."""

    def __init__(self, longest: float) -> None:
        self.random = random.Random(7)
        self.longest = longest
        self.armed = False
        self.hits = 0
        self.over = threading.Event()

    def __enter__(self) -> Self:
        self.before = signal.signal(signal.SIGUSR1, self._handle)
        self.interval = sys.getswitchinterval()
        sys.setswitchinterval(1e-5)
        self.thread = threading.Thread(target=self._send, daemon=True)
        self.thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self.over.set()
        self.thread.join()
        sys.setswitchinterval(self.interval)
        signal.signal(signal.SIGUSR1, self.before)

    def _send(self) -> None:
        main = threading.main_thread().ident
        assert main is not None
        while not self.over.wait(self.random.uniform(0, self.longest)):
            signal.pthread_kill(main, signal.SIGUSR1)

    def _handle(self, *_: object) -> None:
        if self.armed:
            self.armed = False
            self.hits += 1
            raise KeyboardInterrupt

    def attempt(self, work: Callable[[], object]) -> None:
        """Do the work, or as much of it as an interrupt leaves."""
        try:
            self.armed = True
            work()
            self.armed = False
        except KeyboardInterrupt:
            pass

    def rounds(self, seconds: float) -> Iterator[int]:
        end = time.monotonic() + seconds
        number = 0
        while time.monotonic() < end:
            yield number
            number += 1


@pytest.mark.parametrize("kind", KINDS)
def test_ctrl_c_at_any_moment_of_a_save_or_a_read(kind: str, tmp_path: Path) -> None:
    client, acknowledged = opened(kind, tmp_path), [""]
    first = acknowledged[0] = save(client, "s", LARGE)
    with Interrupter(longest=0.002) as interrupter:
        work: list[Callable[[int], object]] = [
            lambda n: acknowledged.append(save(client, "s", {"n": n})),
            lambda n: acknowledged.append(save(client, f"t{n % 7}", {**LARGE, "n": n})),
            lambda n: client.restore(first),
            lambda n: client.threads(limit=5),
            lambda n: client.log("s", limit=5),
            lambda n: client.latest(agent_id="a", session_id="s"),
        ]
        for number in interrupter.rounds(seconds=1.0):
            interrupter.attempt(lambda n=number: work[n % len(work)](n))
    assert interrupter.hits > 20
    check_nothing_is_held(client, tmp_path)
    check_nothing_is_damaged(client, acknowledged)
    client.close()
    if kind == "sqlite":
        check_nothing_is_damaged(opened(kind, tmp_path), acknowledged)


@pytest.mark.parametrize("kind", KINDS)
def test_ctrl_c_at_any_moment_of_a_run(kind: str, tmp_path: Path) -> None:
    client = opened(kind, tmp_path)
    with client.run("r", initial={"m": []}) as run:
        told: list[int] = []
        with Interrupter(longest=0.002) as interrupter:
            for number in interrupter.rounds(seconds=0.7):
                interrupter.attempt(lambda n=number: run.append("m", n) and told.append(n))
        assert interrupter.hits > 20
        run.append("m", "end")
        *numbers, end = run.state["m"]
        assert end == "end"
        assert numbers == sorted(set(numbers)), "doubled or out of order"
        assert set(told) <= set(numbers)
        latest = client.latest(agent_id="agent", session_id="r")
        assert latest.state == run.state
        run.save()
        assert client.latest(agent_id="agent", session_id="r").state == run.state
    check_nothing_is_held(client, tmp_path)
    check_nothing_is_damaged(client, [])


@pytest.mark.parametrize("kind", KINDS)
def test_ctrl_c_between_the_end_of_an_append_and_its_return(kind: str, tmp_path: Path) -> None:
    client = opened(kind, tmp_path)
    with client.run("t", initial={"l": []}) as run:

        def interrupt(frame: Any, event: str, called: Any) -> None:
            released = event == "c_return" and called.__name__ == "__exit__"
            if released and frame.f_code.co_name == "drive":
                sys.setprofile(None)
                raise KeyboardInterrupt

        sys.setprofile(interrupt)
        try:
            with pytest.raises(KeyboardInterrupt):
                run.append("l", "pay")
        finally:
            sys.setprofile(None)
        run.append("l", "pay")
        assert run.state == {"l": ["pay"]}
        run.append("l", "pay")
        assert run.state == {"l": ["pay", "pay"]}
        assert run.base is not None
        assert client.restore(run.base).state == {"l": ["pay", "pay"]}
    client.close()


class Interrupted:
    """A connection that raises KeyboardInterrupt right after a statement, as Ctrl-C in it does."""

    armed = ""

    def __init__(self, path: str) -> None:
        self.inner = plain_connect(path)

    def execute(self, statement: str, *values: Any) -> Any:
        done = self.inner.execute(statement, *values)
        if statement == Interrupted.armed:
            Interrupted.armed = ""
            raise KeyboardInterrupt
        return done

    def __getattr__(self, name: str) -> Any:
        return getattr(self.inner, name)


@pytest.mark.parametrize("statement", ["BEGIN", "BEGIN IMMEDIATE", "COMMIT"])
def test_ctrl_c_right_after_a_statement(statement: str, tmp_path: Path) -> None:
    client = BlockingClient.on(SqliteBackend(tmp_path / "x.db", connect=Interrupted))
    saved = save(client, "s", {"n": 0})
    for work in (lambda: client.restore(saved), lambda: save(client, "s", {"n": 1})):
        Interrupted.armed = statement
        with suppress(KeyboardInterrupt):
            work()
        hit, Interrupted.armed = not Interrupted.armed, ""
        assert hit or statement != "COMMIT"
        for _ in range(3):
            assert client.restore(saved).state == {"n": 0}
        check_nothing_is_held(client, tmp_path)
    check_nothing_is_damaged(client, [saved])


def test_ctrl_c_while_waiting_for_another_process(tmp_path: Path) -> None:
    """It is heard at once, not when the other process is done."""
    client = opened("sqlite", tmp_path)
    save(client, "s", {"n": 0})
    other = sqlite3.connect(tmp_path / "x.db", isolation_level=None, check_same_thread=False)
    other.execute("BEGIN IMMEDIATE")
    timers = [
        threading.Timer(0.1, lambda: os.kill(os.getpid(), signal.SIGUSR1)),
        threading.Timer(10, lambda: other.execute("COMMIT")),
    ]
    with handling(signal.SIGUSR1, signal.default_int_handler):
        for timer in timers:
            timer.start()
        with pytest.raises(KeyboardInterrupt):
            save(client, "s", {"n": 1})
    assert other.in_transaction
    for timer in timers:
        timer.cancel()
        timer.join()
    other.execute("COMMIT")
    other.close()
    check_nothing_is_held(client, tmp_path)


class Trap:
    """A clock that does something once, in the middle of a commit, where the lock is held."""

    def __init__(self) -> None:
        self.action: Callable[[], object] | None = None

    def __call__(self) -> int:
        action, self.action = self.action, None
        if action is not None:
            action()
        return time.time_ns()


@pytest.mark.parametrize("kind", KINDS)
def test_a_signal_handler_that_saves(kind: str, tmp_path: Path) -> None:
    """It is told so instead of waiting for its own thread; the save under way succeeds."""
    trap, refused = Trap(), []
    client = opened(kind, tmp_path, trap)
    save(client, "s", {"n": 0})

    def handler(*_: object) -> None:
        try:
            save(client, "s", {"by": "the handler"})
        except TransientStorageError as error:
            refused.append(str(error))

    with handling(signal.SIGUSR1, handler):
        for number in range(1, 4):
            trap.action = lambda: signal.raise_signal(signal.SIGUSR1)
            save(client, "s", {**LARGE, "n": number})
        assert [("signal handler" in message) for message in refused] == [True] * 3
        signal.raise_signal(signal.SIGUSR1)  # no save is under way: this one is allowed
    states = [checkpoint.state for checkpoint in client.timeline("a", "s")]
    assert [state.get("n") for state in states] == [None, 3, 2, 1, 0]
    check_nothing_is_held(client, tmp_path)
    check_nothing_is_damaged(client, [])


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("error", [KeyboardInterrupt(), SystemExit(3), ValueError("handler")])
def test_a_signal_handler_that_raises(kind: str, error: BaseException, tmp_path: Path) -> None:
    """Its exception comes out of the save, of which all or nothing is there."""
    trap = Trap()
    client = opened(kind, tmp_path, trap)
    saved = save(client, "s", LARGE)

    def handler(*_: object) -> None:
        raise error

    with handling(signal.SIGUSR1, handler):
        trap.action = lambda: signal.raise_signal(signal.SIGUSR1)
        with pytest.raises(type(error)):
            save(client, "s", {**LARGE, "n": 1})
    assert client.restore(saved).state == LARGE
    check_nothing_is_held(client, tmp_path)
    check_nothing_is_damaged(client, [saved])


@pytest.mark.parametrize("kind", KINDS)
def test_a_handler_that_saves_and_lets_the_error_out(kind: str, tmp_path: Path) -> None:
    trap = Trap()
    client = opened(kind, tmp_path, trap)
    saved = save(client, "s", LARGE)
    with handling(signal.SIGUSR1, lambda *_: save(client, "s", {})):
        trap.action = lambda: signal.raise_signal(signal.SIGUSR1)
        with pytest.raises(TransientStorageError, match="signal handler"):
            save(client, "s", {**LARGE, "n": 1})
    assert client.latest(agent_id="a", session_id="s").checkpoint_id == saved
    check_nothing_is_held(client, tmp_path)
    check_nothing_is_damaged(client, [saved])


@pytest.mark.parametrize("kind", KINDS)
def test_an_interrupted_save_is_not_committed_later(kind: str, tmp_path: Path) -> None:
    """A save that Ctrl-C took out of the queue does not ride along with somebody else's."""
    inside, go_on = threading.Event(), threading.Event()
    trap = Trap()
    client = opened(kind, tmp_path, trap)
    save(client, "s", {"n": 0})

    def block() -> None:
        inside.set()
        go_on.wait(20)

    trap.action = block
    holder = threading.Thread(target=save, args=(client, "other", {"n": 0}), daemon=True)
    holder.start()
    assert inside.wait(10)
    with handling(signal.SIGUSR1, signal.default_int_handler):
        threading.Timer(0.1, lambda: os.kill(os.getpid(), signal.SIGUSR1)).start()
        with pytest.raises(KeyboardInterrupt):
            save(client, "s", {"n": "ghost"})
    go_on.set()
    holder.join(10)
    for number in range(3):
        save(client, "other", {"n": number})
    assert [checkpoint.state for checkpoint in client.timeline("a", "s")] == [{"n": 0}]
    check_nothing_is_held(client, tmp_path)
    check_nothing_is_damaged(client, [])


# commits that fail after they were made


class FailingDisk:
    """A failpoint: the disk fails at one point of a commit, once. The commit before may wait."""

    def __init__(self, point: str, *, waits: bool = False) -> None:
        self.point = point
        self.hits = 0
        self.waits = waits
        self.inside, self.go_on = threading.Event(), threading.Event()

    def __call__(self, name: str) -> None:
        if self.waits:
            if name == "before-commit":
                self.inside.set()
                self.go_on.wait(20)
            self.waits = name != "after-commit"
        elif name == self.point and not self.hits:
            self.hits += 1
            error = sqlite3.OperationalError("disk I/O error")
            error.sqlite_errorcode = sqlite3.SQLITE_IOERR
            raise error


@pytest.mark.parametrize("point", ["before-commit", "after-commit"])
def test_a_group_whose_commit_fails_stores_nothing_twice(point: str, tmp_path: Path) -> None:
    """Each save in it is there once, or raises; a run recognises its own at its next save."""
    backend = SqliteBackend(tmp_path / "x.db", durability="relaxed")
    blocking = BlockingClient.on(backend, heartbeat_seconds=600)
    client = blocking.aio

    def saving(thread: str, n: int) -> Any:
        return client.save("a", execution_state={"n": n}, session_id=thread)

    async def play() -> None:
        async with client.run("r", initial={"n": 0}) as run:
            for thread in ("s", "t"):
                await saving(thread, 0)
            backend.failpoint = disk = FailingDisk(point, waits=True)
            first = asyncio.ensure_future(saving("u", 0))
            await asyncio.to_thread(disk.inside.wait, 20)
            calls = (saving("s", 1), saving("t", 1), saving("t", 2), run.save({"n": 1}))
            together = asyncio.gather(*calls, return_exceptions=True)
            await asyncio.sleep(0.05)  # all are queued behind the first one
            disk.go_on.set()
            await first
            *plain, own = await together
            assert disk.hits == 1
            assert all(isinstance(result, str | StorageError) for result in (*plain, own))
            last = await run.save({"n": 2})
        for thread, given in (("s", plain[:1]), ("t", plain[1:]), ("r", [own, last])):
            found = await client.log(thread)
            ids = [header.checkpoint_id for header in found]
            assert len(set(ids)) == len(ids)
            assert {id for id in given if isinstance(id, str)} <= set(ids)
            assert len(ids) <= 1 + len(given)
            assert {header.branch for header in found} == {"main"}
        latest = await client.latest(agent_id="agent", session_id="r")
        assert (latest.checkpoint_id, latest.state) == (last, {"n": 2})

    asyncio.run(play())
    check_nothing_is_damaged(blocking, [])


@pytest.mark.parametrize("point", ["before-commit", "after-commit"])
@pytest.mark.parametrize("how", ["append", "save"])
def test_a_step_whose_commit_fails_is_recognised(how: str, point: str, tmp_path: Path) -> None:
    backend = SqliteBackend(tmp_path / "x.db")
    client = BlockingClient.on(backend, heartbeat_seconds=600)
    with client.run("s", initial={"m": ["a"]}) as run:
        backend.failpoint = disk = FailingDisk(point)
        try:
            run.append("m", "b")
        except StorageError:
            if how == "append":
                run.append("m", "b")
            else:
                run.save()
        assert disk.hits == 1
        stored = client.latest(agent_id="agent", session_id="s").state
        assert stored == run.state
        if how == "append" or point == "after-commit":
            assert stored == {"m": ["a", "b"]}
        run.append("m", "c")
        run.save()
        assert client.latest(agent_id="agent", session_id="s").state == run.state
    check_nothing_is_damaged(client, [])


# forks


class Broken(forking.Forkable):
    """A store that cannot be brought to rest."""

    works = False

    def at_rest(self) -> Any:
        self.after_fork_in_child()
        return nullcontext()

    def after_fork_in_child(self) -> None:
        if not self.works:
            raise OSError("broken")


@pytest.fixture
def broken() -> Iterator[list[Broken]]:
    """Stores that are broken as long as a test lasts; what they raise keeps them alive longer."""
    stores: list[Broken] = []
    yield stores
    for store in stores:
        store.works = True


@pytest.mark.filterwarnings("ignore::pytest.PytestUnraisableExceptionWarning")
@pytest.mark.parametrize("others", [0, 20])
@pytest.mark.parametrize("kind", KINDS)
def test_a_fork_while_others_are_in_the_store(
    kind: str, others: int, tmp_path: Path, broken: list[Broken]
) -> None:
    """The child can use the store at once, in both colours; the parent's threads go on.

    Whatever becomes of other stores in the process.
    """
    broken += [Broken() for _ in range(others)]
    for other in broken:
        forking.watch(other)
    client = opened(kind, tmp_path)
    aio = client.aio
    asyncio.run(aio.save("a", execution_state=LARGE, session_id="s"))  # its worker has begun
    over, errors = threading.Event(), []

    def busy(number: int) -> None:
        try:
            while not over.wait(0.0002):
                save(client, f"busy {number}", {**LARGE, "n": number})
                client.timeline("a", "s", limit=1)
                client.threads()
        except BaseException as error:
            errors.append(error)

    def busy_loop() -> None:
        async def work() -> None:
            while not over.is_set():
                await aio.save("a", execution_state=LARGE, session_id="loop")
                await aio.latest(agent_id="a", session_id="loop")

        try:
            asyncio.run(work())
        except BaseException as error:
            errors.append(error)

    def child() -> None:
        signal.alarm(10)  # a child that waits for ever is ended, and seen
        assert client.latest(agent_id="a", session_id="s").state == LARGE
        save(client, "child", {"n": 1})
        asyncio.run(aio.save("a", execution_state={"n": 2}, session_id="child"))
        assert asyncio.run(aio.latest(agent_id="a", session_id="child")).state == {"n": 2}
        os._exit(7)

    threads = [threading.Thread(target=busy, args=(n,), daemon=True) for n in range(2)]
    threads.append(threading.Thread(target=busy_loop, daemon=True))
    for thread in threads:
        thread.start()
    codes = []
    for _ in range(6):
        time.sleep(0.02)
        codes.append(os.waitstatus_to_exitcode(os.waitpid(fork(child), 0)[1]))
    over.set()
    for thread in threads:
        thread.join(10)
        assert not thread.is_alive()
    assert errors == []
    assert codes == [7] * 6
    assert len(client.log("child")) == (0 if kind == "memory" else 12)
    check_nothing_is_damaged(client, [])


# the end of the process


def script(text: str, place: Path) -> subprocess.CompletedProcess[str]:
    head = "import asyncio, atexit, sys\nfrom lastgood import BlockingClient, Client\n"
    return subprocess.run(
        [sys.executable, "-c", head + text],
        cwd=place,
        capture_output=True,
        text=True,
        timeout=15,
        check=False,
    )


AT_EXIT = """
client = Client.sqlite("x.db")
def bye():
    asyncio.run(client.save("a", execution_state={"last": 1}, session_id="s"))
    print("saved")
FIRST
asyncio.run(client.save("a", execution_state={"last": 0}, session_id="s"))
SECOND
"""


@pytest.mark.parametrize("moment", ["before the first call", "after it"])
def test_an_async_save_in_an_exit_handler(moment: str, tmp_path: Path) -> None:
    spots = {"before the first call": "FIRST", "after it": "SECOND"}
    text = AT_EXIT.replace(spots[moment], "atexit.register(bye)")
    done = script(text.replace("FIRST", "").replace("SECOND", ""), tmp_path)
    assert (done.returncode, done.stdout) == (0, "saved\n"), done.stderr
    client = BlockingClient.sqlite(tmp_path / "x.db")
    assert client.latest(agent_id="a", session_id="s").state == {"last": 1}


AT_SHUTDOWN = """
import builtins
class Last:
    def __init__(self):
        self.client = CLIENT
        self.run = asyncio.run
    async def save(self):
        await self.client.save("a", execution_state={"last": 1}, session_id="s")
    def __del__(self, write=sys.stdout.write):
        try:
            self.run(self.save())
        except BaseException as error:
            write(type(error).__name__ + chr(10))
        else:
            write("saved" + chr(10))
builtins.last = Last()
asyncio.run(last.client.save("a", execution_state={"last": 0}, session_id="s"))
"""


@pytest.mark.parametrize("store", ['Client.sqlite("x.db")', "Client.memory()"])
def test_an_async_save_when_the_interpreter_ends_does_not_hang(store: str, tmp_path: Path) -> None:
    """No worker may be left by then: it succeeds or it raises, but it comes back."""
    done = script(AT_SHUTDOWN.replace("CLIENT", store), tmp_path)
    assert done.returncode == 0, done.stderr


def test_a_process_that_ends_in_a_run_ends(tmp_path: Path) -> None:
    """Threads of ours hold up nobody, and the run is there to be resumed."""
    done = script(
        'client = BlockingClient.sqlite("x.db", heartbeat_seconds=0.001)\n'
        'run = client.run("s", initial={"n": 0})\n'
        'run.__enter__()\nrun.save({"n": 1})\nprint(run.run_id)\n',
        tmp_path,
    )
    assert done.returncode == 0, done.stderr
    with BlockingClient.sqlite(tmp_path / "x.db").run("s") as run:
        assert (run.run_id, run.attempt, run.state) == (done.stdout.strip(), 2, {"n": 1})
