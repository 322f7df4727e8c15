"""Writing to a terminal, a pipe or a file: colour, bars and lines that are drawn again.

Owns the knowledge of what the output can show. Colour needs a terminal and no NO_COLOR; lines are
drawn again only on a terminal; where the encoding has no box characters, ASCII takes their place.
With the package `rich` values are coloured too; the text is the same with and without it.
"""

from __future__ import annotations

import os
import shutil
import time
from dataclasses import dataclass
from typing import NamedTuple, Self, TextIO

_CODES = {
    "bold": "1",
    "dim": "2",
    "red": "31",
    "green": "32",
    "yellow": "33",
    "blue": "34",
    "magenta": "35",
    "cyan": "36",
}


class Glyphs(NamedTuple):
    """The signs that not every encoding has."""

    full: str
    before: str
    empty: str
    good: str
    bad: str
    rule: str
    node: str
    head: str
    pipe: str
    tee: str
    corner: str
    joint: str
    cross: str
    torn: str


BOXES = Glyphs("█", "▓", "░", "✓", "✗", "─", "○", "●", "│", "├", "╯", "┴", "┼", "╵")
ASCII = Glyphs("#", "=", ".", "ok", "NO", "-", "o", "*", "|", "|", "'", "'", "|", ":")


@dataclass(frozen=True, slots=True)
class Terminal:
    """An output and what it can show."""

    out: TextIO
    colour: bool
    live: bool
    """Whether a line can be drawn again and somebody is watching."""
    glyphs: Glyphs
    width: int
    indent: str = ""
    """What every line begins with."""

    @classmethod
    def on(cls, out: TextIO) -> Self:
        """Find out what an output can do."""
        live = out.isatty() and os.environ.get("TERM") != "dumb"
        return cls(
            out=out,
            colour=live and not os.environ.get("NO_COLOR"),
            live=live,
            glyphs=_glyphs(out.encoding),
            width=shutil.get_terminal_size().columns,
        )

    def styled(self, text: str, *styles: str) -> str:
        """The text in colour, where there is colour."""
        if not self.colour:
            return text
        return f"\x1b[{';'.join(_CODES[style] for style in styles)}m{text}\x1b[0m"

    def line(self, text: str = "", *styles: str) -> None:
        """One line."""
        shown = self.styled(text, *styles) if styles else text
        print(self.indent + shown if shown else "", file=self.out, flush=True)

    def highlighted(self, text: str) -> str:
        """Clean text with its values in colour, if `rich` is there to do it."""
        return _highlighted(text) if self.colour else text

    def redraw(self, text: str) -> None:
        """Put a text in the place of the current line; `line()` ends it."""
        print(f"\r\x1b[K{text}", end="", file=self.out, flush=True)

    def mark(self, *, good: bool) -> str:
        """The sign for a claim that holds, or does not."""
        if good:
            return self.styled(self.glyphs.good, "green", "bold")
        return self.styled(self.glyphs.bad, "red", "bold")

    def pause(self, seconds: float) -> None:
        """Give a person time to read; nobody waits for a pipe."""
        if self.live:
            time.sleep(seconds)


def _glyphs(encoding: str | None) -> Glyphs:
    try:
        "".join(BOXES).encode(encoding or "ascii")
    except (UnicodeEncodeError, LookupError):
        return ASCII
    return BOXES


def _highlighted(text: str) -> str:
    try:
        from rich.color import ColorSystem
        from rich.console import Console
        from rich.highlighter import ReprHighlighter
        from rich.text import Text
    except ImportError:
        return text
    marked = Text(text, end="")
    ReprHighlighter().highlight(marked)
    return "".join(
        piece.style.render(piece.text, color_system=ColorSystem.STANDARD)
        if piece.style
        else piece.text
        for piece in marked.render(Console(force_terminal=True))
    )
