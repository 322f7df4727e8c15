"""The one way to write down a place inside a value: `items[3].name`, `["a.b"].x`.

Owns the grammar: identifier-like text keys are dotted, other text keys are JSON strings in
brackets, integers are bare in brackets, any other key is shown by its repr and cannot be
read back. Knows nothing of what the steps lead through. Invariant: `parse(render(steps))`
gives back `steps` whenever every step is a plain `str` or `int`.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterable
from functools import lru_cache

Steps = tuple[object, ...]

# Long enough to recognise the place, short enough for one line of a log.
_SHOWN_STEPS = 12
EXAMPLE = 'messages[3].text, other keys as ["a.b"]'

_STEP = re.compile(
    r"""(?P<dot>\.)?(?P<name>[^\W\d]\w*)
      | \[(?P<index>-?\d+)\]
      | \[(?P<text>"(?:[^"\\]|\\.)*")\]""",
    re.VERBOSE,
)

_LEVELS = re.compile(r" \(\d+ levels deep\)$")


def render(steps: Iterable[object], root: str = "") -> str:
    """Write `steps` as text, after the word `root` if there is one."""
    text = root + "".join(map(_render_step, steps))
    return text if root else text.removeprefix(".")


def shortened(steps: Steps, root: str = "") -> str:
    """Like `render`, with the middle of a very long path left out."""
    if len(steps) <= _SHOWN_STEPS:
        return render(steps, root)
    half = _SHOWN_STEPS // 2
    head = render(steps[:half], root)
    return f"{head} ... {render(steps[-half:])} ({len(steps)} levels deep)"


def parse(text: str) -> Steps:
    """Read a rendered path (without a root word); ValueError if it is not one."""
    if not isinstance(text, str):
        raise TypeError(f"a path must be a str such as 'items[3].name', not {text!r:.60}")
    return _parsed(text)


@lru_cache(maxsize=256)
def _parsed(text: str) -> Steps:
    steps: list[object] = []
    at = 0
    while at < len(text):
        match = _STEP.match(text, at)
        if match is None or not _well_placed(match, at):
            raise ValueError(f"not a path: {text!r} (at character {at}). Write it as {EXAMPLE}")
        steps.append(_parse_step(match))
        at = match.end()
    return tuple(steps)


def names(text: str) -> list[str]:
    """The names in a path that was written for people: its root, and every step that is text."""
    steps = map(_parse_step, _STEP.finditer(_LEVELS.sub("", text)))
    return [step for step in steps if isinstance(step, str)]


def _render_step(step: object) -> str:
    if type(step) is str:
        return f".{step}" if _is_name(step) else f"[{json.dumps(step)}]"
    try:
        return f"[{step!r}]"
    except Exception:  # a class of the user's own: the place must be told all the same
        return f"[a {type(step).__name__}]"


def _is_name(text: str) -> bool:
    # `isidentifier` alone is not enough: it also takes characters that `\w` does not match.
    match = _STEP.fullmatch(text)
    return text.isidentifier() and match is not None


def _well_placed(match: re.Match[str], at: int) -> bool:
    """A name stands first without a dot, or later behind one."""
    return match["name"] is None or (match["dot"] is None) == (at == 0)


def _parse_step(match: re.Match[str]) -> object:
    if match["index"] is not None:
        return int(match["index"])
    if match["text"] is not None:
        return json.loads(match["text"])
    return match["name"]
