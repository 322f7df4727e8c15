"""What the fault tests share: how often, with which seed, and where.

LASTGOOD_TORTURE multiplies the counts (`make torture` sets 10); LASTGOOD_SEED replays a failure or
tries other accidents. Both are told in every failure.
"""

import os
import random
import shutil
import tempfile
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

TORTURE = int(os.environ.get("LASTGOOD_TORTURE", "1"))
SEED = int(os.environ.get("LASTGOOD_SEED", "1"))
MEMORY = Path("/dev/shm")


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    here = Path(__file__).parent
    for item in items:
        if here in item.path.parents:
            item.add_marker(pytest.mark.fault)


@pytest.hookimpl(wrapper=True)
def pytest_runtest_makereport(item: pytest.Item) -> Iterator[None]:
    report = yield
    if report.failed and item.get_closest_marker("fault"):
        command = f"LASTGOOD_SEED={SEED} LASTGOOD_TORTURE={TORTURE} pytest '{item.nodeid}'"
        report.sections.append(("replay", command))
    return report


@pytest.fixture
def times() -> Callable[[int], int]:
    """How often to do what is done so often in `make test`."""
    return lambda count: count * TORTURE


@pytest.fixture
def rng(request: pytest.FixtureRequest) -> random.Random:
    """Accidents of this test; the same ones for the same seed."""
    return random.Random(f"{SEED}:{request.node.name}")


@pytest.fixture
def place(tmp_path: Path) -> Iterator[Path]:
    """An empty directory, in memory where there is one: these tests write much and sync often."""
    if not os.access(MEMORY, os.W_OK):
        yield tmp_path
        return
    directory = Path(tempfile.mkdtemp(prefix="lastgood-", dir=MEMORY))
    yield directory
    shutil.rmtree(directory, ignore_errors=True)
