"""Kills a process at a chosen point of each operation, and compares what is left with what was
there before and with what the same operation leaves when nobody kills it.

Ids and times are the same in every child, so "all or nothing" is an equality of whole stores.
"""

import os
import shutil
import signal
import sqlite3
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import psycopg
import redis
from forked import Tell, drive, fork
from rich_store import same_every_time
from stores import Stores, is_files, is_redis, is_server, opened

from lastgood import BlockingClient, LastgoodError
from lastgood.backends.files.disk import Disk
from lastgood.backends.sqlite.backend import SqliteBackend
from lastgood.testing.faults.kills import POINTS, REMOTE_POINTS, arm
from lastgood.testing.faults.store import View, view

STATE = {"items": [{"n": n, "text": "word " * 60} for n in range(20)], "n": 0}
Armed = Callable[[], None]
Ids = list[str]


def new_thread(client: BlockingClient, ids: Ids, ready: Armed) -> Any:
    ready()
    return client.save("solo", session_id="new", execution_state=STATE)


def save(client: BlockingClient, ids: Ids, ready: Armed) -> Any:
    ready()
    return client.save("solo", session_id="old", execution_state={**STATE, "n": 1})


def branch(client: BlockingClient, ids: Ids, ready: Armed) -> Any:
    ready()
    return client.save("solo", session_id="old", execution_state={"aside": True}, parent_id=ids[0])


def run_enter(client: BlockingClient, ids: Ids, ready: Armed) -> Any:
    ready()
    run = client.run("fresh", initial=STATE)
    return run.__enter__().base


def run_enter_again(client: BlockingClient, ids: Ids, ready: Armed) -> Any:
    ready()
    run = client.run("open")
    return run.__enter__().base


def run_save(client: BlockingClient, ids: Ids, ready: Armed) -> Any:
    run = client.run("open").__enter__()
    ready()
    run.state["items"].append({"n": 99})
    return run.save(step_name="one more")


def run_append(client: BlockingClient, ids: Ids, ready: Armed) -> Any:
    run = client.run("open").__enter__()
    ready()
    return run.append("items", {"n": 98, "text": "word " * 900})


def run_leave(client: BlockingClient, ids: Ids, ready: Armed) -> Any:
    run = client.run("open").__enter__()
    ready()
    return run.__exit__(None, None, None)


def run_finish(client: BlockingClient, ids: Ids, ready: Armed) -> Any:
    run = client.run("open").__enter__()
    ready()
    return run.finish({"answer": 42})


def handoff(client: BlockingClient, ids: Ids, ready: Armed) -> Any:
    ready()
    return client.handoff(ids[1], "helper", note="yours")


def expire(client: BlockingClient, ids: Ids, ready: Armed) -> Any:
    ready()
    return client.expire(ids[1])


def expire_head(client: BlockingClient, ids: Ids, ready: Armed) -> Any:
    ready()
    return client.expire(ids[-1])


def delete(client: BlockingClient, ids: Ids, ready: Armed) -> Any:
    ready()
    return client.delete("old")


def begin_anew(client: BlockingClient, ids: Ids, ready: Armed) -> Any:
    client.delete("old")
    ready()
    return client.save("solo", session_id="old", execution_state=STATE)


def fork_off(client: BlockingClient, ids: Ids, ready: Armed) -> Any:
    ready()
    return client.fork(ids[1], edits={"n": "forked", "items[3].text": "other"})


def fork_and_switch(client: BlockingClient, ids: Ids, ready: Armed) -> Any:
    ready()
    return client.fork(ids[1], branch="idea", switch=True)


def rewind(client: BlockingClient, ids: Ids, ready: Armed) -> Any:
    ready()
    return client.rewind("old", ids[0])


def undo(client: BlockingClient, ids: Ids, ready: Armed) -> Any:
    ready()
    return client.undo("moved")


def switch(client: BlockingClient, ids: Ids, ready: Armed) -> Any:
    ready()
    return client.switch("moved", "aside")


def tag(client: BlockingClient, ids: Ids, ready: Armed) -> Any:
    ready()
    return client.tag("moved@1", "new")


def move_tag(client: BlockingClient, ids: Ids, ready: Armed) -> Any:
    ready()
    return client.tag("moved@2", "good")


def untag(client: BlockingClient, ids: Ids, ready: Armed) -> Any:
    ready()
    return client.untag("moved", "good")


OPERATIONS = (
    new_thread, save, branch, run_enter, run_enter_again, run_save, run_append, run_leave,
    run_finish, handoff, expire, expire_head, delete, begin_anew, fork_off, fork_and_switch,
    rewind, undo, switch, tag, move_tag, untag,
)  # fmt: skip


def prepare(url: str) -> Ids:
    """A thread with a history, a run that somebody left open, a lane that was moved."""
    with same_every_time():
        client = opened(url)
        ids = [
            client.save("solo", session_id="old", execution_state={**STATE, "step": n})
            for n in range(3)
        ]
        client.run("open", initial=STATE).__enter__()
        for number in range(2):
            client.save("solo", session_id="moved", execution_state={"n": number})
        client.tag("moved@1", "good")
        client.fork("moved@1", branch="aside")
        client.rewind("moved", "@1")
        client.close()
    return ids


class Bench:
    """Copies of one prepared store, each for one accident."""

    def __init__(self, stores: Stores) -> None:
        self.stores = stores
        self.prepared = stores.alone("prepared")
        self.ids = prepare(self.prepared)
        self.points = REMOTE_POINTS if is_server(self.prepared) else POINTS
        self.count = 0

    def child(self, operation: Any, ready: Callable[[Any], None]) -> tuple[str, int]:
        """Do it in a child, on a copy; gives the copy and how the child ended."""
        self.count += 1
        url = self.stores.copied(self.prepared, f"copy-{self.count}")

        def work(tell: Tell) -> None:
            client = opened(url)
            backend = client._direct._core.backend
            with same_every_time():
                [os.urandom(10) for _ in range(50)]  # ids that `prepare` has not used
                operation(client, self.ids, lambda: ready(backend))

        child = fork(work)
        code = child.wait()
        child.rest()
        return url, code

    def seen(self, url: str) -> View:
        client = opened(url)
        try:
            return view(client)
        finally:
            client.close()


def kill_everywhere(stores: Stores) -> dict[str, str]:
    """Every operation at every point; what went wrong by "operation/point", empty if nothing."""
    bench = Bench(stores)
    before = bench.seen(bench.prepared)
    report: dict[str, str] = {}
    for operation in OPERATIONS:
        unharmed, code = bench.child(operation, lambda backend: None)
        intended = bench.seen(unharmed)
        started, _ = bench.child(operation, lambda backend: os._exit(0))
        at_start = bench.seen(started)
        for point in bench.points:
            url, ended = bench.child(operation, lambda backend, at=point: arm(backend, at))
            expected = intended if point == "after-commit" else at_start
            wrong = "" if code == 0 else "the operation failed by itself"
            if intended == at_start and operation is not run_enter_again:
                wrong = "the operation leaves no trace, so this proves nothing"
            if ended != -signal.SIGKILL:
                wrong = f"it was not killed there (exit {ended})"
            report[f"{operation.__name__}/{point}"] = wrong or _wrong(bench, url, expected)
    assert before == bench.seen(bench.prepared)
    return report


def kill_at_every_step(stores: Stores) -> dict[str, str]:
    """Every operation before its first step on the disk, its second, ...: by "operation/step"."""
    bench = Bench(stores)
    report: dict[str, str] = {}
    for operation in OPERATIONS:
        unharmed, _ = bench.child(operation, lambda backend: None)
        started, _ = bench.child(operation, lambda backend: os._exit(0))
        either = [bench.seen(started), bench.seen(unharmed)]
        for nth in range(1, 100):
            url, ended = bench.child(operation, lambda _, nth=nth: count_steps(Countdown(nth)))
            if ended == 0:
                break
            report[f"{operation.__name__}/{nth}"] = _wrong(bench, url, *either)
            shutil.rmtree(url.removeprefix("files:"))
    return report


def count_steps(countdown: Callable[[], None]) -> None:
    """From now on, count whatever changes a directory or makes a change last."""
    for name in ("replace", "fsync", "unlink", "mkdir"):
        setattr(os, name, _counted(getattr(os, name), countdown))
    whole = Disk.prepare

    def prepare(disk: Disk, path: Path, data: bytes) -> Path:
        beside = path.with_name(f".{path.name}.tmp")
        beside.write_bytes(data[: len(data) // 2])
        countdown()
        return whole(disk, path, data)

    Disk.prepare = prepare


def _counted(step: Callable[..., Any], countdown: Callable[[], None]) -> Callable[..., Any]:
    def counted_step(*arguments: Any, **options: Any) -> Any:
        countdown()
        return step(*arguments, **options)

    return counted_step


def _wrong(bench: Bench, url: str, *expected: View) -> str:
    try:
        if bench.seen(url) not in expected:
            return "neither all nor nothing"
        client = opened(url)
        if not (report := client.verify(data=True)).clean and report.exit_code != 1:
            return str(report)
        for thread in ("old", "open", "new", "fresh", "moved"):
            client.save("solo", session_id=thread, execution_state={"goes": "on"})
        client.close()
    except (LastgoodError, AssertionError) as error:
        return f"{type(error).__name__}: {error}"
    return ""


def first_opens(stores: Stores, save: bool) -> Iterator[tuple[int, str]]:
    """Kill a first open before its first statement, its second, ... until one gets through."""
    for nth in range(1, 500):
        url = stores.new(f"open-{nth}")

        def work(tell: Tell, nth: int = nth, url: str = url) -> None:
            client = counted(url, nth)
            if save:
                client.save("solo", session_id="first", execution_state=STATE)
            else:
                client.threads()

        if (code := fork(work).wait()) == 0:
            return
        yield nth, _unusable(url) if code == -signal.SIGKILL else f"exit {code}"


def _unusable(url: str) -> str:
    client = opened(url)
    try:
        whole = client.latest(agent_id="solo", session_id="first")
        if view(client) and not (is_files(url) and whole):  # its last step only makes it last
            return "something is there"
        client.save("solo", session_id="first", execution_state=STATE)
        return "" if client.latest(agent_id="solo", session_id="first") else "the save is lost"
    except LastgoodError as error:
        return f"{type(error).__name__}: {error}"
    finally:
        client.close()


def counted(url: str, nth: int) -> BlockingClient:
    """A client whose process ends before its nth statement."""
    countdown = Countdown(nth)
    if is_redis(url):
        redis.connection.AbstractConnection.send_packed_command = _counted(
            redis.connection.AbstractConnection.send_packed_command, countdown
        )
        return opened(url)
    if is_server(url):
        psycopg.Cursor.execute = _counted(psycopg.Cursor.execute, countdown)
        return opened(url)
    if is_files(url):
        count_steps(countdown)
        return opened(url)
    path = url.removeprefix("sqlite:///")
    backend = SqliteBackend(path, connect=lambda name: Counted(name, countdown))
    return BlockingClient.on(backend, stale_after_seconds=1e12)


class Countdown:
    """Ends its process when it is called for the nth time."""

    def __init__(self, nth: int) -> None:
        self._left = nth

    def __call__(self) -> None:
        self._left -= 1
        if self._left == 0:
            os.kill(os.getpid(), signal.SIGKILL)


class Counted:
    """A connection to a file that counts its statements."""

    def __init__(self, path: str, countdown: Countdown) -> None:
        self._inner = sqlite3.connect(path, isolation_level=None, check_same_thread=False)
        self._countdown = countdown

    def __getattr__(self, name: str) -> Any:
        return getattr(self._inner, name)

    def execute(self, *arguments: Any) -> Any:
        self._countdown()
        return self._inner.execute(*arguments)


def main(base: str, what: str) -> dict[str, str]:
    with Stores(base) as stores:
        if what == "operations":
            return kill_everywhere(stores)
        if what == "steps":
            return kill_at_every_step(stores)
        return {str(nth): wrong for nth, wrong in first_opens(stores, what == "first save")}


if __name__ == "__main__":
    drive(main)
