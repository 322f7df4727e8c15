"""Running the real command: in this process, through pipes, and on a terminal."""

import os
import pty
import re
import select
import shutil
import signal
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path

from lastgood import BlockingClient

COMMAND = [sys.executable, "-P", "-m", "lastgood"]
HOSTILE = "evil\u202ename\u200b"
HOSTILE_AGENT = "a\u2066gent"
ESCAPES = "\x1b]0;owned\x07\x1b[2J\x9b31m\r\x00\u202e\u2066\u200e\u061c\u200b\ufeff\u2028\ud800"
"""Terminal escapes, C1 controls, bidi controls, invisible characters, half a surrogate pair."""
FORBIDDEN = re.compile(
    "[\x00-\x08\x0b-\x1f\x7f-\x9f\u061c\u200b-\u200f\u2028-\u202e\u2066-\u2069\ufeff]"
)
"""What no output may contain but line ends and tabs."""


@dataclass(frozen=True)
class Result:
    code: int
    out: str
    err: str


def environment(**settings: str) -> dict[str, str]:
    left_out = {"NO_COLOR", "LASTGOOD_URL", "TERM", "COLUMNS"}
    kept = {name: value for name, value in os.environ.items() if name not in left_out}
    return {**kept, "PYTHONIOENCODING": "utf-8", **settings}


def piped(*arguments: str, cwd: Path, given: str = "", **settings: str) -> Result:
    """The command in a process of its own, with pipes."""
    done = subprocess.run(
        [*COMMAND, *arguments],
        cwd=cwd,
        input=given,
        capture_output=True,
        encoding="utf-8",
        env=environment(**settings),
        check=False,
    )
    return Result(done.returncode, done.stdout, done.stderr)


@dataclass
class Screen:
    """A command on a pseudo-terminal."""

    process: subprocess.Popen[bytes]
    terminal: int
    shown: str = field(default="")

    def until(self, text: str) -> str:
        """Read until a text has been shown."""
        while text not in self.shown:
            assert self._read(), f"it ended without {text!r}: {self.shown!r}"
        return self.shown

    def type(self, text: str) -> None:
        os.write(self.terminal, text.encode())

    def interrupt(self) -> None:
        self.process.send_signal(signal.SIGINT)

    def end(self) -> tuple[int, str]:
        """Everything it showed, and its exit code."""
        while self._read():
            pass
        return self.process.wait(), self.shown

    def _read(self) -> bool:
        select.select([self.terminal], [], [])
        try:
            data = os.read(self.terminal, 65536)
        except OSError:
            return False
        self.shown += data.decode("utf-8", "replace")
        return bool(data)


@contextmanager
def on_terminal(*arguments: str, cwd: Path, **settings: str) -> Iterator[Screen]:
    """The command on a terminal of 100 columns."""
    ours, theirs = pty.openpty()
    process = subprocess.Popen(
        [*COMMAND, *arguments],
        cwd=cwd,
        stdin=theirs,
        stdout=theirs,
        stderr=theirs,
        env=environment(**{"TERM": "xterm", "COLUMNS": "100", **settings}),
        preexec_fn=_hears_ctrl_c,
    )
    os.close(theirs)
    try:
        yield Screen(process, ours)
    finally:
        process.kill()
        process.wait()
        os.close(ours)


def _hears_ctrl_c() -> None:
    signal.signal(signal.SIGINT, signal.SIG_DFL)


def screen(*arguments: str, cwd: Path, **settings: str) -> tuple[int, str]:
    """Exit code and everything that a command shows on a terminal."""
    with on_terminal(*arguments, cwd=cwd, **settings) as shown:
        return shown.end()


def make_store(file: Path) -> None:
    """A store with what there is to show: branches, tags, lanes, a handoff, hostile names."""
    with BlockingClient.sqlite(file) as client:
        with client.run(
            "run-001", agent_id="clerk", initial={"goal": "pay", "messages": []}
        ) as run:
            for name in ("fetch", "validate", "match", "pay"):
                run.state["messages"].append({"role": "assistant", "text": f"{name} done"})
                run.save(step_name=name, metadata={"model": "m-1"})
        client.tag("run-001@3", "checked")
        client.fork("run-001@3", branch="refund", edits={"goal": "refund"})
        client.handoff("run-001/clerk@", "approver", note="please look")
        client.save("solo", session_id="single", execution_state={"n": 1}, step_name="one")
        client.save("solo", session_id="single", execution_state={"n": 2}, step_name="two")
        client.save(
            HOSTILE_AGENT,
            session_id=HOSTILE,
            execution_state={f"key{ESCAPES}": f"value{ESCAPES}", "list": [ESCAPES] * 3},
            step_name="step\u202e",
            metadata={"note": ESCAPES},
            context={"note": ESCAPES},
        )
        client.tag(f"{HOSTILE}@", "tag\u202e")


def copied(file: Path, directory: Path) -> Path:
    """A store of one's own."""
    return Path(shutil.copy(file, directory / "lastgood.db"))
