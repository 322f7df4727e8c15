"""The door for objects: what a manager saves comes back, exactly, on any store.

Its methods block; that they work inside a running event loop is part of what is tested.
"""

from __future__ import annotations

import pytest

from lastgood import CheckpointNotFoundError, SchemaMigrationError, SerializationError
from lastgood.testing.cases import case
from lastgood.testing.object_samples import Agent, Note, Worker, manager_on, seen
from lastgood.testing.store import Store


@case()
async def an_object_is_saved_and_loaded(store: Store) -> None:
    """As in the document: two replies, into a new object, after a restart."""
    agent = Agent()
    agent.reply("hello")
    agent.reply("world")
    saved = manager_on(store.client()).save("session_123", agent)
    manager = manager_on(await store.reopen())
    fresh = Agent()
    assert manager.load("session_123", fresh) is fresh
    assert fresh.state_dict() == agent.state_dict()
    assert manager.list_keys() == ["session_123"]
    [entry] = manager.history("session_123", n=5)
    assert entry["id"] == saved
    assert isinstance(entry["ts"], float)


@case()
async def the_client_sees_the_same_checkpoints(store: Store) -> None:
    """A key is a thread, and everything that a client does with threads works on it."""
    client = store.client()
    manager, agent = manager_on(client), Agent()
    first = manager.save("s", agent)
    agent.reply("x")
    manager.save("s", agent)
    assert [header.seq for header in await client.log("s")] == [2, 1]
    await client.rewind("s", first)
    assert manager.load("s", Agent()).memory == []
    found = await client.latest(agent_id="object", session_id="s")
    assert found is not None
    assert found.state["__class__"] == "Agent"


@case()
async def history_goes_back_from_the_newest(store: Store) -> None:
    """`nth` and ids name what `history` lists; a number too far back is not found."""
    manager, agent = manager_on(store.client()), Agent()
    ids = []
    for number in range(5):
        agent.reply(str(number))
        ids.append(manager.save("s", agent))
    assert [entry["id"] for entry in manager.history("s")] == ids[::-1]
    assert [entry["id"] for entry in manager.history("s", 2)] == ids[:2:-1]
    counts = [manager.load("s", Agent(), nth=nth).call_count for nth in range(5)]
    assert counts == [5, 4, 3, 2, 1]
    assert manager.load("s", Agent(), checkpoint_id=ids[1]).call_count == 2
    with pytest.raises(CheckpointNotFoundError, match="has 5 checkpoints, and nth=5"):
        manager.load("s", Agent(), nth=5)
    with pytest.raises(TypeError):
        manager.load("s", Agent(), nth=0, checkpoint_id=ids[0])
    with pytest.raises(ValueError, match="nth"):
        manager.load("s", Agent(), nth=-1)


@case()
async def what_is_not_there_is_a_key_error(store: Store) -> None:
    """Unknown keys, and ids that belong to another key; the object stays as it was."""
    manager, agent = manager_on(store.client()), Agent()
    other = manager.save("other", agent)
    agent.reply("kept")
    before = seen(agent)
    with pytest.raises(KeyError, match=r"nothing is saved under the key 'missing'.*'other'"):
        manager.load("missing", agent)
    with pytest.raises(KeyError, match="belongs to 'other'"):
        manager.load("missing", agent, checkpoint_id=other)
    assert manager.history("missing") == []
    assert manager.delete("missing") is False
    assert agent.state_dict() == before


STRANGE_KEYS = ("a/b", "../up", "A", "a", "x@2", "50%", "Ärger", " ", ".", "con", "k" * 255)


@case()
async def keys_are_any_names(store: Store) -> None:
    """Whatever a file system or an address would make of them."""
    manager = manager_on(store.client())
    for number, key in enumerate(STRANGE_KEYS):
        agent = Agent()
        agent.call_count = number
        manager.save(key, agent)
    assert manager.list_keys() == sorted(STRANGE_KEYS)
    for number, key in enumerate(STRANGE_KEYS):
        assert manager.load(key, Agent()).call_count == number
        assert manager.delete(key) is True
    assert manager.list_keys() == []


@case()
async def a_thread_of_runs_is_no_key(store: Store) -> None:
    """Who deletes a key that is not there takes nothing away from the agent of that name."""
    client = store.client()
    manager = manager_on(client)
    await client.save("clerk", session_id="s", execution_state={"n": 1})
    assert manager.delete("s") is False
    assert len(await client.log("s")) == 1
    manager.client.expire(manager.save("s", Agent()))
    assert manager.delete("s") is True
    assert len(await client.log("s")) == 0


@case()
async def a_load_leaves_exactly_the_saved_fields(store: Store) -> None:
    """Attributes added since go, removed ones come back, private ones are nobody's business."""
    manager, agent = manager_on(store.client()), Agent()
    agent.config = {"retries": (1, {2}), 3: "three"}
    manager.save("s", agent)
    before, private = seen(agent), agent._client
    agent.reply("x")
    agent.plan = "added since"  # type: ignore[attr-defined]
    del agent.config
    manager.load("s", agent)
    assert agent.state_dict() == before
    assert not hasattr(agent, "plan")
    assert agent._client is private


@case()
async def a_load_that_fails_changes_nothing(store: Store) -> None:
    """Another class, strict fields that differ, a slot that is not there."""
    manager, agent = manager_on(store.client()), Agent()
    manager.save("agent", agent)
    worker = Worker()
    before = worker.done
    with pytest.raises(SchemaMigrationError, match=r"class Agent.*into class Worker"):
        manager.load("agent", worker)
    with pytest.raises(SchemaMigrationError, match="no place for the stored field"):
        manager.load("agent", worker, strict=False)
    agent.extra = 1  # type: ignore[attr-defined]
    with pytest.raises(SchemaMigrationError, match="extra"):
        manager.load("agent", agent, strict=True)
    assert worker.done is before
    assert agent.extra == 1  # type: ignore[attr-defined]


@case()
async def objects_inside_objects_come_back(store: Store) -> None:
    """In their places, shared where they were shared, leading back where they led back."""
    agent, worker, note = Agent(), Worker(), Note("n")
    worker.owner = agent
    note.about = [worker, agent.memory]
    agent.memory = [worker, note, note, {"w": (worker,)}, agent.config]
    manager_on(store.client()).save("s", agent)
    found = manager_on(await store.reopen()).load("s", Agent())
    first, second, third, fourth, config = found.memory
    assert type(first) is Worker
    assert first.owner is found
    assert second is third
    assert second.about[0] is fourth["w"][0] is first
    assert config is found.config
    assert first.done == []


@case()
async def an_object_in_its_place_is_loaded_in_place(store: Store) -> None:
    """So it keeps what is no state of it."""
    manager, agent, worker = manager_on(store.client()), Agent(), Worker()
    agent.config["worker"] = worker
    manager.save("s", agent)
    worker.done.append("since")
    lock = worker._lock
    manager.load("s", agent)
    assert agent.config["worker"] is worker
    assert (worker.done, worker._lock) == ([], lock)


@case()
async def tenants_have_keys_of_their_own(store: Store) -> None:
    """A manager sees what its client sees."""
    agent = Agent()
    manager_on(store.client(tenant="one")).save("s", agent)
    other = manager_on(store.client(tenant="two"))
    assert other.list_keys() == []
    with pytest.raises(KeyError):
        other.load("s", agent)


@case()
async def what_cannot_be_kept_is_named(store: Store) -> None:
    """With its path and the ways out; nothing is written."""
    manager, agent = manager_on(store.client()), Agent()
    agent.config["callback"] = len
    with pytest.raises(SerializationError, match=r"config\.callback") as error:
        manager.save("s", agent)
    assert "_checkpoint_skip()" in error.value.hint
    assert manager.list_keys() == []


@case()
async def writers_at_once_lose_nothing(store: Store) -> None:
    """Saves under one key from many sides end in one line."""
    manager = manager_on(store.client())

    async def save(number: int) -> str:
        agent = Agent()
        agent.call_count = number
        return await manager._keeper.save_async("s", agent)

    ids = await store.together([lambda n=n: save(n) for n in range(8)])  # type: ignore[misc]
    assert {entry["id"] for entry in manager.history("s")} == set(ids)
    assert {manager.load("s", Agent(), nth=n).call_count for n in range(8)} == set(range(8))
