"""Fields that are properties may give a new value at each look: one save takes one of them."""

from __future__ import annotations

from typing import Any

import pytest

from lastgood import Checkpointable, CheckpointManager


class Fresh(Checkpointable):
    """With a property that gives what nobody else holds."""

    def __init__(self) -> None:
        self._asked = 0
        self._set: Any = None
        self.others: list[Any] = []

    @property
    def value(self) -> Any:
        self._asked += 1
        return self._make()

    @value.setter
    def value(self, value: Any) -> None:
        self._set = value

    def _make(self) -> Any:
        return {"__class__": "Fresh", "__version__": "1.0"}

    def _checkpoint_fields(self) -> list[str]:
        return ["value", "others"]


class Paired(Fresh):
    """The same value in two places of what is given."""

    def _make(self) -> Any:
        both = [self._asked]
        return [both, both]


def loaded(agent: Fresh) -> Any:
    manager = CheckpointManager()
    manager.save("k", agent)
    return manager.load("k", type(agent)())


def test_a_dict_that_looks_like_an_object_is_data_there_too() -> None:
    agent = Fresh()
    agent.others = [Fresh() for _ in range(20)]
    found = loaded(agent)
    assert [each._set for each in (found, *found.others)] == [agent.value] * 21
    found.load_state_dict(agent.state_dict())
    assert [each._set for each in (found, *found.others)] == [agent.value] * 21


def test_what_it_shares_is_shared() -> None:
    agent = Paired()
    agent.others = [Paired() for _ in range(20)]
    found = loaded(agent)
    for each in [found, *found.others]:
        assert each._set[0] is each._set[1]


@pytest.mark.parametrize("act", [Fresh.state_dict, Fresh.clone, loaded])
def test_it_is_asked_once(act: Any) -> None:
    agent = Fresh()
    act(agent)
    assert agent._asked == 1
