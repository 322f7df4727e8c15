"""W4, first half: many tasks of one event loop, each saving its own thread."""

import asyncio
from functools import partial
from pathlib import Path
from time import perf_counter

from benchmarks.data import State, windows
from benchmarks.figures import Outcome, durable, require_equal, spread
from benchmarks.gates import Times
from benchmarks.scenarios import sized
from benchmarks.stores import WRITERS
from benchmarks.stores.interface import Writers
from benchmarks.workloads.table import Workload


def async_writers(tasks: int, saves: int, store: str, directory: Path, scale: float) -> Outcome:
    """Each task saves one state after the other; a state is a window of eight messages, 5 KB."""
    opened = WRITERS[store](directory / "writers.db")
    count = sized(saves, scale)
    work = {f"thread-{n}": list(windows(count, 8, seed=n)) for n in range(tasks)}
    return asyncio.run(_write_all(opened, store, work))


async def _write_all(opened: Writers, store: str, work: dict[str, list[State]]) -> Outcome:
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
    durability = durable(store, opened.synchronous, await opened.pragmas())
    await opened.close()
    size = opened.kept()
    await _require_newest(opened, store, work)
    figures = {"seconds": seconds, "saves_per_s": len(times) / seconds, "bytes": size}
    return Outcome(figures | spread("save", times), durability)


async def _require_newest(opened: Writers, store: str, work: dict[str, list[State]]) -> None:
    """Open the file again and compare every thread's newest state with the last one saved."""
    await opened.open()
    for thread, states in work.items():
        require_equal(store, await opened.restore(thread), states[-1])
    await opened.close()


_STORES = ("lastgood", "langgraph-aiosqlite", "checkpnt")
COLUMNS = {
    "seconds": "total s",
    "saves_per_s": "saves/s",
    "save_p50_ms": "save p50 ms",
    "save_p99_ms": "save p99 ms",
    "bytes": "at rest",
}

WORKLOADS = {
    "w4": Workload(
        "W4 concurrency: 8 async tasks on their own threads, states of 5 KB",
        _STORES,
        partial(async_writers, 8, 500),
        COLUMNS,
        (Times("seconds", "lastgood", "langgraph-aiosqlite", 4),),
        once=frozenset({"checkpnt"}),
    ),
    "w4-64": Workload(
        "W4 concurrency: 64 async tasks on their own threads, states of 5 KB",
        _STORES,
        partial(async_writers, 64, 64),
        COLUMNS,
        (Times("seconds", "lastgood", "langgraph-aiosqlite", 5),),
        once=frozenset({"checkpnt"}),
    ),
}
