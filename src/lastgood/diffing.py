"""Finding what differs between two values, by their encodings.

Works on parts: encodings, or values in a store that are read as far as they are needed (`Unread`).
Decodes nothing, so no code of users runs here. The one invariant: None means that the values are
equal, type for type; the order of the keys of a dict is no difference.

A part that is not read yet raises `Missing` and has noted by itself what it lacks. It is caught
where its neighbours can still be compared, so that one round asks for as much as it can.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections import Counter, deque
from collections.abc import Sequence
from dataclasses import dataclass
from itertools import accumulate
from typing import NamedTuple

from lastgood.aligning import Pair, aligned
from lastgood.codec import ORDERED_DICT, SETS, Family, Shape, opened
from lastgood.edits import Added, Changed, Edit, Entries, Items, Members, Moved, Removed, Swap

DEEPEST = 60
"""What differs further down is replaced as a whole."""
ALIKE = 0.5
"""The share of equal parts from which on a container counts as the same one, changed."""
NEAR = 8
"""Among how many removed elements the old version of an added one is looked for."""
ID = b"\xa2id"
"""The key, encoded, whose value tells elements apart."""
_NONE = b"\xc0"


class Missing(Exception):
    """Raised where a part of a value has not been read yet."""


class _Incomparable(Exception):
    """Raised where two containers have to be exchanged as a whole."""


class Unread(ABC):
    """A value in a store. Equal `token`s mean equal values, where a token was given."""

    token: bytes

    @abstractmethod
    def shape(self) -> Shape:
        """The value opened by one level; `content` holds parts."""

    @abstractmethod
    def whole(self) -> bytes:
        """The encoding of the value."""

    @abstractmethod
    def same(self, other: Unread) -> bool:
        """Whether both are certainly equal, told without reading anything."""

    @abstractmethod
    def beside(self, other: Unread) -> tuple[Shape, Shape] | None:
        """Both values opened, with what they share left out; None where they share nothing.

        In lists a `Run`, the same object on both sides, stands for what was left out.
        """

    @abstractmethod
    def alike(self, other: Unread) -> bool:
        """Whether the one may be a version of the other, told without reading anything."""


Part = bytes | Unread


@dataclass(frozen=True, slots=True, eq=False)
class Run:
    """So many neighbouring elements that two lists share."""

    count: int


def compare(old: Part, new: Part, depth: int = 0) -> Edit | None:
    """What turns the one into the other; None if they are equal, or not read far enough."""
    try:
        return _compared(old, new, depth)
    except Missing:
        return None


def _compared(old: Part, new: Part, depth: int) -> Edit | None:
    if isinstance(old, bytes):
        if old == new:
            return None
    elif isinstance(new, Unread) and old.same(new):
        return None
    left, right = _opened_both(old, new)
    same = (left.family, left.kind, left.extra) == (right.family, right.kind, right.extra)
    if not same or left.family not in (Family.MAP, Family.ARRAY) or depth >= DEEPEST:
        return _swap(old, new)
    try:
        if left.family is Family.MAP:
            return _entries(left, right, depth)
        return _members(left, right) if left.kind in SETS else _List(left, right).edit(depth)
    except _Incomparable:
        return _swap(old, new)


def _opened_both(old: Part, new: Part) -> tuple[Shape, Shape]:
    if isinstance(old, Unread) and isinstance(new, Unread):
        beside = old.beside(new)
        if beside is not None:
            return beside
    return _shape(old), _shape(new)


def _shape(part: Part) -> Shape:
    return opened(part) if isinstance(part, bytes) else part.shape()


def whole(part: Part) -> bytes:
    """The encoding of a part."""
    return part if isinstance(part, bytes) else part.whole()


def _swap(old: Part, new: Part) -> Edit | None:
    before, after = whole(old), whole(new)
    return None if before == after else Swap(before, after)


def _entries(left: Shape, right: Shape, depth: int) -> Edit | None:
    old, new = dict(left.content), dict(right.content)
    if len(old) != len(left.content) or len(new) != len(right.content):
        raise _Incomparable  # two keys with one encoding, such as NaN and NaN
    common = [key for key in old if key in new]
    fresh = [key for key in new if key not in old]
    if left.kind == ORDERED_DICT and [*common, *fresh] != list(new):
        raise _Incomparable
    compared = [(key, compare(old[key], new[key], depth + 1)) for key in common]
    removed = [(key, whole(part)) for key, part in old.items() if key not in new]
    changed = [(key, edit) for key, edit in compared if edit is not None]
    added = [(key, whole(new[key])) for key in fresh]
    if not (removed or changed or added):
        return None
    return Entries(left.kind, tuple(removed), tuple(changed), tuple(added))


def _members(left: Shape, right: Shape) -> Edit | None:
    old, new = list(map(_key, left.content)), list(map(_key, right.content))
    before, after = set(old), set(new)
    if len(before) != len(old) or len(after) != len(new):
        raise _Incomparable
    removed = tuple(whole(part) for part in left.content if _key(part) not in after)
    added = tuple(whole(part) for part in right.content if _key(part) not in before)
    return Members(left.kind, removed, added) if removed or added else None


def _key(part: Part) -> bytes:
    return part if isinstance(part, bytes) else part.token


class _List:
    """Two lists on their way to an edit. Places here are those in the content, runs included."""

    def __init__(self, left: Shape, right: Shape) -> None:
        self.kind = left.kind
        self.old: list[Part] = left.content
        self.new: list[Part] = right.content
        self.was = _starts(left.content)
        self.at = _starts(right.content)

    def edit(self, depth: int) -> Edit | None:
        kept = self._kept()
        gaps = [
            _Gap(range(low, high), range(from_, to))
            for low, high, from_, to in _gaps(kept, len(self.old), len(self.new))
        ]
        moved = self._moved(gaps)
        gaps = _without(gaps, moved)
        changed = [pair for gap in gaps for pair in self._versions(gap)]
        gaps = _without(gaps, changed)
        if not (kept or moved or changed) and self.old and self.new:
            raise _Incomparable
        return self._made(moved, changed, gaps, depth)

    def _kept(self) -> list[Pair]:
        """Equal elements in order; between two runs that both share, never across one."""
        runs = [i for i, part in enumerate(self.old) if isinstance(part, Run)]
        also = [j for j, part in enumerate(self.new) if isinstance(part, Run)]
        kept = list(zip(runs, also, strict=True))
        for low, high, from_, to in _gaps(kept, len(self.old), len(self.new)):
            old, new = list(map(_key, self.old[low:high])), list(map(_key, self.new[from_:to]))
            kept += [(low + i, from_ + j) for i, j in aligned(old, new)]
        return sorted(kept)

    def _moved(self, gaps: list[_Gap]) -> list[Pair]:
        """Equal elements out of order."""
        gone: dict[bytes, deque[int]] = {}
        for i in (i for gap in gaps for i in gap.old):
            gone.setdefault(_key(self.old[i]), deque()).append(i)
        moved = []
        for j in (j for gap in gaps for j in gap.new):
            places = gone.get(_key(self.new[j]))
            if places:
                moved.append((places.popleft(), j))
        return moved

    def _versions(self, gap: _Gap) -> list[Pair]:
        """Pairs of a removed and an added element that are one element, changed."""
        if not gap.old or not gap.new:
            return []
        old = [_View(self.old[i]) for i in gap.old]
        even = len(gap.old) == len(gap.new)
        found, free = [], 0
        for n, j in enumerate(gap.new):
            view = _View(self.new[j])
            near = range(free, min(free + NEAR, len(old)))
            scores = [(old[k].likeness(view, even and k == n), -k) for k in near]
            score, k = max(scores, default=(0.0, 0))
            if score >= ALIKE:
                found.append((gap.old[-k], j))
                free = -k + 1
        return found

    def _made(
        self, moved: list[Pair], changed: list[Pair], gaps: list[_Gap], depth: int
    ) -> Edit | None:
        was, at, old, new = self.was, self.at, self.old, self.new
        edits = [(i, j, compare(old[i], new[j], depth + 1)) for i, j in changed]
        made = Items(
            self.kind,
            was[-1],
            at[-1],
            tuple(Removed(was[i], whole(old[i])) for gap in gaps for i in gap.old),
            tuple(Moved(was[i], at[j], whole(old[i])) for i, j in moved),
            tuple(Changed(was[i], at[j], edit) for i, j, edit in edits if edit is not None),
            tuple(Added(at[j], whole(new[j])) for gap in gaps for j in gap.new),
        )
        return made if made.removed or made.moved or made.changed or made.added else None


class _Gap(NamedTuple):
    """What is left on either side between two neighbours that stayed."""

    old: Sequence[int]
    new: Sequence[int]


def _without(gaps: list[_Gap], pairs: list[Pair]) -> list[_Gap]:
    """What is left of gaps once some pairs are told."""
    if not pairs:
        return gaps
    gone, come = {i for i, _ in pairs}, {j for _, j in pairs}
    return [
        _Gap([i for i in old if i not in gone], [j for j in new if j not in come])
        for old, new in gaps
    ]


def _starts(content: list[Part | Run]) -> list[int]:
    """The place of each element in the list itself, and behind them its length."""
    return [0, *accumulate(p.count if isinstance(p, Run) else 1 for p in content)]


def _gaps(kept: list[Pair], old: int, new: int) -> list[tuple[int, int, int, int]]:
    """What lies between neighbours that stayed, on either side."""
    starts = [(0, 0), *((i + 1, j + 1) for i, j in kept)]
    ends = [*kept, (old, new)]
    both = zip(starts, ends, strict=True)
    return [(a, c, b, d) for (a, b), (c, d) in both if a < c or b < d]


class _View:
    """An element as the search for its other version sees it."""

    def __init__(self, part: Part) -> None:
        self.part = part
        self.shape = opened(part) if isinstance(part, bytes) else None

    def likeness(self, other: _View, opposite: bool) -> float:
        """From 0 to 1; `opposite` if the one stands where the other stood."""
        if self.shape is None or other.shape is None:
            both_unread = isinstance(self.part, Unread) and isinstance(other.part, Unread)
            return float(both_unread and self.part.alike(other.part))  # type: ignore[union-attr, arg-type]
        mine, yours = self.shape, other.shape
        if (mine.kind, mine.extra) != (yours.kind, yours.extra):
            atoms = mine.family is Family.RAW and yours.family is Family.RAW
            return ALIKE if opposite and atoms else 0.0
        if mine.family is Family.MAP:
            return _like_maps(dict(mine.content), dict(yours.content), opposite)
        if mine.family is Family.ARRAY:
            return _overlap(mine.content, yours.content)
        return ALIKE if opposite else 0.0


def id_of(element: bytes) -> bytes | None:
    """The `id` that an element is known by; None if it has none."""
    shape = opened(element)
    name = dict(shape.content).get(ID, _NONE) if shape.family is Family.MAP else _NONE
    return None if name == _NONE else name


def _like_maps(old: dict[bytes, bytes], new: dict[bytes, bytes], opposite: bool) -> float:
    """By equal entries; an `id` on both sides decides alone."""
    mine, yours = old.get(ID, _NONE), new.get(ID, _NONE)
    if _NONE not in (mine, yours):
        return float(mine == yours)
    same = sum(1 for key, value in old.items() if new.get(key) == value)
    if opposite and old.keys() == new.keys():
        return max(ALIKE, same / max(1, len(old)))
    return same / max(1, len(old.keys() | new.keys()))


def _overlap(old: list[bytes], new: list[bytes]) -> float:
    common = (Counter(old) & Counter(new)).total()
    return 2 * common / max(1, len(old) + len(new))
