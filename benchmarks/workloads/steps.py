"""One thread, saved at every step: W1, W1b, W2, W6, W7, W9 and W10.

Times are those of the saves alone. Bytes at rest are all files after closing. `new_bytes` is what
the steps brought, once, as compact msgpack: no store can keep every step in less without
compressing.
"""

from collections.abc import Callable
from functools import partial
from pathlib import Path
from statistics import median
from time import perf_counter

from benchmarks import scenarios
from benchmarks.data import State
from benchmarks.figures import (
    Figures,
    Outcome,
    Series,
    bytes_written,
    durable,
    page_bytes,
    require_equal,
    spread,
)
from benchmarks.gates import Share, Times, Within
from benchmarks.scenarios import Scenario, apply
from benchmarks.stores import STEPS
from benchmarks.stores.interface import Steps
from benchmarks.workloads.table import Workload

RESTORES = 5
POINTS = 50
"""How many points a curve has."""
ENDS = 100
"""How many saves count as the first and as the last ones."""

Make = Callable[[float], Scenario]


def run_steps(make: Make, store: str, directory: Path, scale: float) -> Outcome:
    """Save every step, close, and resume from the file."""
    scenario = make(scale)
    path = directory / "steps.db"
    written = bytes_written()
    opened = STEPS[store](path)
    opened.begin(scenario.fresh())
    times, sizes, middle = _save_all(opened, scenario)
    durability = durable(store, opened.synchronous, opened.pragmas())
    opened.close()
    written = bytes_written() - written
    figures = {"seconds": sum(times), **_ends(times), "bytes": opened.kept()}
    figures |= {"written": written, "pages": page_bytes(store, path)}
    figures |= _new_bytes(scenario, figures["bytes"])
    figures |= _restores(store, path, scenario, middle)
    return Outcome(figures, durability, _curves(times, sizes))


def _save_all(opened: Steps, scenario: Scenario) -> tuple[list[float], list[float], str]:
    state = scenario.fresh()
    times: list[float] = []
    sizes: list[float] = []
    middle = ""
    every = max(1, len(scenario.deltas) // POINTS)
    for number, delta in enumerate(scenario.deltas, start=1):
        apply(state, delta)
        before = perf_counter()
        mark = opened.step(state, delta)
        times.append(perf_counter() - before)
        if number == len(scenario.deltas) // 2:
            middle = mark
        if number % every == 0:
            sizes.append(opened.size())
    return times, sizes, middle


def _curves(times: list[float], sizes: list[float]) -> Series:
    """The middle of the saves up to each step that was looked at, and the size there."""
    every = len(times) // len(sizes)
    steps = range(every, len(times) + 1, every)
    middles = [median(times[step - every : step]) * 1e3 for step in steps]
    return {"steps": list(steps), "save_ms": middles, "bytes": sizes}


def _ends(times: list[float]) -> Figures:
    count = min(ENDS, len(times) // 2)
    return spread("first", times[:count]) | spread("last", times[-count:])


def _new_bytes(scenario: Scenario, kept: float) -> Figures:
    try:
        new = scenario.new_bytes()
    except TypeError:  # LangChain messages have no msgpack of their own
        return {}
    return {"new_bytes": new, "growth": kept / new}


def _restores(store: str, path: Path, scenario: Scenario, middle: str) -> Figures:
    steps = len(scenario.deltas)
    newest, older = scenario.after(steps), scenario.after(steps // 2)
    rounds = range(RESTORES)
    return {
        "resume_ms": median(_resume_ms(store, path, newest) for _ in rounds),
        "restore_ms": median(_restore_ms(store, path, None, newest) for _ in rounds),
        "middle_ms": median(_restore_ms(store, path, middle, older) for _ in rounds),
    }


def _resume_ms(store: str, path: Path, expected: State) -> float:
    """What a new process would wait for: to open the file and restore the newest state."""
    before = perf_counter()
    opened = STEPS[store](path)
    state = opened.restore()
    elapsed = perf_counter() - before
    opened.close()
    require_equal(store, state, expected)
    return elapsed * 1e3


def _restore_ms(store: str, path: Path, mark: str | None, expected: State) -> float:
    """The restore alone, by a client that has the file open and has seen nothing of it."""
    opened = STEPS[store](path)
    opened.connect()
    before = perf_counter()
    state = opened.restore(mark)
    elapsed = perf_counter() - before
    opened.close()
    require_equal(store, state, expected)
    return elapsed * 1e3


def _langchain(scale: float) -> Scenario:
    from benchmarks.messages import langchain

    return langchain(scale)


COLUMNS = {
    "seconds": "total s",
    "first_p50_ms": "first 100 p50 ms",
    "first_p99_ms": "first 100 p99 ms",
    "last_p50_ms": "last 100 p50 ms",
    "last_p99_ms": "last 100 p99 ms",
    "bytes": "at rest",
    "growth": "at rest / new",
    "written": "written",
    "resume_ms": "open+restore ms",
    "restore_ms": "restore ms",
    "middle_ms": "middle ms",
}
SAVE, APPEND, SAVER = "lastgood-save", "lastgood-append", "langgraph-sqlite"
MANAGER = "lastgood-manager"


def _own_growth(store: str) -> tuple[Share, Share]:
    """Bytes follow the unique pages, and a save at the end costs about what one at first did."""
    return Share("bytes", "pages", store, 2), Share("last_p50_ms", "first_p50_ms", store, 3)


WORKLOADS = {
    "w1": Workload(
        "W1 growing conversation: 1,000 steps of two messages, every step saved",
        (
            *("floor", SAVE, APPEND, SAVER),
            *("langgraph-delta", "checkpnt", "dbos", "json-rows", "pickle-files"),
        ),
        partial(run_steps, scenarios.growing),
        COLUMNS,
        (
            Times("bytes", SAVE, SAVER, 300),
            Times("bytes", APPEND, SAVER, 300),
            Share("bytes", "new_bytes", SAVE, 1.45),
            Share("bytes", "new_bytes", APPEND, 1.45),
            Times("seconds", SAVE, SAVER, 3),
            Times("seconds", SAVE, "checkpnt", 10),
            Times("seconds", APPEND, SAVER, 6),
            Within("seconds", APPEND, "floor", 1.5),
            Share("last_p50_ms", "first_p50_ms", APPEND, 1.3),
            Within("restore_ms", SAVE, SAVER, 1.6),
            Times("bytes", APPEND, "langgraph-delta", 5),
            Times("seconds", APPEND, "langgraph-delta", 1.5),
        ),
        once=frozenset({"checkpnt", "dbos", "json-rows", "pickle-files"}),
    ),
    "w1-relaxed": Workload(
        "W1 without a sync per commit: durability=relaxed, SqliteSaver set to NORMAL",
        (
            "floor-relaxed",
            "lastgood-save-relaxed",
            "lastgood-append-relaxed",
            "langgraph-sqlite-normal",
        ),
        partial(run_steps, scenarios.growing),
        COLUMNS,
        (
            Times("seconds", "lastgood-append-relaxed", "langgraph-sqlite-normal", 20),
            Times("seconds", "lastgood-save-relaxed", "langgraph-sqlite-normal", 3),
        ),
    ),
    "w1b": Workload(
        "W1b: W1 with a text of 300 bytes that changes in every step, and a second list",
        ("floor", SAVE, SAVER),
        partial(run_steps, scenarios.growing_beside),
        COLUMNS,
        _own_growth(SAVE),
    ),
    "w2": Workload(
        "W2 large constant state: 1 MB of documents and a counter, 200 steps",
        ("floor", SAVE, SAVER, "checkpnt", "json-rows", "pickle-files"),
        partial(run_steps, scenarios.constant),
        COLUMNS,
        (Times("bytes", SAVE, SAVER, 150), Times("seconds", SAVE, SAVER, 5)),
        once=frozenset({"checkpnt", "json-rows", "pickle-files"}),
    ),
    "w6": Workload(
        "W6 sliding window: 200 messages, an edit in the middle, a summary every 50 steps;"
        " 1,000 steps",
        ("floor", SAVE, SAVER),
        partial(run_steps, scenarios.window),
        COLUMNS,
        _own_growth(SAVE),
    ),
    "w7": Workload(
        "W7 large dict: 10,000 keys with values of 300 bytes, one changes per step; 500 steps",
        ("floor", SAVE, SAVER),
        partial(run_steps, scenarios.dictionary),
        COLUMNS,
        _own_growth(SAVE),
        once=frozenset({SAVER}),
    ),
    "w10": Workload(
        "W10 an agent object with 1 MB of messages, one field changes per step; 100 steps",
        (MANAGER, "json-files", "pickle-files"),
        partial(run_steps, scenarios.agent),
        COLUMNS,
        (Within("last_p50_ms", MANAGER, "json-files", 0.2),),
    ),
    "w9": Workload(
        "W9 LangChain messages and a pydantic model: 300 steps of two messages",
        (SAVE, SAVER),
        partial(run_steps, _langchain),
        COLUMNS,
    ),
}
