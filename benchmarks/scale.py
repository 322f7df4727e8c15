"""`python -m benchmarks.scale`: how each operation grows with the size of the store.

Three ways to grow: one thread gets longer, there are more threads, the whole file gets larger.
Every figure is the median of many calls of a client that has the file open, on an idle thread in
the middle of the store; only `verify` reads everything, and is timed once.
"""

import argparse
import json
import random
import tempfile
from collections.abc import Callable, Iterator
from pathlib import Path
from time import perf_counter
from typing import Any

from benchmarks import bulk
from benchmarks.charts import Chart, Curve, draw
from benchmarks.figures import each_ms
from benchmarks.report import RESULTS
from benchmarks.stores.interface import AGENT

LOOKS = 100
LARGER = "a larger file"
SHAPES = {
    "one thread, longer": [(1, 1_000), (1, 10_000), (1, 100_000)],
    "more threads": [(1_000, 1), (10_000, 1), (100_000, 1)],
    LARGER: [(100, 100), (100, 1_000), (100, 10_000), (100, 100_000)],
}
LARGEST_VERIFIED = 1_000_000

DOCS = Path(__file__).parent.parent / "docs"
PAGE, PICTURE = DOCS / "explanation" / "growth.md", DOCS / "images" / "growth.svg"
BEGIN, END = "<!-- figures: made by make scale-page -->", "<!-- end of figures -->"
CHART = Chart(
    "",
    "Reading from a file of 10,000 to 10,000,000 checkpoints",
    "milliseconds per call",
    1,
    "ms",
    across="checkpoint",
    powers=True,
)


def main() -> None:
    """Measure every shape and show the tables."""
    parser = argparse.ArgumentParser(prog="python -m benchmarks.scale", description=__doc__)
    parser.add_argument("--largest", type=int, default=10_000_000, help="checkpoints in a file")
    parser.add_argument("--page", action="store_true", help="write the page of the last run")
    options = parser.parse_args()
    path = RESULTS / "scale" / "newest.json"
    if not options.page:
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(json.dumps(list(_measured(options.largest)), indent=1) + "\n")
    measured = json.loads(path.read_text())
    print("\n".join(table(measured)))
    if options.page:
        _write_page(measured)


def _write_page(measured: list[dict[str, Any]]) -> None:
    """Put the tables and the picture into the documentation."""
    text = PAGE.read_text()
    before, _, rest = text.partition(BEGIN)
    after = rest.partition(END)[2]
    PAGE.write_text(f"{before}{BEGIN}\n{chr(10).join(table(measured))}\n\n{END}{after}")
    rows = [row for row in measured if row["shape"] == LARGER]
    sizes = [row["threads"] * row["each"] for row in rows]
    names = {"restore": "restore", "latest": "latest", "log": "log", "listing": "threads"}
    curves = [Curve(name, sizes, [row[key] for row in rows]) for key, name in names.items()]
    PICTURE.write_text(draw(CHART, curves))


def _measured(largest: int) -> Iterator[dict[str, Any]]:
    for shape, sizes in SHAPES.items():
        for threads, checkpoints in sizes:
            if threads * checkpoints <= largest:
                with tempfile.TemporaryDirectory(dir=RESULTS) as directory:
                    figures = _measure(Path(directory) / "scale.db", threads, checkpoints)
                    yield {"shape": shape, "threads": threads, "each": checkpoints, **figures}


def _measure(path: Path, threads: int, checkpoints: int) -> dict[str, float]:
    """One size. The state of what is restored is compared by its checksum, as always."""
    from lastgood import BlockingClient
    from lastgood.ids import show_id

    begun = perf_counter()
    bulk.fill(path, threads, checkpoints)
    made = perf_counter() - begun
    chosen = random.Random(1)
    middle = bulk.thread_name((threads + 1) // 2)

    def anywhere() -> str:
        place = chosen.randint(1, threads), chosen.randint(1, checkpoints)
        return show_id(bulk.checkpoint_id(*place))

    with BlockingClient.sqlite(path) as client:
        looks: dict[str, Callable[[], object]] = {
            "restore": lambda: client.restore(anywhere()).state,
            "latest": lambda: client.latest(agent_id=AGENT, session_id=middle),
            "log": lambda: [header.seq for header in client.log(middle, limit=20)],
            "listing": lambda: list(client.threads(limit=20)),
            "save": lambda: client.save(AGENT, session_id=middle, execution_state={"n": 1}),
        }
        figures = {name: each_ms(LOOKS, look) for name, look in looks.items()}
        figures["verify_s"] = _verified(client, threads * checkpoints)
    return {**figures, "bytes": path.stat().st_size, "made_s": made}


def _verified(client: Any, checkpoints: int) -> float:
    if checkpoints > LARGEST_VERIFIED:
        return 0.0
    begun = perf_counter()
    report = client.verify()
    if not report.clean:
        raise AssertionError(f"the store that was made is not clean: {report}")
    return perf_counter() - begun


COLUMNS = {
    "save": "save ms",
    "restore": "restore ms",
    "latest": "latest ms",
    "log": "log ms",
    "listing": "threads ms",
    "verify_s": "verify s",
    "bytes": "file MB",
}


def table(measured: list[dict[str, Any]]) -> Iterator[str]:
    """Markdown, one table for each way to grow."""
    for shape in dict.fromkeys(row["shape"] for row in measured):
        yield f"\n**{shape}**\n"
        yield "| threads | checkpoints each | " + " | ".join(COLUMNS.values()) + " |"
        yield "|" + "---|" * (len(COLUMNS) + 2)
        for row in measured:
            if row["shape"] == shape:
                cells = [_cell(name, row[name]) for name in COLUMNS]
                yield f"| {row['threads']:,} | {row['each']:,} | " + " | ".join(cells) + " |"


def _cell(name: str, value: float) -> str:
    if name == "bytes":
        return f"{value / 1e6:,.1f}"
    if name == "verify_s":
        return f"{value:.1f}" if value else "-"
    return f"{value:.2f}"


if __name__ == "__main__":
    main()
