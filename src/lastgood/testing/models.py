"""Data classes of an application, as the cases store them; needs pydantic."""

from __future__ import annotations

from enum import Enum

from pydantic import BaseModel


class Plan(BaseModel):
    """A state with a growing list and an enum inside of the model."""

    class Phase(Enum):
        """Where the plan is."""

        THINK = "think"
        ACT = "act"

    name: str
    phase: Phase = Phase.THINK
    steps: list[str] = []
