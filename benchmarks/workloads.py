"""What is done to a store, what is measured, and the ratios that Lastgood has to reach.

A workload runs in its own process on an empty directory and returns its figures by name. It
raises when a restored state differs from what was saved, or when a connection commits less
durably than WAL with synchronous=FULL: a fast wrong answer is not a result.
"""

import asyncio
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from statistics import median
from time import perf_counter

from benchmarks.data import State, conversation, revised, windows
from benchmarks.stores import COMPARERS, CONVERSATIONS, WRITERS, Pragmas, Writers

Figures = dict[str, float]

FULL, EXTRA = 2, 3
RESTORES = 5


@dataclass(frozen=True, slots=True)
class Gate:
    """A ratio to reach: the peer's figure divided by ours, for a figure where less is better."""

    figure: str
    ours: str
    peer: str
    at_least: float


@dataclass(frozen=True, slots=True)
class Workload:
    """A row of the table below: a title, its stores, how to run it, what to reach."""

    title: str
    stores: Iterable[str]
    run: Callable[[str, Path, float], Figures]
    columns: Mapping[str, str]
    gates: Iterable[Gate] = field(default=())


def growing_conversation(store: str, directory: Path, scale: float) -> Figures:
    """W1: 1,000 steps of two messages, each saved; then close, and resume from the file."""
    steps = list(conversation(max(10, round(1_000 * scale))))
    expected: State = {"messages": [message for added in steps for message in added]}
    path = directory / "conversation.db"
    opened = CONVERSATIONS[store](path)
    opened.begin()
    times = []
    begun = perf_counter()
    for added in steps:
        before = perf_counter()
        opened.step(added)
        times.append(perf_counter() - before)
    seconds = perf_counter() - begun
    _require_full(store, opened.pragmas())
    opened.close()
    size = _bytes_in(directory)
    restore_ms = median(_resume_ms(store, path, expected) for _ in range(RESTORES))
    ends = _spread("first", times[:100]) | _spread("last", times[-100:])
    return {"seconds": seconds, **ends, "bytes": size, "restore_ms": restore_ms}


def _resume_ms(store: str, path: Path, expected: State) -> float:
    """What a new process would wait for: to open the file and restore the newest state."""
    before = perf_counter()
    opened = CONVERSATIONS[store](path)
    state = opened.restore()
    elapsed = perf_counter() - before
    opened.close()
    _require_equal(store, state, expected)
    return elapsed * 1e3


def async_writers(store: str, directory: Path, scale: float) -> Figures:
    """W4: eight tasks, each saving its own thread; a state is a window of eight messages, 5 KB."""
    return asyncio.run(_async_writers(WRITERS[store](directory / "writers.db"), store, scale))


async def _async_writers(opened: Writers, store: str, scale: float) -> Figures:
    count = max(10, round(500 * scale))
    work = {f"thread-{n}": list(windows(count, 8, seed=n)) for n in range(8)}
    times: list[float] = []

    async def write(thread: str) -> None:
        for step, state in enumerate(work[thread], start=1):
            before = perf_counter()
            await opened.save(thread, step, state)
            times.append(perf_counter() - before)

    await opened.open()
    await opened.save("warm-up", 1, work["thread-0"][0])
    begun = perf_counter()
    await asyncio.gather(*map(write, work))
    seconds = perf_counter() - begun
    _require_full(store, await opened.pragmas())
    await opened.close()
    size = _bytes_in(opened.path.parent)
    await _require_newest(opened, store, work)
    rate = len(times) / seconds
    return {"seconds": seconds, "saves_per_s": rate, **_spread("save", times), "bytes": size}


async def _require_newest(opened: Writers, store: str, work: dict[str, list[State]]) -> None:
    """Open the file again and compare every thread's newest state with the last one saved."""
    await opened.open()
    for thread, states in work.items():
        _require_equal(store, await opened.restore(thread), states[-1])
    await opened.close()


def diff_of_two(store: str, directory: Path, scale: float) -> Figures:
    """Two states of 10,000 messages that differ in three; a new client for each measurement."""
    messages = [m for added in conversation(max(50, round(5_000 * scale))) for m in added]
    opened = COMPARERS[store](directory / "states.db")
    opened.save({"messages": messages}, {"messages": revised(messages)})
    size = _bytes_in(directory)
    times = []
    for _ in range(RESTORES):
        opened.open()
        before = perf_counter()
        opened.compare()
        times.append(perf_counter() - before)
        opened.close()
    return {"seconds": median(times), "compare_ms": median(times) * 1e3, "bytes": size}


def _spread(name: str, times: list[float]) -> Figures:
    ordered = sorted(times)
    p99 = ordered[round(0.99 * (len(ordered) - 1))]
    return {f"{name}_p50_ms": median(ordered) * 1e3, f"{name}_p99_ms": p99 * 1e3}


def _bytes_in(directory: Path) -> int:
    return sum(path.stat().st_size for path in directory.rglob("*") if path.is_file())


def _require_full(store: str, pragmas: Pragmas) -> None:
    wrong = {pair for pair in pragmas if pair[0] != "wal" or pair[1] not in (FULL, EXTRA)}
    if wrong or not pragmas:
        raise AssertionError(f"{store} does not commit with WAL and synchronous=FULL: {pragmas}")


def _require_equal(store: str, restored: State, expected: State) -> None:
    if restored != expected:
        raise AssertionError(f"{store} restored something else than was saved")


_SAVE_COLUMNS = {
    "seconds": "total s",
    "first_p50_ms": "first 100: p50 ms",
    "first_p99_ms": "p99 ms",
    "last_p50_ms": "last 100: p50 ms",
    "last_p99_ms": "p99 ms",
    "bytes": "at rest",
    "restore_ms": "open+restore ms",
}
_WRITER_COLUMNS = {
    "seconds": "total s",
    "saves_per_s": "saves/s",
    "save_p50_ms": "save p50 ms",
    "save_p99_ms": "p99 ms",
    "bytes": "at rest",
}

_COMPARE_COLUMNS = {"compare_ms": "ms", "bytes": "at rest"}

WORKLOADS = {
    "w1": Workload(
        "W1 growing conversation: 1,000 steps of two messages, every step saved",
        CONVERSATIONS,
        growing_conversation,
        _SAVE_COLUMNS,
        [
            Gate("seconds", "lastgood-save", "langgraph-sqlite", 3),
            Gate("seconds", "lastgood-append", "langgraph-sqlite", 6),
            Gate("bytes", "lastgood-save", "langgraph-sqlite", 300),
            Gate("bytes", "lastgood-append", "langgraph-sqlite", 300),
        ],
    ),
    "w4": Workload(
        "W4 concurrency: 8 async writers on their own threads, states of 5 KB",
        WRITERS,
        async_writers,
        _WRITER_COLUMNS,
        [Gate("seconds", "lastgood", "langgraph-aiosqlite", 4)],
    ),
    "diff": Workload(
        "Diff: two states of 10,000 messages that differ in three, nothing remembered",
        COMPARERS,
        diff_of_two,
        _COMPARE_COLUMNS,
        [Gate("seconds", "lastgood-diff", "lastgood-restore-both", 20)],
    ),
}
