"""What a measurement gives, and the checks without which it is no result.

A fast wrong answer is not a result, and neither is one that was not on the disk: every restored
state is compared, and every connection is asked what its commits are worth.
"""

import sqlite3
from collections.abc import Callable, Iterable
from dataclasses import dataclass, field
from pathlib import Path
from statistics import median
from time import perf_counter

from benchmarks.stores.interface import EXTRA, NORMAL, Pragmas

Figures = dict[str, float]
Series = dict[str, list[float]]

LEVELS = {0: "OFF", NORMAL: "NORMAL", 2: "FULL", EXTRA: "EXTRA"}


@dataclass(frozen=True, slots=True)
class Outcome:
    """The figures of one workload on one store, how durable it was, and figures by step."""

    figures: Figures
    durability: str
    series: Series = field(default_factory=dict)


def each_ms(times: int, look: Callable[[], object]) -> float:
    """What one call takes: the median of so many."""
    taken = []
    for _ in range(times):
        before = perf_counter()
        look()
        taken.append(perf_counter() - before)
    return median(taken) * 1e3


def spread(name: str, times: Iterable[float]) -> Figures:
    """The middle and the tail of some times in seconds, as milliseconds."""
    ordered = sorted(times)
    p99 = ordered[round(0.99 * (len(ordered) - 1))]
    return {f"{name}_p50_ms": median(ordered) * 1e3, f"{name}_p99_ms": p99 * 1e3}


def bytes_written() -> int:
    """What this process has written so far, logs and databases alike."""
    fields = dict(line.split(": ") for line in Path("/proc/self/io").read_text().splitlines())
    return int(fields["wchar"])


def page_bytes(store: str, path: Path) -> int:
    """The different pages that a file of Lastgood keeps, each counted once; 0 for other stores."""
    if not store.startswith("lastgood") or not path.exists():
        return 0
    connection = sqlite3.connect(path)
    distinct = "SELECT length(data) AS size FROM lastgood_part GROUP BY digest"
    [total] = connection.execute(f"SELECT coalesce(sum(size), 0) FROM ({distinct})").fetchone()
    connection.close()
    return int(total)


def durable(store: str, promised: int, pragmas: Pragmas) -> str:
    """How a store commits, in words; raises unless all its connections keep its promise."""
    allowed = (NORMAL,) if promised == NORMAL else (promised, EXTRA)
    if not pragmas or any(level not in allowed for _, level in pragmas):
        raise AssertionError(f"{store} does not commit with {LEVELS[promised]}: {pragmas}")
    return " and ".join(sorted(f"{mode} {LEVELS[level]}" for mode, level in pragmas))


def require_equal(store: str, restored: object, expected: object) -> None:
    """Compare what came back with what went in."""
    if restored != expected:
        raise AssertionError(f"{store} restored something else than was saved")
