"""The few figures that the README shows, between its two marks."""

import re
from collections.abc import Mapping
from typing import Any

from benchmarks.charts import CHARTS
from benchmarks.report import markdown

BEGIN, END = "<!-- figures: made by make bench-page -->", "<!-- end of figures -->"

COLUMNS = {
    "langgraph-sqlite": "LangGraph",
    "langgraph-delta": "its DeltaChannel",
    "checkpnt": "checkpnt",
    "lastgood-save": "Lastgood `save`",
    "lastgood-append": "Lastgood `append`",
}
# what a row says, the figure of W1, how it is spelled, in what unit
ROWS = [
    ("1,000 steps of a growing conversation: time", "seconds", "{:.2f} s", 1),
    ("the same: bytes at rest", "bytes", "{:,.2f} MB", 1e-6),
    ("restoring the newest state", "restore_ms", "{:.1f} ms", 1),
]


def readme_figures(result: Mapping[str, Any]) -> str:
    """What was measured, the pictures, the table."""
    medians = result["workloads"]["w1"]["medians"]
    rows = [
        [text, *(_cell(medians.get(store), figure, form, unit) for store in COLUMNS)]
        for text, figure, form, unit in ROWS
    ]
    cores, rounds = result["machine"]["cpus"], result["repetitions"]
    about = (
        "`make bench` measures speed and size against other stores, synced to disk on both sides;"
        f" here, medians of {rounds} rounds on {cores} cores."
        " [All figures, and where we lose](docs/benchmarks.md)."
    )
    images = " ".join(f"![{chart.title}](docs/images/{name}.svg)" for name, chart in CHARTS.items())
    table = markdown(["", *COLUMNS.values()], rows)
    return f"{BEGIN}\n{about}\n\n{images}\n\n{table}\n{END}"


def _cell(figures: Mapping[str, float] | None, figure: str, form: str, unit: float) -> str:
    return "-" if figures is None else form.format(figures[figure] * unit)


def with_figures(readme: str, figures: str) -> str:
    """A README with what stands between its marks replaced."""
    pattern = re.compile(f"{re.escape(BEGIN)}.*?{re.escape(END)}", re.DOTALL)
    if not pattern.search(readme):
        raise ValueError(f"the README has no place for figures: {BEGIN} ... {END}")
    return pattern.sub(lambda _: figures, readme)
