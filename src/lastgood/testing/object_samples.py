"""Agents for the cases about objects, and how they get a manager."""

from __future__ import annotations

import copy
from dataclasses import dataclass, field
from typing import Any

from lastgood import Checkpointable, CheckpointManager
from lastgood.client import Client


class Agent(Checkpointable):
    """An agent as the documentation has it."""

    def __init__(self) -> None:
        self.memory: list[Any] = []
        self.config: dict[Any, Any] = {}
        self.call_count = 0
        self._client = object()

    def reply(self, message: str) -> str:
        self.memory.append(message)
        self.call_count += 1
        return f"Reply #{self.call_count}"


class Worker(Checkpointable):
    """An agent with slots, which others hold."""

    __slots__ = ("_lock", "done", "owner")
    owner: Any

    def __init__(self) -> None:
        self.done: list[Any] = []
        self._lock = object()


@dataclass
class Note:
    """Data inside of agents."""

    text: str
    about: list[Any] = field(default_factory=list)


def manager_on(client: Client, **options: Any) -> CheckpointManager:
    """A manager over a client of either colour."""
    return CheckpointManager(getattr(client, "twin", client), **options)


def seen(agent: Any) -> Any:
    """An agent's state as it was, for comparing later."""
    return copy.deepcopy(agent.state_dict())
