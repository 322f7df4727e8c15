"""The heartbeats of open runs: one daemon thread per client."""

from __future__ import annotations

import threading
import weakref
from collections.abc import Callable, Iterator
from contextlib import suppress

from lastgood.children import begin_anew_in_children
from lastgood.driver import Operation, run_blocking


class Pulse:
    """Calls the heartbeats of open runs from one daemon thread, which lives as long as they do.

    Holds runs weakly: one that was abandoned stops beating when it is collected, which may be in
    the middle of a method here, as a signal may be.
    """

    def __init__(self, every: float) -> None:
        self.every = every
        self._beats: dict[int, weakref.WeakMethod[Callable[[], Operation[None]]]] = {}
        self._lock = threading.RLock()
        self._thread: threading.Thread | None = None
        self._end = threading.Lock()
        """Held until the thread is to end."""
        begin_anew_in_children(self)

    def add(self, beat: Callable[[], Operation[None]]) -> None:
        """Keep calling a run's method until `remove`."""
        with self._lock:
            self._beats[id(beat.__self__)] = weakref.WeakMethod(beat)  # type: ignore[attr-defined]
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
        """Stop calling a run."""
        with self._lock:
            self._beats.pop(id(run), None)
            self._end_if_idle()

    def is_served_by(self, thread: threading.Thread) -> bool:
        """Whether a thread is the one that beats; an interrupt may have kept it from its end."""
        return thread is self._thread

    def due(self) -> Iterator[Callable[[], Operation[None]]]:
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


def _beat(pulse: weakref.ref[Pulse], end: threading.Lock, every: float) -> None:
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
