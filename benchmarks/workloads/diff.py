"""A comparison of two checkpoints, beside what a comparison by hand begins with."""

from collections.abc import Callable
from pathlib import Path
from statistics import median
from time import perf_counter
from typing import Any

from benchmarks.data import conversation, revised
from benchmarks.figures import Outcome, durable, require_equal
from benchmarks.gates import Times
from benchmarks.scenarios import sized
from benchmarks.stores.interface import AGENT, THREAD, bytes_in
from benchmarks.stores.lastgood import LastgoodThreads
from benchmarks.workloads.table import Workload

TURNS = 5


def _diff(client: Any, ids: list[str]) -> None:
    """Find the three messages that differ."""
    found = client.diff(*ids).summary()
    require_equal("diff", found, "1 message added, 1 message changed, 1 message removed")


def _restore_both(client: Any, ids: list[str]) -> None:
    for id in ids:
        client.restore(id)


COMPARERS: dict[str, Callable[[Any, list[str]], None]] = {
    "lastgood-diff": _diff,
    "lastgood-restore-both": _restore_both,
}


def diff_of_two(store: str, directory: Path, scale: float) -> Outcome:
    """Two states of 10,000 messages that differ in three; a new client for each measurement."""
    messages = [each for added in conversation(sized(5_000, scale, least=50)) for each in added]
    path = directory / "states.db"
    opened = LastgoodThreads(path)
    ids = [
        opened.client.save(AGENT, session_id=THREAD, execution_state={"messages": state})
        for state in (messages, revised(messages))
    ]
    durability = durable(store, opened.synchronous, opened.pragmas())
    opened.close()
    size = bytes_in(directory)
    times = []
    for _ in range(TURNS):
        opened = LastgoodThreads(path)
        opened.connect()
        before = perf_counter()
        COMPARERS[store](opened.client, ids)
        times.append(perf_counter() - before)
        opened.close()
    figures = {"seconds": median(times), "compare_ms": median(times) * 1e3, "bytes": size}
    return Outcome(figures, durability)


WORKLOADS = {
    "diff": Workload(
        "Diff: two states of 10,000 messages that differ in three, nothing remembered",
        tuple(COMPARERS),
        diff_of_two,
        {"compare_ms": "ms", "bytes": "at rest"},
        (Times("seconds", "lastgood-diff", "lastgood-restore-both", 20),),
    ),
}
