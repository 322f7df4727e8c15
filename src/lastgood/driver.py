"""The one place that knows blocking from async: how the core's coroutines are driven.

The core is written once, as coroutines over a `Backend`. It is driven in two ways.

    Direct   awaits the operation as it is; a blocking caller runs that with `run_blocking`, a
             trampoline.
    Native   the same for async callers of a native-async backend, who just await it. What must
             come to its end, whoever is cancelled, is a task of its own (`lasting`).
    Worker   for async callers of a blocking backend: one operation takes one hop to a worker
             thread, never one per statement. Several operations that wait there at the same time
             are advanced side by side, so their commits become one transaction.

A blocking backend's coroutine never suspends on an event loop. The only thing it may yield is a
`Wait`: "I queued a commit; settle it", or "those beside me first". The trampoline settles it at
once; the worker first lets its other operations queue theirs. Anything else that is yielded is a
bug and raises.

Cancelling an async caller never undoes a commit under way: the worker goes on, and the caller has
to take the outcome as unknown. What is run `to_the_end` goes on anywhere.

A native backend (PostgreSQL, Redis) has a wire of each colour. Which one an operation takes is told
by who drives it: `is_blocking` is true below a trampoline, in its thread, until it ends, and in a
worker.
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
from typing import Any, Concatenate, ParamSpec, TypeVar

from lastgood.children import begin_anew_in_children
from lastgood.lasting import Lasting
from lastgood.serial import OfTasks, OfThreads, Serial

T = TypeVar("T")
P = ParamSpec("P")
Operation = Coroutine[Any, Any, T]


class Wait:
    """What a blocking backend's coroutine yields while its commit is queued."""

    def settle(self) -> None:
        """Block until the commit is over, carrying it out if nobody else does."""
        raise NotImplementedError

    def __await__(self) -> Generator[Wait, None, None]:
        yield self


class _Turn(Wait):
    def settle(self) -> None:
        """Those beside it were first."""


class _Colour(threading.local):
    blocking = False


_COLOUR = _Colour()


def is_blocking() -> bool:
    """Whether the code that asks runs below a trampoline or in a worker: it must not suspend."""
    return _COLOUR.blocking


async def pause(seconds: float) -> None:
    """Wait for a while, in the colour of whoever drives."""
    if _COLOUR.blocking:
        time.sleep(seconds)  # noqa: ASYNC251
    else:
        await asyncio.sleep(seconds)


async def give_way() -> None:
    """Let the commits first that were queued beside this operation, in its worker."""
    if _COLOUR.blocking:
        await _Turn()


@contextmanager
def cancellable() -> Iterator[None]:
    """Raise a cancel that was swallowed inside: by wait_for of Python 3.11, or by a library that
    lost its connection while it was cancelled, and tells that instead.
    """
    task = None if _COLOUR.blocking else asyncio.current_task()
    before = task.cancelling() if task else 0
    error: Exception | None = None
    try:
        yield
    except Exception as raised:
        error = raised
    if task and task.cancelling() > before:
        raise asyncio.CancelledError from error
    if error is not None:
        raise error


def run_blocking(operation: Operation[T]) -> T:
    """Run a coroutine to its end in this thread."""
    before = _COLOUR.blocking
    try:
        _COLOUR.blocking = True  # an interrupt from here on finds its way to where it is undone
        yielded = operation.send(None)
        while True:
            try:
                _as_wait(yielded).settle()
            except BaseException as error:
                yielded = operation.throw(error)
            else:
                yielded = operation.send(None)
    except StopIteration as stop:
        # Nothing is called from here on, where an interrupt would be heard behind all that undoes.
        return stop.value  # type: ignore[no-any-return]
    except BaseException:
        operation.close()  # an interrupt must not leave it in its turn with a kept traceback
        raise
    finally:
        _COLOUR.blocking = before


class SuspendedError(RuntimeError):
    """Blocking code awaited something that only an event loop can give."""


def _as_wait(yielded: object) -> Wait:
    if not isinstance(yielded, Wait):
        hint = "Pass plain functions to a blocking client. If you did, its backend has a bug."
        raise SuspendedError(f"blocking code suspended on {yielded!r}. {hint}")
    return yielded


def needs_a_loop(error: RuntimeError) -> bool:
    """Whether blocking code failed because it awaited what only an event loop can give."""
    return isinstance(error, SuspendedError) or str(error) == "no running event loop"


class Driver(ABC):
    """How a client runs an operation."""

    @abstractmethod
    async def run(self, operation: Operation[T]) -> T: ...

    async def to_the_end(self, operation: Operation[T]) -> T:
        """The same; it comes to its end, also where the caller is cancelled meanwhile."""
        return await self.run(operation)

    async def close(self, closing: Callable[[], Operation[None]]) -> None:
        """Run what closes the store, behind what goes on without its caller."""
        await self.run(closing())

    @abstractmethod
    def serial(self) -> Serial: ...

    async def pause(self, seconds: float) -> None:
        """Wait for a while, in the way of the caller's colour."""
        await pause(seconds)

    def rest(self) -> None:  # noqa: B027
        """Let go of threads until the next operation."""


class Direct(Driver):
    """Runs an operation where it is, for blocking callers."""

    async def run(self, operation: Operation[T]) -> T:
        return await operation

    def serial(self) -> Serial:
        return OfThreads()


class Native(Direct):
    """Runs an operation where it is, on the caller's event loop."""

    def __init__(self, *, apart: bool = True) -> None:
        """With `apart`, others than the caller may use the store, too."""
        self._lasting = Lasting(apart=apart)

    async def to_the_end(self, operation: Operation[T]) -> T:
        return await self._lasting.run(operation)

    async def close(self, closing: Callable[[], Operation[None]]) -> None:
        await self.to_the_end(self._close(closing))

    async def _close(self, closing: Callable[[], Operation[None]]) -> None:
        try:
            await self._lasting.left()
        finally:
            await closing()

    def serial(self) -> Serial:
        return OfTasks()


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
        """Wait for the commit; what it raises ends the operation."""
        try:
            assert self.wait is not None
            self.wait.settle()
        except BaseException as error:
            self.wait, self.error = None, error
            self.operation.close()

    def deliver(self) -> None:
        """On the loop: hand over the outcome, unless nobody waits for it any more."""
        if self.future.done():
            return
        if self.error is not None:
            self.future.set_exception(self.error)
        else:
            self.future.set_result(self.result)


class Worker(Driver):
    """Runs operations of a blocking backend in one thread of its own."""

    def __init__(self) -> None:
        self._inbox: SimpleQueue[list[_Job] | None] = SimpleQueue()
        self._gathered: dict[asyncio.AbstractEventLoop, list[_Job]] = {}
        self._pid = 0
        self._lock = threading.RLock()
        begin_anew_in_children(self)

    async def run(self, operation: Operation[T]) -> T:
        if sys.is_finalizing():
            return run_blocking(operation)  # no thread runs any more but this one
        job = _Job(operation)
        self._gathered.setdefault(job.loop, []).append(job)
        job.loop.call_soon(self._send, job.loop)
        return await job.future  # type: ignore[no-any-return]

    def _send(self, loop: asyncio.AbstractEventLoop) -> None:
        """Hand over what the tasks of one turn of the loop have asked for, all at once.

        Nobody waits for others to ask; but the tasks that are ready now run first, instead of
        fighting with the worker for the interpreter, and their commits become one.
        """
        jobs = self._gathered.pop(loop, None)
        if jobs is None:
            return  # they went with those of the first that asked
        try:
            self._pass_on(jobs)
        except RuntimeError:  # no thread can be started, as when the interpreter ends
            _complete(jobs)
        except BaseException:
            for job in jobs:
                job.future.cancel()
            raise

    def _pass_on(self, jobs: list[_Job]) -> None:
        """To the thread, which may be told to end at the same time."""
        with self._lock:
            self._ensure_thread()
            self._inbox.put(jobs)

    def serial(self) -> Serial:
        return OfTasks()

    def rest(self) -> None:
        with self._lock:
            if self._pid == os.getpid():
                self._pid = 0
                self._inbox.put(None)

    def after_fork(self) -> None:
        """In a child: the thread is not there, and the lock may be held by nobody."""
        self._lock, self._pid, self._gathered = threading.RLock(), 0, {}

    def _ensure_thread(self) -> None:
        if self._pid == os.getpid():
            return
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
    """Carry out jobs, those first that were cancelled: who asks behind them sees what they did."""
    left = dict.fromkeys(job for job in jobs if job.future.cancelled())
    if left:
        _side_by_side(list(left))
    _side_by_side([job for job in jobs if job not in left])


def _side_by_side(jobs: list[_Job]) -> None:
    """Advance jobs in turn, so that what they commit is committed together."""
    before, _COLOUR.blocking = _COLOUR.blocking, True
    try:
        while jobs:
            for job in jobs:
                if job.error is None:
                    job.advance()
            _deliver([job for job in jobs if job.wait is None])
            jobs = [job for job in jobs if job.wait is not None]
            for job in jobs:
                job.settle()
    finally:
        _COLOUR.blocking = before


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
    try:
        sys.set_asyncgen_hooks(None, None)
        return run_blocking(step)
    finally:
        sys.set_asyncgen_hooks(*hooks)
