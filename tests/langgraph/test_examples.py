"""The examples run, and do what they say."""

import os
import shutil
import subprocess
import sys
import time
from pathlib import Path

import pytest

from tests.langgraph.test_server import dev

EXAMPLES = Path(__file__).parents[2] / "examples" / "langgraph"


def played(name: str, place: Path) -> str:
    done = subprocess.run(
        [sys.executable, "-W", "ignore", str(EXAMPLES / name)],
        cwd=place,
        capture_output=True,
        text=True,
        check=True,
        env={**os.environ, "PYTHONUNBUFFERED": "1"},
    )
    return done.stdout


@pytest.mark.slow
def test_crash_and_resume(tmp_path: Path) -> None:
    out = played("crash_and_resume.py", tmp_path)
    assert out.splitlines() == [
        "first process",
        "  fetch runs",
        "  charge runs",
        "  ship begins, and the machine dies",
        "  ended with -9",
        "second process",
        "  ship runs",
        "  result: fetched, charged, shipped",
        "  ended with 0",
    ]


@pytest.mark.slow
def test_human_approval(tmp_path: Path) -> None:
    out = played("human_approval.py", tmp_path)
    assert "invoice-2: Pay 9000?" in out
    assert out.splitlines()[-2:] == ["  invoice-1: yes", "  invoice-2: no"]


@pytest.mark.slow
def test_time_travel(tmp_path: Path) -> None:
    out = played("time_travel.py", tmp_path)
    assert "forked: hello, plan, draft, draft, friendlier, send" in out
    assert "first line: hello, plan, draft, send" in out
    assert out.count("branch") == 2


@pytest.mark.slow
def test_moving(tmp_path: Path) -> None:
    out = played("moving.py", tmp_path)
    assert "would become" in out
    assert "120 entries came over, 122 now" in out


@pytest.mark.slow
def test_hot_reload(tmp_path: Path) -> None:
    app = tmp_path / "app"
    shutil.copytree(EXAMPLES / "hot_reload", app)
    url = f"sqlite:///{tmp_path / 'state.db'}"
    with dev(app, url, reload=True) as server:
        thread = server.call("POST", "/threads", {})["thread_id"]
        body = {"assistant_id": "agent", "input": {"log": ["one"]}}
        server.call("POST", f"/threads/{thread}/runs/wait", body)
        source = app / "app.py"
        source.write_text(source.read_text().replace("answer to", "new answer to"))
        for _ in range(100):
            time.sleep(0.2)
            server.wait()
            found = server.call("POST", f"/threads/{thread}/runs/wait", body)["log"]
            if found[-1] == "new answer to one":
                break
        assert found[:2] == ["one", "answer to one"]
        assert found[-1] == "new answer to one"
    with dev(app, url, reload=False) as server:
        assert len(server.history(thread)) >= 6


def test_every_example_is_played() -> None:
    source = Path(__file__).read_text()
    names = {path.name for path in EXAMPLES.iterdir() if path.suffix == ".py" or path.is_dir()}
    assert {name for name in names - {"__pycache__"} if f'"{name}"' not in source} == set()
