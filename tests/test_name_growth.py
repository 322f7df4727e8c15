"""Branches and tags: what one more costs, however many there are.

Not in plain files: a thread's file has all its names in it, and is written whole.
"""

import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from lastgood import BlockingClient
from lastgood.backends.tables import COUNTED
from lastgood.testing.harnesses import HARNESSES, harness_for
from lastgood.testing.suite import server_marks

SCHEMES = [
    pytest.param(scheme, marks=server_marks(scheme)) for scheme in HARNESSES if scheme != "files"
]


def calls(work: Callable[[], object]) -> int:
    """How many calls of Python's functions a piece of work takes in this thread."""
    count = 0

    def note(_frame: Any, event: str, _what: object) -> None:
        nonlocal count
        count += event == "call"

    sys.setprofile(note)
    try:
        work()
    finally:
        sys.setprofile(None)
    return count


def costs(client: BlockingClient, id: str, name: str) -> list[int]:
    works: list[Callable[[], object]] = [
        lambda: client.fork(id, branch=name),
        lambda: client.tag(id, name),
        lambda: client.untag("s", "nothing"),
        lambda: client.resolve("s@"),
        lambda: client.undo("s"),
    ]
    client.rewind("s", id)
    return [calls(work) for work in works]


@pytest.mark.slow
@pytest.mark.parametrize("scheme", SCHEMES)
def test_one_more_name_costs_the_same_however_many_there_are(scheme: str, tmp_path: Path) -> None:
    harness = harness_for(scheme, tmp_path)
    with BlockingClient.on(harness.backend()) as client:
        id = client.save("a", session_id="s", execution_state={})

        def fill(numbers: range) -> None:
            for number in numbers:
                client.fork(id, branch=f"b {number}")
                client.tag(id, f"t {number}")

        fill(range(COUNTED + 20))
        costs(client, id, "warm")
        few = costs(client, id, "few")
        fill(range(COUNTED + 20, 2 * COUNTED + 40))
        for before, after in zip(few, costs(client, id, "many"), strict=True):
            assert after <= before * 1.5 + 50
    harness.close()
