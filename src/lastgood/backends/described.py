"""The few numbers with which a store describes itself: its format, the time of its making.

Pure; backends read them. They have no seal: what is no number was not written by us.
"""

from __future__ import annotations

from lastgood.errors import CheckpointIntegrityError
from lastgood.reports import Problem


def described(value: object, name: str, label: str) -> int:
    """The number behind a stored value; raises CheckpointIntegrityError if it is none."""
    text = _text(value)
    if not text.isdecimal():
        raise CheckpointIntegrityError(
            f"what {label} says of itself is damaged: its {name!r} is {value!r:.40}.",
            hint="Nothing was written. Put back a copy of the store, or that value;"
            " `lastgood verify` tells what else is damaged.",
        )
    return int(text)


def making(value: object) -> list[Problem]:
    """What is wrong with the time at which a store says that it was made."""
    if _text(value).isdecimal():
        return []
    return [Problem("row", "store", "the time of its making is damaged.", repairable=True)]


def _text(value: object) -> str:
    """As plain digits are spelled; anything else has none of these."""
    text = value.decode("ascii", "replace") if isinstance(value, bytes) else str(value)
    return text if text.isascii() else ""
