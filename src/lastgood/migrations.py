"""Migrations: functions that bring a stored state from one version of its class to the next.

Owns the registry of the process and the choice of the next step. Must not know objects or stores.
Invariant: a chain ends at the version that was asked for, or in an error that names the step which
is missing; it never goes in circles.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from itertools import zip_longest
from typing import Any, NamedTuple

from lastgood.errors import SchemaMigrationError

State = dict[str, Any]
Migration = Callable[[State], State]


class _Step(NamedTuple):
    to_version: str | None
    fn: Migration


_STEPS: dict[str, dict[str, _Step]] = {}


def register_migration(
    name: str, *, from_version: str, to_version: str | None = None, fn: Migration
) -> None:
    """Register a migration of the class `name` from one version: `fn(state)` returns the new state.

    Without `to_version`, the migration leads to the next version that has a migration of its own,
    or else to the current version. Registering the same `from_version` again replaces the function.
    """
    _check(name, from_version, to_version, fn)
    if from_version == to_version:
        raise ValueError(f"a migration of {name} leads from {from_version!r} to itself.")
    _STEPS.setdefault(name, {})[from_version] = _Step(to_version, fn)


def _check(name: object, from_version: object, to_version: object, fn: object) -> None:
    """Raise TypeError for what would be registered and never found."""
    if isinstance(name, type):
        raise TypeError(f"a migration goes by the name of its class: {name.__name__!r}")
    texts = {"name": name, "from_version": from_version, "to_version": to_version or ""}
    for what, value in texts.items():
        if not isinstance(value, str):
            raise TypeError(f"{what} must be a str, not {type(value).__name__}: {value!r:.40}")
    if not callable(fn):
        raise TypeError(f"fn must be a function of the state, not {type(fn).__name__}")


class Hop(NamedTuple):
    """One step of a chain."""

    to_version: str
    fn: Migration


def chain(name: str, version: str, current: str) -> list[Hop]:
    """The steps that lead a state of a class to its current version."""
    steps = _STEPS.get(name, {})
    found: list[Hop] = []
    passed = {version}
    while version != current:
        step = steps.get(version)
        if step is None or (step.to_version is None and _is_newer(version, current)):
            raise _missing(name, version, current, steps)
        version = step.to_version or _next(version, current, steps)
        if version in passed:
            raise SchemaMigrationError(
                f"the migrations of {name} go in circles: {version} is reached twice.",
                hint="Give them a to_version that leads on.",
            )
        passed.add(version)
        found.append(Hop(version, step.fn))
    return found


def _next(version: str, current: str, steps: dict[str, _Step]) -> str:
    later = [each for each in steps if _order(version) < _order(each) < _order(current)]
    return min(later, key=_order, default=current)


def _order(version: str) -> list[tuple[int, int, str]]:
    """Numbers inside a version count as numbers: 1.10 comes after 1.9, and v2 after 1.0."""
    parts = re.findall(r"\d+|[^\d.]+", re.sub(r"^v(?=\d)", "", version))
    return [(1, int(part), "") if part.isdecimal() else (0, 0, part) for part in parts]


def _is_newer(version: str, current: str) -> bool:
    """Whether a version has a greater number; names say nothing about which came first."""
    for one, other in zip_longest(_order(version), _order(current), fillvalue=(1, -1, "")):
        if one != other:
            return one[0] == other[0] == 1 and one > other
    return False


def _missing(
    name: str, version: str, current: str, steps: dict[str, _Step]
) -> SchemaMigrationError:
    known = ", ".join(sorted(steps, key=_order)) or "none"
    if _is_newer(version, current):
        return SchemaMigrationError(
            f"this state of {name} has version {version}, newer than the class, which has "
            f"{current}.",
            hint="Load it with the newer code, or register a migration back with to_version=.",
        )
    return SchemaMigrationError(
        f"no migration of {name} leads from version {version} to {current}: the step from "
        f"{version} is missing (registered: {known}).",
        hint=f"register_migration({name!r}, from_version={version!r}, fn=...)",
    )
