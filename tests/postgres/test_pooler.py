"""The contract behind PgBouncer in transaction mode: every transaction may get another session."""

from pathlib import Path

import pytest

from lastgood.testing import Case, contract_cases, run_case
from lastgood.testing.postgres_harness import PostgresHarness
from lastgood.testing.store import COLOURS, Colour

TOPICS = (
    "appends", "conflicts", "damage", "entries", "items_cases", "lines", "lists", "moves_at_once",
    "operations", "outcomes", "processes", "removal", "run_cases", "tenancy", "watches",
)  # fmt: skip
CASES = [case for case in contract_cases() if case.name.partition(".")[0] in TOPICS]

pytestmark = [pytest.mark.server("pgbouncer"), pytest.mark.slow]


class PooledHarness(PostgresHarness):
    """Clients go through the pooler."""

    server = "pgbouncer"


@pytest.mark.parametrize("colour", COLOURS)
@pytest.mark.parametrize("case", CASES, ids=lambda case: case.name)
def test_the_contract_behind_a_pooler(case: Case, colour: Colour, tmp_path: Path) -> None:
    harness = PooledHarness(tmp_path)
    if colour == "blocking" and not case.first:
        harness.reuse()
    run_case(case, harness, colour)
