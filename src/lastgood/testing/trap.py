"""A module that nobody imports: the hostile payloads of the contract name it.

If a stored label is ever imported, this module appears in `sys.modules`, and a case sees it.
"""

from __future__ import annotations

from dataclasses import dataclass


@dataclass
class Trap:
    """What a hostile label leads to."""

    text: str = ""
