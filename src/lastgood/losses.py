"""The loss report of a checkpoint: what `on_unserializable="drop"` left out of it.

Owns how long a report gets and how it is stored. Must not know values. Invariant: a report names
each sort of loss, however many there are; it grows with the sorts, not with the state.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Collection, Iterable, Iterator
from dataclasses import replace

from lastgood import paths
from lastgood.codec import Codec
from lastgood.model import Loss
from lastgood.paths import Steps

ALIKE = 20
"""So many losses of one sort are listed: of one type, at places that differ by indices alone."""
ROOT = "state"
MORE = " More like it were left out."

_PLAIN = Codec()
_INDEX = re.compile(r"\[-?\d+\]")


def listed(losses: Iterable[Loss]) -> tuple[Loss, ...]:
    """A report of some losses, each told once. What is a report already stays as it is."""
    return tuple(_few_of_each(dict.fromkeys(losses)))


def _few_of_each(losses: Iterable[Loss]) -> Iterator[Loss]:
    seen = Counter[tuple[str, str]]()
    for loss in losses:
        sort = loss.type_name, _INDEX.sub("[]", loss.path)
        seen[sort] += 1
        if seen[sort] <= ALIKE:
            yield loss
        elif seen[sort] == ALIKE + 1:
            yield replace(loss, reason=loss.reason.removesuffix(MORE) + MORE)


def carried(losses: Iterable[Loss], changed: Collection[Steps]) -> list[Loss]:
    """What a report says of a state, for one that was made from it by changes at some places."""
    found = [loss for loss in losses if loss.path.startswith((f"{ROOT}.", f"{ROOT}["))]
    return [loss for loss in found if not _is_below(loss.path.removeprefix(ROOT), changed)]


def _is_below(path: str, changed: Collection[Steps]) -> bool:
    try:
        steps = paths.parse(path.removeprefix("."))
    except ValueError:  # one that was shortened
        return False
    return any(steps[: len(each)] == each for each in changed)


def pack_losses(losses: Iterable[Loss]) -> bytes:
    """A loss report as stored."""
    spelled = [[loss.path, loss.type_name, loss.reason] for loss in losses]
    return _PLAIN.pack(spelled) if spelled else b""


def read_losses(data: bytes) -> tuple[Loss, ...]:
    """The inverse of `pack_losses`."""
    return tuple(Loss(*entry) for entry in _PLAIN.unpack(data)) if data else ()  # type: ignore[attr-defined]
