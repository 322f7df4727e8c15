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
from dataclasses import dataclass
from itertools import accumulate, chain

from lastgood.aligning import Pair, aligned
from lastgood.codec import ORDERED_DICT, SETS, Family, Shape, closed, opened
from lastgood.edits import Added, Changed, Edit, Entries, Items, Members, Moved, Removed, Swap

DEEPEST = 60
"""What differs further down is replaced as a whole."""
ALIKE = 0.5
"""The share of equal parts from which on a container counts as the same one, changed."""
NEAR = 8
"""Among how many removed elements the old version of an added one is looked for."""
_ID, _NONE = b"\xa2id", b"\xc0"


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
        self.old: list[Part | Run] = left.content
        self.new: list[Part | Run] = right.content
        self.was = _starts(self.old)
        self.at = _starts(self.new)

    def edit(self, depth: int) -> Edit | None:
        kept = self._kept()
        moved = self._moved(kept)
        gone = {i for i, _ in moved}
        come = {j for _, j in moved}
        changed: list[Pair] = []
        gaps = list(_gaps(kept, len(self.old), len(self.new)))
        for low, high, from_, to in gaps:
            left = [i for i in range(low, high) if i not in gone]
            right = [j for j in range(from_, to) if j not in come]
            changed += self._versions(left, right)
        if not (kept or moved or changed) and self.old and self.new:
            raise _Incomparable
        gone.update(i for i, _ in (*kept, *changed))
        come.update(j for _, j in (*kept, *changed))
        return self._made(moved, changed, gone, come, depth)

    def _kept(self) -> list[Pair]:
        """Equal elements in order; between two runs that both share, never across one."""
        runs = [i for i, part in enumerate(self.old) if isinstance(part, Run)]
        also = [j for j, part in enumerate(self.new) if isinstance(part, Run)]
        kept = list(zip(runs, also, strict=True))
        for low, high, from_, to in _gaps(kept[:], len(self.old), len(self.new)):
            old = [_key(part) for part in self.old[low:high]]  # type: ignore[arg-type]
            new = [_key(part) for part in self.new[from_:to]]  # type: ignore[arg-type]
            kept += [(low + i, from_ + j) for i, j in aligned(old, new)]
        return sorted(kept)

    def _moved(self, kept: list[Pair]) -> list[Pair]:
        stayed, stands = {i for i, _ in kept}, {j for _, j in kept}
        gone: dict[bytes, deque[int]] = {}
        for i, part in enumerate(self.old):
            if i not in stayed:
                gone.setdefault(_key(part), deque()).append(i)  # type: ignore[arg-type]
        moved = []
        for j, part in enumerate(self.new):
            places = None if j in stands else gone.get(_key(part))  # type: ignore[arg-type]
            if places:
                moved.append((places.popleft(), j))
        return moved

    def _versions(self, left: list[int], right: list[int]) -> list[Pair]:
        """Pairs of a removed and an added element that are one element, changed."""
        if not left or not right:
            return []
        old = [_View(self.old[i]) for i in left]  # type: ignore[arg-type]
        new = [_View(self.new[j]) for j in right]  # type: ignore[arg-type]
        even = len(left) == len(right)
        found, free = [], 0
        for n, view in enumerate(new):
            near = range(free, min(free + NEAR, len(old)))
            scores = [(old[k].likeness(view, even and k == n), -k) for k in near]
            score, k = max(scores, default=(0.0, 0))
            if score >= ALIKE:
                found.append((left[-k], right[n]))
                free = -k + 1
        return found

    def _made(
        self, moved: list[Pair], changed: list[Pair], gone: set[int], come: set[int], depth: int
    ) -> Edit | None:
        was, at = self.was, self.at
        old, new = self.old, self.new
        edits = [(i, j, compare(old[i], new[j], depth + 1)) for i, j in changed]  # type: ignore[arg-type]
        made = Items(
            self.kind,
            was[-1],
            at[-1],
            tuple(Removed(was[i], whole(p)) for i, p in enumerate(old) if i not in gone),  # type: ignore[arg-type]
            tuple(Moved(was[i], at[j], whole(old[i])) for i, j in moved),  # type: ignore[arg-type]
            tuple(Changed(was[i], at[j], edit) for i, j, edit in edits if edit is not None),
            tuple(Added(at[j], whole(p)) for j, p in enumerate(new) if j not in come),  # type: ignore[arg-type]
        )
        return made if made.removed or made.moved or made.changed or made.added else None


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


def _like_maps(old: dict[bytes, bytes], new: dict[bytes, bytes], opposite: bool) -> float:
    """By equal entries; an `id` on both sides decides alone."""
    mine, yours = old.get(_ID, _NONE), new.get(_ID, _NONE)
    if _NONE not in (mine, yours):
        return float(mine == yours)
    same = sum(1 for key, value in old.items() if new.get(key) == value)
    if opposite and old.keys() == new.keys():
        return max(ALIKE, same / max(1, len(old)))
    return same / max(1, len(old.keys() | new.keys()))


def _overlap(old: list[bytes], new: list[bytes]) -> float:
    common = (Counter(old) & Counter(new)).total()
    return 2 * common / max(1, len(old) + len(new))


def closed_from(shape: Shape, parts: list[Part] | list[tuple[bytes, Part]]) -> bytes:
    """The encoding of an opened value."""
    flat = chain.from_iterable(parts) if shape.family is Family.MAP else parts  # type: ignore[arg-type]
    return closed(shape, [whole(part) for part in flat])  # type: ignore[arg-type]
