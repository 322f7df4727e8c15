"""A diff in one line: "2 messages added, plan changed, 1 tool result removed".

Owns the wording. The one invariant: something is said of every edit, however much is left out.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator
from typing import NamedTuple

from lastgood.codec import Codec
from lastgood.edits import Edit, Entries, Items, Members, Swap

GROUPS = 5
"""More groups than these are only counted."""


class Said(NamedTuple):
    """What happened to something; `number` of its elements, or 0 for all of it."""

    name: str
    verb: str
    number: int = 0

    def __str__(self) -> str:
        if not self.number:
            return f"{self.name or 'the whole state'} {self.verb}"
        return f"{self.number} {noun(self.name or 'items', self.number)} {self.verb}"


def summary(codec: Codec, edit: Edit | None) -> str:
    """One line of prose; elements of lists are named by the key that the list stands under."""
    if edit is None:
        return "no changes"
    groups = list(map(str, _together(_said(codec, edit, ""))))
    if len(groups) > GROUPS + 1:
        groups = [*groups[:GROUPS], f"and {len(groups) - GROUPS} more"]
    return ", ".join(groups)


def _together(said: Iterable[Said]) -> Iterator[Said]:
    """Each thing once; the elements of lists of one name are counted together."""
    counts: Counter[tuple[str, str, bool]] = Counter()
    for name, verb, count in said:
        counts[name, verb, count > 0] += count
    return (Said(name, verb, count) for (name, verb, _), count in counts.items())


def _said(codec: Codec, edit: Edit, name: str) -> Iterator[Said]:
    if isinstance(edit, Swap):
        yield Said(name, "changed" if name else "replaced")
    elif isinstance(edit, Items):
        yield from _counted(edit, name)
    elif isinstance(edit, Members):
        yield from _counts(name, {"added": len(edit.added), "removed": len(edit.removed)})
    elif name:
        yield from _inner(codec, edit, name)
    else:
        for key, inner in edit.changed:
            yield from _said(codec, inner, _shown(codec, key))
        yield from (Said(_shown(codec, key), "removed") for key, _ in edit.removed)
        yield from (Said(_shown(codec, key), "added") for key, _ in edit.added)


def _inner(codec: Codec, edit: Entries, name: str) -> Iterator[Said]:
    """Lists further down are spoken of by their own names, all else by the outermost."""
    if edit.removed or edit.added:
        yield Said(name, "changed")
    for key, inner in edit.changed:
        if isinstance(inner, Items | Members):
            yield from _said(codec, inner, _shown(codec, key))
        elif isinstance(inner, Entries):
            yield from _inner(codec, inner, name)
        else:
            yield Said(name, "changed")


def _shown(codec: Codec, key: bytes) -> str:
    value = codec.unpack(key)
    return value if isinstance(value, str) and value else repr(value)


def _counted(edit: Items, name: str) -> Iterator[Said]:
    counts = {
        "added": len(edit.added),
        "changed": len(edit.changed),
        "moved": len(edit.moved),
        "removed": len(edit.removed),
    }
    yield from _counts(name, counts)


def _counts(name: str, counts: dict[str, int]) -> Iterator[Said]:
    return (Said(name, verb, count) for verb, count in counts.items() if count)


_ES = ("sses", "xes", "ches", "shes", "zzes")
_NO_PLURAL = ("ss", "us", "is")


def noun(name: str, count: int) -> str:
    """The key of a list as the word for so many of its elements."""
    words = name.replace("_", " ")
    if not words.endswith("s") or words.endswith(_NO_PLURAL) or len(words) < 3:
        return f"{'item' if count == 1 else 'items'} of {words}"
    if count != 1:
        return words
    if words.endswith("ies") and len(words) > 4:
        return f"{words[:-3]}y"
    return words[:-2] if words.endswith(_ES) else words[:-1]
