"""Kill -9 in the middle of a copy: the next one goes on, and nothing is there twice."""

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from lastgood.testing import harness_for
from lastgood.testing.harnesses import harness_class
from lastgood.testing.suite import contract_schemes

SCHEMES = [
    pytest.param(
        scheme,
        marks=[pytest.mark.server(server)] if (server := harness_class(scheme).server) else [],
    )
    for scheme in contract_schemes()
    if scheme != "memory"  # which no other process can open
]


@pytest.mark.parametrize("scheme", SCHEMES)
def test_a_copy_that_is_killed_goes_on(
    scheme: str,
    place: Path,
    times: Callable[[int], int],
    driver: Callable[..., Any],
    seed: str,
) -> None:
    harness = harness_for(scheme, place)
    harness.backend()
    kills = times(20)
    report = driver(
        "copy_driver",
        source=f"sqlite:///{place}/source.db",
        target=harness.address,
        kills=kills,
        threads=4,
        steps=60,
        seed=seed,
    )
    harness.close()
    assert report["problems"] == []
    assert report["middle"] > kills / 4, "they were killed in the middle"
    assert report["end"].endswith(" 0"), "nothing was left out"
    assert (report["equal"], report["clean"]) == (True, True)
