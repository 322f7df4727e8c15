"""Drawing the lines of a thread beside its log: forks, rewinds, handoffs.

Pure: headers in, glyphs out. Headers come newest first, and each has at most one parent, so lines
only ever join on the way down. A column waits for the id of the parent that comes next in it.
"""

from __future__ import annotations

from collections.abc import Generator, Iterator, Sequence
from dataclasses import dataclass, field
from itertools import count

from lastgood import Header
from lastgood.cli.printing import Cell
from lastgood.cli.terminal import Glyphs, Terminal

_PALETTE = ("cyan", "magenta", "yellow", "green", "blue", "red")
_BLANK = " "


@dataclass(frozen=True, slots=True)
class Line:
    """One line of the drawing: what stands in each column, and between it and the next."""

    glyphs: list[str]
    between: list[str]
    header: Header | None = None
    torn: bool = False
    """Whether a line ends here whose parent is not shown."""

    def cell(self, terminal: Terminal, room: int) -> Cell:
        """The line as a cell of at most so many columns of lines."""
        shown = list(zip(self.glyphs, self.between, strict=True))
        if len(shown) > room:
            node = next((g for g, _ in shown[room:] if self.header and g in _nodes(terminal)), "")
            shown = [*shown[:room], (f"+{node}", "")]
        text = "".join(glyph + after for glyph, after in shown).rstrip()
        painted = (
            _painted(terminal, glyph, i) + _painted(terminal, after, i + 1)
            for i, (glyph, after) in enumerate(shown)
        )
        return Cell(text, painted="".join(painted).rstrip())


def _painted(terminal: Terminal, glyph: str, column: int) -> str:
    style = _PALETTE[column % len(_PALETTE)]
    return terminal.styled(glyph, style) if glyph.strip() else glyph


def _nodes(terminal: Terminal) -> tuple[str, str]:
    return terminal.glyphs.node, terminal.glyphs.head


@dataclass(slots=True)
class Graph:
    """The columns of a drawing, from the newest checkpoint down."""

    signs: Glyphs
    heads: frozenset[str]
    """Ids that are drawn as heads."""
    waiting: list[str | None] = field(default_factory=list)
    """Which id each column waits for; None where it is free."""
    ended: int = -1
    """The column of the root right above, if there is one: what stands below it would be read as
    what it follows."""

    def lines(self, headers: Sequence[Header], *, complete: bool) -> Iterator[Line]:
        """The drawing; unless it is complete, a parent that is not shown may be further down."""
        shown = {header.checkpoint_id for header in headers}
        for header in headers:
            column = yield from self._joined(header.checkpoint_id)
            yield self._row(column, header)
            parent = header.parent_id
            goes_on = parent in shown or (parent is not None and not complete)
            self.waiting[column] = parent if goes_on else None
            self.ended = column if parent is None else -1
            if parent is not None and not goes_on:
                yield self._torn(column)
            while self.waiting and self.waiting[-1] is None:
                self.waiting.pop()

    def _joined(self, id: str) -> Generator[Line, None, int]:
        """Let the columns that wait for a checkpoint become one; gives the column it has."""
        found = [i for i, waits in enumerate(self.waiting) if waits == id]
        if not found:
            return self._free(id)
        if len(found) > 1:
            yield self._join(found)
            for column in found[1:]:
                self.waiting[column] = None
        return found[0]

    def _free(self, id: str) -> int:
        taken = {i for i, waits in enumerate(self.waiting) if waits is not None} | {self.ended}
        column = next(i for i in count() if i not in taken)
        self.waiting += [None] * (column + 1 - len(self.waiting))
        self.waiting[column] = id
        return column

    def _row(self, column: int, header: Header) -> Line:
        sign = self.signs.head if header.checkpoint_id in self.heads else self.signs.node
        glyphs = [sign if i == column else glyph for i, glyph in enumerate(self._pipes())]
        return Line(glyphs, [_BLANK] * len(glyphs), header)

    def _torn(self, column: int) -> Line:
        glyphs = [self.signs.torn if i == column else g for i, g in enumerate(self._pipes())]
        return Line(glyphs, [_BLANK] * len(glyphs), torn=True)

    def _join(self, found: list[int]) -> Line:
        """`├─┼─╯`: the first column goes on, the last ends, the others cross or end."""
        first, last, signs = found[0], found[-1], self.signs
        glyphs = self._pipes()
        for i in range(first, last + 1):
            if i in found:
                glyphs[i] = signs.joint
            elif self.waiting[i] is not None:
                glyphs[i] = signs.cross
            else:
                glyphs[i] = signs.rule
        glyphs[first], glyphs[last] = signs.tee, signs.corner
        between = [signs.rule if first <= i < last else _BLANK for i in range(len(glyphs))]
        return Line(glyphs, between)

    def _pipes(self) -> list[str]:
        return [self.signs.pipe if waits is not None else _BLANK for waits in self.waiting]
