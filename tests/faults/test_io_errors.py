"""EIO at the Nth write, sync or read: the call raises StorageError, what was acknowledged stays,
and the next operation works on a connection of its own, without any repair.
"""

import shutil
import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any
from uuid import UUID

import apsw
import pytest

from lastgood import BlockingClient, LastgoodError, StorageError
from lastgood.backends.sqlite.backend import SqliteBackend
from lastgood.testing.faults.disk import Connection, Disk, no_fault
from lastgood.testing.faults.store import fingerprint, view

LAST = 40
FILE = "store.db"


class Nth:
    """A fault: the nth operation of a kind fails, once."""

    def __init__(self, kind: str, nth: int) -> None:
        self.kind, self.left, self.happened = kind, nth, False

    def __call__(self, kind: str, file: str) -> None:
        if kind == self.kind and file.startswith(FILE):
            self.left -= 1
            if self.left == 0:
                self.happened = True
                raise apsw.IOError(f"injected: {kind} of {file}")


class Patient:
    """A disk with a fault, a client on it, and a list of what was acknowledged."""

    def __init__(self, path: Path, fault: Nth) -> None:
        self.path, self.fault, self.connections = path, fault, 0
        self.disk = Disk()
        self.client = self._client()
        self.client.save("solo", session_id="first", execution_state={"n": 0})
        self.disk.fault = fault
        self.acked: dict[str, str] = {}

    def _client(self) -> BlockingClient:
        return BlockingClient.on(SqliteBackend(self.path, connect=self.connect))

    def connect(self, path: str) -> Connection:
        self.connections += 1
        connection = self.disk.connect(path)
        connection.execute("PRAGMA wal_autocheckpoint = 8")
        return connection

    def save(self, number: int) -> None:
        state = {"n": number, "items": [f"{number} " * 100] * 30}
        id = self.client.save("solo", session_id="work", execution_state=state)
        self.acked[id] = fingerprint(state)

    def save_until_it_fails(self) -> tuple[list[LastgoodError], int]:
        """The error, if any, and how many connections there had been by then."""
        for number in range(60):
            opened = self.connections
            try:
                self.save(number)
            except LastgoodError as error:
                return [error], opened
        return [], self.connections

    def close(self) -> None:
        self.client.close()
        self.disk.unregister()


@pytest.fixture
def patient(place: Path, request: pytest.FixtureRequest) -> Iterator[Patient]:
    one = Patient(place / FILE, Nth(*request.param))
    yield one
    one.close()


def cases() -> list[Any]:
    kinds = ("write", "sync", "read")
    return [pytest.param((k, n), id=f"{k}-{n}") for k in kinds for n in range(1, LAST + 1)]


@pytest.mark.parametrize("patient", cases(), indirect=True)
def test_an_error_of_the_disk_is_told_and_survived(patient: Patient) -> None:
    failed, opened = patient.save_until_it_fails()
    assert patient.fault.happened, "the fault had its turn, and nothing failed before it"
    if failed:
        patient.save(1000)  # the very next operation, without any repair
        assert isinstance(failed[0], StorageError)
        assert patient.connections > opened or patient.fault.kind == "read", "a new connection"
    with BlockingClient.sqlite(patient.path) as reader:
        found = view(reader)
    assert patient.acked.items() <= found["work"].states.items()
    assert len(found["work"].states) <= len(patient.acked) + len(failed)


@pytest.mark.parametrize("kind", ["write", "sync"])
def test_a_disk_that_stays_broken_never_acknowledges(kind: str, place: Path) -> None:
    """A write that failed leaves nothing. A sync that failed leaves nothing or the whole, and the
    same save once more settles which."""

    def broken(seen: str, file: str) -> None:
        if seen == kind:
            raise apsw.IOError("injected: broken for good")

    disk = Disk()
    client = BlockingClient.on(SqliteBackend(place / FILE, connect=disk.connect))
    line = [client.save("solo", session_id="work", execution_state={"n": -1})]
    wanted = [str(UUID(int=number + 1)) for number in range(5)]
    disk.fault = broken
    for number, id in enumerate(wanted):
        with pytest.raises(StorageError):
            client.save("solo", session_id="work", execution_state={"n": number}, checkpoint_id=id)
        head = client.latest(agent_id="solo", session_id="work").checkpoint_id
        if head != line[-1]:
            assert (kind, head) == ("sync", id)
            line.append(head)
    disk.fault = no_fault
    for number, id in enumerate(wanted):
        client.save("solo", session_id="work", execution_state={"n": number}, checkpoint_id=id)
        line.append(id) if id not in line else None
    log = client.log("work")
    assert [header.checkpoint_id for header in log] == line[::-1]
    assert [header.parent_id for header in log] == [*line[-2::-1], None]
    client.close()
    disk.unregister()


@pytest.mark.parametrize("kind", ["write", "sync"])
@pytest.mark.parametrize("way", ["append", "save"])
def test_a_run_goes_on_after_an_error_of_the_disk(way: str, kind: str, place: Path) -> None:
    """The same step once more is one step: nothing is lost and nothing is there twice."""
    disk = Disk()
    client = BlockingClient.on(SqliteBackend(place / FILE, connect=disk.connect))
    with client.run("work", initial={"items": []}) as run:
        for number in range(30):
            if way == "save":
                run.state["items"].append(number)
            step = run.save if way == "save" else lambda n=number: run.append("items", n)
            disk.fault = Nth(kind, 1)
            with pytest.raises(StorageError):
                step()
            disk.fault = no_fault
            step()
            assert run.state["items"] == list(range(number + 1))
    assert client.latest(agent_id="agent", session_id="work").state == {"items": list(range(30))}
    assert [header.seq for header in client.log("work", limit=99)] == list(range(31, 0, -1))
    client.close()
    disk.unregister()


WRITER = """
import sys, lastgood
client = lastgood.BlockingClient.sqlite(sys.argv[1])
for number in range(25):
    try:
        state = {"n": number, "pad": "x" * 3000}
        id = client.save("solo", session_id="work", execution_state=state)
        print("ACK", id, number, flush=True)
    except lastgood.StorageError as error:
        print("OURS", type(error).__name__, flush=True)
"""


def can_trace() -> bool:
    if shutil.which("strace") is None:
        return False
    tried = subprocess.run(["strace", "-qq", "true"], capture_output=True, check=False)
    return tried.returncode == 0


@pytest.mark.skipif(not can_trace(), reason="strace is not installed, or ptrace is not allowed")
@pytest.mark.parametrize(
    "inject",
    [
        "fdatasync:error=EIO:when=5",
        "fdatasync:error=EIO:when=12",
        "pwrite64:error=EIO:when=40",
        "pwrite64:error=ENOSPC:when=60",
        "pwrite64:error=EIO:when=30+37",
    ],
)
def test_an_error_of_the_kernel_is_told_and_survived(
    inject: str, tmp_path: Path, times: Callable[[int], int]
) -> None:
    path = tmp_path / FILE
    call = inject.partition(":")[0]
    command = ["strace", "-f", "-qq", "-o", "/dev/null", "-e", f"trace={call}", "-e"]
    done = subprocess.run(
        [*command, f"inject={inject}", sys.executable, "-c", WRITER, str(path)],
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    lines = [line.split() for line in done.stdout.splitlines()]
    assert [line for line in lines if line[0] == "OURS"], "the injected error was met"
    client = BlockingClient.sqlite(path)
    for _, id, number in (line for line in lines if line[0] == "ACK"):
        assert client.restore(id).state["n"] == int(number)
    client.save("solo", session_id="work", execution_state={"n": "next"})
    view(client)
    client.close()
