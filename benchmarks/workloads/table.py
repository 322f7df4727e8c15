"""A row in the table of workloads."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from pathlib import Path

from benchmarks.figures import Outcome
from benchmarks.gates import Gate


@dataclass(frozen=True, slots=True)
class Workload:
    """A title, its stores, how to run it, what to show, what to reach.

    `once` names stores that are measured in the first round only: slow ones, whose distance is
    not in doubt, and figures that do not vary.
    """

    title: str
    stores: tuple[str, ...]
    run: Callable[[str, Path, float], Outcome]
    columns: Mapping[str, str]
    gates: tuple[Gate, ...] = ()
    once: frozenset[str] = field(default=frozenset())
