"""What the fault tests share: how often, with which seed, and where.

LASTGOOD_TORTURE multiplies the counts (`make torture` sets 10); LASTGOOD_SEED replays a failure or
tries other accidents. Both are told in every failure.
"""

import json
import os
import random
import shutil
import signal
import subprocess
import sys
import tempfile
from collections.abc import Callable, Iterator
from functools import partial
from pathlib import Path
from typing import Any

import pytest
from network_bench import SERVERS, Play, Server, hurry, run_behind

from lastgood.testing.faults.proxy import Proxy
from lastgood.testing.servers import address
from lastgood.testing.store import COLOURS

TORTURE = int(os.environ.get("LASTGOOD_TORTURE", "1"))
SEED = int(os.environ.get("LASTGOOD_SEED", "1"))
MEMORY = Path("/dev/shm")


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    here = Path(__file__).parent
    for item in items:
        if item.path.parent == here:
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
def seed(request: pytest.FixtureRequest) -> str:
    """What decides about the accidents of this test."""
    return f"{SEED}:{request.node.name}"


@pytest.fixture
def rng(seed: str) -> random.Random:
    """Accidents of this test; the same ones for the same seed."""
    return random.Random(seed)


@pytest.fixture(scope="session")
def driver() -> Callable[..., Any]:
    """Run a driver script with options; gives its report."""

    def run(script: str, **options: Any) -> Any:
        command = [
            sys.executable,
            str(Path(__file__).with_name(f"{script}.py")),
            json.dumps(options),
        ]
        pipes = {"stdout": subprocess.PIPE, "stderr": subprocess.PIPE, "text": True}
        with subprocess.Popen(command, start_new_session=True, **pipes) as process:
            try:
                told, complaints = process.communicate()
            except BaseException:
                os.killpg(process.pid, signal.SIGKILL)  # the driver and its children
                raise
        assert process.returncode == 0, f"{command}\n{complaints}"
        return json.loads(told)

    return run


@pytest.fixture
def place(tmp_path: Path) -> Iterator[Path]:
    """An empty directory, in memory where there is one: these tests write much and sync often."""
    if not os.access(MEMORY, os.W_OK):
        yield tmp_path
        return
    directory = Path(tempfile.mkdtemp(prefix="lastgood-", dir=MEMORY))
    yield directory
    shutil.rmtree(directory, ignore_errors=True)


@pytest.fixture(
    params=[
        "sqlite",
        "files",
        pytest.param("postgres", marks=pytest.mark.server("postgres")),
        pytest.param("valkey", marks=pytest.mark.server("valkey")),
    ]
)
def base(request: pytest.FixtureRequest, place: Path) -> str:
    """Where a driver makes its stores: an empty directory, or a server."""
    here = {"sqlite": str(place), "files": f"files:{place}"}
    return here.get(request.param) or address(request.param)


# clients behind a proxy


@pytest.fixture(
    scope="module",
    params=[pytest.param(kind, marks=pytest.mark.server(kind)) for kind in SERVERS],
)
def kind(request: pytest.FixtureRequest) -> str:
    return request.param


@pytest.fixture(scope="module")
def server(kind: str) -> Server:
    return SERVERS[kind]


@pytest.fixture(scope="module")
def straight(kind: str, request: pytest.FixtureRequest) -> str:
    """The address without the proxy."""
    return request.getfixturevalue(f"{kind}_url")


@pytest.fixture
def proxy(straight: str) -> Iterator[Proxy]:
    with Proxy(straight) as one:
        yield one


@pytest.fixture
def play_in(proxy: Proxy, server: Server, straight: str, tmp_path: Path) -> Callable[..., None]:
    """Run a body in a colour, on clients behind the proxy."""
    return partial(run_behind, proxy, server.harness, straight, tmp_path)


@pytest.fixture(params=COLOURS)
def play(request: pytest.FixtureRequest, play_in: Callable[..., None]) -> Play:
    return partial(play_in, request.param)


@pytest.fixture
def play_tasks(play_in: Callable[..., None]) -> Play:
    """For what only tasks can meet."""
    return partial(play_in, "async")


@pytest.fixture
def impatient(monkeypatch: pytest.MonkeyPatch) -> None:
    """Short bounds."""
    hurry(monkeypatch)
