"""What a diff consists of inside: a tree of edits over encodings.

Owns the four kinds of edit; knows bytes and positions, no values, so that finding and applying
edits never runs a decoder. The one invariant: an edit names everything it takes away, so that
applying it to another value is noticed.

In a list, everything that is not named stays in order; `at` counts in the new list, `was` in the
old one, and all of it happens at once.
"""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Swap:
    """One value instead of another."""

    old: bytes
    new: bytes


@dataclass(frozen=True, slots=True)
class Entries:
    """Inside a mapping or record, by encoded key."""

    kind: int
    removed: tuple[tuple[bytes, bytes], ...]
    changed: tuple[tuple[bytes, Edit], ...]
    added: tuple[tuple[bytes, bytes], ...]


@dataclass(frozen=True, slots=True)
class Members:
    """Inside a set."""

    kind: int
    removed: tuple[bytes, ...]
    added: tuple[bytes, ...]


@dataclass(frozen=True, slots=True)
class Removed:
    """An element that went."""

    was: int
    data: bytes


@dataclass(frozen=True, slots=True)
class Added:
    """An element that came."""

    at: int
    data: bytes


@dataclass(frozen=True, slots=True)
class Moved:
    """The same element, elsewhere."""

    was: int
    at: int
    data: bytes


@dataclass(frozen=True, slots=True)
class Changed:
    """An element with edits inside."""

    was: int
    at: int
    edit: Edit


@dataclass(frozen=True, slots=True)
class Items:
    """Inside a list, tuple or deque."""

    kind: int
    old_count: int
    new_count: int
    removed: tuple[Removed, ...] = ()
    moved: tuple[Moved, ...] = ()
    changed: tuple[Changed, ...] = ()
    added: tuple[Added, ...] = ()

    def sources(self) -> list[int | None]:
        """For each place of the new list, the place in the old one it comes from, if any."""
        placed: list[Moved | Changed] = [*self.moved, *self.changed]
        named = {item.was for item in placed} | {item.was for item in self.removed}
        staying = (was for was in range(self.old_count) if was not in named)
        found: dict[int, int | None] = {item.at: item.was for item in placed}
        found.update((item.at, None) for item in self.added)
        return [found[at] if at in found else next(staying) for at in range(self.new_count)]


Edit = Swap | Entries | Members | Items
