"""Which harness stands for which backend. The one list to extend."""

from __future__ import annotations

from pathlib import Path

from lastgood.testing.files_harness import FilesHarness
from lastgood.testing.harness import BackendHarness, MemoryHarness, SqliteHarness
from lastgood.testing.postgres_harness import PostgresHarness

HARNESSES: dict[str, type[BackendHarness]] = {
    "sqlite": SqliteHarness,
    "memory": MemoryHarness,
    "postgresql": PostgresHarness,
    "files": FilesHarness,
}


def harness_class(scheme: str) -> type[BackendHarness]:
    """The class of the harness of a registered backend."""
    return HARNESSES.get(scheme, BackendHarness)


def harness_for(scheme: str, directory: Path) -> BackendHarness:
    """The harness of a registered backend."""
    harness = harness_class(scheme)(directory)
    harness.scheme = scheme
    return harness
