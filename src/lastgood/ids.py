"""Checkpoint ids and the rules for names that users choose.

A checkpoint id is a UUIDv7: 16 bytes in the store, the usual 36 characters outside. It is a
label that happens to sort by time, to a quarter of a microsecond, so that an index of ids grows at
its end; order always comes from `seq`, never from an id.
"""

from __future__ import annotations

import os
import time
from uuid import UUID

NAME_LIMIT = 255
LANE_LIMIT = 4096
"""Bytes of an agent's name that is looked for: a graph names its subgraphs by the way to them,
which takes some 45 bytes a level, and nobody chose that."""


def new_id() -> bytes:
    """Make a fresh UUIDv7 as 16 bytes."""
    millis, rest = divmod(time.time_ns(), 1_000_000)
    fraction = 0x7000 | (rest << 12) // 1_000_000
    noise = 2 << 62 | int.from_bytes(os.urandom(8)) >> 2
    return ((millis & (1 << 48) - 1) << 80 | fraction << 64 | noise).to_bytes(16)


def show_id(raw: bytes) -> str:
    """Spell 16 bytes as people read them."""
    text = raw.hex()
    return f"{text[:8]}-{text[8:12]}-{text[12:16]}-{text[16:20]}-{text[20:]}"


def read_id(text: str) -> bytes | None:
    """Give the 16 bytes behind an id, or None if the text is not one."""
    try:
        return UUID(text).bytes if len(text) in (32, 36) else None
    except ValueError:
        return None


def check_name(value: object, what: str, limit: int = NAME_LIMIT) -> str:
    """Accept a thread, agent, branch, tenant or step name, or say what is wrong with it."""
    if not isinstance(value, str):
        raise TypeError(_not_text(value, what))
    if not value:
        raise ValueError(f"{what} is empty. Give it a name of 1 to {limit} bytes.")
    if len(value) > limit or not (value.isascii() or _fits(value, limit)):
        raise ValueError(f"{what} is longer than {limit} bytes: {value[:40]!r}...")
    if not value.isprintable():
        _check_characters(value, what)
    return value


def _fits(value: str, limit: int) -> bool:
    return len(value.encode("utf-8", "surrogatepass")) <= limit


def _check_characters(value: str, what: str) -> None:
    """Spaces of all kinds are fine; control characters and half surrogate pairs are not."""
    for char in value:
        if ord(char) < 32 or 0x7F <= ord(char) < 0xA0 or 0xD800 <= ord(char) < 0xE000:
            raise ValueError(f"{what} {value!r} contains {char!r}. Use printable characters.")


def _not_text(value: object, what: str) -> str:
    if hasattr(value, "send") and hasattr(value, "cr_code"):
        name = getattr(value, "__name__", "save")
        return (
            f"This is a coroutine: write `await client.{name}(...)`, "
            "or use BlockingClient in code without async."
        )
    return f"{what} must be a str, not {type(value).__name__}: {value!r:.60}"
