"""The agent of the demo as a process: starting it, reading its reports, killing it."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import IO

_PROGRAM = "from lastgood.cli.demo_agent import main; main()"


@dataclass(slots=True)
class Attempt:
    """One life of the agent, by what it told us before it ended."""

    process: subprocess.Popen[str]
    run_id: str = ""
    number: int = 0
    began: list[int] = field(default_factory=list)
    saved: list[int] = field(default_factory=list)

    @property
    def pid(self) -> int:
        return self.process.pid

    @property
    def exit_code(self) -> int | None:
        """Minus the number of the signal that ended it, as `subprocess` has it."""
        return self.process.returncode

    def until_begun(self, step: int) -> Iterator[str]:
        """Take in reports until a step has begun; gives the first word of each."""
        while step not in self.began and (word := self._take_in()):
            yield word

    def until_end(self) -> Iterator[str]:
        """Take in reports until the process has ended; gives the first word of each."""
        while word := self._take_in():
            yield word
        self.process.wait()

    def kill(self) -> None:
        """SIGKILL: no handler runs, nothing is flushed, no block is left in order."""
        self.process.kill()
        for _ in self.until_end():
            pass

    def _take_in(self) -> str:
        report = _output(self.process).readline()
        match report.split():
            case ["entered", run_id, number]:
                self.run_id, self.number = run_id, int(number)
            case ["began", step]:
                self.began.append(int(step))
            case ["saved", step]:
                self.saved.append(int(step))
        return report.partition(" ")[0]


def _output(process: subprocess.Popen[str]) -> IO[str]:
    assert process.stdout is not None, "it was opened as a pipe"
    return process.stdout


@contextmanager
def started(file: Path, *, hangs_at: int = 0) -> Iterator[Attempt]:
    """The agent at work on a file; it never outlives the block.

    Its standard input is a pipe that nobody writes to: should we die, it ends as well.
    """
    program = [sys.executable, "-P", "-c", _PROGRAM, str(file)]
    process = subprocess.Popen(
        [*program, "--hangs-at", str(hangs_at)],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
        process_group=0,  # an interruption from the keyboard is for us; we end the agent
    )
    with process:
        try:
            yield Attempt(process)
        finally:
            process.kill()
