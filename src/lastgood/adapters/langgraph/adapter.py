"""Snapshots of a graph as checkpoints of the client, for those who save by hand.

Needs nothing private: what `extract` makes, `client.put` stores and `client.restore` gives back.
"""

from __future__ import annotations

from collections.abc import Mapping
from datetime import timedelta
from typing import Any

from langgraph.types import PregelTask, StateSnapshot

from lastgood.checkpoints import Checkpoint, CheckpointBuilder
from lastgood.errors import AdapterError, an
from lastgood.model import Framework

_FIELDS = ("values", "next", "config", "metadata", "created_at", "parent_config", "tasks")


class LangGraphAdapter:
    """Turns a `StateSnapshot` into a `Checkpoint` and back."""

    def extract(
        self,
        snapshot: StateSnapshot,
        agent_id: str,
        *,
        session_id: str | None = None,
        parent_id: str | None = None,
        step_name: str | None = None,
        context: Mapping[str, Any] | None = None,
        ttl_seconds: float | timedelta | None = None,
        **metadata: Any,
    ) -> Checkpoint:
        """A checkpoint with everything of a snapshot, tasks and interrupts included.

        The thread is that of the snapshot, if no other is given. Raises AdapterError for anything
        but a snapshot.
        """
        if not isinstance(snapshot, StateSnapshot):
            raise AdapterError(
                f"extract takes the snapshot of a graph, not {an(type(snapshot).__name__)}.",
                hint="Pass what app.get_state(config) returns.",
            )
        thread = session_id or _named(snapshot.config).get("thread_id")
        step = (snapshot.metadata or {}).get("step", 0)
        name = step_name or ", ".join(snapshot.next) or "end"
        made = CheckpointBuilder(agent_id, Framework.LANGGRAPH)
        made.step(max(0, step), name[:200]).execution_state(_taken(snapshot))
        made.context(context or {}).tag(**metadata)
        if thread is not None:
            made.session(str(thread))
        if parent_id is not None:
            made.parent(parent_id)
        if ttl_seconds is not None:
            made.ttl(ttl_seconds)
        return made.build()

    def reconstruct(self, checkpoint: Checkpoint) -> dict[str, Any]:
        """The parts of the snapshot that a checkpoint was extracted from.

        `values` is the state of the graph, `next` its pending nodes, `config` what to resume with,
        `tasks` and `interrupts` what it waits for. Raises AdapterError for another checkpoint.
        """
        state = checkpoint.state
        if not isinstance(state, Mapping) or not {*_FIELDS} <= state.keys():
            raise AdapterError(
                f"checkpoint {checkpoint.checkpoint_id} was not made from a snapshot of a graph.",
                hint="What a graph saved by itself is read through its checkpointer.",
            )
        tasks: tuple[PregelTask, ...] = state["tasks"]
        return {
            **{name: state[name] for name in _FIELDS},
            "interrupts": tuple(i for task in tasks for i in task.interrupts),
            "thread_id": _named(state["config"]).get("thread_id"),
            "checkpoint_id": checkpoint.checkpoint_id,
            "agent_context": dict(checkpoint.agent_context),
        }


def _taken(snapshot: StateSnapshot) -> dict[str, Any]:
    return {
        "values": snapshot.values,
        "next": snapshot.next,
        "config": _plain(snapshot.config),
        "metadata": snapshot.metadata,
        "created_at": snapshot.created_at,
        "parent_config": _plain(snapshot.parent_config),
        "tasks": tuple(map(_task, snapshot.tasks)),
    }


def _task(task: PregelTask) -> PregelTask:
    """A task without what cannot be kept: of an error the text, of a subgraph its config."""
    error = repr(task.error) if isinstance(task.error, BaseException) else task.error
    state = task.state.config if isinstance(task.state, StateSnapshot) else task.state
    return task._replace(error=error, state=_plain(state))  # type: ignore[arg-type]


def _named(config: Any) -> Mapping[str, Any]:
    return (config or {}).get("configurable") or {}


def _plain(config: Any) -> Any:
    """A config without the objects of a run that is under way."""
    if config is None:
        return None
    plain = (str, int, float, bool, type(None), dict)
    return {
        "configurable": {
            key: value
            for key, value in _named(config).items()
            if isinstance(value, plain) and not key.startswith("__")
        }
    }
