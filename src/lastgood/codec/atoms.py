"""Kinds without parts: numbers, times, identifiers, paths of the standard library.

Owns how each becomes a simple body and comes back. Must not know bytes, classes of users or
the registry. Invariant: `make(take(value))` equals `value` and has its exact type (a time zone of
pydantic comes back as a `timezone`), and `make` raises `Unresolved` when the body is sound but this
machine cannot hold such a value.
"""

from __future__ import annotations

import pathlib
import re
from collections.abc import Callable
from datetime import UTC, date, datetime, time, timedelta, timezone, tzinfo
from decimal import Decimal
from typing import Any, cast
from uuid import UUID
from zoneinfo import ZoneInfo, ZoneInfoNotFoundError

from lastgood.codec.kinds import Family, Kind, Nested, Number, Refused, Unresolved

MAX_INT_BYTES = 16 * 1024
_LOCAL_UTC = timezone(timedelta(0), "UTC")
"""What `astimezone()` gives where the local time is UTC: equal to that, and another object."""

# No dots: a zone name becomes a file path, and in `zoneinfo` also the name of a package.
_ZONE_NAME = re.compile(r"[A-Za-z0-9_+\-]+(/[A-Za-z0-9_+\-]+)*")
_TZDATA = "Install the package tzdata, which brings the time zones."
_SYSTEM = "Restore it on the kind of system on which it was saved; pure paths can be read anywhere."
_PATHS: dict[str, type[pathlib.PurePath]] = {
    cls.__name__: cls
    for cls in (
        pathlib.PurePosixPath,
        pathlib.PureWindowsPath,
        pathlib.PosixPath,
        pathlib.WindowsPath,
    )
}


def _take_int(value: int) -> str:
    if value.bit_length() > 8 * MAX_INT_BYTES:
        raise Refused(f"an integer of more than {MAX_INT_BYTES} bytes cannot be stored")
    return format(value, "x")


def _make_int(body: str) -> int:
    if len(body) > 2 * MAX_INT_BYTES + 1:
        raise ValueError("integer too long")
    return int(body, 16)


def _take_aware(value: Any) -> object:
    """Text alone for the two common cases, naive and UTC; else text, fold and zone."""
    zone = _known_zone(value.tzinfo)
    if not value.fold and (zone is None or zone is UTC):
        return value.isoformat()
    return [value.replace(tzinfo=None, fold=0).isoformat(), value.fold, zone]


def _known_zone(zone: tzinfo | None) -> tzinfo | None:
    """A zone as the standard library has it: pydantic's own class is an offset, and no more."""
    cls = type(zone)
    if cls.__name__ == "TzInfo" and cls.__module__.partition(".")[0] == "pydantic_core":
        return timezone(zone.utcoffset(None))  # type: ignore[union-attr, arg-type]
    return zone


def _maker(cls: type[datetime | time]) -> Callable[[Any], object]:
    def make(body: Any) -> object:
        if type(body) is str:
            return cls.fromisoformat(body)
        text, fold, zone = body
        if zone is not None and not isinstance(zone, tzinfo):
            raise Unresolved(cls.__name__, "its time zone is not known here", _TZDATA)
        if zone is UTC and not fold:  # else it is text alone
            zone = _LOCAL_UTC
        return cls.fromisoformat(text).replace(tzinfo=zone, fold=fold)

    return make


def _take_timezone(value: timezone) -> object:
    offset = value.utcoffset(None)
    named = value.tzname(None) != timezone(offset).tzname(None)
    return [offset, value.tzname(None)] if named else [offset]


def _make_timezone(body: list[Any]) -> timezone:
    plain = timezone(*body)
    return UTC if plain == UTC and len(body) == 1 else plain


def _take_zone(value: ZoneInfo) -> str:
    if not _ZONE_NAME.fullmatch(value.key or ""):
        raise Refused("a ZoneInfo without the name of a zone cannot be stored")
    return value.key


def _make_zone(body: str) -> ZoneInfo:
    if not _ZONE_NAME.fullmatch(body):
        raise ValueError("not the name of a time zone")
    try:
        return ZoneInfo(body)
    except (ZoneInfoNotFoundError, OSError, ValueError):
        raise Unresolved(
            "zoneinfo:ZoneInfo", f"this machine has no time zone {body!r}", _TZDATA
        ) from None


def _take_path(value: Any) -> list[str]:
    """Its text; Python 3.11 gives `./c:a` of Windows the text of another path."""
    text = str(value)
    if isinstance(value, pathlib.PureWindowsPath) and type(value)(text) != value:
        raise Refused(f"a path whose text, {text}, is that of another one cannot be stored")
    return [type(value).__name__, text]


def _make_path(body: list[str]) -> pathlib.PurePath:
    name, text = body
    try:
        return _PATHS[name](text)
    except NotImplementedError:  # a PosixPath on Windows, or the other way round
        raise Unresolved(f"pathlib:{name}", "this system has other paths", _SYSTEM) from None


def _take_range(value: range) -> list[int]:
    return [value.start, value.stop, value.step]


def _make_complex(body: list[float]) -> complex:
    real, imaginary = body
    return complex(real, imaginary)


def _make_delta(body: list[int]) -> timedelta:
    days, seconds, microseconds = body
    return timedelta(days, seconds, microseconds)


def _make_decimal(body: str) -> Decimal:
    if type(body) is not str:
        raise ValueError("a Decimal is stored as text")
    return Decimal(body)


# type -> (number, tag, take, make)
_Row = tuple[int, str, Callable[[Any], object], Callable[[Any], object]]
_ROWS: dict[type, _Row] = {
    int: (Number.BIG_INT, "int", _take_int, _make_int),
    complex: (Number.COMPLEX, "complex", lambda v: [v.real, v.imag], _make_complex),
    Decimal: (Number.DECIMAL, "decimal", str, _make_decimal),
    datetime: (Number.DATETIME, "datetime", _take_aware, _maker(datetime)),
    date: (Number.DATE, "date", date.isoformat, date.fromisoformat),
    time: (Number.TIME, "time", _take_aware, _maker(time)),
    timedelta: (
        Number.TIMEDELTA,
        "timedelta",
        lambda v: [v.days, v.seconds, v.microseconds],
        _make_delta,
    ),
    timezone: (Number.TIMEZONE, "timezone", _take_timezone, _make_timezone),
    ZoneInfo: (Number.ZONE, "zone", _take_zone, _make_zone),
    UUID: (Number.UUID, "uuid", str, UUID),
    range: (Number.RANGE, "range", _take_range, lambda body: range(*body)),
}
_PATH = Kind(Number.PATH, "path", _take_path, cast(Any, _make_path))
_BYTEARRAY = Kind(
    Number.BYTEARRAY, "bytearray", cast(Any, bytes), cast(Any, bytearray), Family.TEXT, raw=True
)

ATOMS: dict[type, Kind] = {type_: Kind(*row) for type_, row in _ROWS.items()}
ATOMS |= dict.fromkeys(_PATHS.values(), _PATH)
ATOMS[bytearray] = _BYTEARRAY

SURROGATES = Kind(
    Number.SURROGATES,
    "str",
    lambda v: cast(str, v).encode("utf-8", "surrogatepass"),
    lambda body: cast(bytes, body).decode("utf-8", "surrogatepass"),
    Family.TEXT,
    raw=True,
)
NESTED = Kind(
    Number.NESTED, "nested", lambda v: cast(Nested, v).digest, cast(Any, Nested), raw=True
)
