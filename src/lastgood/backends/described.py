"""The few numbers with which a store describes itself: its format, the time of its making.

Pure; backends read them. They have no seal: what is no number was not written by us.
"""

from __future__ import annotations

from lastgood.errors import CheckpointIntegrityError
from lastgood.reports import Problem

DIGITS = 20
"""As many as a number of 64 bits may have."""


def described(value: object, name: str, label: str) -> int:
    """The number behind a stored value; raises CheckpointIntegrityError if it is none."""
    text = _text(value)
    if not text:
        raise CheckpointIntegrityError(
            f"what {label} says of itself is damaged: its {name!r} is {value!r:.40}.",
            hint="Nothing was written. Put back a copy of the store, or that value;"
            " `lastgood verify` tells what else is damaged.",
        )
    return int(text)


def making(value: object) -> list[Problem]:
    """What is wrong with the time at which a store says that it was made."""
    if _text(value):
        return []
    return [Problem("row", "store", "the time of its making is damaged.", repairable=True)]


def _text(value: object) -> str:
    """The digits of a number; empty if it is none of ours."""
    text = value.decode("ascii", "replace") if isinstance(value, bytes) else str(value)
    return text if text.isascii() and text.isdecimal() and len(text) <= DIGITS else ""
