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
    """Where a graph stands."""

    current_node: str = "__start__"
    step: int = 0
    status: Status = "running"
    interrupted_node: str | None = None
    interrupt_reason: str | None = None
    interrupt_data: dict[str, Any] | None = None
    internal_data: dict[str, Any] = field(default_factory=dict)


@register
@dataclass
class AgentState:
    """The state of an agent; derive from it to add fields."""

    context: list[Message] = field(default_factory=list)
    """The messages that the model sees."""
    context_summary: str | None = None
    execution_meta: ExecutionState = field(default_factory=ExecutionState)
