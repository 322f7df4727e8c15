"""Damage that only PostgreSQL can have: columns without a seal, rows that describe the store."""

from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from lastgood import BlockingClient, CheckpointIntegrityError, Report
from lastgood.testing.postgres_harness import PostgresHarness

pytestmark = pytest.mark.server("postgres")

Ask = Callable[[BlockingClient], object]


class Place(PostgresHarness):
    """A schema of its own, with a thread of three checkpoints."""

    def client(self) -> BlockingClient:
        return BlockingClient.on(self.backend())

    def sql(self, statement: str) -> list[Any]:
        return self._sql(statement.format(at=self.schema))

    def verified(self) -> Report:
        with self.client() as client:
            return client.verify()


@pytest.fixture
def place(postgres_url: str, tmp_path: Path) -> Iterator[Place]:
    made = Place(tmp_path, postgres_url)
    with made.client() as client:
        for number in range(3):
            client.save("a", session_id="s", execution_state={"n": number})
        assert client.verify().clean
    yield made
    made.close()


def test_a_checkpoint_of_another_tenant_than_its_thread(place: Place) -> None:
    ((key,),) = place.sql("SELECT thread FROM {at}.thread")
    place.sql("UPDATE {at}.checkpoint SET tenant = 'x' WHERE seq = 2")
    report = place.verified()
    (problem,) = (each for each in report.problems if each.kind == "index")
    assert (problem.where, problem.checkpoints) == (f"thread #{key}", (f"#{key}@2",))
    assert (report.exit_code, problem.repairable) == (1, True)


def test_a_checkpoint_with_a_number_that_was_never_given_out(place: Place) -> None:
    place.sql("UPDATE {at}.checkpoint SET seq = 99 WHERE seq = 2")
    found = {(problem.kind, problem.where) for problem in place.verified().problems}
    assert {("seal", "s@99"), ("row", "s")} <= found


DESCRIPTIONS: dict[str, tuple[str, Ask]] = {
    "format": ("format", lambda client: client.latest(agent_id="a", session_id="s")),
    "oldest": ("oldest", lambda client: client.latest(agent_id="a", session_id="s")),
    "created_at": ("created_at", lambda client: client.stats()),
}


@pytest.mark.parametrize("name", DESCRIPTIONS)
@pytest.mark.parametrize("change", ["UPDATE {at}.meta SET value = 'x'", "DELETE FROM {at}.meta"])
def test_what_the_store_says_of_itself(place: Place, name: str, change: str) -> None:
    place.sql(f"{change} WHERE name = '{name}'")
    named, ask = DESCRIPTIONS[name]
    with place.client() as client, pytest.raises(CheckpointIntegrityError, match=named) as caught:
        ask(client)
    assert "lastgood verify" in caught.value.hint


def test_the_time_of_its_making_hurts_nobody_else(place: Place) -> None:
    place.sql("UPDATE {at}.meta SET value = 'x' WHERE name = 'created_at'")
    with place.client() as client:
        assert client.restore("s@3").state == {"n": 2}
        (problem,) = client.verify().problems
    assert (problem.kind, problem.where, problem.repairable) == ("row", "store", True)
