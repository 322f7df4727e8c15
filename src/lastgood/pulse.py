"""The heartbeats of open runs: who calls them, for as long as they are open.

Where any thread may use the store, one daemon thread per client does. Where only the event loop of
a run may, a task there does. Where nobody but the caller may, on a connection that is the
application's, they come with the steps of the run.
"""

from __future__ import annotations

import asyncio
import threading
import time
import weakref
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterator
from contextlib import suppress

from lastgood.backend import Pulsing
from lastgood.children import begin_anew_in_children
from lastgood.driver import Operation, run_blocking

Heartbeat = Callable[[], Operation[None]]
"""A run's method that says that it is alive."""


class Pulse(ABC):
    """Calls the heartbeats of open runs.

    Holds runs weakly: one that was abandoned stops beating when it is collected, which may be in
    the middle of a method here, as a signal may be.
    """

    def __init__(self, every: float) -> None:
        self.every = every

    @abstractmethod
    def add(self, beat: Heartbeat) -> None:
        """Keep calling a run's method until `remove`."""

    @abstractmethod
    def remove(self, run: object) -> None:
        """Stop calling a run."""

    @abstractmethod
    async def step(self, run: object) -> None:
        """A run is about to commit a step: its caller is here, and may lend a hand."""


class _Apart(Pulse):
    """Beats without any help of callers."""

    async def step(self, run: object) -> None:
        pass


class ThreadPulse(_Apart):
    """Calls them from one daemon thread, which lives as long as they do."""

    def __init__(self, every: float) -> None:
        super().__init__(every)
        self._beats: dict[int, weakref.WeakMethod[Heartbeat]] = {}
        self._lock = threading.RLock()
        self._thread: threading.Thread | None = None
        self._end = threading.Lock()
        """Held until the thread is to end."""
        begin_anew_in_children(self)

    def add(self, beat: Heartbeat) -> None:
        with self._lock:
            self._beats[id(_run_of(beat))] = weakref.WeakMethod(beat)
            if self._thread is None or not self._thread.is_alive():
                with suppress(RuntimeError):  # no thread can be started: the next run tries again
                    self._begin()

    def _begin(self) -> None:
        end = self._end = threading.Lock()
        end.acquire()
        arguments = (weakref.ref(self), end, self.every)
        self._thread = threading.Thread(
            target=_beat, args=arguments, name="lastgood-pulse", daemon=True
        )
        self._thread.start()

    def remove(self, run: object) -> None:
        with self._lock:
            self._beats.pop(id(run), None)
            self._end_if_idle()

    def is_served_by(self, thread: threading.Thread) -> bool:
        """Whether a thread is the one that beats; an interrupt may have kept it from its end."""
        return thread is self._thread

    def due(self) -> Iterator[Heartbeat]:
        """The heartbeats of runs that are still there when their turn comes.

        On a server each takes a while, and a run may be left meanwhile.
        """
        with self._lock:
            found = {key: beat() for key, beat in self._beats.copy().items()}
            for key in [key for key, beat in found.items() if beat is None]:
                self._beats.pop(key, None)
            self._end_if_idle()
        for key, beat in found.items():
            if beat is not None and key in self._beats:
                yield beat

    def _end_if_idle(self) -> None:
        if not self._beats and self._thread is not None:
            self._thread = None
            self._end.release()

    def after_fork(self) -> None:
        """In a child: the runs are the parent's, and so is the thread."""
        self._lock, self._thread, self._beats = threading.RLock(), None, {}


def _beat(pulse: weakref.ref[ThreadPulse], end: threading.Lock, every: float) -> None:
    while not end.acquire(timeout=every):
        alive = pulse()
        if alive is None or not alive.is_served_by(threading.current_thread()):
            return
        for beat in alive.due():
            try:
                run_blocking(beat())
            except Exception:
                continue
        del alive


class LoopPulse(_Apart):
    """Calls each from a task on the event loop of its run."""

    def __init__(self, every: float) -> None:
        super().__init__(every)
        self._ends: weakref.WeakKeyDictionary[object, asyncio.Event] = weakref.WeakKeyDictionary()
        self._tasks: set[asyncio.Task[None]] = set()

    def add(self, beat: Heartbeat) -> None:
        end = self._ends[_run_of(beat)] = asyncio.Event()
        beating = _beat_on_loop(weakref.WeakMethod(beat), end, self.every)
        task = asyncio.get_running_loop().create_task(beating, name="lastgood-pulse")
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)

    def remove(self, run: object) -> None:
        end = self._ends.pop(run, None)
        if end is not None:
            end.set()


async def _beat_on_loop(
    method: weakref.WeakMethod[Heartbeat], end: asyncio.Event, every: float
) -> None:
    while not await _is_over(end, every):
        beat = method()
        if beat is None:
            return
        with suppress(Exception):
            await beat()
        del beat


async def _is_over(end: asyncio.Event, seconds: float) -> bool:
    """Whether a run was left, told after so many seconds at most."""
    with suppress(TimeoutError):
        await asyncio.wait_for(end.wait(), seconds)
    return end.is_set()


class StepPulse(Pulse):
    """Calls one before a step of its run, if none has come for as long as there is between two."""

    def __init__(self, every: float) -> None:
        super().__init__(every)
        self._beats: weakref.WeakKeyDictionary[object, tuple[weakref.WeakMethod[Heartbeat], float]]
        self._beats = weakref.WeakKeyDictionary()

    def add(self, beat: Heartbeat) -> None:
        self._beats[_run_of(beat)] = weakref.WeakMethod(beat), time.monotonic()

    def remove(self, run: object) -> None:
        self._beats.pop(run, None)

    async def step(self, run: object) -> None:
        method, last = self._beats.get(run, (None, 0.0))
        beat = method() if method else None
        if beat is not None and time.monotonic() - last >= self.every:
            self.add(beat)
            await beat()


def _run_of(beat: Heartbeat) -> object:
    return beat.__self__  # type: ignore[attr-defined]


_KINDS: dict[Pulsing, type[Pulse]] = {"thread": ThreadPulse, "loop": LoopPulse, "steps": StepPulse}


def pulse(how: Pulsing, every: float) -> Pulse:
    """The pulse of a client, for a store that lets heartbeats in this way."""
    return _KINDS[how](every)
