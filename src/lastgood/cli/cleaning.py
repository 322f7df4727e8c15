"""Making text from a store safe to print: what is invisible, or moves the cursor, is shown instead.

An agent's state holds what models, tools and strangers wrote. Printed as it is, it could recolour
the screen, hide a line, turn the reading direction round or fill in an answer. Owns the one rule:
what is printed is what is seen. Every such character becomes an escape such as `\\x1b`.
"""

from __future__ import annotations

import re
import unicodedata
from functools import lru_cache

_HIDDEN = frozenset({"Cc", "Cf", "Cs", "Co", "Cn", "Zl", "Zp"})
"""Controls, format characters with the bidi ones, surrogates, private, unassigned, separators."""
_BLANK = frozenset("\u034f\u115f\u1160\u17b4\u17b5\u3164\uffa0\u2800")
"""Letters and marks that show nothing."""
_SELECTORS = re.compile("[\u180b-\u180f\ufe00-\ufe0e\U000e0100-\U000e01ef]")
"""Variation selectors but the one that emoji need: text can be smuggled in them."""
_PLAIN = re.compile(r"[ -~]*")
_WIDE = frozenset({"W", "F"})
_MARKS = frozenset({"Mn", "Me"})


def clean(text: str) -> str:
    """The text on one line, everything invisible in it escaped."""
    return text if _PLAIN.fullmatch(text) else "".join(map(_shown, text))


def clean_lines(text: str) -> str:
    """The same for text that may have lines: line ends and tabs stay."""
    return "".join(char if char in "\n\t" else _shown(char) for char in text)


@lru_cache(maxsize=4096)
def _shown(char: str) -> str:
    hidden = unicodedata.category(char) in _HIDDEN or char in _BLANK
    return _escape(ord(char)) if hidden or _SELECTORS.match(char) else char


def _escape(code: int) -> str:
    if code < 0x100:
        return f"\\x{code:02x}"
    return f"\\u{code:04x}" if code < 0x10000 else f"\\U{code:08x}"


def columns(text: str) -> int:
    """How many columns clean text takes on a terminal."""
    return len(text) if text.isascii() else sum(map(_columns, text))


@lru_cache(maxsize=4096)
def _columns(char: str) -> int:
    if unicodedata.category(char) in _MARKS:
        return 0
    return 2 if unicodedata.east_asian_width(char) in _WIDE else 1


def shortened(text: str, room: int, mark: str = "...") -> str:
    """Clean text cut to so many columns; the mark says that it was."""
    if columns(text) <= room:
        return text
    kept, left = "", room - len(mark)
    for char in text:
        left -= _columns(char)
        if left < 0:
            break
        kept += char
    return kept + mark
