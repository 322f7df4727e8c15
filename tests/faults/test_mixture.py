"""Everything at once, in processes that are killed: what was acknowledged is there, and once."""

from collections.abc import Callable
from typing import Any

from stores import is_plain

SOME, MANY = 15, 30
"""A client that begins anew costs more on a server, and so does a look at many files."""


def test_a_log_is_whole_whatever_else_goes_on(
    base: str, times: Callable[[int], int], driver: Callable[..., Any], seed: str
) -> None:
    kills = times(MANY if is_plain(base) else SOME)
    report = driver("mixture_driver", base=base, kills=kills, seed=seed)
    assert report["problems"] == []
    assert report["acks"] > kills, "they were busy when they were killed"
    assert report["refused"] > 0, "they met"
