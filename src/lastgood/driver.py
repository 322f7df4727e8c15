"""The one place that knows blocking from async: how the core's coroutines are driven.

The core is written once, as coroutines over a `Backend`. It is driven in two ways.

    Direct   awaits the operation as it is. A blocking caller then runs it with `run_blocking`, a
             trampoline; an async caller of a native-async backend just awaits it.
    Worker   for async callers of a blocking backend: one operation takes one hop to a worker
             thread, never one per statement. Several operations that wait there at the same time
             are advanced side by side, so their commits become one transaction.

A blocking backend's coroutine never suspends on an event loop. The only thing it may yield is a
`Wait`: "I queued a commit; settle it". The trampoline settles it at once; the worker first lets
its other operations queue theirs. Anything else that is yielded is a bug and raises.

Cancelling an async caller never undoes a commit under way: the worker goes on, and the caller has
to take the outcome as unknown. `Pulse` is the client's one daemon thread for heartbeats.
"""

from __future__ import annotations

import asyncio
import os
import sys
import threading
import time
import weakref
from abc import ABC, abstractmethod
from collections.abc import AsyncGenerator, Callable, Coroutine, Generator, Iterator
from contextlib import contextmanager
from functools import wraps
from queue import Empty, SimpleQueue
from typing import Any, Concatenate, ParamSpec, Protocol, TypeVar

from lastgood.errors import TransientStorageError

T = TypeVar("T")
P = ParamSpec("P")
Operation = Coroutine[Any, Any, T]


class Wait(ABC):
    """What a blocking backend's coroutine yields while its commit is queued."""

    @abstractmethod
    def settle(self) -> None:
        """Block until the commit is over, carrying it out if nobody else does."""

    def __await__(self) -> Generator[Wait, None, None]:
        yield self


def run_blocking(operation: Operation[T]) -> T:
    """Run a coroutine of a blocking backend to its end in this thread."""
    try:
        while True:
            _as_wait(operation.send(None)).settle()
    except StopIteration as stop:
        return stop.value  # type: ignore[no-any-return]


def _as_wait(yielded: object) -> Wait:
    if not isinstance(yielded, Wait):
        hint = "Pass plain functions to a blocking client. If you did, its backend has a bug."
        raise RuntimeError(f"blocking code suspended on {yielded!r}. {hint}")  # noqa: TRY004
    return yielded


class Turnstile:
    """A mutex that says so when its own holder comes again, instead of waiting for ever.

    That is what a signal handler does which saves while a save is under way in its thread. The
    work is passed in, not bracketed by a generator: one that a signal leaves suspended would run
    its end at some later moment, in the middle of somebody else's turn.
    """

    def __init__(self) -> None:
        self._lock = threading.RLock()
        self._busy = False

    def run(self, work: Callable[[], T]) -> T:
        """Do it when it is our turn; raises TransientStorageError if this thread has one."""
        with self._lock:
            if self._busy:
                raise again_in_one_thread()
            self._busy = True
            try:
                return work()
            finally:
                self._busy = False

    @contextmanager
    def held(self) -> Iterator[None]:
        """Keep everybody out for as long as the block lasts: for a fork."""
        with self._lock:
            yield

    async def drive(self, work: Callable[[], Operation[T]]) -> T:
        """The same for an operation of a blocking caller."""
        with self._lock:
            if self._busy:
                raise again_in_one_thread()
            self._busy = True
            try:
                return await work()
            finally:
                self._busy = False


def again_in_one_thread() -> TransientStorageError:
    """The error for a save inside a save."""
    return TransientStorageError(
        "a save is under way in this very thread; a signal handler interrupted it.",
        hint="Let the handler set a flag, and save where the work goes on.",
    )


class Serial(Protocol):
    """A queue of its own: of the operations that are passed in, one runs at a time."""

    async def __call__(self, work: Callable[[], Operation[T]], /) -> T: ...


class Driver(Protocol):
    """How a client runs an operation."""

    async def run(self, operation: Operation[T]) -> T: ...
    def serial(self) -> Serial: ...
    async def pause(self, seconds: float) -> None:
        """Wait for a while, in the way of the caller's colour."""

    def rest(self) -> None:
        """Let go of threads until the next operation."""
        ...


class Direct:
    """Runs an operation where it is, for blocking callers."""

    async def run(self, operation: Operation[T]) -> T:
        return await operation

    def serial(self) -> Serial:
        return Turnstile().drive

    async def pause(self, seconds: float) -> None:
        time.sleep(seconds)  # noqa: ASYNC251

    def rest(self) -> None:
        """It has no threads."""


class _Job:
    """An operation in the worker, and the future of the task that awaits it."""

    def __init__(self, operation: Operation[Any]) -> None:
        self.operation = operation
        self.loop = asyncio.get_running_loop()
        self.future: asyncio.Future[Any] = self.loop.create_future()
        self.wait: Wait | None = None
        self.result: Any = None
        self.error: BaseException | None = None

    def advance(self) -> None:
        """Go on to the next wait or to the end."""
        try:
            self.wait = _as_wait(self.operation.send(None))
        except StopIteration as stop:
            self.wait, self.result = None, stop.value
        except BaseException as error:
            self.wait, self.error = None, error

    def settle(self) -> None:
        """Wait for the commit; what it raises is for the operation to see."""
        try:
            assert self.wait is not None
            self.wait.settle()
        except BaseException as error:
            self.wait, self.error = None, error

    def deliver(self) -> None:
        """On the loop: hand over the outcome, unless nobody waits for it any more."""
        if self.future.done():
            return
        if self.error is not None:
            self.future.set_exception(self.error)
        else:
            self.future.set_result(self.result)


class Worker:
    """Runs operations of a blocking backend in one thread of its own."""

    def __init__(self) -> None:
        self._inbox: SimpleQueue[list[_Job] | None] = SimpleQueue()
        self._gathered: dict[asyncio.AbstractEventLoop, list[_Job]] = {}
        self._pid = 0
        self._lock = threading.Lock()
        _WITH_THREADS.add(self)

    async def run(self, operation: Operation[T]) -> T:
        if sys.is_finalizing():
            return run_blocking(operation)  # no thread runs any more but this one
        job = _Job(operation)
        gathered = self._gathered.setdefault(job.loop, [])
        gathered.append(job)
        if len(gathered) == 1:
            job.loop.call_soon(self._send, job.loop)
        return await job.future  # type: ignore[no-any-return]

    def _send(self, loop: asyncio.AbstractEventLoop) -> None:
        """Hand over what the tasks of one turn of the loop have asked for, all at once.

        Nobody waits for others to ask; but the tasks that are ready now run first, instead of
        fighting with the worker for the interpreter, and their commits become one.
        """
        jobs = self._gathered.pop(loop)
        self._ensure_thread()
        self._inbox.put(jobs)

    def serial(self) -> Serial:
        lock = asyncio.Lock()

        async def in_turn(work: Callable[[], Operation[T]]) -> T:
            async with lock:
                return await work()

        return in_turn

    async def pause(self, seconds: float) -> None:
        await asyncio.sleep(seconds)

    def rest(self) -> None:
        with self._lock:
            if self._pid == os.getpid():
                self._pid = 0
                self._inbox.put(None)

    def after_fork(self) -> None:
        """In a child: the thread is not there, and the lock may be held by nobody."""
        self._lock, self._pid, self._gathered = threading.Lock(), 0, {}

    def _ensure_thread(self) -> None:
        if self._pid == os.getpid():
            return
        with self._lock:
            if self._pid != os.getpid():
                self._inbox = SimpleQueue()
                weakref.finalize(self, self._inbox.put, None).atexit = False
                threading.Thread(
                    target=_serve, args=(self._inbox,), name="lastgood-worker", daemon=True
                ).start()
                self._pid = os.getpid()


def _serve(inbox: SimpleQueue[list[_Job] | None]) -> None:
    while True:
        sent = [inbox.get()]
        try:
            while True:
                sent.append(inbox.get_nowait())
        except Empty:
            pass
        _complete([job for jobs in sent if jobs is not None for job in jobs])
        if None in sent:
            return


def _complete(jobs: list[_Job]) -> None:
    """Advance jobs side by side, so that what they commit is committed together."""
    while jobs:
        for job in jobs:
            if job.error is None:
                job.advance()
        _deliver([job for job in jobs if job.wait is None])
        jobs = [job for job in jobs if job.wait is not None]
        for job in jobs:
            job.settle()


def _deliver(jobs: list[_Job]) -> None:
    """One wake-up per event loop, however many of its tasks are served."""
    for loop in {job.loop for job in jobs}:
        mine = [job for job in jobs if job.loop is loop]
        try:
            loop.call_soon_threadsafe(_hand_over, mine)
        except RuntimeError:
            continue  # the loop was closed: nobody is left to be told


def _hand_over(jobs: list[_Job]) -> None:
    for job in jobs:
        job.deliver()


class Pulse:
    """Calls the heartbeats of open runs from one daemon thread, which lives as long as they do.

    Holds runs weakly: one that was abandoned stops beating when it is collected.
    """

    def __init__(self, every: float) -> None:
        self.every = every
        self._beats: dict[int, weakref.WeakMethod[Callable[[], Operation[None]]]] = {}
        self._lock = threading.Lock()
        self._wake: threading.Event | None = None
        _WITH_THREADS.add(self)

    def add(self, beat: Callable[[], Operation[None]]) -> None:
        """Keep calling a run's method until `remove`."""
        with self._lock:
            self._beats[id(beat.__self__)] = weakref.WeakMethod(beat)  # type: ignore[attr-defined]
            if self._wake is None:
                self._wake = threading.Event()
                threading.Thread(
                    target=_beat,
                    args=(weakref.ref(self), self._wake, self.every),
                    name="lastgood-pulse",
                    daemon=True,
                ).start()

    def remove(self, run: object) -> None:
        """Stop calling a run."""
        with self._lock:
            self._beats.pop(id(run), None)
            self._end_if_idle()

    def due(self) -> list[Callable[[], Operation[None]]]:
        """The heartbeats of runs that are still there."""
        with self._lock:
            found = {key: beat() for key, beat in self._beats.items()}
            self._beats = {key: self._beats[key] for key, beat in found.items() if beat}
            self._end_if_idle()
        return [beat for beat in found.values() if beat]

    def _end_if_idle(self) -> None:
        if not self._beats and self._wake is not None:
            self._wake.set()
            self._wake = None

    def after_fork(self) -> None:
        """In a child: the runs are the parent's, and so is the thread."""
        self._lock, self._wake, self._beats = threading.Lock(), None, {}


def _beat(pulse: weakref.ref[Pulse], wake: threading.Event, every: float) -> None:
    while not wake.wait(every):
        alive = pulse()
        if alive is None:
            return
        for beat in alive.due():
            try:
                run_blocking(beat())
            except Exception:
                continue
        del alive


_WITH_THREADS: weakref.WeakSet[Worker | Pulse] = weakref.WeakSet()


def _after_fork() -> None:
    for owner in list(_WITH_THREADS):
        owner.after_fork()


os.register_at_fork(after_in_child=_after_fork)


def blocking(
    method: Callable[Concatenate[Any, P], Coroutine[Any, Any, T]],
) -> Callable[Concatenate[Any, P], T]:
    """The blocking twin of an async method: same signature, same docstring, no await."""

    @wraps(method)
    def twin(self: Any, /, *args: P.args, **kwargs: P.kwargs) -> T:
        return run_blocking(method(self._direct, *args, **kwargs))

    return twin


def iterated(values: AsyncGenerator[T, None]) -> Generator[T, None, None]:
    """The blocking twin of an async generator; closing it closes that one, here and at once."""
    try:
        while True:
            yield _alone(values.__anext__())
    except StopAsyncIteration:
        return
    finally:
        _alone(values.aclose())


def _alone(step: Coroutine[Any, Any, T]) -> T:
    """Run a step of a generator that no event loop may take for its own."""
    hooks = sys.get_asyncgen_hooks()
    sys.set_asyncgen_hooks(None, None)
    try:
        return run_blocking(step)
    finally:
        sys.set_asyncgen_hooks(*hooks)
