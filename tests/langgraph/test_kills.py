"""Kill -9 in the middle of a graph: what was finished does not run again, nothing is lost."""

import json
import os
import signal
import subprocess
import sys
from pathlib import Path
from uuid import uuid4

import pytest

TORTURE = int(os.environ.get("LASTGOOD_TORTURE", "1"))
SEED = os.environ.get("LASTGOOD_SEED", "1")


@pytest.mark.fault
@pytest.mark.slow
def test_a_killed_graph_goes_on_where_it_was(tmp_path: Path) -> None:
    _hunted(str(tmp_path / "graph.db"), kills=40 * TORTURE)


@pytest.mark.fault
@pytest.mark.slow
def test_a_killed_graph_on_postgres(postgres_url: str) -> None:
    mark = "&" if "?" in postgres_url else "?"
    _hunted(f"{postgres_url}{mark}schema=graph_{uuid4().hex[:12]}", kills=20 * TORTURE)


def _hunted(address: str, kills: int) -> None:
    options = {"address": address, "kills": kills, "seed": SEED}
    script = Path(__file__).with_name("graph_killer.py")
    command = [sys.executable, "-W", "ignore", str(script), json.dumps(options)]
    pipes = {"stdout": subprocess.PIPE, "stderr": subprocess.PIPE, "text": True}
    with subprocess.Popen(command, start_new_session=True, **pipes) as process:  # type: ignore[call-overload]
        try:
            told, complaints = process.communicate(timeout=100 * TORTURE)
        except BaseException:
            os.killpg(process.pid, signal.SIGKILL)
            raise
    assert process.returncode == 0, complaints
    report = json.loads(told)
    assert report["problems"] == []
    assert report["kills"] >= kills
    assert report["kills"] > report["threads"], "they were busy when they were killed"
