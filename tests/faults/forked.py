"""Forked children that tell their parent what they do, line by line.

Only drivers use it: small scripts that the tests start as processes of their own. A driver has one
thread, so forking is safe there, and cheap enough for hundreds of kills.
"""

import gc
import json
import os
import signal
import sys
import traceback
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, TextIO

Tell = Callable[[str], None]


@dataclass
class Child:
    """A child process and the pipe on which it tells."""

    pid: int
    pipe: TextIO

    def kill(self) -> None:
        """Kill -9, then wait until it is gone."""
        os.kill(self.pid, signal.SIGKILL)
        self.wait()

    def wait(self) -> int:
        """The exit code; negative for the signal that ended it."""
        return os.waitstatus_to_exitcode(os.waitpid(self.pid, 0)[1])

    def rest(self) -> list[str]:
        """The lines that nobody read yet; the child must be gone."""
        with self.pipe:
            return self.pipe.read().splitlines()


def fork(work: Callable[[Tell], Any]) -> Child:
    """Run `work` in a child. A line is in the pipe, whole, when `tell` returns.

    When the parent is gone, the pipe is broken and the child ends at its next line.
    """
    reading, writing = os.pipe()
    pid = os.fork()
    if pid:
        os.close(writing)
        return Child(pid, os.fdopen(reading, encoding="utf-8"))
    os.close(reading)

    def tell(line: str) -> None:
        os.write(writing, f"{line}\n".encode())

    code = 1
    try:
        work(tell)
        code = 0
    except BaseException as error:
        traceback.print_exc()
        tell(f"ERROR {type(error).__name__}: {error}".replace("\n", " "))
    finally:
        os._exit(code)  # whatever happens, a child never goes on with its parent's work


def drive(work: Callable[..., dict[str, Any]]) -> None:
    """The main program of a driver: options as JSON in, a report as JSON out."""
    gc.freeze()  # what was imported stays in the pages that all children share
    print(json.dumps(work(**json.loads(sys.argv[1]))))
