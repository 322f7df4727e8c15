"""Curves as SVG: what a save takes and what the file holds, step by step; how things grow.

Written by hand, because a picture of a few lines needs no library. It brings its own ground, and
its colours follow the reader's light or dark scheme; every curve is named at its end, and a
description says in words what there is to see.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from html import escape
from math import ceil, floor, log10
from statistics import median
from typing import Any

WIDTH, HEIGHT = 760, 420
LEFT, RIGHT, TOP, BOTTOM = 70, 170, 56, 48
MANY_POWERS = 3
LABEL = 16
"""Height of a label, so that none covers another."""

# light, dark; the order is that of the stylesheet's classes
COLOURS = {
    "lastgood-append": ("#0b7a53", "#4cd6a0"),
    "lastgood-save": ("#1f5fc4", "#7db2ff"),
    "langgraph-sqlite": ("#c2410c", "#ff9a5c"),
    "langgraph-delta": ("#8a6100", "#e6bd4a"),
    "checkpnt": ("#7a3fc0", "#c79bff"),
    "dbos": ("#4d5a00", "#c3d65a"),
    "json-rows": ("#b01657", "#ff8ab8"),
    "pickle-files": ("#0e7490", "#5fd3ea"),
    "floor": ("#6b7280", "#a3acb9"),
    "restore": ("#0b7a53", "#4cd6a0"),
    "latest": ("#1f5fc4", "#7db2ff"),
    "log": ("#c2410c", "#ff9a5c"),
    "threads": ("#7a3fc0", "#c79bff"),
}
STYLE = """
  text { font: 12px system-ui, -apple-system, "Segoe UI", sans-serif; fill: #24292f }
  .ground { fill: #ffffff }
  .title { font-size: 15px; font-weight: 600 }
  .quiet { fill: #57606a }
  .grid { stroke: #d0d7de; stroke-width: 1 }
  .curve { fill: none; stroke-width: 2; stroke-linejoin: round }
  .floor.curve { stroke-dasharray: 5 4 }
"""
DARK = """
    text { fill: #e6edf3 } .quiet { fill: #9aa4af }
    .ground { fill: #0d1117 } .grid { stroke: #30363d }
"""


@dataclass(frozen=True, slots=True)
class Curve:
    """One store: a value for each step that was looked at."""

    name: str
    steps: Sequence[float]
    values: Sequence[float]


@dataclass(frozen=True, slots=True)
class Chart:
    """What a picture shows, and how its values are spelled."""

    series: str
    title: str
    about: str
    factor: float
    unit: str
    across: str = "step"
    powers: bool = False
    """Whether the steps are so far apart that their logarithm is shown."""


CHARTS = {
    "save-time": Chart(
        "save_ms", "Time per save, growing conversation", "milliseconds per save", 1, "ms"
    ),
    "bytes-at-step": Chart(
        "bytes", "Size of the store, growing conversation", "bytes kept after a step", 1e-6, "MB"
    ),
}


def pictures(result: Mapping[str, Any]) -> dict[str, str]:
    """The SVG of every chart by its name."""
    return {name: draw(chart, curves_of(result, chart)) for name, chart in CHARTS.items()}


def curves_of(result: Mapping[str, Any], chart: Chart) -> list[Curve]:
    """The curves of W1, the median over the rounds at every point."""
    found = []
    for store in COLOURS:
        outcomes = [
            item["outcome"]["series"]
            for item in result["measurements"]
            if (item["workload"], item["store"]) == ("w1", store)
        ]
        if outcomes:
            points = zip(*(series[chart.series] for series in outcomes), strict=False)
            values = [median(point) * chart.factor for point in points]
            found.append(Curve(store, outcomes[0]["steps"], values))
    return found


class Scale:
    """Steps (or their logarithm) to the right, the logarithm of a value upwards."""

    def __init__(self, curves: Sequence[Curve], *, powers: bool = False) -> None:
        values = [value for curve in curves for value in curve.values if value > 0]
        self.low, self.high = log10(min(values) * 0.8), log10(max(values) * 1.25)
        self.steps = max(max(curve.steps) for curve in curves)
        self.first = log10(min(min(curve.steps) for curve in curves)) if powers else None

    def x(self, step: float) -> float:
        """Where a step is."""
        part = step / self.steps
        if self.first is not None:
            part = (log10(step) - self.first) / (log10(self.steps) - self.first)
        return LEFT + (WIDTH - LEFT - RIGHT) * part

    def marks(self) -> list[float]:
        """The steps that are named below: quarters, or powers of ten."""
        if self.first is None:
            return [self.steps * quarter / 4 for quarter in range(5)]
        return [10.0**power for power in range(ceil(self.first), floor(log10(self.steps)) + 1)]

    def y(self, value: float) -> float:
        """Where a value is."""
        part = (log10(value) - self.low) / (self.high - self.low)
        return HEIGHT - BOTTOM - (HEIGHT - TOP - BOTTOM) * part

    def ticks(self) -> list[float]:
        """Round values to draw a line at: the closer, the fewer powers of ten there are."""
        digits = (1,) if self.high - self.low > MANY_POWERS else (1, 2, 5)
        powers = range(floor(self.low), ceil(self.high) + 1)
        values = [digit * 10.0**power for power in powers for digit in digits]
        return [value for value in values if self.low <= log10(value) <= self.high]


def draw(chart: Chart, curves: Sequence[Curve]) -> str:
    """The picture, complete."""
    scale = Scale(curves, powers=chart.powers)
    parts = [
        *_head(chart, curves),
        *_grid(chart, scale),
        *(_line(curve, scale) for curve in curves),
        *_labels(chart, curves, scale),
        "</svg>",
    ]
    return "\n".join(parts) + "\n"


def _head(chart: Chart, curves: Sequence[Curve]) -> list[str]:
    ends = ", ".join(f"{c.name} {_spelled(c.values[-1])} {chart.unit}" for c in curves)
    last = f"{curves[0].steps[-1]:,.0f} {chart.across}s"
    about = f"{chart.about} against the {chart.across}, on a logarithmic scale. At {last}: {ends}."
    shape = f'viewBox="0 0 {WIDTH} {HEIGHT}" role="img" aria-labelledby="title about"'
    dark = f"  @media (prefers-color-scheme: dark) {{{DARK}{_colours(1)}  }}"
    under = f"{chart.about} ({chart.unit}), logarithmic"
    return [
        f'<svg xmlns="http://www.w3.org/2000/svg" {shape}>',
        f'<title id="title">{escape(chart.title)}</title>',
        f'<desc id="about">{escape(about[0].upper() + about[1:])}</desc>',
        f"<style>{STYLE}{_colours(0)}{dark}\n</style>",
        '<rect class="ground" width="100%" height="100%" rx="6"/>',
        f'<text class="title" x="{LEFT}" y="24">{escape(chart.title)}</text>',
        f'<text class="quiet" x="{LEFT}" y="42">{escape(under)}</text>',
    ]


def _colours(scheme: int) -> str:
    return "".join(
        f"  .{name}.curve {{ stroke: {both[scheme]} }} .{name}.label {{ fill: {both[scheme]} }}\n"
        for name, both in COLOURS.items()
    )


def _grid(chart: Chart, scale: Scale) -> list[str]:
    lines = []
    for value in scale.ticks():
        y = scale.y(value)
        lines.append(f'<path class="grid" d="M{LEFT} {y:.1f}H{WIDTH - RIGHT}"/>')
        label = f"{value:g} {chart.unit}"
        lines.append(_text("quiet", LEFT - 8, y + 4, label, anchor="end"))
    below = HEIGHT - BOTTOM + 20
    lines += [
        _text("quiet", scale.x(step), below, f"{step:,.0f}", anchor="middle")
        for step in scale.marks()
    ]
    middle = LEFT + (WIDTH - LEFT - RIGHT) / 2
    lines.append(_text("quiet", middle, HEIGHT - 10, chart.across, anchor="middle"))
    return lines


def _line(curve: Curve, scale: Scale) -> str:
    pairs = zip(curve.steps, curve.values, strict=False)
    points = " ".join(f"{scale.x(step):.1f},{scale.y(value):.1f}" for step, value in pairs if value)
    return f'<polyline class="{curve.name} curve" points="{points}"/>'


def _labels(chart: Chart, curves: Sequence[Curve], scale: Scale) -> list[str]:
    """The name of each curve beside its end, pushed down where it would cover the one above."""
    labels, free = [], float(TOP)
    for curve in sorted(curves, key=lambda each: scale.y(each.values[-1])):
        y = max(scale.y(curve.values[-1]), free)
        free = y + LABEL
        text = f"{curve.name} {_spelled(curve.values[-1])} {chart.unit}"
        labels.append(_text(f"{curve.name} label", WIDTH - RIGHT + 8, y + 4, text))
    return labels


def _text(kind: str, x: float, y: float, text: str, *, anchor: str = "start") -> str:
    place = f'x="{x:.1f}" y="{y:.1f}" text-anchor="{anchor}"'
    return f'<text class="{kind}" {place}>{escape(text)}</text>'


def _spelled(value: float) -> str:
    if value >= 100:
        return f"{value:,.0f}"
    return f"{value:.2g}" if value < 10 else f"{value:.1f}"
