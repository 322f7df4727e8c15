"""Many threads and a blocking caller: W3 saves small states, W5 restores at random."""

import random
from pathlib import Path
from time import perf_counter

from benchmarks.data import State, windows
from benchmarks.figures import Outcome, durable, require_equal, spread
from benchmarks.gates import Times, Within
from benchmarks.scenarios import sized
from benchmarks.stores import THREADS
from benchmarks.workloads.table import Workload

SAVES = 3
CONTENTS = 200
"""How many different states there are; threads beyond them begin again with the first."""


def small_threads(store: str, directory: Path, scale: float) -> Outcome:
    """W3: a few saves in each of many threads, all threads by turns."""
    contents = list(windows(CONTENTS, 2, seed=1))
    names = [f"thread-{number}" for number in range(sized(2_000, scale))]
    opened = THREADS[store](directory / "threads.db")
    opened.save("warm-up", 1, contents[0])
    times = []
    for step in range(SAVES):
        for number, name in enumerate(names):
            state = _content(contents, number, step)
            before = perf_counter()
            opened.save(name, step + 1, state)
            times.append(perf_counter() - before)
    durability = durable(store, opened.synchronous, opened.pragmas())
    opened.close()
    size = opened.kept()
    again = THREADS[store](opened.path)
    for number, name in enumerate(names):
        require_equal(store, again.restore(name), _content(contents, number, SAVES - 1))
    again.close()
    return Outcome({"seconds": sum(times), **spread("save", times), "bytes": size}, durability)


def _content(contents: list[State], number: int, step: int) -> State:
    return contents[(number + 7 * step) % len(contents)]


def restore_storm(store: str, directory: Path, scale: float) -> Outcome:
    """W5: restores of random threads, by a client that did not save them."""
    states = {
        f"thread-{number}": next(windows(1, 34, seed=number)) for number in range(sized(300, scale))
    }
    opened = THREADS[store](directory / "storm.db")
    for name, state in states.items():
        opened.save(name, 1, state)
    durability = durable(store, opened.synchronous, opened.pragmas())
    opened.close()
    again = THREADS[store](opened.path)
    again.connect()
    times = []
    for name in random.Random(1).choices(list(states), k=sized(5_000, scale)):
        before = perf_counter()
        restored = again.restore(name)
        times.append(perf_counter() - before)
        require_equal(store, restored, states[name])
    again.close()
    figures = {"seconds": sum(times), **spread("restore", times), "bytes": again.kept()}
    return Outcome(figures, durability)


STORM = {
    "seconds": "total s",
    "restore_p50_ms": "restore p50 ms",
    "restore_p99_ms": "restore p99 ms",
}
WORKLOADS = {
    "w3": Workload(
        "W3 many small threads: 2,000 threads, 3 saves each of 1 to 2 KB",
        ("lastgood", "langgraph-sqlite", "checkpnt"),
        small_threads,
        {
            "seconds": "total s",
            "save_p50_ms": "save p50 ms",
            "save_p99_ms": "save p99 ms",
            "bytes": "at rest",
        },
        (Within("seconds", "lastgood", "langgraph-sqlite", 1.1),),
        once=frozenset({"checkpnt"}),
    ),
    "w5": Workload(
        "W5 restore storm: 5,000 restores at random out of 300 states of 20 KB",
        ("lastgood", "lastgood-uncached", "langgraph-sqlite", "checkpnt"),
        restore_storm,
        STORM,
        (
            Times("seconds", "lastgood", "langgraph-sqlite", 1),
            Times("seconds", "lastgood-uncached", "langgraph-sqlite", 1),
        ),
        once=frozenset({"checkpnt"}),
    ),
}
