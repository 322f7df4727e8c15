"""A test run gets its servers when it needs them, and none outlives it. Each case is a pytest."""

import os
import re
import shutil
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
from endings import gone, running

from lastgood.testing.servers.places import base_directory

pytestmark = pytest.mark.server

WIRING = Path(__file__).parents[1] / "conftest.py"

TESTS = """
import os
import pytest

def note(what):
    with open("notes", "a") as notes:
        print(os.getpid(), os.getppid(), what, file=notes, flush=True)

@pytest.mark.parametrize("number", range(4))
def test_valkey(valkey_url, number):
    note(valkey_url)

@pytest.mark.server("valkey")
def test_marked():
    note(os.environ["LASTGOOD_TEST_REDIS_URL"])

def test_plain():
    note(os.environ.get("LASTGOOD_TEST_REDIS_URL"))
"""

SLEEPING = """
import os, pathlib, pytest, time

@pytest.mark.parametrize("number", range(2))
def test_sleeps(valkey_url, postgres_url, number):
    pathlib.Path(f"asleep-{os.getpid()}").touch()
    time.sleep(100)
"""

WITHOUT_POSTGRES = """
from lastgood.testing.servers import programs
programs.package_directory = lambda name: None
programs._system_postgres = lambda: []
"""

OPTIONS = ["-q", "-ra", "-Wignore", "-p", "xdist", "-p", "no:cacheprovider"]

Start = Callable[..., "subprocess.Popen[str]"]


@pytest.fixture
def project(tmp_path: Path) -> Path:
    """A project with our wiring and its own tests."""
    shutil.copy(WIRING, tmp_path)
    (tmp_path / "test_it.py").write_text(TESTS)
    return tmp_path


def _interruptible() -> None:
    """Whoever started this run in the background had it ignore interrupts, children included."""
    signal.signal(signal.SIGINT, signal.SIG_DFL)


@pytest.fixture
def start(project: Path) -> Iterator[Start]:
    """Start a pytest in the project, with other environment variables; it ends with the test."""
    started = []

    def begin(*options: str, **variables: str) -> "subprocess.Popen[str]":
        kept = {k: v for k, v in os.environ.items() if not k.startswith(("LASTGOOD_", "PYTEST_"))}
        kept.pop("CI", None)
        kept["PYTEST_DISABLE_PLUGIN_AUTOLOAD"] = "1"
        command = [sys.executable, "-m", "pytest", *OPTIONS, *options]
        started.append(
            subprocess.Popen(
                command,
                cwd=project,
                env={**kept, **variables},
                stdout=subprocess.PIPE,
                stderr=subprocess.STDOUT,
                text=True,
                start_new_session=True,
                preexec_fn=_interruptible,
            )
        )
        return started[-1]

    yield begin
    for process in started:
        process.kill()
        if not process.stdout.closed:
            process.communicate()


@pytest.fixture
def run(start: Start) -> Callable[..., str]:
    """Run a pytest to its end; gives what it said."""

    def finish(*options: str, **variables: str) -> str:
        said, _ = start(*options, **variables).communicate(timeout=60)
        return said

    return finish


def notes(project: Path) -> list[list[str]]:
    return [line.split() for line in (project / "notes").read_text().splitlines()]


def places_of(pid: int) -> list[Path]:
    return list(base_directory().glob(f"lastgood-server-{pid}-*"))


def belonging_to(pid: int) -> set[int]:
    """The processes whose command or directory is of a run."""
    found = set()
    for process in Path("/proc").glob("[0-9]*"):
        try:
            command = (process / "cmdline").read_text() + str((process / "cwd").readlink())
        except OSError:
            continue
        if f"lastgood-server-{pid}-" in command:
            found.add(int(process.name))
    return found


def until(condition: Callable[[], bool], seconds: float = 30.0) -> bool:
    deadline = time.monotonic() + seconds
    while not condition():
        if time.monotonic() > deadline:
            return False
        time.sleep(0.05)
    return True


@pytest.mark.parametrize("workers", ["0", "2"])
def test_all_processes_share_one_server(
    workers: str, project: Path, run: Callable[..., str]
) -> None:
    assert "6 passed" in run("-n", workers)
    told = notes(project)
    urls = {url for _, _, url in told} - {"None"}
    assert len(urls) == 1
    assert len({pid for pid, _, _ in told}) == max(int(workers), 1)
    owner = re.search(r"lastgood-server-(\d+)-", urls.pop())
    assert owner is not None
    owners = {parent if workers == "2" else pid for pid, parent, _ in told}
    assert owners == {owner[1]}, "the first process of the run"
    assert places_of(int(owner[1])) == []
    assert running(belonging_to(int(owner[1]))) == set()


@pytest.mark.parametrize("workers", ["0", "2"])
def test_a_selection_that_needs_no_server_starts_none(
    workers: str, project: Path, start: Start
) -> None:
    (project / "test_it.py").write_text(TESTS + "    import time; time.sleep(1)\n")
    process = start("-n", workers, "-m", "not server")
    assert until((project / "notes").exists)
    assert belonging_to(process.pid) == set()
    said, _ = process.communicate()
    assert "1 passed, 5 deselected" in said if workers == "0" else "1 passed" in said
    assert notes(project)[0][2] == "None"


def test_a_server_elsewhere_is_taken(project: Path, run: Callable[..., str]) -> None:
    assert "6 passed" in run("-n", "0", LASTGOOD_TEST_REDIS_URL="redis://elsewhere/1")
    assert {url for _, _, url in notes(project)} == {"redis://elsewhere/1"}


def test_a_missing_server_is_one_line_for_a_person_and_a_failure_in_ci(
    project: Path, run: Callable[..., str]
) -> None:
    wiring = project / "conftest.py"
    wiring.write_text(wiring.read_text() + WITHOUT_POSTGRES)
    (project / "test_it.py").write_text(TESTS.replace("valkey", "postgres"))
    lines = run("-n", "2").splitlines()
    assert "1 passed, 5 skipped" in lines[-1]
    skips = [line for line in lines if line.startswith("SKIPPED")]
    assert len(skips) == 1
    assert "SKIPPED [5]" in skips[0]
    assert "PostgreSQL 14 or newer is not on this machine" in skips[0]
    assert "1 passed, 5 errors" in run("-n", "0", CI="true")


OF_ITS_OWN = """
import pytest
from lastgood.testing.servers import ServerMissing

@pytest.fixture(scope="module")
def own():
    raise ServerMissing("there is none", required=True)

@pytest.mark.parametrize("n", range(3))
def test_it(own, n):
    pass
"""


def test_a_missing_server_that_tests_share_is_missed_by_all_of_them(
    project: Path, run: Callable[..., str]
) -> None:
    (project / "test_it.py").write_text(OF_ITS_OWN)
    assert "3 skipped" in run("-n", "0").splitlines()[-1]
    assert "3 errors" in run("-n", "0", CI="true").splitlines()[-1]


@pytest.mark.parametrize(
    ("workers", "ending"), [(2, signal.SIGKILL), (2, signal.SIGINT), (0, signal.SIGTERM)]
)
def test_nothing_outlives_a_run_that_is_ended(
    workers: int, ending: signal.Signals, project: Path, start: Start
) -> None:
    (project / "test_it.py").write_text(SLEEPING)
    process = start("-n", str(workers))
    assert until(lambda: len(list(project.glob("asleep-*"))) == max(workers, 1))
    servers = belonging_to(process.pid)
    assert len(servers) >= 2, "PostgreSQL with its processes, Valkey"
    if ending == signal.SIGINT:
        os.killpg(process.pid, ending)  # as a terminal does
    else:
        process.send_signal(ending)
    process.wait(60)
    asleep = {int(path.name.removeprefix("asleep-")) for path in project.glob("asleep-*")}
    assert gone(*servers, *asleep, within=5), "workers left alone go on for 10 s"
    assert running(belonging_to(process.pid)) == set()
    if ending == signal.SIGINT:
        assert places_of(process.pid) == []
