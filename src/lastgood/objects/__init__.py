"""The front door for objects: `state_dict` for agents, and a manager that keeps their states.

    class MyAgent(Checkpointable): ...

    manager = CheckpointManager(backend="file", path="checkpoints")
    manager.save("session_123", agent)
    manager.load("session_123", agent)

Stands on `BlockingClient` and its backends: it has no storage and no encoding of its own.
"""

from lastgood.objects.checkpointable import Checkpointable
from lastgood.objects.decorating import checkpoint
from lastgood.objects.manager import CheckpointManager

__all__ = ["CheckpointManager", "Checkpointable", "checkpoint"]
