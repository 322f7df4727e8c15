"""Looking back: lists of headers, of states and of threads, in small stores and in large ones."""

from pathlib import Path
from statistics import median
from time import perf_counter
from typing import Any

from benchmarks import bulk, scenarios
from benchmarks.data import State
from benchmarks.figures import Figures, Outcome, durable, each_ms, require_equal
from benchmarks.gates import Limit, Share, Times
from benchmarks.scenarios import Scenario, apply, sized
from benchmarks.stores import STEPS
from benchmarks.stores.interface import AGENT, THREAD
from benchmarks.workloads.table import Workload

NEWEST = 20
RESTORES = 5
LOOKS = 50
FEW_THREADS, MANY_THREADS = 100, 10_000
FEW_CHECKPOINTS, MANY_CHECKPOINTS = 1_000, 1_000_000
OWN = "nothing is saved here"


def newest_of_a_conversation(store: str, directory: Path, scale: float) -> Outcome:
    """The 20 newest of a W1 thread: with their states by a fresh client, and headers alone."""
    scenario = scenarios.growing(scale)
    path = directory / "look.db"
    opened = STEPS[store](path)
    opened.begin(scenario.fresh())
    state = scenario.fresh()
    for delta in scenario.deltas:
        apply(state, delta)
        opened.step(state, delta)
    durability = durable(store, opened.synchronous, opened.pragmas())
    opened.close()
    expected = _newest_states(scenario)
    full_ms = median(_full_ms(store, path, expected) for _ in range(RESTORES))
    figures = {"seconds": full_ms / 1e3, "full_ms": full_ms}
    if store == "lastgood-save":
        figures |= _headers(path, len(scenario.deltas))
    return Outcome(figures, durability)


def _newest_states(scenario: Scenario) -> list[State]:
    steps = len(scenario.deltas)
    return [scenario.after(number) for number in range(steps, max(0, steps - NEWEST), -1)]


def _full_ms(store: str, path: Path, expected: list[State]) -> float:
    opened = STEPS[store](path)
    opened.connect()
    before = perf_counter()
    found = opened.newest(len(expected))
    elapsed = perf_counter() - before
    opened.close()
    require_equal(store, found, expected)
    return elapsed * 1e3


def _headers(path: Path, steps: int) -> Figures:
    """Three fields of each header are read, so that what is decoded late is paid for."""
    from lastgood import BlockingClient

    with BlockingClient.sqlite(path) as client:
        page = client.log(THREAD, limit=NEWEST)
        require_equal("log", page[0].step_index, steps)
        return {"headers_ms": each_ms(LOOKS, lambda: _read(client.log(THREAD, limit=NEWEST)))}


def _read(page: Any) -> list[Any]:
    return [(header.seq, header.step_name, header.created_at) for header in page]


def threads_page(store: str, directory: Path, scale: float) -> Outcome:  # noqa: ARG001
    """The first page of threads in a store of few and in one of many."""
    few = _threads_ms(directory / "few.db", FEW_THREADS)
    many = _threads_ms(directory / "many.db", sized(MANY_THREADS, scale, least=1_000))
    return Outcome({"seconds": many / 1e3, "few_ms": few, "many_ms": many}, OWN)


def _threads_ms(path: Path, count: int) -> float:
    from lastgood import BlockingClient

    with BlockingClient.sqlite(path, durability="relaxed") as client:
        for number in range(count):
            client.save(AGENT, session_id=f"thread-{number}", execution_state={"n": number})
    with BlockingClient.sqlite(path) as client:
        require_equal("threads", client.threads()[0].thread_id, f"thread-{count - 1}")
        return each_ms(LOOKS, lambda: list(client.threads()))


def log_page(store: str, directory: Path, scale: float) -> Outcome:  # noqa: ARG001
    """The first page of headers in a short thread and in a very long one."""
    few = _log_ms(directory / "few.db", FEW_CHECKPOINTS)
    many = _log_ms(directory / "many.db", sized(MANY_CHECKPOINTS, scale, least=10_000))
    return Outcome({"seconds": many / 1e3, "few_ms": few, "many_ms": many}, OWN)


def _log_ms(path: Path, count: int) -> float:
    from lastgood import BlockingClient

    bulk.fill(path, 1, count)
    thread = bulk.thread_name(1)
    with BlockingClient.sqlite(path) as client:
        require_equal("log", client.log(thread)[0].seq, count)
        return each_ms(LOOKS, lambda: _read(client.log(thread)))


_GROWTH = {"few_ms": "small store ms", "many_ms": "large store ms"}

WORKLOADS = {
    "look": Workload(
        "Look at the 20 newest of a W1 thread: full states by a fresh client, and headers alone",
        ("lastgood-save", "lastgood-shared", "langgraph-sqlite", "checkpnt"),
        newest_of_a_conversation,
        {"full_ms": "20 states ms", "headers_ms": "20 headers ms"},
        (
            Limit("headers_ms", "lastgood-save", 0.1),
            Times("full_ms", "lastgood-shared", "langgraph-sqlite", 5),
        ),
        once=frozenset({"checkpnt"}),
    ),
    "look-threads": Workload(
        "Look at the first page of threads: 100 threads against 10,000",
        ("lastgood",),
        threads_page,
        _GROWTH,
        (Share("many_ms", "few_ms", "lastgood", 2),),
    ),
    "look-log": Workload(
        "Look at the first page of a thread's log: 1,000 checkpoints against 1,000,000",
        ("lastgood",),
        log_page,
        _GROWTH,
        (Share("many_ms", "few_ms", "lastgood", 2),),
        once=frozenset({"lastgood"}),
    ),
}
