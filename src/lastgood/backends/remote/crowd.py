"""Threads in a row: the first so many of them have a place, the others wait for one.

An interrupt (Ctrl-C, a signal handler that raises, an exception that is raised into a thread) may
come between any two steps, and the locks of `threading` that are written in Python stay locked
then. So nothing here has to be given back: who is in the row is held weakly, and whoever went
without a word is not in it any more. A call to wake up may get lost the same way, so who waits
looks again now and then by itself.
"""

from __future__ import annotations

import threading
import time
import weakref
from collections.abc import Iterator
from contextlib import suppress
from threading import Lock

LOOK_SECONDS = 0.5


class Guest:
    """One who came, for as long as it is held: by its thread alone."""

    def __init__(self, who: object = None) -> None:
        self.who = who
        self.thread = threading.get_ident()
        self.inside = False
        self._call = Lock()
        self._call.acquire()

    def wait(self, seconds: float) -> None:
        """Until it is called, or for so long."""
        self._call.acquire(timeout=min(seconds, LOOK_SECONDS))

    def call(self) -> None:
        """Have it look whether it has a place."""
        with suppress(RuntimeError):  # it is called already
            self._call.release()


class Crowd:
    """Those who came, in the order in which they did."""

    def __init__(self, size: int) -> None:
        self._size = size
        self._row: dict[int, weakref.ref[Guest]] = {}

    def __iter__(self) -> Iterator[Guest]:
        for key, each in list(self._row.items()):
            guest = each()
            if guest is not None:
                yield guest
            else:
                self._row.pop(key, None)

    def enter(self, guest: Guest, seconds: float) -> bool:
        """Wait for a place for so many seconds; False if there is none by then. Once more, it goes
        on waiting where it stands.
        """
        known = self._row.get(id(guest))
        if known is None or known() is not guest:  # whoever went may have stood at this address
            self._row.pop(id(guest), None)
            self._row[id(guest)] = weakref.ref(guest)
        until = time.monotonic() + seconds
        while not (found := self._has_place(guest)) and (left := until - time.monotonic()) > 0:
            guest.wait(left)
        guest.inside = found
        return found

    def leave(self, guest: Guest) -> None:
        """Make room, also for who did not get in."""
        self._row.pop(id(guest), None)
        for number, each in enumerate(self):
            if number == self._size:
                break
            if not each.inside:
                each.call()

    def _has_place(self, guest: Guest) -> bool:
        """Whether it is one of the first. Who waits in this very thread, in which a signal handler
        came in between, is not before it.
        """
        before = 0
        for each in self:
            if each is guest:
                return True
            before += each.inside or each.thread != guest.thread
            if before == self._size:
                return False
        return True
