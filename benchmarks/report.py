"""From single measurements to medians, verdicts, tables and the result file."""

import json
import platform
import sqlite3
from collections.abc import Iterable, Iterator
from dataclasses import asdict, dataclass, field
from datetime import UTC, datetime
from importlib.metadata import PackageNotFoundError, version
from os import cpu_count
from pathlib import Path
from statistics import median
from typing import Any

from benchmarks.figures import Figures, Outcome
from benchmarks.gates import Round, Verdict, judge
from benchmarks.stores import DESCRIPTIONS
from benchmarks.workloads import WORKLOADS
from benchmarks.workloads.table import Workload

RESULTS = Path(__file__).parent / "results"
PACKAGES = [
    *("lastgood", "ormsgpack", "langgraph-checkpoint-sqlite", "langgraph", "langchain-core"),
    *("aiosqlite", "checkpnt", "dbos", "pydantic"),
]
SIZES = frozenset({"bytes", "written"})


@dataclass(frozen=True, slots=True)
class Measurement:
    """The outcome of one process: one workload on one store in one round."""

    workload: str
    store: str
    repetition: int
    outcome: Outcome


@dataclass(frozen=True, slots=True)
class LeftOut:
    """A peer that did not run, and the last words of its process."""

    workload: str
    store: str
    reason: str


@dataclass(slots=True)
class Run:
    """All that one call of `make bench` gave."""

    scale: float
    measured: list[Measurement] = field(default_factory=list)
    left_out: list[LeftOut] = field(default_factory=list)
    seconds: float = 0


def medians(workload: str, measured: Iterable[Measurement]) -> dict[str, Figures]:
    """The median of every figure over the rounds, by store."""
    by_store: dict[str, list[Figures]] = {}
    for item in measured:
        if item.workload == workload:
            by_store.setdefault(item.store, []).append(item.outcome.figures)
    return {
        store: {name: median(figures[name] for figures in runs) for name in runs[0]}
        for store, runs in by_store.items()
    }


def verdicts(workload: str, measured: Iterable[Measurement]) -> list[Verdict]:
    """The gates of a workload whose stores were measured; numbers are formed inside a round."""
    rounds: dict[int, dict[str, Figures]] = {}
    for item in measured:
        if item.workload == workload:
            rounds.setdefault(item.repetition, {})[item.store] = item.outcome.figures
    judged = (judge(workload, gate, _rounds(rounds)) for gate in WORKLOADS[workload].gates)
    return [verdict for verdict in judged if verdict]


def _rounds(rounds: dict[int, dict[str, Figures]]) -> list[Round]:
    return list(rounds.values())


def show(run: Run) -> str:
    """The tables of all workloads that were measured, with their gates."""
    rounds = len({item.repetition for item in run.measured})
    lines = [f"Median of {rounds} round(s) in {run.seconds:.0f} s; the connections were asked for"]
    lines += ["their durability, every restored state was compared.", ""]
    if run.scale != 1:
        lines += [f"Workloads at {run.scale:g} of their size: the gates are not judged.", ""]
    for name in dict.fromkeys(item.workload for item in run.measured):
        lines += [WORKLOADS[name].title, *_table(WORKLOADS[name], medians(name, run.measured))]
        lines += [*(_line(verdict, run.scale) for verdict in verdicts(name, run.measured)), ""]
    lines += [f"LEFT OUT {each.workload} {each.store}: {each.reason}" for each in run.left_out]
    return "\n".join(lines).rstrip()


def _table(workload: Workload, rows: dict[str, Figures]) -> list[str]:
    cells = [["store", *workload.columns.values()]]
    cells += [
        [store, *(shown(name, figures.get(name)) for name in workload.columns)]
        for store, figures in quickest_first(rows)
    ]
    widths = [max(map(len, column)) for column in zip(*cells, strict=True)]
    return ["  ".join(map(_pad, row, widths)).rstrip() for row in cells]


def quickest_first(rows: dict[str, Figures]) -> Iterator[tuple[str, Figures]]:
    """The order of the rows in a table."""
    return iter(sorted(rows.items(), key=lambda row: row[1]["seconds"]))


def _pad(cell: str, width: int) -> str:
    return cell.rjust(width) if cell[0].isdigit() else cell.ljust(width)


def shown(name: str, value: float | None) -> str:
    """A figure in a table."""
    if value is None:
        return "-"
    if name in SIZES:
        return f"{value / 1e6:,.2f} MB"
    if name == "errors":
        return f"{value:.0f}"
    return f"{value:,.0f}" if value >= 1_000 else f"{value:.3f}"


def markdown(head: list[str], rows: list[list[str]]) -> str:
    """A table in a page."""
    lines = [head, ["---"] * len(head), *rows]
    return "\n".join("| " + " | ".join(cells) + " |" for cells in lines)


def _line(verdict: Verdict, scale: float) -> str:
    mark = "met" if verdict.met else "MISSED"
    value = f"{verdict.value:.2f} ({verdict.lowest:.2f}-{verdict.highest:.2f})"
    return f"{mark if scale == 1 else f'({mark})':8} {verdict.gate}: {value}"


def write(run: Run) -> Path:
    """Keep everything in a file: a page can be made of it, a later run compared with it."""
    now = datetime.now(UTC)
    names = list(dict.fromkeys(item.workload for item in run.measured))
    content = {
        "at": now.isoformat(timespec="seconds"),
        "machine": _machine(),
        "scale": run.scale,
        "seconds": round(run.seconds),
        "repetitions": len({item.repetition for item in run.measured}),
        "stores": DESCRIPTIONS,
        "left_out": [asdict(each) for each in run.left_out],
        "workloads": {name: _about(name, run.measured) for name in names},
        "measurements": [asdict(item) for item in run.measured],
    }
    RESULTS.mkdir(exist_ok=True)
    path = RESULTS / f"{now:%Y%m%dT%H%M%SZ}.json"
    path.write_text(spelled(content))
    return path


def spelled(content: dict[str, Any]) -> str:
    """Readable JSON that stays short: a measurement is one line."""
    lines = ",\n  ".join(json.dumps(_rounded(item)) for item in content["measurements"])
    around = json.dumps({**content, "measurements": []}, indent=1)
    return around.replace('"measurements": []', f'"measurements": [\n  {lines}\n ]') + "\n"


def _rounded(value: Any) -> Any:
    """Five digits say all that a measurement knows."""
    if isinstance(value, dict):
        return {key: _rounded(each) for key, each in value.items()}
    if isinstance(value, list):
        return [_rounded(each) for each in value]
    return float(f"{value:.5g}") if isinstance(value, float) else value


def _about(name: str, measured: list[Measurement]) -> dict[str, object]:
    """A workload with its medians and verdicts, so that a reader needs nothing but the file."""
    durability = {i.store: i.outcome.durability for i in measured if i.workload == name}
    return {
        "title": WORKLOADS[name].title,
        "columns": WORKLOADS[name].columns,
        "once": sorted(WORKLOADS[name].once),
        "durability": durability,
        "medians": medians(name, measured),
        "gates": [asdict(verdict) for verdict in verdicts(name, measured)],
    }


def _machine() -> dict[str, object]:
    return {
        "system": f"{platform.system()} {platform.machine()}",
        "processor": _processor(),
        "cpus": cpu_count(),
        "python": platform.python_version(),
        "sqlite": sqlite3.sqlite_version,
        "packages": {name: _version(name) for name in PACKAGES},
    }


def _processor() -> str:
    for line in Path("/proc/cpuinfo").read_text().splitlines():
        if line.startswith("model name"):
            return line.partition(":")[2].strip()
    return platform.processor()


def _version(package: str) -> str | None:
    try:
        return version(package)
    except PackageNotFoundError:
        return None
