"""The contract of checkpointers as pytest parameters, and how a case is played.

    from lastgood.testing import checkpointer_params, run_checkpointer_case

    @pytest.mark.parametrize(("colour", "case"), checkpointer_params())
    def test_contract(colour, case, tmp_path):
        run_checkpointer_case(case, lambda: MyCheckpointer(tmp_path / "data"), colour)

The function opens a checkpointer on the data of one case: where it is called again, as another
process would. One that keeps everything in itself is given out again as it is.
"""

from __future__ import annotations

import asyncio
from typing import Any

import pytest

from lastgood.testing import (
    checkpointer_cases,
    checkpointer_doubts,
    checkpointer_extras,
    checkpointer_values,
    checkpointer_versions,
)
from lastgood.testing.checkpointer_store import (
    CASES,
    CheckpointerCase,
    CheckpointerStore,
    Make,
    on_backend,
)
from lastgood.testing.harness import BackendHarness
from lastgood.testing.store import COLOURS, Colour

TOPICS = (
    checkpointer_cases,
    checkpointer_doubts,
    checkpointer_extras,
    checkpointer_values,
    checkpointer_versions,
)


def checkpointer_params(*, builtin: bool = False) -> list[Any]:
    """Return pytest parameters (colour, case): every case, once async and once blocking.

    With `builtin=True`, cases that only the built-in checkpointers promise are included.
    """
    cases = [each for each in CASES.values() if builtin or not each.builtin]
    return [
        pytest.param(colour, each, id=f"{colour}-{each.name}")
        for colour in COLOURS
        for each in cases
    ]


def run_checkpointer_case(case: CheckpointerCase, make: Make, colour: Colour) -> None:
    """Run a case on fresh data.

    `make` opens a checkpointer on the data of the case. When it is called again, it opens the same
    data as another process would; a checkpointer that keeps everything in itself is returned again.
    """
    asyncio.run(_played(case, CheckpointerStore(make, colour)))


def run_on_backend(case: CheckpointerCase, harness: BackendHarness, colour: Colour) -> None:
    """Play a case on the built-in checkpointer over a backend."""
    asyncio.run(_played(case, on_backend(harness, colour)))


async def _played(case: CheckpointerCase, store: CheckpointerStore) -> None:
    try:
        await case.body(store)
    finally:
        await store.close()
