"""What several places of an object share is stored like everything else: once, and what changed."""

from __future__ import annotations

from dataclasses import dataclass, field
from pathlib import Path

import pytest

from lastgood import Checkpointable, CheckpointManager
from lastgood.objects.unweaving import graph_of
from lastgood.objects.weaving import woven


@dataclass
class Message:
    text: str


class Agent(Checkpointable):
    def __init__(self) -> None:
        self.notes: list[Message] = []
        self.messages: list[Message] = []
        self.log: list[Message] = []

    def hear(self, text: str) -> None:
        """One message, in two places."""
        message = Message(text)
        self.messages.append(message)
        self.log.append(message)


@dataclass
class Loop:
    text: str
    others: list[Loop] = field(default_factory=list)


def text(number: int) -> str:
    return f"{number:06} " * 20


def stored(manager: CheckpointManager) -> int:
    return manager.client.stats("k").physical


def test_a_save_costs_what_changed(tmp_path: Path) -> None:
    with CheckpointManager("sqlite", path=tmp_path / "objects.db") as manager:
        agent, sizes = Agent(), []
        for number in range(300):
            agent.hear(text(number))
            manager.save("k", agent)
            if number % 100 == 99:
                sizes.append(stored(manager))
        first, second, third = sizes
        assert third - second < 1.3 * (second - first)


def test_blame_names_the_step_that_brought_a_shared_part() -> None:
    with CheckpointManager() as manager:
        agent = Agent()
        saved = []
        for number in range(5):
            agent.hear(text(number))
            saved.append(manager.save("k", agent))
        for number, id in enumerate(saved):
            assert manager.client.blame("k@", f"messages[{number}]").header.checkpoint_id == id


def test_what_becomes_shared_before_others_leaves_them_their_places() -> None:
    with CheckpointManager() as manager:
        agent = Agent()
        for number in range(3):
            agent.hear(text(number))
        before = manager.save("k", agent)
        first = Message("first of all")
        agent.notes += [first, first]
        after = manager.save("k", agent)
        changed = {change.path for change in manager.client.diff(before, after).changes}
        assert not [path for path in changed if path.startswith(("messages", "log"))]


@pytest.mark.parametrize("removed", [0, 1])
def test_a_number_is_not_used_again_beside_what_has_it(removed: int) -> None:
    with CheckpointManager() as manager:
        agent = Agent()
        for number in range(3):
            agent.hear(text(number))
        manager.save("k", agent)
        del agent.messages[removed], agent.log[removed]
        for number in range(3, 6):
            agent.hear(text(number))
            manager.save("k", agent)
            loaded = manager.load("k", Agent())
            assert loaded.messages == agent.messages
            assert all(map(lambda one, other: one is other, loaded.messages, loaded.log))


def test_parts_that_are_shared_by_shared_parts_alone() -> None:
    agent, inner = Agent(), Loop("inner")
    outer = Loop("outer", [inner, inner])
    inner.others.append(outer)
    agent.messages, agent.log = [outer], [outer]  # type: ignore[list-item]
    state, _ = graph_of(woven(agent))
    [found] = state["messages"]
    assert found is state["log"][0]
    assert found.others[0] is found.others[1]
    assert found.others[0].others == [found]
