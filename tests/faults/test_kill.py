"""Kill -9 at random moments, with one writer and with four on one file."""

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest


@pytest.mark.parametrize("writers", [1, 4])
def test_an_acknowledged_save_survives_kill_nine(
    writers: int, place: Path, times: Callable[[int], int], driver: Callable[..., Any], seed: str
) -> None:
    report = driver(
        "kill_driver", directory=str(place), writers=writers, kills=times(200), seed=seed
    )
    assert report["problems"] == []
    assert report["kills"] == times(200)
    assert report["acks"] > report["kills"] * writers, "they were busy when they were killed"
    assert report["unsure"] > 0, "some were killed between a commit and its acknowledgement"
