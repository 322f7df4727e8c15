"""`lastgood demo`: an agent is killed in the middle of a step, and goes on from the last good one.

Starts the agent of `demo_agent` in a process of its own, kills it with SIGKILL, starts it again,
and then compares what it reported, what is on disk and what an undisturbed agent would have
done. Every claim that is printed has been checked; if one does not hold, the exit code is 1.
"""

from __future__ import annotations

import signal
import sys
import tempfile
from argparse import ArgumentParser, Namespace
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from types import FrameType

from lastgood import BlockingClient
from lastgood.cli.command import Command
from lastgood.cli.demo_agent import AGENT, PAGES, THREAD
from lastgood.cli.demo_checks import Evidence, Findings, claims
from lastgood.cli.demo_history import FORKED, look_back
from lastgood.cli.demo_process import Attempt, started
from lastgood.cli.terminal import Terminal

VICTIM = 17
"""The step in whose middle the agent is killed."""
_SHOWN = 2
"""How many checkpoints the timeline shows at each end and on each side of the kill."""
_WIDEST = 100
"""Columns that the bars take at most."""
_ROOM = 76
"""Columns that the line of progress takes with its cells."""
_EVERY = 8
"""In a pipe progress is told every so many steps."""


def run(options: Namespace) -> int:
    """Play the demo; 0 only if every claim holds."""
    with _ending_on_sigterm(), _directory(keep=options.keep) as directory:
        show = Show(Terminal.on(sys.stdout), directory / "lastgood.db")
        good = show.play()
        if options.keep:
            show.terminal.line(f"  Kept: {show.file}")
        return 0 if good else 1


@contextmanager
def _directory(*, keep: bool) -> Iterator[Path]:
    if keep:
        yield Path(tempfile.mkdtemp(prefix="lastgood-demo-"))
        return
    with tempfile.TemporaryDirectory(prefix="lastgood-demo-") as name:
        yield Path(name)


@contextmanager
def _ending_on_sigterm() -> Iterator[None]:
    """Let a SIGTERM unwind the stack, so that the agent and the directory go as well."""

    def leave(number: int, _frame: FrameType | None) -> None:
        sys.exit(128 + number)

    before = signal.signal(signal.SIGTERM, leave)
    try:
        yield
    finally:
        signal.signal(signal.SIGTERM, before)


class Show:
    """The acts of the demo, on one terminal and one file."""

    def __init__(self, terminal: Terminal, file: Path) -> None:
        self.terminal = terminal
        self.file = file

    def play(self) -> bool:
        self._title()
        first = self._killed()
        between = self._look()
        second = self._resumed(first)
        findings = self._findings()
        good = self._claims(Evidence(first, between, second, findings))
        self._timeline(findings)
        self._sizes(findings)
        self._act(7, f"Looking back, and trying something else from page {FORKED}")
        look_back(self.terminal, self.file)
        self._end(good=good)
        return good

    def _title(self) -> None:
        line = self.terminal.line
        line()
        line("  Lastgood: kill an agent, start it again, lose nothing that was saved", "bold")
        line(f"  It reads a contract of {PAGES} pages, one step each. The model is made up.", "dim")

    def _killed(self) -> Attempt:
        with started(self.file, hangs_at=VICTIM) as attempt:
            self._act(1, f"The agent starts (process {attempt.pid})")
            for word in attempt.until_begun(VICTIM):
                self._progress(attempt, 0, word)
            self._progress_ends()
            _require(attempt, VICTIM)
            self.terminal.pause(0.8)
            attempt.kill()
        shot = self.terminal.styled(f"kill -9 {attempt.pid}", "red", "bold")
        self._act(2, f"{shot}, while the model thinks about page {VICTIM}")
        return attempt

    def _look(self) -> Findings:
        """What a third party finds on disk after the kill."""
        found = self._findings()
        newest = found.history[-1]
        self.terminal.line(
            f"     On disk: {newest.name}, {newest.step_name!r}, {newest.size:,} bytes of state."
        )
        self.terminal.pause(1.2)
        return found

    def _resumed(self, first: Attempt) -> Attempt:
        with started(self.file) as attempt:
            self._act(3, f"The same program again (process {attempt.pid})")
            for word in attempt.until_end():
                self._progress(attempt, len(first.saved), word)
            self._progress_ends()
        _require(attempt, PAGES)
        self.terminal.line(f"     It went on with step {attempt.began[0]} of {PAGES}.")
        self.terminal.pause(0.6)
        return attempt

    def _findings(self) -> Findings:
        with BlockingClient.sqlite(self.file) as client:
            history = client.timeline(AGENT, THREAD, limit=10 * PAGES)[::-1]
            return Findings(history, client.threads()[0])

    def _claims(self, evidence: Evidence) -> bool:
        self._act(4, "What was checked")
        verdicts = [(text, holds()) for text, holds in claims(evidence, VICTIM)]
        for text, good in verdicts:
            self.terminal.line(f"     {self.terminal.mark(good=good)} {text}")
            self.terminal.pause(0.15)
        return all(good for _, good in verdicts)

    def _timeline(self, findings: Findings) -> None:
        self._act(5, f"Timeline of thread {THREAD}")
        shown = _excerpt(len(findings.history), VICTIM)
        for before, index in zip([-1, *shown], shown, strict=False):
            if index == VICTIM:
                cut = f"{self.terminal.glyphs.rule * 3} kill -9 {self.terminal.glyphs.rule * 3}"
                self.terminal.line(f"     {cut}", "red")
            if index - before > 1:
                self.terminal.line("       ...", "dim")
            row = findings.history[index]
            name = row.step_name or "(initial state)"
            clock = f"{row.created_at.astimezone():%H:%M:%S.%f}"[:-3]
            self.terminal.line(f"     @{row.seq:<4}{name:<17}{clock}{row.size:>11,} B of state")

    def _sizes(self, findings: Findings) -> None:
        self._act(6, f"Space for {len(findings.history)} checkpoints, each of them whole")
        ours = sum(path.stat().st_size for path in self.file.parent.glob(f"{self.file.name}*"))
        naive = findings.as_snapshots()
        self._bar("Lastgood, the whole file", ours, naive, "green")
        self._bar("the state as JSON, every step", naive, naive, "yellow")
        self.terminal.line(
            f"     {naive / ours:.0f} times less: it costs what changed, not the state per step."
        )

    def _end(self, *, good: bool) -> None:
        self.terminal.line()
        if good:
            self.terminal.line("  Every claim above was checked and holds.", "green", "bold")
        else:
            self.terminal.line("  A claim above does not hold: this is a bug.", "red", "bold")

    # drawing

    def _act(self, number: int, text: str) -> None:
        self.terminal.line()
        self.terminal.line(f"  {self.terminal.styled(str(number), 'cyan', 'bold')}  {text}")

    def _progress(self, attempt: Attempt, earlier: int, word: str) -> None:
        done = earlier + len(attempt.saved)
        label = f"{done:>3} of {PAGES} saved"
        if self.terminal.live:
            doing = f", in step {attempt.began[-1]}" if word == "began" else ""
            cells = self._cells(earlier, done) if self.terminal.width >= _ROOM else ""
            self.terminal.redraw(f"     {cells}{label}{doing}")
        elif word == "saved" and done % _EVERY == 0:
            self.terminal.line(f"     {label}")

    def _progress_ends(self) -> None:
        if self.terminal.live:
            self.terminal.line()

    def _cells(self, earlier: int, done: int) -> str:
        """One cell per step: saved by the first process, by this one, still to do."""
        glyphs, styled = self.terminal.glyphs, self.terminal.styled
        old = styled(glyphs.before * earlier, "dim")
        return (
            old
            + styled(glyphs.full * (done - earlier), "green")
            + styled(glyphs.empty * (PAGES - done), "dim")
        )

    def _bar(self, label: str, size: int, largest: int, style: str) -> None:
        room = max(10, min(self.terminal.width, _WIDEST) - 50)
        bar = self.terminal.glyphs.full * max(1, round(room * size / largest))
        text = self.terminal.styled(bar, style)
        self.terminal.line(f"     {label:<31}{size / 1e6:>6.2f} MB  {text}")


def _require(attempt: Attempt, step: int) -> None:
    """Without that step there is nothing to show: the agent itself could not work."""
    if step not in attempt.began:
        sys.exit(f"the agent ended before step {step} (exit code {attempt.process.wait()})")


def _excerpt(count: int, middle: int) -> list[int]:
    """The indexes to show: both ends, and both sides of the middle."""
    near = range(_SHOWN)
    wanted = {*near, *(middle - 1 - i for i in near), *(middle + i for i in near)}
    return sorted(i for i in {*wanted, *(count - 1 - i for i in near)} if 0 <= i < count)


def _options(parser: ArgumentParser) -> None:
    parser.add_argument(
        "--keep", action="store_true", help="keep the database, and say where it is"
    )


DEMO = Command(
    name="demo",
    help="kill an agent in the middle of a step and watch it continue",
    description="Kill an agent in the middle of a step, start it again, and check what it kept.",
    options=_options,
    run=run,
)
