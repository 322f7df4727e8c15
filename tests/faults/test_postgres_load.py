"""A hundred writers over a pool of twenty connections: none fails, and memory stays flat."""

from collections.abc import Callable
from typing import Any

import pytest

from lastgood.testing.store import COLOURS, Colour

SECONDS = 6
"""`make torture` makes it a minute."""
GROWTH = 16 << 20


@pytest.mark.parametrize("colour", COLOURS)
def test_a_hundred_writers_over_one_pool(
    colour: Colour, postgres_url: str, driver: Callable[..., Any], times: Callable[[int], int]
) -> None:
    report = driver("load_driver", base=postgres_url, seconds=times(SECONDS), colour=colour)
    assert report["errors"] == []
    assert report["kept"] == report["saved"], "every save is there, once"
    assert min(report["saved"]) > 0, "nobody was left out"
    memory = report["memory"]
    assert max(memory[-3:]) - min(memory[:3]) < GROWTH, [size >> 10 for size in memory]
