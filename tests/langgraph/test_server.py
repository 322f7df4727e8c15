"""`langgraph dev`, started for real: state survives a changed file and a restart."""

import json
import os
import signal
import socket
import subprocess
import sys
import time
import urllib.error
import urllib.request
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest

APP = """
import operator
from typing import Annotated, TypedDict

from langgraph.graph import START, StateGraph


class State(TypedDict):
    log: Annotated[list, operator.add]


def node(state: State, *, store):
    store.put(("facts",), str(len(state["log"])), {"seen": True})
    return {"log": ["node"]}


async def anode(state: State):
    return {"log": ["anode"]}


graph = StateGraph(State)
graph.add_node("node", node)
graph.add_node("anode", anode)
graph.add_edge(START, "node")
graph.add_edge("node", "anode")
graph = graph.compile()
"""
PLACE = "lastgood.adapters.langgraph.server"
CONFIG = {
    "dependencies": ["."],
    "graphs": {"g": "./app.py:graph"},
    "checkpointer": {"path": f"{PLACE}.checkpointer"},
    "store": {"path": f"{PLACE}.store"},
}
DIRECT = urllib.request.build_opener(urllib.request.ProxyHandler({}))


class Server:
    """One `langgraph dev`."""

    def __init__(self, port: int, process: subprocess.Popen[bytes]) -> None:
        self.port = port
        self.process = process

    def call(self, method: str, path: str, body: Any = None) -> Any:
        data = json.dumps(body).encode() if body is not None else None
        request = urllib.request.Request(
            f"http://127.0.0.1:{self.port}{path}",
            data,
            {"content-type": "application/json"},
            method=method,
        )
        with DIRECT.open(request, timeout=60) as answer:
            text = answer.read()
        return json.loads(text) if text else None

    def wait(self) -> None:
        for _ in range(300):
            assert self.process.poll() is None, "the server ended"
            try:
                if self.call("GET", "/ok")["ok"]:
                    return
            except (urllib.error.URLError, ConnectionError, TimeoutError):
                pass
            time.sleep(0.1)
        raise TimeoutError

    def run(self, thread: str, word: str) -> Any:
        body = {"assistant_id": "g", "input": {"log": [word]}}
        return self.call("POST", f"/threads/{thread}/runs/wait", body)

    def history(self, thread: str) -> list[Any]:
        found: list[Any] = self.call("POST", f"/threads/{thread}/history", {"limit": 100})
        return found


def free_port() -> int:
    with socket.socket() as found:
        found.bind(("127.0.0.1", 0))
        return int(found.getsockname()[1])


@contextmanager
def dev(app: Path, url: str, *, reload: bool) -> Iterator[Server]:
    port = free_port()
    command = [str(Path(sys.executable).with_name("langgraph")), "dev", "--no-browser"]
    command += ["--host", "127.0.0.1", "--port", str(port)]
    command += [] if reload else ["--no-reload"]
    kept = {name: value for name, value in os.environ.items() if "LANGSMITH" not in name}
    environment = {
        **kept,
        "LASTGOOD_URL": url,
        "LANGSMITH_TRACING": "false",
        "LANGGRAPH_CLI_NO_ANALYTICS": "1",
    }
    with (app.parent / "server.log").open("ab") as log:
        process = subprocess.Popen(
            command, cwd=app, env=environment, stdout=log, stderr=log, start_new_session=True
        )
    try:
        server = Server(port, process)
        server.wait()
        yield server
    except BaseException:
        print((app.parent / "server.log").read_text()[:6000])
        raise
    finally:
        _end(process)


def _end(process: subprocess.Popen[bytes]) -> None:
    if process.poll() is None:
        os.killpg(process.pid, signal.SIGINT)
        try:
            process.wait(15)
        except subprocess.TimeoutExpired:
            os.killpg(process.pid, signal.SIGKILL)
            process.wait(15)


@pytest.fixture
def app(tmp_path: Path) -> Path:
    folder = tmp_path / "app"
    folder.mkdir()
    (folder / "app.py").write_text(APP)
    (folder / "langgraph.json").write_text(json.dumps(CONFIG))
    return folder


@pytest.mark.slow
@pytest.mark.scenario("S74")
def test_state_survives_a_changed_file_and_a_restart(app: Path, tmp_path: Path) -> None:
    url = f"sqlite:///{tmp_path / 'state.db'}"
    with dev(app, url, reload=True) as server:
        thread = server.call("POST", "/threads", {})["thread_id"]
        assert server.run(thread, "one")["log"] == ["one", "node", "anode"]
        before = server.history(thread)
        assert len(before) == 4
        (app / "app.py").write_text(APP.replace('["node"]', '["changed"]'))
        for _ in range(100):
            time.sleep(0.2)
            server.wait()
            if server.run(thread, "more")["log"][-2:] == ["changed", "anode"]:
                break
        found = server.history(thread)
        assert [place["checkpoint"] for place in found[-4:]] == [p["checkpoint"] for p in before]
    with dev(app, url, reload=False) as server:
        again = server.history(thread)
        assert [place["values"] for place in again] == [place["values"] for place in found]
        assert server.run(thread, "last")["log"][:3] == ["one", "node", "anode"]
        facts = server.call("POST", "/store/items/search", {"namespace_prefix": ["facts"]})
        assert len(facts["items"]) >= 2
        copied = server.call("POST", f"/threads/{thread}/copy")["thread_id"]
        assert len(server.history(copied)) == len(server.history(thread))
        server.call("DELETE", f"/threads/{thread}")
        assert len(server.history(copied)) > 4
