"""Classes of inner objects that have changed since the save: their versions and their names."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import pytest

from lastgood import (
    BlockingClient,
    Checkpointable,
    CheckpointManager,
    SchemaMigrationError,
    SerializationError,
    register_migration,
)


class Graded(Checkpointable):
    version = "1.0"

    def __init__(self, score: int = 1) -> None:
        self.score = score

    def _checkpoint_version(self) -> str:
        return self.version


class Itself(Graded):
    """Takes its state as it was given."""

    def load_state_dict(self, state: Any, *, strict: bool | None = None) -> None:
        self.score = state["score"]


class Team(Checkpointable):
    def __init__(self, *parts: Any) -> None:
        self.parts = list(parts)
        self.data = {"__class__": "Graded", "__version__": "1.0", "score": 1}


class TestVersions:
    @pytest.fixture
    def manager(self, monkeypatch: pytest.MonkeyPatch) -> CheckpointManager:
        """A team that was saved, and whose members have a new version since."""
        manager = CheckpointManager()
        member = Graded(7)
        manager.save("k", Team(member, [member, Itself(5)], Team(Graded(3))))
        manager.save("one", Team(Graded(3)))
        monkeypatch.setattr(Graded, "version", "2.0")
        register_migration(
            "Graded", from_version="1.0", fn=lambda state: {**state, "score": state["score"] * 10}
        )
        return manager

    def test_a_diff_migrates_inner_objects_as_a_load_does(self, manager: CheckpointManager) -> None:
        member = Graded(70)
        team = Team(member, [member, Itself(5)], Team(Graded(30)))
        changed = manager.diff("k", agent=team)["changed"]
        assert changed.keys() == {"parts"}  # the one that takes its state itself
        old, new = changed["parts"]
        assert (old[0], old[2]) == (new[0], new[2])
        assert old[1][1]["__version__"] == "1.0"
        loaded = manager.load("one", Team())
        assert manager.diff("one", agent=loaded) == {"added": {}, "removed": {}, "changed": {}}

    def test_one_that_the_object_has_no_more_is_migrated_too(
        self, manager: CheckpointManager
    ) -> None:
        [(old, new)] = manager.diff("one", agent=Team())["changed"].values()
        assert new == []
        assert (old[0]["score"], old[0]["__version__"]) == (30, "2.0")

    def test_a_step_that_is_missing_is_told(
        self, manager: CheckpointManager, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        monkeypatch.setattr(Graded, "version", "0.5")
        with pytest.raises(SchemaMigrationError, match="Graded"):
            manager.diff("one", agent=Team())


class TestNames:
    @pytest.fixture
    def manager(self) -> Iterator[CheckpointManager]:
        """A team that was saved, and whose members' class has another name since."""
        manager = CheckpointManager()
        manager.save("k", Team(Graded(7), {"a": Graded(8)}))
        Graded.__name__ = "Rated"
        yield manager
        Graded.__name__ = "Graded"

    def test_the_one_in_its_place_is_taken_if_that_is_allowed(
        self, manager: CheckpointManager
    ) -> None:
        first, second = Graded(), Graded()
        found = manager.load("k", Team(first, {"a": second}), strict=False)
        assert found.parts[0] is first
        assert found.parts[1]["a"] is second
        assert (first.score, second.score) == (7, 8)

    @pytest.mark.parametrize("strict", [None, True])
    def test_it_is_an_error_otherwise(self, manager: CheckpointManager, strict: Any) -> None:
        with pytest.raises(SchemaMigrationError, match="holds a Graded, and no class"):
            manager.load("k", Team(Graded(), {"a": Graded()}), strict=strict)

    def test_where_nothing_stands_in_its_place_too(self, manager: CheckpointManager) -> None:
        with pytest.raises(SchemaMigrationError, match="holds a Graded, and no class"):
            manager.load("k", Team(), strict=False)

    def test_an_object_of_a_class_that_is_there_is_made_and_not_put_into_another(self) -> None:
        manager = CheckpointManager()
        manager.save("k", Team(Graded(7)))
        found = manager.load("k", Team(Itself()), strict=False)
        assert type(found.parts[0]) is Graded


@dataclass
class Folder:
    content: Any


@dataclass
class Shelf:
    content: Any


SHARED = ["in two places"]
RESERVED = {"__class__": "Graded"}


class TestDataClassesThatAreGone:
    """They cannot be looked into, and what is in them is saved again as it is."""

    @pytest.fixture
    def manager(self) -> CheckpointManager:
        return CheckpointManager(BlockingClient.memory(cache_bytes=0))

    @pytest.mark.parametrize(
        "wrap", [Folder, lambda content: Folder(Shelf([content]))], ids=["directly", "below"]
    )
    @pytest.mark.parametrize(
        "content",
        [SHARED, Graded(1), RESERVED | {"__version__": 1}, {"__class__": "dict", "__value__": 1}],
        ids=["shared", "object", "like an object", "like an escaped dict"],
    )
    def test_with_words_of_ours(
        self, content: Any, wrap: Any, manager: CheckpointManager, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        manager.save("k", Team(wrap(content), SHARED))
        for cls in (Folder, Shelf):
            monkeypatch.delitem(globals(), cls.__name__)
        with pytest.raises(SerializationError, match=r"test_changed_classes\.Folder with objects"):
            manager.load("k", Team())

    def test_with_a_dict_that_has_our_key(
        self, manager: CheckpointManager, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        """In a state without objects it is data, and stays it in one with them."""
        manager.save("k", Team(Folder(RESERVED), 1))
        monkeypatch.delitem(globals(), "Folder")
        team = manager.load("k", Team())
        manager.save("again", team)
        manager.save("shared", Team(team.parts[0], SHARED, SHARED, Graded(1)))
        monkeypatch.undo()
        assert manager.load("again", Team()).parts == [Folder(RESERVED), 1]
        folder, one, two, _ = manager.load("shared", Team()).parts
        assert (folder, one is two) == (Folder(RESERVED), True)

    def test_with_other_things(
        self, manager: CheckpointManager, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        folder = Folder({"text": "self.__class__ and lastgood.shared"})
        manager.save("k", Team(folder, Graded(1)))
        monkeypatch.delitem(globals(), "Folder")
        manager.save("again", manager.load("k", Team()))
        monkeypatch.undo()
        assert manager.load("again", Team()).parts[0] == folder
