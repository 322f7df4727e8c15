"""W4, second half: four processes on one file, also while another holds its write lock."""

import multiprocessing
import sqlite3
from concurrent.futures import ProcessPoolExecutor
from dataclasses import dataclass
from pathlib import Path
from time import perf_counter, sleep

from benchmarks.data import windows
from benchmarks.figures import Outcome, durable, require_equal, spread
from benchmarks.gates import Limit
from benchmarks.scenarios import sized
from benchmarks.stores import THREADS
from benchmarks.stores.interface import Pragmas, bytes_in
from benchmarks.workloads.table import Workload

PROCESSES = 4
MOMENT = 0.001
HELD = 7.0
"""Seconds for which the lock is held: longer than the five that sqlite3 waits by itself."""


@dataclass(frozen=True, slots=True)
class Work:
    """What one process does."""

    store: str
    path: Path
    number: int
    saves: int

    def ready(self) -> None:
        """Tell the parent, and wait until all are."""
        (self.path.parent / f"ready-{self.number}").touch()
        while not (self.path.parent / "go").exists():
            sleep(MOMENT)


@dataclass(frozen=True, slots=True)
class Report:
    """What came of it."""

    begun: float
    ended: float
    times: list[float]
    errors: list[str]
    pragmas: Pragmas


def write(work: Work) -> Report:
    """Save one state after the other in a thread of its own."""
    states = list(windows(work.saves, 8, seed=work.number))
    opened = THREADS[work.store](work.path)
    opened.save(f"warm-up-{work.number}", 1, states[0])
    times, errors = [], []
    work.ready()
    begun = perf_counter()
    for step, state in enumerate(states, start=1):
        before = perf_counter()
        try:
            opened.save(f"thread-{work.number}", step, state)
        except Exception as error:
            errors.append(f"{type(error).__name__}: {error}")
        times.append(perf_counter() - before)
    report = Report(begun, perf_counter(), times, errors, opened.pragmas())
    opened.close()
    return report


def processes(store: str, directory: Path, scale: float) -> Outcome:
    """As quick as they can."""
    return _together(store, directory, sized(400, scale), held=0)


def locked(store: str, directory: Path, scale: float) -> Outcome:
    """The same few saves, while another connection keeps a transaction open."""
    return _together(store, directory, sized(20, scale), held=HELD * min(1, scale))


def _together(store: str, directory: Path, saves: int, held: float) -> Outcome:
    path = directory / "processes.db"
    opened = THREADS[store](path)
    opened.save("first", 1, next(windows(1, 8, seed=99)))
    opened.close()
    jobs = [Work(store, path, number, saves) for number in range(PROCESSES)]
    context = multiprocessing.get_context("spawn")
    with ProcessPoolExecutor(PROCESSES, mp_context=context) as pool:
        reports = pool.map(write, jobs)
        _start(path, held)
        done = list(reports)
    size = bytes_in(directory)
    errors = [error for report in done for error in report.errors]
    if not errors:
        _require_newest(store, path, saves)
    seconds = max(r.ended for r in done) - min(r.begun for r in done)
    times = [time for report in done for time in report.times]
    kept = len(times) - len(errors)
    figures = {"seconds": seconds, "saves_per_s": kept / seconds, "errors": len(errors)}
    pragmas = {pragma for report in done for pragma in report.pragmas}
    durability = durable(store, opened.synchronous, pragmas)
    return Outcome(figures | spread("save", times) | {"bytes": size}, durability)


def _start(path: Path, held: float) -> None:
    """Let all begin at once, and keep the write lock for a while when they do."""
    while len(list(path.parent.glob("ready-*"))) < PROCESSES:
        sleep(MOMENT)
    connection = sqlite3.connect(path, isolation_level=None, timeout=30)
    connection.execute("BEGIN IMMEDIATE" if held else "BEGIN")
    (path.parent / "go").touch()
    sleep(held)
    connection.execute("ROLLBACK")
    connection.close()


def _require_newest(store: str, path: Path, saves: int) -> None:
    opened = THREADS[store](path)
    for number in range(PROCESSES):
        *_, newest = windows(saves, 8, seed=number)
        require_equal(store, opened.restore(f"thread-{number}"), newest)
    opened.close()


_STORES = ("lastgood", "langgraph-sqlite")
_COLUMNS = {
    "seconds": "total s",
    "saves_per_s": "saves/s",
    "save_p50_ms": "save p50 ms",
    "save_p99_ms": "save p99 ms",
    "errors": "errors",
}

WORKLOADS = {
    "w4-processes": Workload(
        "W4 concurrency: 4 processes on one file, 400 saves of 5 KB each",
        _STORES,
        processes,
        _COLUMNS,
        (Limit("errors", "lastgood", 0),),
    ),
    "w4-locked": Workload(
        "W4 concurrency: 4 processes while another connection holds the write lock for 7 s",
        _STORES,
        locked,
        _COLUMNS,
        (Limit("errors", "lastgood", 0),),
        once=frozenset(_STORES),
    ),
}
