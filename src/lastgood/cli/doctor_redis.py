"""What the doctor looks at in a store on a Redis: whether it answers, and what it keeps."""

from __future__ import annotations

from collections.abc import Iterator

from lastgood import BlockingClient
from lastgood.cli.doctor_checks import Finding, Level
from lastgood.errors import LastgoodError
from lastgood.registry import shown

_KEPT: dict[str, tuple[Level, str]] = {
    "strict": ("ok", "every acknowledged save survives power loss"),
    "window": ("warning", "the last saves may be lost when the server stops"),
    "cache": ("warning", "nothing is kept when the server stops or its memory is full"),
    "unknown": ("warning", "the server does not tell"),
}
_ADVICE = "See the page about durability; for records that must not be lost, use a strict store."


def redis_findings(place: str) -> Iterator[Finding]:
    """The store as a client sees it."""
    try:
        with BlockingClient.open(place) as client:
            client.threads(limit=1)
            yield Finding("ok", "store", f"{client.url} answers")
            yield durability_finding(client.durability)
    except (LastgoodError, ImportError, ValueError) as error:
        yield Finding("problem", "store", f"{shown(place)} cannot be used", str(error))


def durability_finding(level: str) -> Finding:
    """What a store keeps, by its own word."""
    how, meaning = _KEPT[level]
    return Finding(how, "durability", f"{level}: {meaning}", _ADVICE if how == "warning" else "")
