"""What the doctor looks at outside of the store: versions, extras, the clock."""

from __future__ import annotations

import platform
import sqlite3
from collections.abc import Iterator
from datetime import UTC, datetime
from importlib.metadata import PackageNotFoundError, version
from typing import Literal, NamedTuple

from lastgood import __version__

Level = Literal["ok", "warning", "problem"]
_OLDEST_SQLITE = (3, 31)
_EXTRAS = {"rich": ("cli", "values in colour")}
_BORN = 2026
"""No clock that works is behind the year of the first release."""


class Finding(NamedTuple):
    """One thing that was looked at."""

    level: Level
    what: str
    found: str
    advice: str = ""


def environment_findings() -> Iterator[Finding]:
    """Versions, extras, clock."""
    yield Finding("ok", "lastgood", __version__)
    yield Finding("ok", "python", f"{platform.python_version()} on {platform.system()}")
    yield sqlite_finding(sqlite3.sqlite_version_info, sqlite3.sqlite_version)
    yield Finding("ok", "ormsgpack", version("ormsgpack"))
    for package, (extra, purpose) in _EXTRAS.items():
        yield _extra(package, extra, purpose)
    yield clock_finding(datetime.now(UTC))


def sqlite_finding(found: tuple[int, ...], text: str) -> Finding:
    """Whether this SQLite has what we use."""
    if found >= _OLDEST_SQLITE:
        return Finding("ok", "sqlite", text)
    needed = ".".join(map(str, _OLDEST_SQLITE))
    return Finding("problem", "sqlite", text, f"Lastgood needs {needed}: use a newer Python.")


def _extra(package: str, extra: str, purpose: str) -> Finding:
    try:
        return Finding("ok", package, f"{version(package)} ({purpose})")
    except PackageNotFoundError:
        how = f'not installed; it adds {purpose}: pip install "lastgood[{extra}]"'
        return Finding("ok", package, how)


def clock_finding(now: datetime) -> Finding:
    """Whether the host's clock can be right."""
    text = f"{now:%Y-%m-%d %H:%M:%S} UTC"
    if now.year >= _BORN:
        return Finding("ok", "clock", text)
    return Finding("warning", "clock", text, "It is behind: set it, or times to live are wrong.")
