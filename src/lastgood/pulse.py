"""The heartbeats of open runs: one daemon thread per client."""

from __future__ import annotations

import threading
import weakref
from collections.abc import Callable, Iterator

from lastgood.driver import Operation, begin_anew_in_children, run_blocking


class Pulse:
    """Calls the heartbeats of open runs from one daemon thread, which lives as long as they do.

    Holds runs weakly: one that was abandoned stops beating when it is collected.
    """

    def __init__(self, every: float) -> None:
        self.every = every
        self._beats: dict[int, weakref.WeakMethod[Callable[[], Operation[None]]]] = {}
        self._lock = threading.Lock()
        self._wake: threading.Event | None = None
        begin_anew_in_children(self)

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

    def due(self) -> Iterator[Callable[[], Operation[None]]]:
        """The heartbeats of runs that are still there when their turn comes.

        On a server each takes a while, and a run may be left meanwhile.
        """
        with self._lock:
            found = {key: beat() for key, beat in self._beats.items()}
            self._beats = {key: self._beats[key] for key, beat in found.items() if beat}
            self._end_if_idle()
        for key, beat in found.items():
            if beat is not None and key in self._beats:
                yield beat

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
