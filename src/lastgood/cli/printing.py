"""What commands print: tables, sizes and ages for people, one JSON document for programs.

Every text that came from a store goes through `cell` or `clean` on its way out; JSON escapes
whatever is not ASCII. Knows nothing of commands.
"""

from __future__ import annotations

import json
import sys
from collections.abc import Mapping, Sequence
from dataclasses import fields, is_dataclass
from datetime import UTC, datetime
from typing import Any, NamedTuple

from lastgood.cli.cleaning import clean, columns, shortened
from lastgood.cli.terminal import Terminal
from lastgood.codec import Codec

_CODEC = Codec()
_GAP = "  "
_NARROWEST = 8
_UNITS = (("d", 86400), ("h", 3600), ("min", 60), ("s", 1))
_LONG_AGO = 14 * 86400
"""Seconds after which a date says more than an age."""


class Cell(NamedTuple):
    """One cell of a table: clean text and how it looks."""

    text: str
    styles: tuple[str, ...] = ()
    painted: str = ""
    """The same text in more than one colour."""


class Column(NamedTuple):
    """How a column is set."""

    title: str
    right: bool = False
    flexible: bool = False
    """Whether its texts may be cut where a terminal is too narrow."""
    key: bool = False
    """Whether a row is called by it: it is cut last."""
    optional: bool = False
    """Whether it is left out before the key is cut, the rightmost first."""


def cell(text: object, *styles: str) -> Cell:
    """A cell of text that came from a store."""
    return Cell(clean(str(text)), styles)


def table(terminal: Terminal, heads: Sequence[Column], rows: Sequence[Sequence[Cell]]) -> None:
    """Columns under their titles; cut to the width of a terminal, never in a pipe."""
    widths = _widths(heads, rows)
    if terminal.live:
        widths = _cut(heads, _kept(heads, widths, terminal.width), terminal.width)
    if any(head.title for head in heads):
        terminal.line(_row(terminal, heads, widths, [Cell(h.title, ("dim",)) for h in heads]))
    for row in rows:
        terminal.line(_row(terminal, heads, widths, row))


def _widths(heads: Sequence[Column], rows: Sequence[Sequence[Cell]]) -> dict[int, int]:
    """How wide each column is, by its place."""
    return {
        i: max([len(head.title), *(columns(row[i].text) for row in rows if i < len(row))])
        for i, head in enumerate(heads)
    }


def _kept(heads: Sequence[Column], widths: dict[int, int], room: int) -> dict[int, int]:
    """Without columns for which there is no room, however much the others are cut."""
    kept = dict(widths)
    for i in (i for i in reversed(widths) if heads[i].optional):
        if _total(kept) - _given(heads, kept) > room:
            del kept[i]
    return kept


def _cut(heads: Sequence[Column], widths: dict[int, int], room: int) -> dict[int, int]:
    """Narrower where it must be: the widest first, what a row is called by last."""
    cut = dict(widths)
    excess = _total(widths) - room
    for i in sorted(widths, key=lambda i: (heads[i].key, -widths[i])):
        less = min(max(0, excess), _spare(heads[i], widths[i]))
        cut[i], excess = widths[i] - less, excess - less
    return cut


def _given(heads: Sequence[Column], widths: dict[int, int]) -> int:
    """By how much all columns but the key can be cut."""
    return sum(_spare(heads[i], width) for i, width in widths.items() if not heads[i].key)


def _spare(head: Column, width: int) -> int:
    return max(0, width - _NARROWEST) if head.flexible else 0


def _total(widths: dict[int, int]) -> int:
    return sum(widths.values()) + len(_GAP) * (len(widths) - 1)


def _row(
    terminal: Terminal, heads: Sequence[Column], widths: dict[int, int], row: Sequence[Cell]
) -> str:
    shown = (
        _fitted(terminal, heads[i], width, row[i]) for i, width in widths.items() if i < len(row)
    )
    return _GAP.join(shown).rstrip()


def _fitted(terminal: Terminal, head: Column, width: int, each: Cell) -> str:
    cut = shortened(each.text, width)
    blanks = " " * (width - columns(cut))
    if each.painted:
        cut = each.painted
    elif each.styles and cut:
        cut = terminal.styled(cut, *each.styles)
    return blanks + cut if head.right else cut + blanks


def size(count: int) -> str:
    """Bytes as people read them."""
    value, unit = float(count), "B"
    for larger in ("kB", "MB", "GB", "TB"):
        if value < 1000:
            break
        value, unit = value / 1000, larger
    return f"{count} B" if unit == "B" else f"{value:.1f} {unit}"


def age(when: datetime) -> str:
    """How long ago; a date if that is long."""
    seconds = (datetime.now(UTC) - when).total_seconds()
    if seconds > _LONG_AGO:
        return f"{when.astimezone():%Y-%m-%d}"
    for unit, length in _UNITS:
        if seconds >= length:
            return f"{seconds / length:.0f} {unit} ago"
    return "now" if seconds > -1 else "in the future"


def moment(when: datetime) -> str:
    """A time as people read it, in their zone."""
    return f"{when.astimezone():%Y-%m-%d %H:%M:%S} ({age(when)})"


def counted(number: int, noun: str) -> str:
    """`1 thread`, `2 threads`."""
    return f"{number:,} {noun}{'' if number == 1 else _plural(noun)}"


def _plural(noun: str) -> str:
    return "es" if noun.endswith("ch") else "s"


def note(text: str) -> None:
    """A word to the person beside the output; it is not part of it."""
    print(clean(text), file=sys.stderr)


# JSON


def document(value: object) -> None:
    """One JSON document on one line."""
    print(json.dumps(value, allow_nan=False), flush=True)


def plain(value: object) -> Any:
    """A value of the public interface as JSON: dataclasses by field, times in ISO 8601.

    Whatever else users stored is in the codec's text spelling.
    """
    if is_dataclass(value) and not isinstance(value, type):
        return {field.name: plain(getattr(value, field.name)) for field in fields(value)}
    if isinstance(value, datetime):
        return value.isoformat()
    if isinstance(value, tuple):
        return [plain(item) for item in value]
    if _is_json(value):
        return value
    return spelled(dict(value) if isinstance(value, Mapping) else value)


def _is_json(value: object) -> bool:
    """Whether its spelling is itself, as with most of what a list of thousands of headers has."""
    if type(value) is str:
        return value.isascii()
    return value is None or (type(value) is int and value.bit_length() < 64)


def spelled(value: object) -> Any:
    """A stored value in the codec's text spelling."""
    return json.loads(_CODEC.dumps_text(value))
