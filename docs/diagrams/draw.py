"""Draws the pictures of the explanations as SVG, for light and dark pages.

    make images

A picture is a list of shapes on a grid; `tests/test_diagrams.py` says when a file is not what this
would write.
"""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterator
from html import escape
from pathlib import Path
from typing import NamedTuple

HERE = Path(__file__).parent
STYLE = """
text { font: 14px system-ui, "Segoe UI", Helvetica, Arial, sans-serif; fill: #24292f }
.name { font-weight: 600 } .note { font-size: 12px; fill: #6e7781 } .middle { text-anchor: middle }
.page { fill: #ffffff; stroke: #d0d7de } .lane { fill: #f6f8fa; stroke: #d0d7de }
.box { fill: #ddf4ff; stroke: #0969da } .new { fill: #dafbe1; stroke: #1a7f37 }
.head { fill: #fff8c5; stroke: #9a6700 } .line { stroke: #57606a; stroke-width: 1.5; fill: none }
.tip { fill: #57606a } .dots { stroke: #9a6700; stroke-width: 1.5; stroke-dasharray: 3 3 }
@media (prefers-color-scheme: dark) {
text { fill: #e6edf3 } .note { fill: #8b949e } .page { fill: #0d1117; stroke: #30363d }
.lane { fill: #161b22; stroke: #30363d } .box { fill: #0c2d6b; stroke: #58a6ff }
.new { fill: #033a16; stroke: #56d364 } .head { fill: #3b2300; stroke: #e3b341 }
.line { stroke: #8b949e } .tip { fill: #8b949e } .dots { stroke: #e3b341 } }
"""


class Picture(NamedTuple):
    """A file, what it shows in words, its size, and what draws it."""

    name: str
    title: str
    width: int
    height: int
    shapes: Callable[[], Iterator[str]]


def text(x: float, y: float, words: str, style: str = "") -> str:
    """A line of text."""
    return f'<text x="{x:g}" y="{y:g}" class="{style}">{escape(words, quote=False)}</text>'


def box(x: float, y: float, width: float, height: float, style: str, words: str = "") -> str:
    """A rectangle with a word in its middle."""
    shape = (
        f'<rect x="{x:g}" y="{y:g}" width="{width:g}" height="{height:g}" rx="6" class="{style}"/>'
    )
    return shape + (text(x + width / 2, y + height / 2 + 5, words, "middle") if words else "")


def arrow(*points: tuple[float, float]) -> str:
    """An arrow along points; its tip shows the way from the last but one to the last."""
    (x0, y0), (x, y) = points[-2:]
    length = ((x - x0) ** 2 + (y - y0) ** 2) ** 0.5
    dx, dy = (x - x0) / length, (y - y0) / length
    back = x - 9 * dx, y - 9 * dy
    sides = [(back[0] - 4 * dy * k, back[1] + 4 * dx * k) for k in (1, -1)]
    tip = " ".join(f"{a:.1f},{b:.1f}" for a, b in [(x, y), *sides])
    way = " ".join(f"{a:g},{b:g}" for a, b in [*points[:-1], back])
    return f'<polyline class="line" points="{way}"/><polygon class="tip" points="{tip}"/>'


def dots(x: float, y: float, to_x: float, to_y: float) -> str:
    """A line that means "names"."""
    return f'<line class="dots" x1="{x:g}" y1="{y:g}" x2="{to_x:g}" y2="{to_y:g}"/>'


def thread() -> Iterator[str]:
    """A thread with two agents, a branch and a handoff."""
    yield text(20, 30, "thread invoice-4821", "name")
    yield text(640, 30, "tenant default", "note")
    yield box(20, 44, 720, 172, "lane") + text(34, 66, "lane of agent clerk", "note")
    for x, words in ((50, "@1 fetch"), (230, "@2 validate"), (410, "@3 pay")):
        yield box(x, 84, 120, 36, "box", words)
    yield arrow((170, 102), (229, 102)) + arrow((350, 102), (409, 102))
    yield box(290, 160, 150, 36, "box", "@4 validate again") + arrow((320, 120), (320, 159))
    yield dots(530, 102, 592, 102) + box(592, 86, 132, 32, "head", "main, current")
    yield dots(182, 178, 290, 178) + box(50, 162, 132, 32, "head", "main-ee6a0c")
    yield box(20, 236, 720, 84, "lane") + text(34, 258, "lane of agent approver", "note")
    yield box(370, 268, 200, 36, "box", "@5 handoff_to_approver") + arrow((490, 120), (490, 267))
    yield dots(570, 286, 592, 286) + box(592, 270, 132, 32, "head", "main, current")
    yield text(
        20,
        344,
        "blue: checkpoints, numbered in the order of their commits; yellow: branches and the heads "
        "that they name",
        "note",
    )


def tree() -> Iterator[str]:
    """A state of 5 KB, taken apart."""
    yield text(20, 30, "state", "name") + text(74, 30, "5.4 KB, so it is taken apart", "note")
    yield box(20, 112, 120, 36, "box", "fields")
    for y, key, node in ((64, "invoice", "leaf"), (160, "messages", "sequence")):
        yield arrow((140, 130), (190, 130), (190, y + 18), (279, y + 18))
        yield text(200, y + 11, key, "note") + box(280, y, 110, 36, "box", node)
    yield text(408, 87, '"INV-4821": small, stands in the manifest itself', "note")
    yield arrow((390, 178), (429, 178))
    for number in range(1, 5):
        yield box(430 + (number - 1) * 74, 160, 66, 36, "new", f"page {number}")
    yield text(280, 216, "4 messages each, about 1 KiB; stored as parts 1-4 of stream 1", "note")
    yield text(
        20, 252, "blue: nodes of the tree; green: pages, which come and go one by one", "note"
    )


PARTS = {"@1": [1, 2, 3, 4], "@2": [1, 2, 3, 4, 5], "@3": [2, 3, 4, 5, 6], "@4": [1, 2, 3, 4, 5, 7]}
"""Which parts each manifest of the worked example names; 7 is the first of stream 2."""
NOTES = {
    "@1": "16 messages: four pages",
    "@2": "one appended: one new page",
    "@3": "message 3 changed: one new page",
    "@4": "a late writer, on top of @2",
}


def parts() -> Iterator[str]:
    """The four manifests of the worked example over the parts that they share."""
    yield text(70, 30, "stream 1", "name") + text(462, 30, "stream 2", "name")
    for number in range(1, 8):
        x = _column(number)
        yield box(x, 44, 52, 34, "lane", f"part {number if number < 7 else 1}")
    seen: set[int] = set()
    for row, (name, used) in enumerate(PARTS.items()):
        y = 96 + row * 44
        yield text(20, y + 21, name, "name")
        for number in used:
            yield box(_column(number), y, 52, 32, "box" if number in seen else "new")
        yield text(540, y + 21, NOTES[name], "note")
        seen |= set(used)
    yield text(20, 296, "green: written by this save; blue: taken over from an earlier one", "note")


def _column(number: int) -> int:
    return 70 + (number - 1) * 60 + (32 if number == 7 else 0)


PICTURES = (
    Picture(
        "thread.svg", "A thread: two lanes, five checkpoints, three branches", 760, 360, thread
    ),
    Picture("tree.svg", "A state as a tree: fields, a leaf, a sequence of pages", 760, 268, tree),
    Picture("parts.svg", "Four checkpoints and the parts that they share", 770, 312, parts),
)


def rendered(picture: Picture) -> str:
    """The picture as a file."""
    width, height, title = picture.width, picture.height, escape(picture.title)
    shapes = "\n".join(picture.shapes())
    return (
        f'<svg xmlns="http://www.w3.org/2000/svg" width="{width}" height="{height}" '
        f'viewBox="0 0 {width} {height}" role="img" aria-label="{title}">\n'
        f"<title>{title}</title>\n<style>{STYLE}</style>\n"
        f'<rect class="page" x=".5" y=".5" width="{width - 1}" height="{height - 1}" rx="8"/>\n'
        f"{shapes}\n</svg>\n"
    )


def main() -> None:
    """Write all pictures."""
    for picture in PICTURES:
        (HERE / picture.name).write_text(rendered(picture))
        sys.stdout.write(f"{HERE / picture.name}\n")


if __name__ == "__main__":
    main()
