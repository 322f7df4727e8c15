"""A state that fits most agents: the conversation, a summary of what was cut, where a graph stands.

For who has no class of their own. Any dataclass, pydantic model or dict is as good a state.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any, Literal

from lastgood.codec import register
from lastgood.messages import Message

Status = Literal["running", "interrupted_before", "interrupted_after", "completed", "error"]


@register
@dataclass(slots=True)
class ExecutionState:
    """Where the graph of an agent stands."""

    current_node: str = "__start__"
    """The name of the node at which the graph stands."""
    step: int = 0
    """The number of the step."""
    status: Status = "running"
    """`running`, `interrupted_before`, `interrupted_after`, `completed` or `error`."""
    interrupted_node: str | None = None
    """The name of the node at which the graph was interrupted, if it was."""
    interrupt_reason: str | None = None
    """Why the graph was interrupted."""
    interrupt_data: dict[str, Any] | None = None
    """Further data about the interruption."""
    internal_data: dict[str, Any] = field(default_factory=dict)
    """Data for the internal use of whatever runs the graph."""


@register
@dataclass
class AgentState:
    """A state that fits most agents; derive from it to add fields."""

    context: list[Message] = field(default_factory=list)
    """The messages that the model sees."""
    context_summary: str | None = None
    """A summary of the messages that were cut from `context`."""
    execution_meta: ExecutionState = field(default_factory=ExecutionState)
    """Where the agent's graph stands."""
