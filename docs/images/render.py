"""Makes the pictures of the README: what the command line prints, as SVG for light and dark pages.

    make images

The store of the pictures is made anew each time, with a clock that stands still, so that the same
code gives the same pictures; `tests/cli/test_cli_images.py` says when they are out of date.
"""

from __future__ import annotations

import io
import re
import sys
import tempfile
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from html import escape
from pathlib import Path
from typing import Any, NamedTuple
from unittest import mock

from lastgood import BlockingClient
from lastgood.cli import diff, log
from lastgood.cli.cleaning import columns
from lastgood.cli.terminal import BOXES, Terminal

HERE = Path(__file__).parent
THREAD = "invoice-4821"
NOON = 1_768_478_400_000_000_000
"""15 January 2026, in nanoseconds: a time that no zone moves to another day."""
WIDTH, SIZE, CELL, LINE, EDGE, BAR = 92, 14, 8.43, 20, 18, 34
_STYLE = """
text { font: 14px ui-monospace, SFMono-Regular, Menlo, Consolas, "DejaVu Sans Mono", monospace; \
white-space: pre; fill: #24292f }
.page { fill: #ffffff; stroke: #d0d7de } .dot { fill: #d0d7de }
.bold { font-weight: 600 } .dim { fill: #6e7781 } .red { fill: #cf222e } .green { fill: #1a7f37 }
.yellow { fill: #9a6700 } .blue { fill: #0969da } .magenta { fill: #8250df } .cyan { fill: #1b7c83 }
@media (prefers-color-scheme: dark) {
text { fill: #e6edf3 } .page { fill: #0d1117; stroke: #30363d } .dot { fill: #30363d }
.dim { fill: #8b949e } .red { fill: #ff7b72 } .green { fill: #56d364 } .yellow { fill: #e3b341 }
.blue { fill: #79c0ff } .magenta { fill: #d2a8ff } .cyan { fill: #56d4dd } }
"""
_NAMES = {"1": "bold", "2": "dim", "31": "red", "32": "green", "33": "yellow", "34": "blue"}
_NAMES |= {"35": "magenta", "36": "cyan"}
_CODE = re.compile("\x1b\\[([\\d;]*)m")


class Picture(NamedTuple):
    """A file, the command that it shows, and what prints the same."""

    name: str
    command: str
    draw: Callable[[BlockingClient, Terminal], None]


@contextmanager
def store() -> Iterator[BlockingClient]:
    """An invoice that was about to be paid in the wrong currency."""
    with (
        tempfile.TemporaryDirectory() as directory,
        mock.patch("time.time_ns", return_value=NOON),
        BlockingClient.sqlite(Path(directory) / "lastgood.db") as client,
    ):
        start: dict[str, Any] = {"currency": None, "total": None, "messages": []}
        with client.run(THREAD, agent_id="clerk", initial=start) as run:
            for step, changes in _STEPS:
                run.state.update(changes)
                run.state["messages"].append({"role": "assistant", "content": f"{step}: done"})
                run.save(step_name=step)
        client.tag(f"{THREAD}@3", "checked")
        edits = {"currency": "EUR", "messages[3]": {"role": "user", "content": "It is in euros."}}
        client.fork(f"{THREAD}@4", branch="fixed", edits=edits, switch=True)
        state = client.restore(f"{THREAD}@").state
        state["paid"] = True
        client.save("clerk", session_id=THREAD, execution_state=state, step_name="pay")
        client.handoff(f"{THREAD}/clerk@", "approver")
        client.save("approver", session_id=THREAD, execution_state=state, step_name="approve")
        yield client


_STEPS: list[tuple[str, dict[str, Any]]] = [
    ("fetch", {"total": "1,280.00"}),
    ("validate", {}),
    ("match", {"currency": "USD"}),
    ("pay", {"paid": True}),
]


def _log(client: BlockingClient, terminal: Terminal) -> None:
    log.draw(terminal, client.log(THREAD).items, log.Marks.of(client, THREAD))


def _diff(client: BlockingClient, terminal: Terminal) -> None:
    old, new = client.resolve(f"{THREAD}@4"), client.resolve(f"{THREAD}@7")
    diff.draw(terminal, old, new, client.diff(old.checkpoint_id, new.checkpoint_id))


PICTURES = (
    Picture("log-graph.svg", f"lastgood log {THREAD} --graph", _log),
    Picture("diff.svg", f"lastgood diff {THREAD}@4 {THREAD}@7", _diff),
)


def rendered(picture: Picture) -> str:
    """The picture of one command."""
    out = io.StringIO()
    terminal = Terminal(out, colour=True, live=False, glyphs=BOXES, width=WIDTH)
    with store() as client:
        terminal.line(f"{terminal.styled('$', 'dim')} {terminal.styled(picture.command, 'bold')}")
        picture.draw(client, terminal)
    return svg(out.getvalue().splitlines(), picture.command)


def svg(lines: list[str], title: str) -> str:
    """Lines with colour codes as a window."""
    wide = max(columns(_CODE.sub("", line)) for line in lines)
    width, height = round(wide * CELL + 2 * EDGE), BAR + len(lines) * LINE + EDGE // 2
    dots = "".join(f'<circle class="dot" cx="{EDGE + 16 * i}" cy="17" r="5"/>' for i in range(3))
    rows = "\n".join(_row(line, BAR + LINE * i + SIZE) for i, line in enumerate(lines))
    return (
        f'<svg xmlns="http://www.w3.org/2000/svg" width="{width}" height="{height}" '
        f'viewBox="0 0 {width} {height}" role="img" aria-label="{escape(title)}">\n'
        f"<title>{escape(title)}</title>\n<style>{_STYLE}</style>\n"
        f'<rect class="page" x=".5" y=".5" width="{width - 1}" height="{height - 1}" rx="8"/>\n'
        f"{dots}\n{rows}\n</svg>\n"
    )


def _row(line: str, y: int) -> str:
    """One line; each piece is put at its column, whatever the font thinks of its glyphs."""
    pieces, at = [], 0
    for text, classes in _pieces(line):
        style = f' class="{classes}"' if classes else ""
        for words in re.finditer(r"\S+(?: \S+)*", text):
            left = EDGE + (at + columns(text[: words.start()])) * CELL
            shown = escape(words[0], quote=False)
            pieces.append(f'<tspan x="{left:.2f}"{style}>{shown}</tspan>')
        at += columns(text)
    return f'<text y="{y}">{"".join(pieces)}</text>'


def _pieces(line: str) -> Iterator[tuple[str, str]]:
    classes = ""
    for number, piece in enumerate(_CODE.split(line)):
        if number % 2:
            classes = " ".join(_NAMES[code] for code in piece.split(";") if code in _NAMES)
        elif piece:
            yield piece, classes


def main() -> None:
    """Write all pictures."""
    for picture in PICTURES:
        (HERE / picture.name).write_text(rendered(picture))
        sys.stdout.write(f"{HERE / picture.name}\n")


if __name__ == "__main__":
    main()
