"""A stored value as an indented tree, and the part of it that a path names.

Works on the codec's text spelling, not on objects: the command line has none of the user's classes
imported, and shows a record by its label and fields all the same. Long texts and lists are cut
unless everything is asked for.
"""

from __future__ import annotations

import base64
import json
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any, NamedTuple

from lastgood import paths
from lastgood.cli.cleaning import clean
from lastgood.cli.printing import counted
from lastgood.codec import SETS, Family
from lastgood.codec.decoder import KINDS

_TAG, _BODY = "$lg", "v"
_TABLE = "__shared__"
_KINDS = {kind.tag: kind for kind in KINDS.values()}
_INDENT = "  "
_MISSING = object()
_MESSAGES = "lc."
_NOTHING: tuple[Any, ...] = (None, "", [], {})
"""Messages of LangChain, and the parts of ADK, have dozens of fields, most of them empty."""


@dataclass(frozen=True, slots=True)
class Limits:
    """How much of a value is shown."""

    text: int = 160
    items: int = 12
    depth: int = 12


_DIGITS = 3000
"""Hexadecimal ones of a number; with more, Python refuses to spell it in decimal ones."""
EVERYTHING = Limits(text=1 << 62, items=1 << 62, depth=1 << 62)


class Parts(NamedTuple):
    """A value that has others inside: what it is, and they, by the step that leads to each."""

    label: str
    items: list[tuple[object, Any]]
    ordered: bool = False


def opened(spelled: Any) -> Parts | None:
    """The parts of a spelled value; None if it has none."""
    if isinstance(spelled, list):
        return _array("list", spelled)
    if isinstance(spelled, dict):
        tagged = _TAG in spelled
        if _shared(spelled) is not None:
            return None
        return _inside(spelled[_TAG], spelled[_BODY]) if tagged else _mapping("", spelled)
    return None


def _shared(spelled: Any) -> str | None:
    """Under which number an object of a `CheckpointManager` has what several places of it share."""
    match spelled:
        case {"$lg": "record", "v": [["lastgood.shared", *_], {"number": int(number)}]}:
            return str(number)
    return None


def _inside(tag: str, body: Any) -> Parts | None:
    if tag == "record":
        return _mapping(str(body[0][0]).replace(":", "."), body[1])
    kind = _KINDS.get(tag)
    if kind is None or kind.family not in (Family.MAP, Family.ARRAY):
        return None
    content = body[1] if kind.headed else body
    if kind.number in SETS:
        return Parts(_of(tag, content), [(_member(item), item) for item in content])
    if kind.family is Family.ARRAY:
        return _array(tag, content)
    return _mapping(tag, content) if isinstance(content, dict) else _pairs(tag, content)


def _array(label: str, content: list[Any]) -> Parts:
    return Parts(_of(label, content), list(enumerate(content)), ordered=True)


def _of(label: str, content: list[Any]) -> str:
    return f"{label} of {len(content):,}"


def _member(spelled: Any) -> object:
    """The step to a member of a set: the member itself, as a diff has it."""
    inner = opened(spelled)
    return _step(spelled) if inner is None else _Shown(inner.label)


def _step(spelled: Any) -> object:
    """A key as a step of a path."""
    if isinstance(spelled, int):
        return spelled
    text = text_of(spelled)
    return _Shown(scalar(spelled)) if text is None else text


def _mapping(label: str, content: dict[str, Any]) -> Parts:
    return Parts(label, [(_unescaped(key), item) for key, item in content.items()])


def _unescaped(key: str) -> str:
    return key.removeprefix("$")


def _pairs(label: str, content: list[Any]) -> Parts:
    """A dict whose keys are no plain texts: keys and values take turns."""
    pairs = zip(content[::2], content[1::2], strict=True)
    keys = [(_step(key), item) for key, item in pairs]
    return Parts(label.removesuffix("pairs").rstrip("-") or "dict", keys)


class _Shown(str):
    """A key that can be looked at and not be typed in a path."""

    __slots__ = ()

    def __repr__(self) -> str:
        return str(self)


def at(spelled: Any, path: str) -> Any:
    """The part that a path names; KeyError that says how far it leads."""
    found = spelled
    steps = paths.parse(path)
    for depth, step in enumerate(steps):
        number = _shared(found)
        inner = opened(found if number is None else _behind(spelled, number))
        items = inner.items if inner else []
        wanted = _counted(inner, step) if inner and inner.ordered else step
        found = next((item for key, item in items if key == wanted), _MISSING)
        if found is _MISSING:
            raise KeyError(_leads_nowhere(steps, depth, inner))
    return found


def _behind(spelled: Any, number: str) -> Any:
    """What several places share; number 0 is the object itself."""
    table = spelled.get(_TABLE) if isinstance(spelled, dict) else None
    return spelled if number == "0" else (table or {}).get(number)


def _counted(inner: Parts, step: object) -> object:
    """An index; one below zero counts from the end."""
    return len(inner.items) + step if isinstance(step, int) and step < 0 else step


def _leads_nowhere(steps: paths.Steps, depth: int, inner: Parts | None) -> str:
    before = paths.render(steps[:depth]) or "the state"
    wanted = paths.render(steps[: depth + 1])
    if inner is None:
        return f"there is no {wanted} in the state: {before} has nothing inside."
    if inner.ordered:
        return f"there is no {wanted} in the state: {before} is a {inner.label}."
    names = ", ".join(paths.render([key]) for key, _ in inner.items[:10]) or "nothing"
    return f"there is no {wanted} in the state: {before} has {names}."


def scalar(spelled: Any) -> str:
    """A value without parts, on one line."""
    if isinstance(spelled, dict):
        return _tagged(spelled) if _TAG in spelled else "{}"
    if isinstance(spelled, list):
        return "[]"
    return clean(json.dumps(spelled, ensure_ascii=False))


def _tagged(spelled: dict[str, Any]) -> str:
    tag, body = spelled[_TAG], spelled[_BODY]
    number = _shared(spelled)
    if number is not None:
        return "the object itself" if number == "0" else paths.render([_TABLE, number])
    if tag == "str":
        return scalar(text_of(spelled))
    if tag == "int":
        return str(int(body, 16)) if len(body) < _DIGITS else body
    if tag == "enum":
        return clean(f"{body[0]}.{body[1]}".replace(":", "."))
    text = body if isinstance(body, str) else json.dumps(body, ensure_ascii=False)
    return clean(f"{tag} {text}")


def text_of(spelled: Any) -> str | None:
    """The text that a spelled value is, with half surrogate pairs if it has some; else None."""
    if isinstance(spelled, dict) and spelled.get(_TAG) == "str":
        return base64.b64decode(spelled[_BODY]).decode("utf-8", "surrogatepass")
    return spelled if isinstance(spelled, str) else None


def tree(spelled: Any, limits: Limits) -> Iterator[str]:
    """The lines of a value, each clean."""
    inner = opened(spelled)
    if inner is None or not inner.items:
        yield _cut(scalar(spelled) if inner is None else _empty(spelled, inner), limits)
    else:
        yield from _items(inner, limits, 0)


def _empty(spelled: Any, inner: Parts) -> str:
    return scalar(spelled) if isinstance(spelled, list) or not inner.label else clean(inner.label)


def _items(inner: Parts, limits: Limits, depth: int) -> Iterator[str]:
    pad, every = _INDENT * depth, len(inner.items)
    if _may_be_shortened(inner, limits):
        inner = inner._replace(items=[pair for pair in inner.items if pair[1] not in _NOTHING])
    head, tail = _excerpt(len(inner.items), limits.items)
    for number, (key, item) in enumerate(inner.items):
        if head <= number < tail:
            if number == head:
                yield f"{pad}... {counted(tail - head, 'more item')}"
            continue
        name = _cut(clean(f"[{key}]" if inner.ordered else paths.render([key])), limits)
        below = opened(item)
        if below is None or not below.items:
            shown = scalar(item) if below is None else _empty(item, below)
            yield f"{pad}{name}: {_cut(shown, limits)}"
        elif depth + 1 >= limits.depth:
            yield f"{pad}{name}: ... {counted(len(below.items), 'item')}"
        else:
            yield f"{pad}{name}: {clean(below.label)}".rstrip(" ")
            yield from _items(below, limits, depth + 1)
    if len(inner.items) < every and not inner.label.startswith(_MESSAGES):
        yield f"{pad}... {counted(every - len(inner.items), 'empty field')}"


def _may_be_shortened(inner: Parts, limits: Limits) -> bool:
    """Whether empty fields are left out: of a message, and of a record with more than are shown."""
    if limits == EVERYTHING or inner.ordered:
        return False
    is_wide = bool(inner.label) and len(inner.items) > limits.items
    return is_wide or inner.label.startswith(_MESSAGES)


def _excerpt(count: int, room: int) -> tuple[int, int]:
    """Which items are left out: those from the first number up to the second."""
    return (count, count) if count <= room else (room // 2, count - room // 2)


def _cut(text: str, limits: Limits) -> str:
    if len(text) <= limits.text:
        return text
    return f"{text[: limits.text]}... ({len(text):,} characters)"
