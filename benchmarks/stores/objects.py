"""Lastgood's door for objects: the state of the workload as the fields of an agent."""

from pathlib import Path

from benchmarks.data import State
from benchmarks.scenarios import Delta
from benchmarks.stores.interface import THREAD, Pragmas, Steps
from benchmarks.stores.spy import spy
from lastgood import Checkpointable, CheckpointManager


class Agent(Checkpointable):
    """Has what the workload gives it."""


class LastgoodManager(Steps):
    """`CheckpointManager.save` after every step, on SQLite."""

    def __init__(self, path: Path) -> None:
        super().__init__(path)
        self._spy = spy()
        self._agent = Agent()
        self._manager = CheckpointManager("sqlite", path)

    def connect(self) -> None:
        self._manager.list_keys()

    def begin(self, state: State) -> None:
        self.step(state, [])

    def step(self, state: State, delta: Delta) -> str:  # noqa: ARG002
        vars(self._agent).update(state)
        return self._manager.save(THREAD, self._agent)

    def restore(self, mark: str | None = None) -> State:
        return vars(self._manager.load(THREAD, Agent(), checkpoint_id=mark))

    def pragmas(self) -> Pragmas:
        return self._spy.pragmas()

    def close(self) -> None:
        self._manager.close()
