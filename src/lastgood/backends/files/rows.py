"""Rows as JSON shows them: a name for every column, bytes as people read them.

Pure. The one invariant: what was written comes back exactly, seal included; what was changed comes
back changed, never as an error, so that the seal finds it.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from datetime import datetime
from functools import cache
from typing import Any, get_type_hints

from lastgood.codec import text
from lastgood.errors import LastgoodError
from lastgood.ids import show_id
from lastgood.model import micros, moment
from lastgood.rows import pack_slots, read_slots

Columns = tuple[object, ...]
_VALUES = frozenset({"context", "metadata", "losses", "result", "value"})
"""Columns that hold an encoded value, or nothing."""
_NULL = b"\xc0"
_TIMES = "_at"
"""How the names of columns end that hold a time."""
_REBUILT = frozenset({"manifest"})
"""Columns that stand elsewhere in the file, in another form."""


def spelled(cls: type, columns: Sequence[object]) -> dict[str, object]:
    """The stored columns of a row as a JSON object."""
    pairs = zip(_kinds(cls), columns, strict=True)
    return dict([spelled_column(name, value) for name, value in pairs if name not in _REBUILT])


def spelled_column(name: str, value: object) -> tuple[str, object]:
    """One column, and what it is called."""
    if not isinstance(value, bytes):
        is_time = name.endswith(_TIMES) and type(value) is int
        return name, _spelled_time(value) if is_time else value  # type: ignore[arg-type]
    if name in _VALUES:
        return _spelled_value(name, value)
    if name == "slots":
        return name, [list(slot) for slot in read_slots(value)]
    if name == "key" and (shown := _text(value)) is not None:
        return name, shown
    if len(value) == 16 and name != "key" and not name.endswith("digest"):
        return name, show_id(value)
    return (f"{name}_hex" if name == "key" else name), value.hex()


def _spelled_value(name: str, value: bytes) -> tuple[str, object]:
    """As people read it, or else its bytes."""
    if not value:
        return name, None
    try:
        shown = text.spell(value)
        if value != _NULL and text.pack(text.parse(text.compact(shown))) == value:
            return name, shown
    except LastgoodError:
        pass
    return f"{name}_hex", value.hex()


def _text(value: bytes) -> str | None:
    try:
        return value.decode()
    except UnicodeDecodeError:
        return None


def _spelled_time(value: int) -> str | int:
    try:
        return moment(value).isoformat(timespec="microseconds")
    except (OverflowError, ValueError):
        return value  # beyond the year 9999


def read_columns(cls: type, told: object) -> Columns:
    """The stored columns behind a JSON object."""
    found: Mapping[str, object] = told if isinstance(told, dict) else {}
    return tuple([_read(name, kind, found) for name, kind in _kinds(cls).items()])


@cache
def _kinds(cls: type) -> dict[str, object]:
    """The types of a row's columns, the seal's too."""
    return {**get_type_hints(cls), "seal": bytes}


def _read(name: str, kind: object, found: Mapping[str, Any]) -> object:
    value = found.get(name)
    try:
        if name.endswith(_TIMES) and isinstance(value, str):
            return micros(datetime.fromisoformat(value))
        return _read_bytes(name, value, found.get(f"{name}_hex")) if kind is bytes else value
    except (AttributeError, LastgoodError, TypeError, ValueError):
        return value


def _read_bytes(name: str, value: Any, spelled_bytes: str | None) -> bytes:
    if spelled_bytes is not None:
        return bytes.fromhex(spelled_bytes)
    if name in _VALUES:
        return b"" if value is None else text.pack(value)
    if name == "slots":
        return pack_slots([tuple(slot) for slot in value])  # type: ignore[misc]
    return bytes(value.encode()) if name == "key" else bytes.fromhex(value.replace("-", ""))
