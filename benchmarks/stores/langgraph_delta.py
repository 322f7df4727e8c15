"""LangGraph with a DeltaChannel (beta): the writes of a step, and a snapshot now and then.

Driven as its loop does it: the new messages go in with `put_writes` on the parent, then a
checkpoint without the channel; every hundredth has a snapshot of the whole list.
"""

from collections.abc import Sequence
from pathlib import Path
from typing import Any
from uuid import uuid4

from benchmarks.data import State
from benchmarks.scenarios import Delta
from benchmarks.stores.interface import THREAD, Steps
from benchmarks.stores.langgraph import Saver, checkpoint, config_of, metadata

CHANNEL = "messages"
SNAPSHOT = 100
"""The channel's default `snapshot_frequency`."""


def _joined(state: list[Any], writes: Sequence[list[Any]]) -> list[Any]:
    return [*state, *(message for added in writes for message in added)]


class LanggraphDelta(Saver, Steps):
    """LangGraph's SqliteSaver with a DeltaChannel for the messages."""

    def __init__(self, path: Path) -> None:
        super().__init__(path)
        self.learn()

    def learn(self) -> None:
        """Get hold of the class of snapshots."""
        from langgraph.checkpoint.serde.types import _DeltaSnapshot

        self._snapshot = _DeltaSnapshot

    def begin(self, state: State) -> None:
        self._step = 0
        self._config = config_of(THREAD)
        self._put({CHANNEL: self._snapshot(list(state[CHANNEL]))})

    def step(self, state: State, delta: Delta) -> str:
        self._step += 1
        [(_, channel, added)] = delta
        self.saver.put_writes(self._config, [(channel, added)], str(uuid4()))
        due = self._step % SNAPSHOT == 0
        return self._put({CHANNEL: self._snapshot(state[CHANNEL])} if due else {})

    def _put(self, values: State) -> str:
        since = self._step % SNAPSHOT
        about = {**metadata(self._step), "counters_since_delta_snapshot": {CHANNEL: [since, since]}}
        version = {CHANNEL: self.version(self._step + 1)}
        made = checkpoint(values, self._step, version)
        self._config = self.saver.put(self._config, made, about, version)
        return str(self._config["configurable"]["checkpoint_id"])

    def restore(self, mark: str | None = None) -> State:
        from langgraph.channels.delta import DeltaChannel
        from langgraph.pregel._checkpoint import channels_from_checkpoint

        found = self.saver.get_tuple(config_of(THREAD, mark))
        channels, _ = channels_from_checkpoint(
            {CHANNEL: DeltaChannel(_joined, list)},
            found.checkpoint,
            saver=self.saver,
            config=found.config,
        )
        return {CHANNEL: channels[CHANNEL].get()}
