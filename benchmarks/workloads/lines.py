"""W8: a conversation that is forked halfway; both lines go on."""

import copy
from pathlib import Path
from statistics import median
from time import perf_counter

import ormsgpack

from benchmarks.data import State, conversation
from benchmarks.figures import (
    Figures,
    Outcome,
    durable,
    page_bytes,
    require_equal,
    spread,
)
from benchmarks.gates import Share
from benchmarks.scenarios import sized
from benchmarks.stores import LINES
from benchmarks.stores.interface import Lines, bytes_in
from benchmarks.workloads.table import Workload

ENDS = 100


def forked(store: str, directory: Path, scale: float) -> Outcome:
    """500 steps, a fork, then 500 steps on each line, in turns."""
    half = sized(500, scale)
    lines: list[State] = [{"messages": []}]
    opened = LINES[store](directory / "lines.db")
    common, left, right = (list(conversation(half, seed)) for seed in (1, 2, 3))
    times = [_step(opened, lines, 0, added) for added in common]
    before = perf_counter()
    opened.fork()
    fork_ms = (perf_counter() - before) * 1e3
    lines.append(copy.deepcopy(lines[0]))
    for pair in zip(left, right, strict=True):
        times += [_step(opened, lines, line, added) for line, added in enumerate(pair)]
    durability = durable(store, opened.synchronous, opened.pragmas())
    opened.close()
    ends = min(ENDS, half)
    figures: Figures = {"seconds": sum(times), "fork_ms": fork_ms}
    figures |= spread("first", times[:ends]) | spread("last", times[-ends:])
    figures |= _sizes(store, opened.path, common + left + right)
    figures |= {"restore_ms": _restored(opened, store, lines)}
    return Outcome(figures, durability)


def _sizes(store: str, path: Path, steps: list[list[State]]) -> Figures:
    kept, new = bytes_in(path.parent), sum(len(ormsgpack.packb(added)) for added in steps)
    pages = page_bytes(store, path)
    return {"bytes": kept, "new_bytes": new, "growth": kept / new, "pages": pages}


def _step(opened: Lines, lines: list[State], line: int, added: list[State]) -> float:
    lines[line]["messages"].extend(added)
    before = perf_counter()
    opened.save(line, lines[line])
    return perf_counter() - before


def _restored(opened: Lines, store: str, lines: list[State]) -> float:
    """Both lines, each by a client that has seen nothing of them; the median."""
    times = []
    for line, expected in enumerate(lines):
        again = LINES[store](opened.path)
        again.connect()
        again.marks = opened.marks
        before = perf_counter()
        state = again.restore(line)
        times.append(perf_counter() - before)
        again.close()
        require_equal(store, state, expected)
    return median(times) * 1e3


WORKLOADS = {
    "w8": Workload(
        "W8 fork: W1, forked at step 500; both lines go on for 500 steps each",
        ("lastgood-save", "langgraph-sqlite"),
        forked,
        {
            "seconds": "total s",
            "first_p50_ms": "first 100 p50 ms",
            "last_p50_ms": "last 100 p50 ms",
            "last_p99_ms": "last 100 p99 ms",
            "fork_ms": "fork ms",
            "bytes": "at rest",
            "growth": "at rest / new",
            "restore_ms": "restore ms",
        },
        (
            Share("bytes", "pages", "lastgood-save", 2),
            Share("last_p50_ms", "first_p50_ms", "lastgood-save", 3),
        ),
        once=frozenset({"langgraph-sqlite"}),
    ),
}
