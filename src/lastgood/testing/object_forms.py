"""States of objects in other forms: older versions, differences, pickles, on any store."""

from __future__ import annotations

from typing import Any

import pytest

from lastgood import (
    Checkpointable,
    CheckpointIntegrityError,
    IncompatibleCheckpointError,
    SchemaMigrationError,
    WrongKeyError,
    register_migration,
)
from lastgood.testing.cases import case
from lastgood.testing.object_samples import Agent, manager_on
from lastgood.testing.store import Store

KEY = b"a key of the contract suite"


class Scored(Checkpointable):
    """A class at its third version."""

    score: int

    def _checkpoint_version(self) -> str:
        return "3.0"


class Strange:
    """A class that only pickle can keep."""

    def __init__(self, value: object) -> None:
        self.value = value


class Bomb:
    """Says so when it is unpickled."""

    exploded = 0

    def __reduce__(self) -> Any:
        return _explode, ()


def _explode() -> None:
    Bomb.exploded += 1


def _renamed(state: dict[str, Any]) -> dict[str, Any]:
    state["score"] = state.pop("points") * 10
    return state


def _doubled(state: dict[str, Any]) -> dict[str, Any]:
    return {**state, "score": state["score"] * 2}


@case()
async def old_states_are_migrated(store: Store) -> None:
    """Step by step, at every load; what is stored stays as it is; a missing step is named."""
    client = store.client()
    manager = manager_on(client)
    register_migration("Scored", from_version="1.0", fn=_renamed)
    register_migration("Scored", from_version="2.0", fn=_doubled)
    old = {"points": 1, "__version__": "1.0", "__class__": "Scored"}
    await client.save("object", session_id="s", execution_state=old)
    inside = {"w": [old], "__version__": "1.0", "__class__": "Agent", "__shared__": {}}
    await client.save("object", session_id="inside", execution_state=inside)
    for _ in range(2):
        assert manager.load("s", Scored()).score == 20
    assert manager.load("inside", Agent()).w[0].score == 20  # type: ignore[attr-defined]
    same = Scored()
    same.score = 20
    assert manager.diff("s", agent=same)["changed"] == {}
    await client.save("object", session_id="s", execution_state={**old, "__version__": "0.9"})
    with pytest.raises(SchemaMigrationError, match=r"the step from 0\.9 is missing"):
        manager.load("s", same)
    await client.save("object", session_id="s", execution_state={**old, "__version__": "4.0"})
    with pytest.raises(SchemaMigrationError, match="newer than the class"):
        manager.load("s", same)
    assert same.score == 20


@case()
async def states_are_compared_by_field(store: Store) -> None:
    """With an object, or with one another; the older one first."""
    manager, agent = manager_on(store.client()), Agent()
    agent.call_count = 5
    one = manager.save("s", agent)
    agent.call_count, agent.plan = 10, "new"  # type: ignore[attr-defined]
    two = manager.save("s", agent)
    del agent.config
    changed = {"added": {"plan": "new"}, "removed": {}, "changed": {"call_count": (5, 10)}}
    assert manager.diff("s", checkpoint_id_a=one, checkpoint_id_b=two) == changed
    assert manager.diff("s", checkpoint_id_a=one) == changed
    assert manager.diff("s", agent=agent) == {"added": {}, "removed": {"config": {}}, "changed": {}}
    with pytest.raises(TypeError):
        manager.diff("s")


@case()
async def pickles_keep_any_object(store: Store) -> None:
    """In the same store, with the same history, what is shared included."""
    manager, agent = manager_on(store.client(), fmt="pickle", key=KEY), Agent()
    shared = Strange(agent.memory)
    agent.config = {"a": shared, "b": [shared]}
    agent.reply("x")
    manager.save("s", agent)
    found = manager_on(await store.reopen(), fmt="pickle", key=KEY).load("s", Agent())
    assert found.config["b"][0] is found.config["a"]
    assert found.config["a"].value is found.memory
    assert found.memory == ["x"]


@case()
async def pickles_of_others_are_not_read(store: Store) -> None:
    """Signed with another key, changed since, or met by a manager that did not ask for pickles."""
    client = store.client()
    manager, agent = manager_on(client, fmt="pickle", key=KEY), Agent()
    agent.config["bomb"] = Bomb()
    saved = manager.save("s", agent)
    with pytest.raises(WrongKeyError, match="signed with another key"):
        manager_on(client, fmt="pickle", key=KEY[::-1]).load("s", Agent())
    with pytest.raises(IncompatibleCheckpointError, match=r'fmt="pickle"'):
        manager_on(client).load("s", Agent())
    state = (await client.restore(saved)).state
    state["__pickle__"]["data"] += b"."
    await client.save("object", session_id="s", execution_state=state)
    with pytest.raises(CheckpointIntegrityError, match="changed after it was signed"):
        manager.load("s", Agent())
    assert Bomb.exploded == 0
