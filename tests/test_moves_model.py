"""Saves, forks, rewinds, undos, switches, handoffs and removals in any order, against a model.

The model knows lanes, branches and parents. After every step the store must follow the same
branch with the same head, and nothing that was acknowledged may have become unreachable.
"""

from __future__ import annotations

import tempfile
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pytest
from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import (
    RuleBasedStateMachine,
    invariant,
    precondition,
    rule,
    run_state_machine_as_test,
)

from lastgood import BlockingClient, CheckpointNotFoundError, Header
from lastgood.testing import harness_for
from lastgood.testing.suite import contract_schemes, server_marks

agents = st.sampled_from(["a", "a", "b"])
picks = st.integers(0, 10**6)


@dataclass
class Node:
    id: str
    agent: str
    parent: Node | None
    value: Any
    removed: bool = False


@dataclass
class Lane:
    current: str = "main"
    heads: dict[str, Node | None] = field(default_factory=dict)
    log: list[tuple[str, str]] = field(default_factory=list)

    def follow(self, branch: str) -> None:
        if branch != self.current:
            self.log.append((self.current, branch))
            self.current = branch


class Machine(RuleBasedStateMachine):
    scheme = ""

    def __init__(self) -> None:
        super().__init__()
        self.place = tempfile.TemporaryDirectory()
        self.harness = harness_for(self.scheme, Path(self.place.name))
        self.harness.reuse()
        self.clients = [BlockingClient.on(self.harness.backend()) for _ in range(2)]
        self.nodes: list[Node] = []
        self.lanes: dict[str, Lane] = {}
        self.turn = 0

    def teardown(self) -> None:
        for client in self.clients:
            client.close()
        self.harness.close()
        self.place.cleanup()

    @property
    def client(self) -> BlockingClient:
        self.turn += 1
        return self.clients[self.turn % 2]

    def alive(self) -> list[Node]:
        return [node for node in self.nodes if not node.removed]

    def chosen(self, pick: int) -> Node:
        alive = self.alive()
        return alive[pick % len(alive)]

    def add(self, id: str, agent: str, parent: Node | None, value: Any, *, move: bool) -> None:
        """A checkpoint as the store has it: on the branch it says, which must be a right one."""
        header = self.client.resolve(id)
        assert header.agent_id == agent
        assert header.parent_id == (parent.id if parent else None)
        node = Node(id, agent, parent, value)
        self.nodes.append(node)
        lane = self.lanes.setdefault(agent, Lane(header.branch))
        lane.heads[header.branch] = node
        if move:
            lane.follow(header.branch)

    # what is done

    @rule(agent=agents, value=st.integers(0, 9))
    def save(self, agent: str, value: int) -> None:
        lane = self.lanes.get(agent, Lane())
        head = lane.heads.get(lane.current)
        id = self.client.save(agent, session_id="s", execution_state={"v": value})
        self.add(id, agent, head, {"v": value}, move=False)
        assert self.client.resolve(id).branch == lane.current

    @precondition(lambda self: self.alive())
    @rule(pick=picks, edit=st.none() | st.integers(10, 19), switch=st.booleans())
    def fork(self, pick: int, edit: int | None, switch: bool) -> None:
        source = self.chosen(pick)
        edits = None if edit is None else {"v": edit}
        id = self.client.fork(source.id, edits=edits, switch=switch)
        assert self.client.resolve(id).branch not in self.lanes[source.agent].heads
        self.add(id, source.agent, source, edits or source.value, move=switch)

    @precondition(lambda self: self.alive())
    @rule(pick=picks)
    def rewind(self, pick: int) -> None:
        target = self.chosen(pick)
        lane = self.lanes[target.agent]
        left = lane.current
        move = self.client.rewind("s", target.id)
        assert move.head is not None
        assert (move.left, move.agent_id) == (left, target.agent)
        assert move.branch not in lane.heads
        self.add(move.head.checkpoint_id, target.agent, target, target.value, move=True)

    @precondition(lambda self: self.lanes)
    @rule(pick=picks)
    def undo(self, pick: int) -> None:
        agent = sorted(self.lanes)[pick % len(self.lanes)]
        lane = self.lanes[agent]
        if not lane.log:
            with pytest.raises(CheckpointNotFoundError, match="nothing to undo"):
                self.client.undo("s", agent_id=agent)
            return
        lane.follow(lane.log[-1][0])
        assert self.client.undo("s", agent_id=agent).branch == lane.current

    @precondition(lambda self: self.lanes)
    @rule(pick=picks)
    def undo_twice(self, pick: int) -> None:
        agent = sorted(self.lanes)[pick % len(self.lanes)]
        if self.lanes[agent].log:
            before = self.lanes[agent].current
            self.undo(pick)
            self.undo(pick)
            assert self.lanes[agent].current == before

    @precondition(lambda self: self.lanes)
    @rule(pick=picks, which=picks)
    def switch(self, pick: int, which: int) -> None:
        agent = sorted(self.lanes)[pick % len(self.lanes)]
        lane = self.lanes[agent]
        branch = sorted(lane.heads)[which % len(lane.heads)]
        move = self.client.switch("s", branch, agent_id=agent)
        assert (move.left, move.branch) == (lane.current, branch)
        lane.follow(branch)

    @precondition(lambda self: self.alive())
    @rule(pick=picks, to=agents)
    def handoff(self, pick: int, to: str) -> None:
        source = self.chosen(pick)
        id = self.client.handoff(source.id, to)
        self.add(id, to, source, source.value, move=True)

    @rule(agent=agents)
    def start_over(self, agent: str) -> None:
        id = self.client.save(agent, session_id="s", execution_state={"v": -1}, parent_id=None)
        self.add(id, agent, None, {"v": -1}, move=True)

    @precondition(lambda self: self.alive())
    @rule(pick=picks)
    def expire(self, pick: int) -> None:
        node = self.chosen(pick)
        assert self.client.expire(node.id) is True
        before = self.before(node)
        node.removed = True
        for name, head in self.lanes[node.agent].heads.items():
            if head is node:
                self.lanes[node.agent].heads[name] = before

    def before(self, node: Node) -> Node | None:
        """The nearest ancestor that was not removed, if the way to it stays in the lane."""
        parent = node.parent
        while parent is not None and parent.agent == node.agent and parent.removed:
            parent = parent.parent
        return parent if parent is not None and parent.agent == node.agent else None

    # what must hold

    @invariant()
    def every_lane_follows_its_branch(self) -> None:
        if not self.lanes:
            return
        found = {(b.agent_id, b.name): b for b in self.client.branches("s")}
        expected = {(agent, name) for agent, lane in self.lanes.items() for name in lane.heads}
        assert set(found) == expected
        for agent, lane in self.lanes.items():
            for name, head in lane.heads.items():
                info = found[agent, name]
                assert info.current == (name == lane.current)
                assert (info.head.checkpoint_id if info.head else None) == (head and head.id)
            head = lane.heads[lane.current]
            latest = self.client.latest(agent_id=agent, session_id="s")
            assert (latest and latest.checkpoint_id) == (head and head.id)
            assert (latest and latest.state) == (head and head.value)

    @invariant()
    def nothing_is_unreachable(self) -> None:
        if not self.lanes:
            return
        reached: set[str] = set()
        for branch in self.client.branches("s"):
            if branch.head is not None and branch.head.checkpoint_id not in reached:
                reached |= self.line(branch.head.checkpoint_id)
        assert reached == {node.id for node in self.alive()}

    def line(self, id: str) -> set[str]:
        page = self.client.walk(id, limit=7)
        found = list(page)
        while page.next is not None:
            page = self.client.walk(id, limit=7, after=page.next)
            found += page
        return {each.checkpoint_id for each in found if isinstance(each, Header)}

    @invariant()
    def the_log_is_in_order(self) -> None:
        found = list(self.client.log("s", limit=500))
        assert [h.checkpoint_id for h in found] == [node.id for node in self.alive()][::-1]
        seqs = [header.seq for header in found]
        assert seqs == sorted(set(seqs), reverse=True)


@pytest.mark.parametrize(
    "scheme", [pytest.param(name, marks=server_marks(name)) for name in contract_schemes()]
)
def test_moves_in_any_order(scheme: str) -> None:
    machine = type("Moves", (Machine,), {"scheme": scheme})
    run_state_machine_as_test(
        machine, settings=settings(max_examples=10, stateful_step_count=20, deadline=None)
    )
