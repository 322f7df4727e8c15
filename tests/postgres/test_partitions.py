"""Tables that an administrator has partitioned by thread, as docs/explanation/scale.md says."""

from collections.abc import Iterator
from typing import Any
from uuid import uuid4

import psycopg
import pytest

from lastgood import BlockingClient, CheckpointConflictError
from lastgood.backends.postgres import schema as tables
from lastgood.backends.remote.backend import no_failpoint
from lastgood.testing.store import core_of

pytestmark = pytest.mark.server("postgres")

SPLIT = {"checkpoint": "(thread, seq))", "part": "(thread, stream, number))"}
SPLIT["item"] = "(thread, shelf, key))"
MESSAGES = [f"message {n} " * 20 for n in range(100)]


def partitioned(schema: str) -> Iterator[str]:
    """What `lastgood db sql` prints, with the changes that it takes."""
    for text in tables.statements(schema):
        made = text.replace("checkpoint (tenant, id)", "checkpoint (tenant, id, thread)")
        for key in SPLIT.values():
            made = made.replace(key, f"{key} PARTITION BY HASH (thread)")
        yield made
    for name in SPLIT:
        for part in range(2):
            values = f"FOR VALUES WITH (MODULUS 2, REMAINDER {part})"
            yield f"CREATE TABLE {schema}.{name}_{part} PARTITION OF {schema}.{name} {values}"


@pytest.fixture
def clients(postgres_url: str, schema: str) -> Iterator[list[Any]]:
    with psycopg.connect(postgres_url, autocommit=True) as connection:
        for text in partitioned(schema):
            connection.execute(text)
    made = [BlockingClient.postgres(postgres_url, schema=schema) for _ in range(2)]
    yield made
    for client in made:
        client.close()


def saved(client: Any, *more: str, **options: Any) -> str:
    state = {"messages": [*MESSAGES, *more]}
    return str(client.save("a", session_id="s", execution_state=state, **options))


def test_two_lines_grow_from_the_same_pages(clients: list[Any]) -> None:
    """The second one finds the numbers of its parts taken."""
    first, second = clients
    root = saved(first)
    ids = [saved(first, "x" * 3000, parent_id=root), saved(second, "y" * 3000, parent_id=root)]
    assert [len(second.restore(id).state["messages"]) for id in ids] == [101, 101]
    assert len(first.branches("s")) == 2
    assert first.verify(data=True).clean


def test_an_id_stands_for_one_checkpoint_of_a_thread(clients: list[Any]) -> None:
    first, second = clients
    id = saved(first)
    assert saved(second, checkpoint_id=id) == id
    with pytest.raises(CheckpointConflictError):
        saved(second, "other", checkpoint_id=id)


def test_an_id_that_two_threads_took_at_once_hurts_neither(
    clients: list[Any], postgres_url: str, schema: str
) -> None:
    """Nothing keeps them from it: the index of ids has the thread in it."""
    first, second = clients
    id = str(uuid4())
    for name in ("s", "t"):
        first.save("a", session_id=name, execution_state={"n": 0})

    def meanwhile(point: str) -> None:
        core_of(second).backend.failpoint = no_failpoint
        first.save("a", session_id="s", execution_state={"n": 1}, checkpoint_id=id)

    core_of(second).backend.failpoint = meanwhile
    second.save("a", session_id="t", execution_state={"n": 2}, checkpoint_id=id)
    with BlockingClient.postgres(postgres_url, schema=schema) as fresh:
        assert [fresh.latest(session_id=name).state["n"] for name in ("s", "t")] == [1, 2]
        for name in ("s", "t"):
            fresh.save("a", session_id=name, execution_state={"n": 3})
            assert len(fresh.walk(f"{name}@3").items) == 3
            assert [each.checkpoint_id for each in fresh.log(name)][1] == id
