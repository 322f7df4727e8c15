"""What the demo claims, and how each claim is checked.

The reports of the two processes, what was on disk between them and at the end, and the state
that an agent has which was never disturbed: a claim compares two of these. Prints nothing.
"""

from __future__ import annotations

import json
import signal
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from itertools import pairwise

from lastgood import Checkpoint, ThreadInfo
from lastgood.cli.demo_agent import PAGES, state_after
from lastgood.cli.demo_process import Attempt

Claim = tuple[str, Callable[[], bool]]


@dataclass(frozen=True, slots=True)
class Findings:
    """What is on disk at one moment: the checkpoints, oldest first, and the thread."""

    history: Sequence[Checkpoint]
    thread: ThreadInfo

    @property
    def steps(self) -> list[int]:
        """The pages that were read, step by step."""
        return [checkpoint.state["pages_read"] for checkpoint in self.history]

    def as_snapshots(self) -> int:
        """Bytes of the same history with the whole state as JSON in every step."""
        return sum(len(json.dumps(checkpoint.state).encode()) for checkpoint in self.history)


@dataclass(frozen=True, slots=True)
class Evidence:
    """All that the claims are judged by."""

    first: Attempt
    between: Findings
    second: Attempt
    end: Findings


def claims(evidence: Evidence, victim: int) -> list[Claim]:
    """Every claim with its check."""
    first, between, second, end = evidence.first, evidence.between, evidence.second, evidence.end
    return [
        (
            f"SIGKILL ended the first process in step {victim}, begun and not saved",
            lambda: _was_killed(first, victim),
        ),
        (
            f"all {victim - 1} steps that it had saved were on disk, and nothing of step {victim}",
            lambda: between.steps == [0, *first.saved] and _is_right(between),
        ),
        (
            f"the second process went on with the same run, at step {victim}",
            lambda: _went_on(first, second, victim),
        ),
        (
            f"no saved step ran again: {PAGES} saved once each, only step {victim} begun twice",
            lambda: _ran_once(first, second, victim),
        ),
        (
            f"the thread is {end.thread.status!r}, its state that of an agent never disturbed",
            lambda: end.thread.status == "done" and _is_right(end) and _is_complete(end),
        ),
        (
            f"all {len(end.history)} checkpoints restore, with their checksums and in one chain",
            lambda: _is_whole(end.history),
        ),
    ]


def _was_killed(first: Attempt, victim: int) -> bool:
    reported = first.began == [*first.saved, victim] == list(range(1, victim + 1))
    return reported and first.exit_code == -signal.SIGKILL


def _went_on(first: Attempt, second: Attempt, victim: int) -> bool:
    same_run = second.run_id == first.run_id and (first.number, second.number) == (1, 2)
    return same_run and second.began[:1] == [victim] and second.exit_code == 0


def _ran_once(first: Attempt, second: Attempt, victim: int) -> bool:
    saved, began = first.saved + second.saved, first.began + second.began
    every = list(range(1, PAGES + 1))
    return saved == every and sorted(began) == sorted([*every, victim])


def _is_right(found: Findings) -> bool:
    """The newest state is the one that undisturbed work leads to."""
    newest = found.history[-1].state
    return bool(newest == state_after(newest["pages_read"]))


def _is_complete(found: Findings) -> bool:
    return found.steps == list(range(PAGES + 1))


def _is_whole(history: Sequence[Checkpoint]) -> bool:
    linked = all(child.parent_id == parent.checkpoint_id for parent, child in pairwise(history))
    return linked and all(checkpoint.verify_integrity() for checkpoint in history)
