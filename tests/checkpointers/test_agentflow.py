"""A real graph of agentflow on our checkpointers, over a restart.

agentflow needs Python 3.12. `make test` gives it an environment of its own where there is one.
"""

import json
import subprocess
from pathlib import Path
from typing import Any

import pytest

from lastgood.testing.postgres_harness import PostgresHarness

ROOT = Path(__file__).parents[2]
PYTHON = ROOT / ".venv" / "agentflow" / "bin" / "python"

pytestmark = [
    pytest.mark.slow,
    pytest.mark.skipif(
        not PYTHON.exists(), reason="agentflow needs Python 3.12 or newer, which is not here"
    ),
]


def turn(address: str, text: str) -> Any:
    program = Path(__file__).with_name("agentflow_graph.py")
    ended = subprocess.run(
        [PYTHON, "-W", "error::RuntimeWarning", program, address, text],
        capture_output=True,
        text=True,
        check=False,
    )
    assert ended.returncode == 0, ended.stderr
    return json.loads(ended.stdout)


def check(found: Any) -> None:
    said = ["one", "one? answer 1", "two", "two? answer 2"]
    assert found["context"] == said
    assert found["messages"] == said
    assert (found["class"], found["total"], found["status"]) == ("Shop", 2, "completed")
    assert found["threads"] == ["order-42"]
    assert found["steps"] >= 4
    assert found["for bob"] is None


def test_two_turns_in_memory() -> None:
    check(turn("memory:", "one,two"))


def test_two_turns_on_sqlite_over_a_restart(tmp_path: Path) -> None:
    address = f"sqlite:///{tmp_path / 'agent.db'}"
    assert turn(address, "one")["messages"] == ["one", "one? answer 1"]
    check(turn(address, "two"))


def test_two_turns_on_postgres_over_a_restart(postgres_url: str, tmp_path: Path) -> None:
    harness = PostgresHarness(tmp_path)
    address = f"{postgres_url}#{harness.schema}"
    assert turn(address, "one")["total"] == 1
    check(turn(address, "two"))
    harness.close()
