"""Agents that share tuples, lists and objects, rolled back together, one block inside another.

The teams are drawn by number: thousands of them take seconds, and the number of one that failed is
noted on the error.
"""

from __future__ import annotations

import copy
import random
from typing import Any

import pytest
from object_graphs import MAKERS, PLACES, Agent, Slotted, assert_same_graph, state_of

from lastgood import CheckpointManager

KINDS = [*MAKERS, *["dict", "list"] * 2]
ATOMS = [None, 1, "x", 2.5, b"b"]
COUNT = 25
"""So many teams are one test."""


class Failed(Exception):
    """What ends a block."""


class Team:
    """Some agents, and everything that they may hold."""

    def __init__(self, number: int) -> None:
        self.random = random.Random(number)
        self.agents = [Agent() for _ in range(self.random.randint(1, 3))]
        kinds = self.random.choices(KINDS, k=self.random.randint(1, 7))
        self.nodes: list[Any] = [*self.agents, *(MAKERS[kind]() for kind in kinds)]
        self.parts = list(self.nodes)
        for _ in range(self.random.randint(1, 5)):
            self.parts.append(self.tuple())
        for node in self.nodes:
            for _ in range(self.random.randint(0, 4)):
                self.put(node)
        for agent in self.agents:
            agent.rest = self.random.choices(self.parts, k=self.random.randint(1, 5))

    def tuple(self) -> tuple[Any, ...]:
        return tuple(self.part() for _ in range(self.random.randint(1, 3)))

    def part(self) -> Any:
        return self.random.choice(self.parts if self.random.random() < 0.85 else ATOMS)

    def put(self, node: Any) -> None:
        self.random.choice(PLACES[type(node)])(node, self.part())

    def edit(self) -> None:
        """Change something that was there from the beginning, or take it out of its place."""
        node = self.random.choice(self.nodes)
        held = state_of(node)
        if self.random.random() < 0.3:
            self.parts.append(self.tuple())
        if not held or self.random.random() < 0.7:
            self.put(node)
        elif isinstance(node, Agent | Slotted):
            delattr(node, self.random.choice(list(held)))
        elif hasattr(node, "__delitem__"):
            del node[self.random.choice(list(held))]

    def roll_back(self, manager: CheckpointManager, depth: int) -> None:
        """Edit within blocks within a block, each of which raises and leaves no trace."""
        chosen = self.random.sample(self.agents, self.random.randint(1, len(self.agents)))
        before = copy.deepcopy(chosen)
        with pytest.raises(Failed), manager.rollback_context("k", *chosen):  # noqa: PT012
            self.edit()
            self.edit()
            if depth:
                self.roll_back(manager, depth - 1)
            self.edit()
            raise Failed
        assert_same_graph(before, chosen)


def assert_left_as_it_was(manager: CheckpointManager, number: int) -> None:
    team, copied = Team(number), Agent()
    team.roll_back(manager, number % 3)
    first = team.agents[0]
    copied.load_state_dict(first.state_dict())
    assert_same_graph(first, copied)
    assert_same_graph(first, first.clone())
    manager.save("one", first)
    assert_same_graph(first, manager.load("one", Agent()))


@pytest.mark.parametrize(
    "begin",
    [
        number if number < 12 else pytest.param(number, marks=pytest.mark.slow)
        for number in range(40)
    ],
)
def test_a_team(begin: int) -> None:
    managers = [CheckpointManager(), CheckpointManager(fmt="pickle", key=b"0123456789abcdef")]
    for number in range(begin * COUNT, (begin + 1) * COUNT):
        try:
            assert_left_as_it_was(managers[number % 2], number)
        except AssertionError as error:
            error.add_note(f"in team {number}")
            raise
