"""Where a part of a stored tree stands in the objects of a user: for messages.

What several places share lies apart in the tree, under a number that says nothing to its user. Owns
the way back from there. Must not know stores. Invariant: a place that is not found stays as it was
said.
"""

from __future__ import annotations

from collections import deque
from typing import Any

from lastgood.objects.culprits import steps_of
from lastgood.objects.states import AGENTS, SHARED, State
from lastgood.objects.walking import Sort, sort_of
from lastgood.objects.weaving import Shared
from lastgood.paths import Steps, parse, render

ROOT = "state"


def in_the_objects(path: str, tree: State) -> str:
    """A path as the user of the objects would write it."""
    if not path.startswith((f"{ROOT}.", f"{ROOT}[")):
        return path
    try:
        steps = parse(path.removeprefix(ROOT).removeprefix("."))
    except ValueError:  # a long one that was shortened
        return path
    steps = _unshared(steps, tree)
    return render(steps[1:], "agents") if steps[:1] == (AGENTS,) else render(steps, ROOT)


def _unshared(steps: Steps, tree: State) -> Steps:
    """The same through the first place of what is shared, which may itself be in such a part."""
    for _ in tree.get(SHARED, ()):
        if len(steps) < 2 or steps[0] != SHARED:
            break
        steps = _first_place(tree, int(str(steps[1]))) + steps[2:]
    return steps


def _first_place(tree: State, number: int) -> Steps:
    """The nearest of all places; one outside of the shared parts, if there is one."""
    begun: deque[tuple[Steps, Any]] = deque([((), {k: v for k, v in tree.items() if k != SHARED})])
    begun.append(((SHARED,), tree[SHARED]))
    while begun:
        steps, value = begun.popleft()
        for step, part in steps_of(value):
            if isinstance(part, Shared) and part.number == number:
                return (*steps, step)
            if sort_of(type(part)) in (Sort.CONTAINER, Sort.RECORD):
                begun.append(((*steps, step), part))
    return SHARED, str(number)
