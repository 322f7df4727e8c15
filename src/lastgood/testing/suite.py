"""Running cases: all of them, on one harness, in one colour, as pytest parameters."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from typing import Any

import pytest

from lastgood.registry import BACKENDS
from lastgood.testing import (
    alias_cases,
    appends,
    cancelled_runs,
    company,
    comparisons,
    conflicts,
    copies_cases,
    copies_under_way,
    cursors,
    damage,
    damaged_items,
    entries,
    exactness,
    few_among_many,
    fidelity,
    forks,
    functions,
    histories,
    items_cases,
    lines,
    lists,
    losses,
    lost_writes,
    many_lanes,
    many_names,
    moves,
    moves_at_once,
    new_items,
    object_blocks,
    object_forms,
    objects_cases,
    operations,
    order,
    outcomes,
    owners,
    processes,
    refs_cases,
    removal,
    removed_meanwhile,
    run_cases,
    salvages,
    searches,
    sizes,
    sweeps,
    tenancy,
    verification,
    watches,
)
from lastgood.testing.cases import CASES, Body, Case
from lastgood.testing.harness import BackendHarness
from lastgood.testing.harnesses import harness_class
from lastgood.testing.store import COLOURS, Colour, Store

TOPICS = (
    alias_cases,
    appends,
    cancelled_runs,
    company,
    comparisons,
    conflicts,
    copies_cases,
    copies_under_way,
    cursors,
    damage,
    damaged_items,
    entries,
    exactness,
    few_among_many,
    fidelity,
    forks,
    functions,
    histories,
    items_cases,
    lines,
    lists,
    losses,
    lost_writes,
    many_lanes,
    many_names,
    moves,
    moves_at_once,
    new_items,
    object_blocks,
    object_forms,
    objects_cases,
    operations,
    order,
    outcomes,
    owners,
    processes,
    refs_cases,
    removal,
    removed_meanwhile,
    run_cases,
    salvages,
    searches,
    sizes,
    sweeps,
    tenancy,
    verification,
    watches,
)


def contract_cases() -> list[Case]:
    """Return every case of the contract."""
    return list(CASES.values())


def contract_schemes() -> list[str]:
    """The registered backends that promise to keep the contract."""
    return [scheme for scheme, entry in BACKENDS.items() if entry.contract]


def contract_params(schemes: Sequence[str] | None = None) -> list[Any]:
    """Return pytest parameters (colour, case), with marks: every case, once async, once blocking.

    Given `schemes`, the parameters are (scheme, colour, case).
    """
    rows: list[tuple[str, ...]] = [()] if schemes is None else [(scheme,) for scheme in schemes]
    return [
        pytest.param(
            *row,
            colour,
            case,
            id="-".join((*row, colour, case.name)),
            marks=[*_marks(case), *(mark for scheme in row for mark in server_marks(scheme))],
        )
        for row in rows
        for colour in COLOURS
        for case in contract_cases()
    ]


def _marks(case: Case) -> list[pytest.MarkDecorator]:
    marks = [pytest.mark.scenario(scenario) for scenario in case.scenarios]
    return [*marks, pytest.mark.slow] if case.slow else marks


def server_marks(scheme: str) -> list[pytest.MarkDecorator]:
    """What marks a test on a backend: the servers that it needs, and that it takes long."""
    harness = harness_class(scheme)
    servers = [pytest.mark.server(harness.server, *harness.also)] if harness.server else []
    return servers if harness.quick else [*servers, pytest.mark.slow]


def run_case(case: Case, harness: BackendHarness, colour: Colour) -> None:
    """Run a case on fresh data."""
    run_body(case.body, harness, colour)


def run_body(body: Body, harness: BackendHarness, colour: Colour) -> None:
    """The same for a body that is no case of the contract."""
    try:
        asyncio.run(_played(body, Store(harness, colour)))
    finally:
        harness.close()


async def _played(body: Body, store: Store) -> None:
    try:
        await body(store)
    finally:
        await store.close()
