"""Values of the cross-thread store that were changed outside: told, and removable."""

import pytest

from lastgood.adapters.langgraph import LastgoodStore
from lastgood.adapters.langgraph.keeping import spelled
from lastgood.client import BlockingClient, Client
from lastgood.errors import CheckpointIntegrityError
from lastgood.testing.harness import BackendHarness


@pytest.fixture
def store(client: Client) -> LastgoodStore:
    return LastgoodStore(client)


class TestDamage:
    """Of what lies in a namespace, nothing is left out because it is damaged."""

    @pytest.fixture(autouse=True)
    def values(self, store: LastgoodStore) -> None:
        for user in ("ann", "bob"):
            store.put(("users", user), "name", {"v": user})

    @pytest.mark.parametrize(("column", "value"), [("value", b"forged"), ("expires_at", 1)])
    def test_of_a_value(
        self, store: LastgoodStore, harness: BackendHarness, column: str, value: object
    ) -> None:
        harness.edit_row("item", spelled(("users", "bob")), column, value)
        fresh = LastgoodStore(Client.on(harness.backend()))
        for prefix in (("users",), ("users", "bob")):
            with pytest.raises(CheckpointIntegrityError, match="bob"):
                fresh.search(prefix)
        assert len(fresh.search(("users", "ann"))) == 1
        assert self.damage(harness) == [("seal", "store:users%2Fbob item items b'name'")]
        fresh.delete(("users", "bob"), "name")
        assert len(fresh.search(("users",))) == 1
        assert self.damage(harness) == []

    def test_of_a_namespace(self, store: LastgoodStore, harness: BackendHarness) -> None:
        harness.edit_row("thread", spelled(("users", "bob")), "title", "forged")
        fresh = LastgoodStore(Client.on(harness.backend()))
        for ask in (lambda: fresh.search(("users",)), fresh.list_namespaces):
            with pytest.raises(CheckpointIntegrityError, match="'users', 'bob'"):
                ask()
        assert len(fresh.search(("users", "ann"))) == 1
        assert self.damage(harness) == [("seal", "store:users%2Fbob")]

    def damage(self, harness: BackendHarness) -> list[tuple[str, str]]:
        report = BlockingClient.on(harness.backend()).verify()
        assert report.threads == 0
        return [(problem.kind, problem.where) for problem in report.problems]
