"""What a rollback leaves alone: objects, whatever their truth, and what could not be kept."""

from __future__ import annotations

from typing import Any

import pytest

from lastgood import Checkpointable, CheckpointManager


class Agent(Checkpointable):
    def __init__(self, inner: Any = None) -> None:
        self.inner = inner
        self.count = 1


class Empty(Checkpointable):
    """Has nothing in it, and is false for that."""

    def __init__(self) -> None:
        self.facts: list[str] = []
        self._client = object()

    def __len__(self) -> int:
        return len(self.facts)


class Undecided(Empty):
    def __bool__(self) -> bool:
        raise ValueError("ambiguous")


@pytest.mark.parametrize("make", [Empty, Undecided])
def test_the_truth_of_an_inner_object_does_not_matter(make: type[Empty]) -> None:
    inner = make()
    agent, client = Agent([inner]), inner._client
    with pytest.raises(KeyError), CheckpointManager().rollback_context("k", agent):  # noqa: PT012
        agent.inner, agent.count = None, 2
        raise KeyError
    assert agent.inner[0] is inner
    assert (inner._client, agent.count) == (client, 1)
