"""A damaged checkpoint far back on a line: whoever counts from the tip meets it in its place."""

from __future__ import annotations

import sqlite3
from collections.abc import Callable
from pathlib import Path

import pytest

from lastgood import Checkpointable, CheckpointIntegrityError, CheckpointManager

SAVES = 20


class Agent(Checkpointable):
    def __init__(self) -> None:
        self.step, self.text = 0, "hello"


def change_a_file(path: Path, seq: int) -> None:
    found = sorted(path.glob("threads/default/s/0*.json"))[seq - 1]
    found.write_text(found.read_text().replace("hello", "jello"))


def change_a_row(path: Path, seq: int) -> None:
    connection = sqlite3.connect(path)
    keys = connection.execute("SELECT key FROM lastgood_checkpoint ORDER BY key").fetchall()
    connection.execute(
        "UPDATE lastgood_checkpoint SET step_name = 'forged' WHERE key = ?", keys[seq - 1]
    )
    connection.commit()
    connection.close()


STORES: dict[str, tuple[str, Callable[[Path, int], None]]] = {
    "files": ("file", change_a_file),
    "SQLite": ("sqlite", change_a_row),
}


@pytest.fixture(params=STORES)
def damaged(request: pytest.FixtureRequest, tmp_path: Path) -> Callable[[int], CheckpointManager]:
    """A key with many saves, of which one is damaged."""
    backend, damage = STORES[request.param]

    def make(seq: int) -> CheckpointManager:
        with CheckpointManager(backend, tmp_path / "store") as manager:
            agent = Agent()
            for agent.step in range(1, SAVES + 1):
                manager.save("s", agent)
        damage(tmp_path / "store", seq)
        return CheckpointManager(backend, tmp_path / "store")

    return make


@pytest.mark.parametrize("seq", [1, 7, 14, 18, 19])
def test_only_what_lies_behind_it_is_out_of_reach(
    damaged: Callable[[int], CheckpointManager], seq: int
) -> None:
    with damaged(seq) as manager:
        for nth in range(SAVES - seq):
            assert manager.load("s", Agent(), nth=nth).step == SAVES - nth
            assert manager.client.resolve(f"s@step:{SAVES - 1 - nth}").seq == SAVES - nth
        assert manager.diff("s", agent=manager.load("s", Agent()))["changed"] == {}
        for nth in range(SAVES - seq, SAVES):
            with pytest.raises(CheckpointIntegrityError):
                manager.load("s", Agent(), nth=nth)


def test_a_damaged_tip_is_told(damaged: Callable[[int], CheckpointManager]) -> None:
    with damaged(SAVES) as manager:
        for nth in (0, 1):
            with pytest.raises(CheckpointIntegrityError):
                manager.load("s", Agent(), nth=nth)
