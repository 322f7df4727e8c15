"""Kill -9 at random moments, with one writer and with four on one store."""

from collections.abc import Callable
from typing import Any

import pytest
from stores import is_plain

SOME, MANY = 60, 200
"""A client that begins anew costs more on a server, and so does a look at many files."""


@pytest.mark.parametrize("writers", [1, 4])
def test_an_acknowledged_save_survives_kill_nine(
    writers: int, base: str, times: Callable[[int], int], driver: Callable[..., Any], seed: str
) -> None:
    kills = times(MANY if is_plain(base) else SOME)
    report = driver("kill_driver", base=base, writers=writers, kills=kills, seed=seed)
    assert report["problems"] == []
    assert report["kills"] == kills
    assert report["acks"] > report["kills"] * writers, "they were busy when they were killed"
    assert report["unsure"] > 0, "some were killed between a commit and its acknowledgement"
