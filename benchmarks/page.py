"""`python -m benchmarks.page RESULT`: the page of figures, from a result file and nothing else.

Writes `docs/benchmarks.md`, its pictures and the file itself beside it, and puts the figures of
the README between its two marks. Every number in the documentation comes through here.
"""

import argparse
import json
import sys
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

from benchmarks.charts import CHARTS, pictures
from benchmarks.readme import readme_figures, with_figures
from benchmarks.report import RESULTS, markdown, quickest_first, shown
from benchmarks.workloads import WORKLOADS

ROOT = Path(__file__).parent.parent
DOCS = ROOT / "docs"

REFERENCE = "lastgood-save"
EVEN = 1.05
"""Figures closer than this are the same."""
RATIOS = {"seconds": "time / ours", "bytes": "bytes / ours"}

Result = Mapping[str, Any]

INTRODUCTION = """\
# Benchmarks

Lastgood beside the stores that people use today, on one machine, in one run of `make bench`. This
page is made from [the result file](benchmarks.json) by `make bench-page`.

- Every measurement is a process of its own on an empty directory. The stores of a workload take
  turns inside a round; ratios are formed inside a round, then the median over the rounds is taken
  (lowest and highest in brackets).
- Peers are driven through their own interface, in the way that costs them least: plain dicts, no
  graph or workflow around them where they can do without.
- Both sides commit equally durably: `synchronous=FULL`, unless a table says otherwise. The
  connections themselves are asked.
- Every state that comes back is compared with what went in. A difference is a failure: one of ours
  ends the run, a peer's is named at the end of this page.
- A save is timed from the call to its return. Bytes at rest are all files after closing; bytes
  written are what the process handed to the system, logs included.
- "What was new" is every value that the steps brought, once, as compact msgpack: what a store would
  keep that repeats nothing and adds nothing. Unique pages are the different pages in our file.
- A restore is timed in a client that has the file open and has seen nothing of it; "open+restore"
  adds the opening. "Middle" is the checkpoint halfway."""

ABSENT = """\
## What is not here, and why

- **The Postgres and Redis savers** need servers; what is compared here is one file.
- **InMemorySaver** keeps nothing when the process ends."""


def page(result: Result) -> str:
    """The whole page."""
    sections = [
        INTRODUCTION,
        _machine(result),
        _pictures(),
        _reached(result),
        _losses(result),
        "## Every workload",
        *(_workload(result, name) for name in result["workloads"]),
        _stores(result),
        _absent(result),
    ]
    return "\n\n".join(sections) + "\n"


def _machine(result: Result) -> str:
    machine = result["machine"]
    packages = [f"{name} {number}" for name, number in machine["packages"].items() if number]
    size = "" if result["scale"] == 1 else f" Workloads at {result['scale']:g} of their size."
    return (
        f"Measured {result['at'][:10]} on {machine['system']}, {machine['cpus']} cores"
        f" ({machine['processor']}), Python {machine['python']}, SQLite {machine['sqlite']};"
        f" {result['repetitions']} round(s) in {result['seconds'] / 60:.0f} minutes.{size}\n"
        f"Versions: {', '.join(packages)}."
    )


def _pictures() -> str:
    return "\n\n".join(f"![{chart.title}](images/{name}.svg)" for name, chart in CHARTS.items())


def gates(result: Result) -> Iterator[Mapping[str, Any]]:
    """Every verdict of a result."""
    for about in result["workloads"].values():
        yield from about["gates"]


def _reached(result: Result) -> str:
    judged = list(gates(result))
    met = sum(gate["met"] for gate in judged)
    rows = [
        [gate["workload"], gate["gate"], _range(gate), "yes" if gate["met"] else "**no**"]
        for gate in judged
    ]
    about = f"Ratios that were set as goals before the measurement: {met} of {len(judged)} are met."
    table = markdown(["workload", "goal", "measured", "met"], rows)
    return f"## What was to be reached\n\n{about}\n\n{table}"


def _range(gate: Mapping[str, Any]) -> str:
    if gate["lowest"] == gate["highest"]:
        return f"{gate['value']:,.2f}"
    return f"{gate['value']:,.2f} ({gate['lowest']:,.2f}-{gate['highest']:,.2f})"


def _losses(result: Result) -> str:
    """Missed goals, and every figure in which a peer is ahead of the best of ours."""
    missed = [
        f"- Goal missed: {gate['workload']}, {gate['gate']}; measured {_range(gate)}."
        for gate in gates(result)
        if not gate["met"]
    ]
    behind = [
        f"- {name}, {label}: {peer} {theirs}, {own} {ours} ({ratio:.1f} times)."
        for name, about in result["workloads"].items()
        for label, peer, theirs, own, ours, ratio in _behind(about)
    ]
    return "\n".join(["## Where we lose", "", *(missed + behind or ["- Nowhere in this run."])])


def _behind(about: Mapping[str, Any]) -> Iterator[tuple[str, str, str, str, str, float]]:
    for figure, label in about["columns"].items():
        if figure == "saves_per_s":  # the only one of which more is better; `seconds` says the same
            continue
        values = {s: each[figure] for s, each in about["medians"].items() if figure in each}
        own = min(filter(_is_ours, values), key=values.__getitem__, default=None)
        peer = min(filter(_is_peer, values), key=values.__getitem__, default=None)
        if own and peer and values[own] > values[peer] * EVEN:
            ratio = values[own] / values[peer] if values[peer] else float("inf")
            theirs, ours = shown(figure, values[peer]), shown(figure, values[own])
            yield label, peer, theirs, own, ours, ratio


def _is_ours(store: str) -> bool:
    return store.startswith("lastgood")


def _is_peer(store: str) -> bool:
    """The floor is no store: it cannot restore a step without all before it, and checks nothing."""
    return not _is_ours(store) and not store.startswith("floor")


def _workload(result: Result, name: str) -> str:
    about = result["workloads"][name]
    rows = dict(quickest_first(about["medians"]))
    ours = REFERENCE if REFERENCE in rows else next(filter(_is_ours, rows), "")
    ratios = [] if len(rows) == 1 or not ours else [r for r in RATIOS if r in rows[ours]]
    head = ["store", "commits with", *about["columns"].values(), *(RATIOS[r] for r in ratios)]
    cells = [
        [
            f"**{store}**" if _is_ours(store) else store,
            about["durability"][store],
            *(shown(column, figures.get(column)) for column in about["columns"]),
            *(f"{figures[ratio] / rows[ours][ratio]:,.2f}" for ratio in ratios),
        ]
        for store, figures in rows.items()
    ]
    once = [store for store in about["once"] if store in rows]
    notes = [f"The last columns compare with {ours}."] if ratios else []
    notes += [f"Measured in the first round only: {', '.join(once)}."] if once else []
    parts = [f"### {about['title']}", markdown(head, cells), " ".join(notes)]
    return "\n\n".join(filter(None, parts))


def _absent(result: Result) -> str:
    failed = [
        f"- **{each['store']}** did not run {each['workload']} here: {each['reason']}"
        for each in result["left_out"]
    ]
    return "\n".join([ABSENT, *failed])


def _stores(result: Result) -> str:
    used = {store for about in result["workloads"].values() for store in about["medians"]}
    lines = [f"- **{name}**: {text}" for name, text in result["stores"].items() if name in used]
    return "\n".join(["## The stores", "", *lines])


def complete(result: Result) -> bool:
    """Whether a result is of a whole run at full size: no page is made of anything less."""
    return result["scale"] == 1 and set(result["workloads"]) >= set(WORKLOADS)


def chosen(path: Path | None) -> Path:
    """The file that was named, else the newest of a complete run."""
    found = [path] if path else sorted(RESULTS.glob("*.json"), reverse=True)
    for each in found:
        if complete(json.loads(each.read_text())):
            return each
    where = path or RESULTS
    sys.exit(f"{where}: no result of all workloads at full size. Run make bench first.")


def main() -> None:
    """Write the page, its pictures, the result beside it, and the figures of the README."""
    parser = argparse.ArgumentParser(prog="python -m benchmarks.page", description=__doc__)
    parser.add_argument("result", type=Path, nargs="?", help="default: the newest complete one")
    path = chosen(parser.parse_args().result)
    result = json.loads(path.read_text())
    images = DOCS / "images"
    images.mkdir(exist_ok=True)
    for name, picture in pictures(result).items():
        (images / f"{name}.svg").write_text(picture)
    (DOCS / "benchmarks.md").write_text(page(result))
    (DOCS / "benchmarks.json").write_text(path.read_text())
    readme = ROOT / "README.md"
    readme.write_text(with_figures(readme.read_text(), readme_figures(result)))
    print(f"docs/benchmarks.md, docs/images/ and README.md from {path.name}")


if __name__ == "__main__":
    main()
