"""Servers for the tests that need them, started once for a run and shared by its processes.

A test says what it needs by asking for an address (`postgres_url` and so on) or by its mark
`server("postgres")`; a case of the contract is marked by its harness. The first process of the run
starts what the selected tests need, after they are collected and before one of them runs, and the
tests find the addresses in the environment (`lastgood.testing.servers.VARIABLES`). A server that
this machine does not have is a skip for a person, and a failure where CI is set.
"""

import gc
import os
import signal
import sys
from collections.abc import Iterator
from functools import cache
from pathlib import Path
from typing import Any, NoReturn
from uuid import uuid4

import pytest
from hypothesis import settings

from lastgood.driver import is_blocking
from lastgood.testing.servers import VARIABLES, Fleet, ServerMissing, address
from lastgood.testing.servers.fleet import Outcome, read_outcomes, write_needs
from lastgood.testing.servers.process import dying_with_parent

FLEET = pytest.StashKey[Fleet]()
OUTCOMES = pytest.StashKey[dict[str, Outcome]]()
FIXTURES = {f"{kind}_url": kind for kind in VARIABLES}
DIRECTORY = "lastgood_servers"

# `make test-fast` draws a quarter of the examples, `make test` all of them.
settings.register_profile("quick", max_examples=25)


def pytest_configure(config: pytest.Config) -> None:
    if hasattr(config, "workerinput"):
        dying_with_parent(signal.SIGKILL, os.getppid())()
    else:
        config.stash[FLEET] = Fleet()


def pytest_unconfigure(config: pytest.Config) -> None:
    if FLEET in config.stash:
        config.stash[FLEET].close()


@pytest.hookimpl(optionalhook=True)
def pytest_configure_node(node: Any) -> None:
    node.workerinput[DIRECTORY] = str(node.config.stash[FLEET].directory)


@pytest.hookimpl(wrapper=True)
def pytest_collection() -> Iterator[None]:
    """Nothing of what is collected is garbage."""
    gc.disable()
    try:
        return (yield)
    finally:
        gc.enable()


@pytest.hookimpl(tryfirst=True)
def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Mark the tests that ask for an address, before tests are selected by their marks."""
    for item in items:
        kinds = [FIXTURES[name] for name in getattr(item, "fixturenames", ()) if name in FIXTURES]
        if kinds:
            item.add_marker(pytest.mark.server(*kinds))


@pytest.hookimpl(tryfirst=True)
def pytest_collection_finish(session: pytest.Session) -> None:
    """Before a worker reports what it collected, it leaves a note of what that needs."""
    needed = {kind for item in session.items for kind in needs(item)}
    config = session.config
    if FLEET not in config.stash:
        write_needs(directory(config), config.workerinput["workerid"], needed)
    elif not config.option.collectonly:
        config.stash[FLEET].provide(needed)
    read_version_once()
    gc.collect()
    gc.freeze()  # thousands of collected tests, which every full collection would look through


def read_version_once() -> None:
    """Redis' client reads the version of its package from the disk for every connection."""
    if "redis" in sys.modules:
        from redis import utils

        utils.get_lib_version = cache(utils.get_lib_version)


@pytest.hookimpl(optionalhook=True)
def pytest_xdist_node_collection_finished(node: Any) -> None:
    """Before the first test is given to a worker, what the workers need is there."""
    fleet = node.config.stash[FLEET]
    fleet.provide(fleet.needs())


@pytest.hookimpl(wrapper=True, trylast=True)  # when other plugins have set up what they end
def pytest_runtest_setup(item: pytest.Item) -> Iterator[None]:
    """A fixture may start a server of its own, once for many tests: they all lack it then."""
    try:
        for kind in needs(item):
            os.environ[VARIABLES[kind]] = outcomes(item.config)[kind].address()
        return (yield)
    except ServerMissing as missing:
        lacking(missing)


@pytest.hookimpl(wrapper=True)
def pytest_runtest_call() -> Iterator[None]:
    """And so may a test."""
    try:
        return (yield)
    except ServerMissing as missing:
        lacking(missing)


def needs(item: pytest.Item) -> set[str]:
    """The kinds of server that a test needs."""
    return {kind for mark in item.iter_markers("server") for kind in mark.args}


def directory(config: pytest.Config) -> Path:
    """Where the processes of this run leave notes."""
    return Path(config.workerinput[DIRECTORY])


def outcomes(config: pytest.Config) -> dict[str, Outcome]:
    """What became of the servers of this run."""
    if FLEET in config.stash:
        return config.stash[FLEET].outcomes
    if OUTCOMES not in config.stash:
        config.stash[OUTCOMES] = read_outcomes(directory(config))
    return config.stash[OUTCOMES]


def lacking(missing: ServerMissing) -> NoReturn:
    """One place for all tests that lack a server, so that their skips are one line."""
    if os.environ.get("CI") and missing.required:
        pytest.fail(f"{missing} (CI is set: servers must not be missing)", pytrace=False)
    pytest.skip(str(missing))


@pytest.fixture(scope="session")
def postgres_url() -> str:
    """A PostgreSQL; take a schema of your own."""
    return address("postgres")


@pytest.fixture
def schema(postgres_url: str) -> Iterator[str]:
    """The name of a schema that is gone after the test."""
    import psycopg

    name = f"t_{uuid4().hex[:16]}"
    yield name
    with psycopg.connect(postgres_url, autocommit=True) as connection:
        connection.execute(f"DROP SCHEMA IF EXISTS {name} CASCADE")


@pytest.fixture(scope="session")
def pgbouncer_url() -> str:
    """The same PostgreSQL behind a pooler in transaction mode."""
    return address("pgbouncer")


@pytest.fixture(scope="session")
def valkey_url() -> str:
    """A Valkey; take a key prefix of your own."""
    return address("valkey")


@pytest.fixture(scope="session")
def redis62_url() -> str:
    """A Redis 6.2; take a key prefix of your own."""
    return address("redis62")


@pytest.fixture(scope="session")
def cluster_url() -> str:
    """One node of a Valkey Cluster; take a key prefix of your own."""
    return address("cluster")


def pytest_runtest_teardown() -> None:
    """Whatever interrupts a blocking call: async code that follows in its thread is still async."""
    assert not is_blocking(), "this thread was left in the middle of a blocking call"
