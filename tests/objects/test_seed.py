"""Every snippet of the document that this door was made after, word for word but for the import.

Snippets that belong together run one after the other in one namespace, in an empty directory.
`/tmp` in them is that directory, and what they leave to the reader (`risky_operation`, `id1`) is
given.
"""

from __future__ import annotations

import textwrap
from pathlib import Path
from typing import Any

import pytest

QUICK_START = """
    from lastgood import Checkpointable, CheckpointManager, checkpoint

    # 1. Make any class checkpointable
    class MyAgent(Checkpointable):
        def __init__(self):
            self.memory = []
            self.config = {}
            self.call_count = 0

        def reply(self, msg):
            self.memory.append(msg)
            self.call_count += 1
            return f"Reply #{self.call_count}"

    agent = MyAgent()
    agent.reply("hello")
    agent.reply("world")

    # 2. Save state
    state = agent.state_dict()

    # 3. Restore to new instance
    new_agent = MyAgent()
    new_agent.load_state_dict(state)
    assert new_agent.call_count == 2
    assert new_agent.memory == ["hello", "world"]
"""
MEMORY = """
    # In-memory backend (default)
    manager = CheckpointManager(backend="memory")
"""
FILE = """
    # File backend — JSON (human-readable, default)
    manager = CheckpointManager(backend="file", path="/tmp/checkpoints")
"""
PICKLE = """
    # File backend — pickle (supports arbitrary Python objects)
    manager = CheckpointManager(backend="file", path="/tmp/checkpoints", fmt="pickle")
"""
MANAGER = """
    # Save
    manager.save("session_123", agent)
    # Load
    manager.load("session_123", new_agent)
    # List all checkpoint keys
    print(manager.list_keys())
    # Get history (last N checkpoints for a key)
    history = manager.history("session_123", n=5)
    # [{"id": "session_123_1709...", "ts": 1709...}, ...]
"""
ROLLBACK_BY_HAND = """
    # Method 1: manual save + restore
    manager.save("before_risky_op", agent)
    try:
        risky_operation(agent)
    except Exception:
        manager.load("before_risky_op", agent)  # instant rollback ✅
"""
ROLLBACK = """
    # Method 2: context manager (auto-saves before block, restores on exception)
    with manager.rollback_context("before_risky_op", agent):
        risky_operation(agent)
    # If risky_operation raises → agent is automatically restored. No exception suppressed.
"""
CONCRETE = """
    from lastgood import Checkpointable, CheckpointManager

    class ConversationAgent(Checkpointable):
        def __init__(self):
            self.history = []
            self.tokens_used = 0

        def send(self, msg, tokens=10):
            self.history.append(msg)
            self.tokens_used += tokens

    agent = ConversationAgent()
    agent.send("Hello", tokens=5)
    agent.send("How are you?", tokens=8)

    mgr = CheckpointManager(backend="memory")
    mgr.save("checkpoint_1", agent)  # snapshot before risky call

    try:
        # Simulate an operation that corrupts state
        agent.send("CORRUPTED", tokens=9999)
        raise RuntimeError("API call failed mid-way")
    except RuntimeError:
        mgr.load("checkpoint_1", agent)  # rollback → state restored

    print(agent.tokens_used)  # → 13 (not 10012)
    print(agent.history)  # → ["Hello", "How are you?"]
"""
DECORATOR = """
    manager = CheckpointManager(backend="file", path="/tmp/ckpts")

    @checkpoint(manager, key="my_agent", every=5)  # checkpoint every 5 calls
    def process(agent, msg):
        return agent.reply(msg)

    for i in range(20):
        process(agent, f"message {i}")
    # Checkpoints saved at call 5, 10, 15, 20
"""
DIFF_WITH_AGENT = """
    # Compare current agent state vs. a saved checkpoint
    diff = manager.diff("my_key", agent=agent)
    print(diff)
    # {"added": {}, "removed": {}, "changed": {"call_count": (5, 10)}}
"""
DIFF_OF_TWO = """
    # Compare two stored checkpoints
    diff = manager.diff("my_key", checkpoint_id_a=id1, checkpoint_id_b=id2)
"""
MIGRATION = """
    from lastgood import Checkpointable, register_migration

    class MyAgent(Checkpointable):
        def __init__(self):
            self.score = 0

        def _checkpoint_version(self):
            return "2.0"

    # Migrate state saved by v1.0 → v2.0 schema
    def migrate_v1_to_v2(state):
        state["score"] = state.pop("points", 0) * 10  # rename + scale
        return state

    register_migration("MyAgent", from_version="1.0", fn=migrate_v1_to_v2)
"""
FIELDS = """
    class MyAgent(Checkpointable):
        def __init__(self):
            self.memory = []  # ✅ captured
            self.call_count = 0  # ✅ captured
            self._cache = {}  # ✅ excluded by default (starts with _)
            self._runtime_state = None  # ✅ excluded by default

        def _checkpoint_fields(self):
            # Explicitly pin which fields to capture
            return ["memory", "call_count"]
"""
CLONE = """
    agent = MyAgent()
    agent.reply("hello")
    cloned = agent.clone()  # deep copy via state round-trip
    cloned.reply("world")  # mutating clone doesn't affect original
    assert agent.call_count == 1
    assert cloned.call_count == 2
"""


class Page:
    """The document being read from the top: its names, and its files below one directory."""

    def __init__(self, directory: Path) -> None:
        self.directory = directory
        self.names: dict[str, Any] = {"__name__": __name__}

    def run(self, *snippets: str) -> Page:
        for snippet in snippets:
            exec(textwrap.dedent(snippet).replace("/tmp", str(self.directory)), self.names)
        return self

    def __getitem__(self, name: str) -> Any:
        return self.names[name]


@pytest.fixture
def page(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Page:
    monkeypatch.setenv("HOME", str(tmp_path / "home"))
    return Page(tmp_path)


with_each_backend = pytest.mark.parametrize("backend", [MEMORY, FILE, PICKLE])


def test_quick_start(page: Page) -> None:
    assert page.run(QUICK_START)["state"] == {
        "memory": ["hello", "world"],
        "config": {},
        "call_count": 2,
        "__version__": "1.0",
        "__class__": "MyAgent",
    }
    assert list(page["state"]) == ["memory", "config", "call_count", "__version__", "__class__"]


@with_each_backend
def test_save_load_list_and_history(
    page: Page, backend: str, capsys: pytest.CaptureFixture[str]
) -> None:
    page.run(QUICK_START, backend, "new_agent = MyAgent()", MANAGER)
    assert page["new_agent"].memory == ["hello", "world"]
    assert capsys.readouterr().out == "['session_123']\n"
    [entry] = page["history"]
    assert set(entry) == {"id", "ts"}
    assert isinstance(entry["ts"], float)


def failing(agent: Any) -> None:
    agent.memory.append("half")
    agent.extra = "left behind"
    raise RuntimeError("risky")


@with_each_backend
def test_rollback_by_hand(page: Page, backend: str) -> None:
    page.names["risky_operation"] = failing
    page.run(QUICK_START, backend, ROLLBACK_BY_HAND)
    assert page["agent"].state_dict() == page["state"]


@with_each_backend
def test_rollback_context(page: Page, backend: str) -> None:
    page.names["risky_operation"] = failing
    page.run(QUICK_START, backend)
    with pytest.raises(RuntimeError, match="risky"):
        page.run(ROLLBACK)
    assert page["agent"].state_dict() == page["state"]


def test_rollback_context_without_an_exception(page: Page) -> None:
    page.names["risky_operation"] = lambda agent: agent.memory.append("done")
    assert page.run(QUICK_START, MEMORY, ROLLBACK)["agent"].memory[-1] == "done"


def test_concrete_example(page: Page, capsys: pytest.CaptureFixture[str]) -> None:
    page.run(CONCRETE)
    assert capsys.readouterr().out == "13\n['Hello', 'How are you?']\n"


def test_decorator(page: Page) -> None:
    page.run(QUICK_START, DECORATOR)
    manager, fresh = page["manager"], page["MyAgent"]()
    counts = [manager.load("my_agent", fresh, nth=n).call_count - 2 for n in range(4)]
    assert counts == [20, 15, 10, 5]
    assert len(manager.history("my_agent")) == 4


@with_each_backend
def test_diff_with_an_agent(page: Page, backend: str, capsys: pytest.CaptureFixture[str]) -> None:
    page.run(QUICK_START, backend, "agent.call_count = 5; manager.save('my_key', agent)")
    page.run("agent.call_count = 10", DIFF_WITH_AGENT)
    expected = {"added": {}, "removed": {}, "changed": {"call_count": (5, 10)}}
    assert page["diff"] == expected
    assert capsys.readouterr().out == f"{expected}\n"


@with_each_backend
def test_diff_of_two_checkpoints(page: Page, backend: str) -> None:
    page.run(QUICK_START, backend, "id1 = manager.save('my_key', agent)")
    page.run("agent.plan = 'go'; del agent.config; id2 = manager.save('my_key', agent)")
    assert page.run(DIFF_OF_TWO)["diff"] == {
        "added": {"plan": "go"},
        "removed": {"config": {}},
        "changed": {},
    }


@with_each_backend
def test_migration(page: Page, backend: str) -> None:
    page.run(QUICK_START, backend, "agent = MyAgent(); agent.__dict__ = {'points': 7}")
    page.run("manager.save('old', agent)", MIGRATION, "agent = MyAgent()")
    assert page.run("manager.load('old', agent)")["agent"].state_dict() == {
        "score": 70,
        "__version__": "2.0",
        "__class__": "MyAgent",
    }


def test_pinned_fields(page: Page) -> None:
    page.run(QUICK_START, FIELDS, "state = MyAgent().state_dict()")
    assert page["state"] == {
        "memory": [],
        "call_count": 0,
        "__version__": "1.0",
        "__class__": "MyAgent",
    }


def test_clone(page: Page) -> None:
    page.run(QUICK_START, CLONE)
    assert page["agent"].memory == ["hello"]
