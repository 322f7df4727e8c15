"""A server as a child process: started until it answers, stopped, killed, started again.

Invariant: it ends with the process that started it, even when that is killed. Linux sees to it
(PDEATHSIG), counted from the *thread* that called `start`: call it from one that lasts. Its files
stay from one start to the next and go with `close`.
"""

from __future__ import annotations

import ctypes
import os
import pwd
import signal
import subprocess
import sys
import time
import warnings
from abc import ABC, abstractmethod
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any, ClassVar, Self

from lastgood.testing.servers.places import make_place, remove_place

START_SECONDS = 30.0
STOP_SECONDS = 10.0
POLL_SECONDS = 0.01
PR_SET_PDEATHSIG = 1


class ServerError(Exception):
    """A server did not start; the message ends with the last lines of its log."""


class Server(ABC):
    """One server with its own directory. `start` and `stop` may alternate; `close` is the end."""

    name: ClassVar[str]
    death_signal: ClassVar[signal.Signals] = signal.SIGKILL
    """What ends it at once, and its own children too."""
    stop_signal: ClassVar[signal.Signals] = signal.SIGTERM
    refuses_root: ClassVar[bool] = False

    def __init__(self) -> None:
        self.directory = make_place()
        self.log = self.directory / "log"
        self._process: subprocess.Popen[bytes] | None = None
        self._prepared = False

    @property
    @abstractmethod
    def url(self) -> str:
        """Where clients find it; the same after every start."""

    @abstractmethod
    def command(self) -> Sequence[str | Path]:
        """The program with its arguments."""

    @abstractmethod
    def answers(self) -> bool:
        """Whether it takes a connection and is ready to work."""

    def prepare(self) -> None:
        """Make what must be there before the first start."""
        return

    def starts_later(self) -> bool:
        """Whether a server that just failed to start is worth another try."""
        return False

    def environment(self) -> dict[str, str]:
        """The environment variables of the server: nothing of ours but the path."""
        path = os.environ.get("PATH", os.defpath)
        return {"PATH": path, "HOME": str(self.directory), "LC_ALL": "C.UTF-8"}

    @property
    def pid(self) -> int:
        """The process id of the running server."""
        assert self._process is not None, f"{self.name} is not running"
        return self._process.pid

    @property
    def running(self) -> bool:
        """Whether its process is there."""
        return self._process is not None and self._process.poll() is None

    def start(self) -> Self:
        """Start it, on the data it had before; returns when it answers. Raises ServerError."""
        assert not self.running, f"{self.name} is running"
        if not self._prepared:
            self.prepare()
            self._prepared = True
        deadline = time.monotonic() + START_SECONDS
        self._process = self._spawned()
        try:
            self._wait_until_ready(deadline)
        except BaseException:
            self.kill()
            raise
        return self

    def stop(self) -> None:
        """End it in the orderly way, as an administrator would; not running is no error."""
        if not self.running:
            return
        self.signal(self.stop_signal)
        try:
            self._wait(STOP_SECONDS)
        except subprocess.TimeoutExpired:
            self.signal(self.death_signal)
            self._wait(STOP_SECONDS)

    def kill(self) -> None:
        """kill -9: it has no chance to write anything more; not running is no error."""
        if self.running:
            self.signal(signal.SIGKILL)
            self._wait(STOP_SECONDS)

    def restart(self) -> Self:
        """Stop it and start it again."""
        self.stop()
        return self.start()

    def signal(self, number: signal.Signals) -> None:
        """Send it a signal."""
        os.kill(self.pid, number)

    def close(self) -> None:
        """Stop it and remove its files."""
        self.stop()
        remove_place(self.directory)

    def __enter__(self) -> Self:
        try:
            return self.start()
        except BaseException:
            self.close()
            raise

    def __exit__(self, *_raised: object) -> None:
        self.close()

    def run(self, command: Sequence[str | Path], **options: Any) -> None:
        """Run a program to its end, as the user that the server runs as. Raises ServerError."""
        done = subprocess.run(
            command,
            stdin=subprocess.DEVNULL,
            capture_output=True,
            check=False,
            cwd=self.directory,
            env=self.environment(),
            **self.identity(),
            **options,
        )
        if done.returncode:
            told = (done.stdout + done.stderr).decode(errors="replace")
            raise ServerError(f"{self.name}: {Path(command[0]).name} failed: {told}")

    def identity(self) -> dict[str, Any]:
        """As whom it runs, in the words of subprocess: another user if it must not be root."""
        if not self.refuses_root or os.geteuid() != 0:
            return {}
        nobody = pwd.getpwnam("nobody")
        return {"user": nobody.pw_uid, "group": nobody.pw_gid, "extra_groups": []}

    def hand_over(self) -> None:
        """Give the directory and all in it to the user that the server runs as."""
        who = self.identity()
        if who:
            for path in (self.directory, *self.directory.rglob("*")):
                os.chown(path, who["user"], who["group"], follow_symlinks=False)

    def _spawned(self) -> subprocess.Popen[bytes]:
        with self.log.open("ab") as log, warnings.catch_warnings():
            # From Python 3.12 on, a fork beside threads warns. The child only makes two system
            # calls before it becomes the server.
            warnings.simplefilter("ignore", DeprecationWarning)
            return subprocess.Popen(
                self.command(),
                stdin=subprocess.DEVNULL,
                stdout=log,
                stderr=log,
                cwd=self.directory,
                env=self.environment(),
                start_new_session=True,
                preexec_fn=dying_with_parent(self.death_signal, os.getpid()),  # noqa: PLW1509
                **self.identity(),
            )

    def _wait_until_ready(self, deadline: float) -> None:
        while not (self.running and self.answers()):
            if time.monotonic() > deadline:
                raise self._failed(f"does not answer after {START_SECONDS:.0f} s")
            if not self.running:
                if not self.starts_later():
                    raise self._failed("ended while starting")
                self._process = self._spawned()
            time.sleep(POLL_SECONDS)

    def _failed(self, what: str) -> ServerError:
        return ServerError(f"{self.name} {what}. Its log {self.log} ends:\n{self.log_tail()}")

    def log_tail(self) -> str:
        """The last lines that it logged."""
        return "\n".join(self.log.read_text(errors="replace").splitlines()[-15:])

    def _wait(self, seconds: float) -> None:
        assert self._process is not None
        self._process.wait(seconds)


def dying_with_parent(number: signal.Signals, parent: int) -> Callable[[], None]:
    """What a process calls so that it gets a signal when its parent is gone."""
    if sys.platform != "linux":
        return lambda: None
    prctl = ctypes.CDLL(None).prctl

    def ask() -> None:
        prctl(PR_SET_PDEATHSIG, int(number))
        if os.getppid() != parent:  # it was gone before the request
            os._exit(1)

    return ask
