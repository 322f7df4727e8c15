"""Which part of a value cannot be copied or pickled: for messages, when the whole has failed.

Owns the search alone; must not know what is done with the parts. Invariant: it ends, whatever leads
back to itself, and names the field if it finds nothing closer.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Iterable

from lastgood.objects.fields import held_by
from lastgood.paths import Steps

_DEPTH = 20
"""So many steps are gone down: each tries the parts of a value anew."""

Work = Callable[[object], object]


def culprit(value: object, work: Work) -> Steps:
    """The steps to the innermost part for which a piece of work fails."""
    steps: list[object] = []
    seen: set[int] = set()
    while len(steps) < _DEPTH and id(value) not in seen:
        seen.add(id(value))
        failing = next((pair for pair in steps_of(value) if not _works(work, pair[1])), None)
        if failing is None:
            break
        step, value = failing
        steps.append(step)
    return tuple(steps)


def steps_of(value: object) -> Iterable[tuple[object, object]]:
    """The parts of a value, by the step that leads to each."""
    if isinstance(value, dict):
        return value.items()
    if isinstance(value, list | tuple | deque):
        return enumerate(value)
    return held_by(value).items()


def _works(work: Work, part: object) -> bool:
    try:
        work(part)
    except Exception:
        return False
    return True
