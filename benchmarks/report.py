"""From single measurements to medians, ratios, tables and the result file."""

import json
import platform
import sqlite3
from collections.abc import Iterable
from dataclasses import asdict, dataclass
from datetime import UTC, datetime
from importlib.metadata import PackageNotFoundError, version
from os import cpu_count
from pathlib import Path
from statistics import median

from benchmarks.workloads import WORKLOADS, Figures, Gate, Workload

RESULTS = Path(__file__).parent / "results"
PACKAGES = ["lastgood", "ormsgpack", "langgraph-checkpoint-sqlite", "langgraph", "aiosqlite"]
DURABILITY = "SQLite, WAL, synchronous=FULL on both sides (asked from the connections by PRAGMA)"


@dataclass(frozen=True, slots=True)
class Measurement:
    """The figures of one process: one workload on one store in one repetition."""

    workload: str
    store: str
    repetition: int
    figures: Figures


@dataclass(frozen=True, slots=True)
class Verdict:
    """A gate with what was found: the median of the ratios, and their range."""

    workload: str
    gate: Gate
    ratio: float
    lowest: float
    highest: float
    met: bool


def medians(workload: str, measured: Iterable[Measurement]) -> dict[str, Figures]:
    """The median of every figure over the repetitions, by store."""
    by_store: dict[str, list[Figures]] = {}
    for item in measured:
        if item.workload == workload:
            by_store.setdefault(item.store, []).append(item.figures)
    return {
        store: {name: median(figures[name] for figures in runs) for name in runs[0]}
        for store, runs in by_store.items()
    }


def verdicts(workload: str, measured: list[Measurement]) -> list[Verdict]:
    """The gates of a workload whose two stores were both measured."""
    judged = (_judge(workload, gate, measured) for gate in WORKLOADS[workload].gates)
    return [verdict for verdict in judged if verdict]


def _judge(workload: str, gate: Gate, measured: list[Measurement]) -> Verdict | None:
    found = {
        (item.store, item.repetition): item.figures[gate.figure]
        for item in measured
        if item.workload == workload and item.store in (gate.ours, gate.peer)
    }
    ratios = [
        peers / found[gate.ours, repetition]
        for (store, repetition), peers in found.items()
        if store == gate.peer and (gate.ours, repetition) in found
    ]
    if not ratios:
        return None
    middle = median(ratios)
    met = middle >= gate.at_least
    return Verdict(workload, gate, middle, min(ratios), max(ratios), met)


def show(measured: list[Measurement], scale: float) -> str:
    """The tables of all workloads that were measured, with their gates."""
    repetitions = len({item.repetition for item in measured})
    lines = [f"{DURABILITY}; median of {repetitions} repetition(s)", ""]
    for name in dict.fromkeys(item.workload for item in measured):
        lines += [WORKLOADS[name].title, *_table(WORKLOADS[name], medians(name, measured)), ""]
        if scale == 1:
            lines += [*map(_line, verdicts(name, measured)), ""]
    if scale != 1:
        lines.append(f"Workloads at {scale:g} of their size: the gates are not judged.")
    return "\n".join(lines).rstrip()


def _table(workload: Workload, rows: dict[str, Figures]) -> list[str]:
    fastest_first = sorted(rows.items(), key=lambda row: row[1]["seconds"])
    cells = [["store", *workload.columns.values()]]
    cells += [
        [store, *(_format(name, figures[name]) for name in workload.columns)]
        for store, figures in fastest_first
    ]
    widths = [max(map(len, column)) for column in zip(*cells, strict=True)]
    return ["  ".join(map(_pad, row, widths)).rstrip() for row in cells]


def _pad(cell: str, width: int) -> str:
    return cell.rjust(width) if cell[0].isdigit() else cell.ljust(width)


def _format(name: str, value: float) -> str:
    if name == "bytes":
        return f"{value / 1e6:,.2f} MB"
    return f"{value:,.0f}" if value >= 1_000 else f"{value:.3f}"


def _line(verdict: Verdict) -> str:
    gate = verdict.gate
    ratio = f"{verdict.ratio:.1f} ({verdict.lowest:.1f}-{verdict.highest:.1f})"
    mark = "met   " if verdict.met else "MISSED"
    return f"{mark}  {gate.figure}: {gate.peer} / {gate.ours} = {ratio}, to reach {gate.at_least:g}"


def write(measured: list[Measurement], scale: float) -> Path:
    """Keep everything in a file that a later run can be compared with."""
    now = datetime.now(UTC)
    content = {
        "at": now.isoformat(timespec="seconds"),
        "machine": _machine(),
        "durability": DURABILITY,
        "scale": scale,
        "measurements": [asdict(item) for item in measured],
        "medians": {name: medians(name, measured) for name in WORKLOADS},
        "gates": [asdict(verdict) for name in WORKLOADS for verdict in verdicts(name, measured)],
    }
    RESULTS.mkdir(exist_ok=True)
    path = RESULTS / f"{now:%Y%m%dT%H%M%SZ}.json"
    path.write_text(json.dumps(content, indent=1) + "\n")
    return path


def _machine() -> dict[str, object]:
    return {
        "system": f"{platform.system()} {platform.machine()}",
        "cpus": cpu_count(),
        "python": platform.python_version(),
        "sqlite": sqlite3.sqlite_version,
        "packages": {name: _version(name) for name in PACKAGES},
    }


def _version(package: str) -> str | None:
    try:
        return version(package)
    except PackageNotFoundError:
        return None
