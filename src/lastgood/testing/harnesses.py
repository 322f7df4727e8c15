"""Which harness stands for which backend. The one list to extend."""

from __future__ import annotations

from pathlib import Path

from lastgood.testing.cached_harness import CachedHarness
from lastgood.testing.files_harness import FilesHarness
from lastgood.testing.harness import BackendHarness, MemoryHarness, SqliteHarness
from lastgood.testing.postgres_harness import PostgresHarness
from lastgood.testing.redis_harness import ClusterHarness, Redis62Harness, RedisHarness

HARNESSES: dict[str, type[BackendHarness]] = {
    "sqlite": SqliteHarness,
    "memory": MemoryHarness,
    "postgresql": PostgresHarness,
    "files": FilesHarness,
    "redis": RedisHarness,
}

VARIANTS: dict[str, type[BackendHarness]] = {
    "cached": CachedHarness,
    "redis62": Redis62Harness,
    "cluster": ClusterHarness,
}
"""Other servers that a registered backend has to work on."""


def harness_class(scheme: str) -> type[BackendHarness]:
    """The class of the harness of a registered backend, or of a variant."""
    return {**HARNESSES, **VARIANTS}.get(scheme, BackendHarness)


def harness_for(scheme: str, directory: Path) -> BackendHarness:
    """Return a harness of a registered backend, for one set of data."""
    harness = harness_class(scheme)(directory)
    harness.scheme = scheme
    return harness
